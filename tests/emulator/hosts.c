/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that has fewer address handles than there are hosts to speak with, by the public
 * interface; the stack is FI_PROVIDER's. Each host is this program again, with a number of its own:
 * it says its address on its standard output, reads ours from its standard input, sends its
 * messages, and takes ours. Half of the hosts are inserted when all of their messages have come.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "tests/support/end.h"
#include "tests/support/patience.h"

#include "ask.h"

enum {
    NAME = 32,
    HOSTS = 6,
    KNOWN = HOSTS / 2, /* of them: inserted at once */
    MESSAGES = 20,     /* to each host, and from it */
    LARGE = 200000,
};

static const size_t sizes[] = {8, 20000, LARGE, 3000};

static struct end own;
static bool is_host; /* another one than the first */

/* ---- Messages between this program and one other ---- */

struct talk {
    fi_addr_t peer; /* FI_ADDR_NOTAVAIL: it is not inserted, and is sent nothing yet */
    unsigned host;  /* in the tags, both ways */
    size_t posted, sent, ended, came;
    char out[MESSAGES][LARGE], in[MESSAGES][LARGE];
};

static size_t size_of(size_t i)
{
    return sizes[i % (sizeof(sizes) / sizeof(*sizes))];
}

static char byte_of(unsigned host, size_t i, size_t at, bool there)
{
    return (char)(at * 7 + at / 251 + i * 29 + host * 101 + there);
}

static void fill(struct talk *talk, bool there)
{
    for (size_t i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < size_of(i); at++)
            talk->out[i][at] = byte_of(talk->host, i, at, there);
}

static void expect(const struct talk *talk, bool there)
{
    for (size_t i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < size_of(i); at++)
            if (talk->in[i][at] != byte_of(talk->host, i, at, there))
                fail_msg("host %u, message %zu: byte %zu is wrong", talk->host, i, at);
}

static uint64_t tag_of(const struct talk *talk, size_t i)
{
    return (uint64_t)talk->host << 32 | i;
}

static void post(struct talk *talk)
{
    size_t i = talk->posted;

    if (i < MESSAGES && end_took(fi_trecv(own.ep, talk->in[i], LARGE, NULL, FI_ADDR_UNSPEC,
                                          tag_of(talk, i), 0, talk)))
        talk->posted++;
    i = talk->sent;
    if (i < MESSAGES && talk->peer != FI_ADDR_NOTAVAIL &&
        end_took(
            fi_tsend(own.ep, talk->out[i], size_of(i), NULL, talk->peer, tag_of(talk, i), talk)))
        talk->sent++;
}

static void take_one(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err_data_size = 0};
    ssize_t rc = fi_cq_read(own.cq, &entry, 1);
    struct talk *talk;

    if (rc == -FI_EAVAIL) {
        assert_int_equal(fi_cq_readerr(own.cq, &error, 0), 1);
        talk = error.op_context;
        fail_msg("%s host %u: %s (%d)", is_host ? "at" : "to", talk ? talk->host : 0,
                 fi_strerror(error.err), error.prov_errno);
    }
    if (rc != 1)
        return;
    talk = entry.op_context;
    if (entry.flags & FI_RECV)
        talk->came++;
    else
        talk->ended++;
}

/* ---- Another host ---- */

static int be_host(unsigned host)
{
    static struct talk talk;
    uint8_t name[NAME];

    is_host = true;
    end_open(&own, ask(FI_MSG | FI_TAGGED), FI_CQ_FORMAT_TAGGED);
    talk = (struct talk){.host = host};
    assert_int_equal(write(STDOUT_FILENO, own.name, NAME), NAME);
    assert_int_equal(read(STDIN_FILENO, name, NAME), NAME);
    assert_int_equal(fi_av_insert(own.av, name, 1, &talk.peer, 0, NULL), 1);
    fill(&talk, true);
    while (talk.ended < MESSAGES || talk.came < MESSAGES) {
        assert_int_not_equal(getppid(), 1);
        post(&talk);
        take_one();
    }
    expect(&talk, false);
    end_close(&own);
    return 0;
}

struct host {
    pid_t pid;
    int in; /* its standard input */
    uint8_t name[NAME];
    struct talk talk;
};

static void start_host(struct host *host, unsigned number)
{
    char text[16];
    int to[2], from[2];

    *host = (struct host){.talk = {.host = number, .peer = FI_ADDR_NOTAVAIL}};
    snprintf(text, sizeof(text), "%u", number);
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    host->pid = fork();
    assert_true(host->pid >= 0);
    if (!host->pid) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        close(from[0]);
        setenv("WEFT_EMULATOR_HOST", text, 1);
        execl("/proc/self/exe", "hosts", text, (char *)NULL);
        _exit(1);
    }
    close(to[0]);
    close(from[1]);
    host->in = to[1];
    assert_int_equal(read(from[0], host->name, NAME), NAME);
    close(from[0]);
    fill(&host->talk, false);
}

static void insert(struct host *host)
{
    assert_int_equal(fi_av_insert(own.av, host->name, 1, &host->talk.peer, 0, NULL), 1);
}

static bool is_over(const struct host *host)
{
    const struct talk *talk = &host->talk;

    return talk->ended == MESSAGES && talk->came == MESSAGES;
}

/* Its host may be the one that waits, so all others are served meanwhile. */
static bool serve(struct host *hosts)
{
    bool over = true;

    for (int i = 0; i < HOSTS; i++) {
        struct host *host = &hosts[i];

        if (host->talk.peer == FI_ADDR_NOTAVAIL && host->talk.came == MESSAGES)
            insert(host);
        post(&host->talk);
        take_one();
        over = over && is_over(host);
    }
    return over;
}

static void all_hosts_are_served(void **state)
{
    static struct host hosts[HOSTS];
    bool over = false;

    (void)state;
    end_open(&own, ask(FI_MSG | FI_TAGGED), FI_CQ_FORMAT_TAGGED);
    for (unsigned i = 0; i < HOSTS; i++)
        start_host(&hosts[i], i + 2);
    for (int i = 0; i < KNOWN; i++)
        insert(&hosts[i]);
    for (int i = 0; i < HOSTS; i++)
        assert_int_equal(write(hosts[i].in, own.name, NAME), NAME);
    for (struct patience p = {0}; patience_lasts(&p) && !over;)
        over = serve(hosts);
    if (!over)
        for (int i = 0; i < HOSTS; i++)
            fprintf(stderr, "host %d: sent %zu, ended %zu, came %zu\n", i + 2, hosts[i].talk.sent,
                    hosts[i].talk.ended, hosts[i].talk.came);
    assert_true(over);
    for (int i = 0; i < HOSTS; i++) {
        int status = -1;

        expect(&hosts[i].talk, true);
        while (waitpid(hosts[i].pid, &status, WNOHANG) == 0)
            take_one(); /* the last packets of its messages may ask for an answer */
        assert_int_equal(status, 0);
        close(hosts[i].in);
    }
    end_close(&own);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_hosts_are_served)};

    if (argc > 1)
        return be_host((unsigned)atoi(argv[1]));
    return cmocka_run_group_tests_name("efa: hosts", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that has fewer address handles than there are hosts to speak with, by the public
 * interface; the stack is FI_PROVIDER's. Each host is this program again, with a number of its own:
 * it says its address on its standard output, reads ours from its standard input, sends its
 * messages, and takes ours. Half of the hosts are inserted when all of their messages have come.
 *   hosts            all of them
 *   hosts stopped    the first one stops, and what was sent to it is under way meanwhile
 *   hosts NUMBER     is that host
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "tests/support/end.h"

enum {
    NAME = 32,
    HOSTS = 6,
    KNOWN = HOSTS / 2, /* of them: inserted at once */
    MESSAGES = 20,     /* to each host, and from it */
    LARGE = 200000,
    TURNS = 200000,
};

static const size_t sizes[] = {8, 20000, LARGE, 3000};

static struct end own;
static bool is_host; /* another one than the first */

static struct fi_info *ask(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->caps = FI_MSG | FI_TAGGED;
    hints->mode = ~0ull;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

/* ---- Messages between this program and one other ---- */

struct talk {
    fi_addr_t peer; /* FI_ADDR_NOTAVAIL: it is not inserted, and is sent nothing yet */
    unsigned host;  /* in the tags, both ways */
    size_t may;     /* of its messages leave, or MESSAGES */
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
    if (i < talk->may && talk->peer != FI_ADDR_NOTAVAIL &&
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
    end_open(&own, ask(), FI_CQ_FORMAT_TAGGED);
    talk = (struct talk){.host = host, .may = MESSAGES};
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

static struct host {
    pid_t pid;
    int in; /* its standard input */
    uint8_t name[NAME];
    struct talk talk;
} hosts[HOSTS];

static void start_host(struct host *host, unsigned number)
{
    char text[16];
    int to[2], from[2];

    *host = (struct host){.talk = {.host = number, .may = MESSAGES, .peer = FI_ADDR_NOTAVAIL}};
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
static bool serve(struct host *some, int count)
{
    bool over = true;

    for (int i = 0; i < count; i++) {
        struct host *host = &some[i];

        if (host->talk.peer == FI_ADDR_NOTAVAIL && host->talk.came == MESSAGES)
            insert(host);
        post(&host->talk);
        take_one();
        over = over && is_over(host);
    }
    return over;
}

static void serve_all(struct host *some, int count)
{
    bool over = false;

    for (int i = 0; i < TURNS && !over; i++) {
        if (some != hosts) /* whoever stops groups of processes starts them again, too */
            kill(hosts[0].pid, SIGSTOP);
        over = serve(some, count);
    }
    if (!over)
        for (int i = 0; i < count; i++)
            fprintf(stderr, "host %u: sent %zu, ended %zu, came %zu\n", some[i].talk.host,
                    some[i].talk.sent, some[i].talk.ended, some[i].talk.came);
    assert_true(over);
}

static void open_hosts(void)
{
    end_open(&own, ask(), FI_CQ_FORMAT_TAGGED);
    for (unsigned i = 0; i < HOSTS; i++)
        start_host(&hosts[i], i + 2);
}

static void close_hosts(void)
{
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

static void tell(struct host *host)
{
    assert_int_equal(write(host->in, own.name, NAME), NAME);
}

static void all_hosts_are_served(void **state)
{
    (void)state;
    open_hosts();
    for (int i = 0; i < KNOWN; i++)
        insert(&hosts[i]);
    for (int i = 0; i < HOSTS; i++)
        tell(&hosts[i]);
    serve_all(hosts, HOSTS);
    close_hosts();
}

/* Messages to it leave when there are more hosts than handles already. */
static void a_stopped_host_holds_no_other_up(void **state)
{
    int status = 0;

    (void)state;
    open_hosts();
    for (int i = 0; i < KNOWN; i++)
        insert(&hosts[i]);
    tell(&hosts[0]);
    hosts[0].talk.may = 1;
    while (hosts[0].talk.ended < 1)
        serve(hosts, 1);
    assert_int_equal(kill(hosts[0].pid, SIGSTOP), 0);
    assert_int_equal(waitpid(hosts[0].pid, &status, WUNTRACED), hosts[0].pid);
    assert_true(WIFSTOPPED(status));
    hosts[0].talk.may = MESSAGES;
    for (int i = 0; i < MESSAGES; i++)
        serve(hosts, 1);
    for (int i = 1; i < HOSTS; i++)
        tell(&hosts[i]);
    serve_all(hosts + 1, HOSTS - 1);
    assert_int_equal(kill(hosts[0].pid, SIGCONT), 0);
    serve_all(hosts, 1);
    close_hosts();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(all_hosts_are_served)};
    const struct CMUnitTest stopped[] = {cmocka_unit_test(a_stopped_host_holds_no_other_up)};

    if (argc > 1 && !strcmp(argv[1], "stopped"))
        return cmocka_run_group_tests_name("efa: a stopped host", stopped, NULL, NULL);
    if (argc > 1)
        return be_host((unsigned)atoi(argv[1]));
    return cmocka_run_group_tests_name("efa: hosts", all, NULL, NULL);
}

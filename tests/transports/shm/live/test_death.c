/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that is killed while bytes move, either way and by each way of moving them: operations
 * under way end in errors, nothing hangs, and nothing of the dead one is left. */
#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../support/patience.h"
#include "ends.h"

enum {
    HUGE_SIZE = 64 << 20,
    LARGE_SIZE = 100000,
    EAGER_SIZE = 500,
    EAGER = 6,
    ROUNDS = 4096, /* of progress: the sockets are looked at among them */
    KEY = 3,
    WAITS_MS = 60000,
};

static const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA};

/* The victim's act until it is killed. */
enum act {
    SENDS,
    RECEIVES,
    IS_WRITTEN,
    IS_READ,
    SLEEPS,
};

struct victim {
    pid_t pid;
    int say, hear; /* pipes to it, and from it */
};

static void swap_names(struct end *end, int to, int from, fi_addr_t *peer)
{
    char mine[END_NAME] = "", other[END_NAME];

    end_name(end, mine);
    assert_int_equal(write(to, mine, sizeof(mine)), sizeof(mine));
    assert_int_equal(read(from, other, sizeof(other)), sizeof(other));
    *peer = end_know(end, other);
}

static void be_victim(const char *spec, enum act act, int to, int from)
{
    char *memory = malloc(HUGE_SIZE);
    struct end end;
    struct fid_mr *mr;
    fi_addr_t peer;

    alarm(END_ALARM);
    memset(memory, 1, HUGE_SIZE);
    end_open_as(&end, spec, &want);
    fi_mr_reg(end.domain, memory, HUGE_SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
              NULL);
    swap_names(&end, to, from, &peer);
    if (act == SENDS)
        end_post(&end, NULL, fi_tsend(end.ep, memory, HUGE_SIZE, NULL, peer, 1, NULL));
    else
        end_post(&end, NULL, fi_tinject(end.ep, "x", 1, peer, 2));
    if (act == RECEIVES)
        fi_trecv(end.ep, memory, HUGE_SIZE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
    for (;;) {
        if (act == SLEEPS)
            pause();
        end_drive(&end, NULL);
    }
}

static struct victim start(const char *spec, enum act act)
{
    struct victim victim;
    int to[2], from[2];

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    victim.pid = fork();
    if (!victim.pid)
        be_victim(spec, act, from[1], to[0]);
    victim.say = to[1];
    victim.hear = from[0];
    close(to[0]);
    close(from[1]);
    return victim;
}

static void stop(struct victim *victim)
{
    kill(victim->pid, SIGKILL);
    assert_int_equal(waitpid(victim->pid, NULL, 0), victim->pid);
    close(victim->say);
    close(victim->hear);
}

/* Mappings of memory that has no name: bells and links. */
static unsigned mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;

    while (fgets(line, sizeof(line), maps))
        count += !!strstr(line, "weft-shm");
    fclose(maps);
    return count;
}

/* Whether the number is a word of the name. */
static bool names(const char *name, const char *number)
{
    size_t len = strlen(number);

    for (const char *at = strstr(name, number); at; at = strstr(at + 1, number)) {
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[len]))
            return true;
    }
    return false;
}

static time_t began;

/* Others may run beside us, and have died with our number before. */
static bool is_of(DIR *dir, const char *name, const char *number)
{
    struct stat status;

    return names(name, number) && !strstr(name, "vader") &&
           !fstatat(dirfd(dir), name, &status, 0) && status.st_ctime >= began;
}

/* Counts the files with the number of the process in their name. */
static unsigned files_of(pid_t pid)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    unsigned count = 0;
    char number[16];

    snprintf(number, sizeof(number), "%d", (int)pid);
    while (dir && (entry = readdir(dir)))
        count += is_of(dir, entry->d_name, number);
    if (dir)
        closedir(dir);
    return count;
}

static void post(struct end *end, enum act act, char *memory, fi_addr_t peer)
{
    switch (act) {
    case SENDS:
        assert_int_equal(fi_trecv(end->ep, memory, HUGE_SIZE, NULL, FI_ADDR_UNSPEC, 1, 0, memory),
                         0);
        break;
    case IS_WRITTEN:
        end_post(end, NULL, fi_write(end->ep, memory, HUGE_SIZE, NULL, peer, 0, KEY, memory));
        break;
    case IS_READ:
        end_post(end, NULL, fi_read(end->ep, memory, HUGE_SIZE, NULL, peer, 0, KEY, memory));
        break;
    case SLEEPS:
    case RECEIVES:
        end_post(end, NULL, fi_tsend(end->ep, memory, HUGE_SIZE, NULL, peer, 1, memory));
        break;
    }
}

/* Until the transfer has begun, and is not over. */
static void drive_a_little(struct end *end, enum act act, const char *memory)
{
    volatile const char *first = memory;
    double begin = end_seconds();

    for (int i = 0; i < 10 || (act == SENDS && !*first); i++) {
        end_drive(end, NULL);
        assert_true(end_seconds() - begin < 60);
    }
}

static void killed_while(const char *spec, enum act act)
{
    char *memory = malloc(HUGE_SIZE), in;
    unsigned fds, maps;
    struct end end;
    struct fi_cq_tagged_entry entry;
    struct victim victim;
    fi_addr_t peer;
    int err;

    memset(memory, 0, HUGE_SIZE);
    end_open_as(&end, spec, &want);
    fds = end_open_fds();
    maps = mappings();
    victim = start(spec, act);
    swap_names(&end, victim.say, victim.hear, &peer);
    if (act != SENDS) {
        assert_int_equal(fi_trecv(end.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, NULL), 0);
        assert_int_equal(end_wait(&end, NULL, &entry), 0);
    }
    post(&end, act, memory, peer);
    drive_a_little(&end, act, memory);
    stop(&victim);
    err = end_wait(&end, NULL, &entry);
    assert_ptr_equal(entry.op_context, memory);
    /* A slow machine may have been fast enough; only silence is a failure. */
    if (err)
        assert_int_equal(err, FI_ECONNRESET);
    for (struct patience p = {0}; patience_lasts(&p) && mappings() > maps;)
        end_drive(&end, NULL);
    assert_int_equal(mappings(), maps);
    assert_int_equal(end_open_fds(), fds);
    assert_int_equal(files_of(victim.pid) + files_of(getpid()), 0);
    end_close(&end);
    free(memory);
}

static void killed_while_streaming(void **state)
{
    for (enum act act = SENDS; act <= SLEEPS; act++)
        killed_while("shm(cma=off)", act);
}

static void killed_while_attached(void **state)
{
    for (enum act act = SENDS; act <= SLEEPS; act++)
        killed_while("shm(cma=on)", act);
}

/* By XPMEM, where there is such a module: attached memory goes with its owner. */
static void killed_while_mapped(void **state)
{
    for (enum act act = SENDS; act <= SLEEPS; act++)
        killed_while("shm(xpmem=on)", act);
}

/* The survivor sleeps meanwhile: the death wakes it. */
static void killed_while_the_other_sleeps(void **state)
{
    struct end_want sleeper = want;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    struct victim victim;
    struct end end;
    fi_addr_t peer;
    ssize_t rc;
    char in;

    sleeper.wait = FI_WAIT_FD;
    end_open_as(&end, "shm", &sleeper);
    victim = start("shm", SLEEPS);
    swap_names(&end, victim.say, victim.hear, &peer);
    assert_int_equal(fi_trecv(end.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, NULL), 0);
    assert_int_equal(fi_cq_sread(end.cq, &entry, 1, NULL, WAITS_MS), 1);
    post(&end, SLEEPS, malloc(HUGE_SIZE), peer);
    assert_int_equal(fi_cq_sread(end.cq, &entry, 1, NULL, 50), -FI_EAGAIN);
    kill(victim.pid, SIGKILL);
    do
        rc = fi_cq_sread(end.cq, &entry, 1, NULL, WAITS_MS);
    while (rc == -FI_EAGAIN);
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(end.cq, &error, 0), 1);
    assert_int_equal(error.err, FI_ECONNRESET);
    free(error.op_context);
    stop(&victim);
    end_close(&end);
}

/* A name is free again as soon as its owner is dead, and a new owner is reached. */
static void a_name_is_taken_over(void **state)
{
    char in = 0;
    struct end_want named = {.caps = 0};
    struct fi_cq_tagged_entry entry;
    struct end first, from;
    fi_addr_t peer;
    char spare[80];
    pid_t pid;
    int pipes[2];

    snprintf(spare, sizeof(spare), "fi_ns://weft-test-taken-%d", (int)getpid());
    named.name = spare;
    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    if (!pid) {
        alarm(END_ALARM);
        end_open_as(&first, "shm", &named);
        assert_int_equal(write(pipes[1], "r", 1), 1);
        for (;;)
            end_drive(&first, NULL);
    }
    assert_int_equal(read(pipes[0], &in, 1), 1);
    end_open(&from, "shm");
    peer = end_know(&from, spare);
    end_post(&from, NULL, fi_tinject(from.ep, "1", 1, peer, 1));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    end_open_as(&first, "shm", &named);
    assert_int_equal(fi_trecv(first.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    while (fi_cq_read(first.cq, &entry, 1) == -FI_EAGAIN) {
        fi_tinject(from.ep, "2", 1, peer, 1);
        end_drive(&from, NULL);
    }
    assert_int_equal(in, '2');
    end_close(&first);
    end_close(&from);
    close(pipes[0]);
    close(pipes[1]);
}

/* A send to a peer that was there and has gone ends at once: the sender does not wait for it to
 * start, however long other peers may take to. Its number is still that of a process: its parent
 * knows nothing yet. */
static void a_peer_that_has_gone_is_not_waited_for(void **state)
{
    struct fi_cq_tagged_entry entry;
    struct victim victim;
    struct end end;
    fi_addr_t peer;
    char in;
    int err;

    end_open(&end, "shm(connect_timeout=3600s)");
    victim = start("shm", SLEEPS);
    swap_names(&end, victim.say, victim.hear, &peer);
    assert_int_equal(fi_trecv(end.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, NULL), 0);
    assert_int_equal(end_wait(&end, NULL, &entry), 0);
    kill(victim.pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)victim.pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    /* By giving up a receive the endpoint learns that the peer is not there; no queue is read in
     * between. */
    do {
        assert_int_equal(fi_trecv(end.ep, &in, 1, NULL, peer, 3, 0, &in), 0);
        assert_int_equal(fi_cancel(&end.ep->fid, &in), 0);
        assert_int_equal(end_wait(&end, NULL, &entry), FI_ECANCELED);
        end_post(&end, NULL, fi_tsend(end.ep, "x", 1, NULL, peer, 1, NULL));
        err = end_wait(&end, NULL, &entry);
    } while (!err);
    assert_int_equal(err, FI_ECONNREFUSED);
    stop(&victim);
    end_close(&end);
}

static struct end *poster;
static fi_addr_t posted_to;

static void post_before_it_listens(struct end *end)
{
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(fi_tinject(poster->ep, "2", 1, posted_to, 2), -FI_EAGAIN);
}

/* A new endpoint has the name of one that has gone, and does not listen yet: the sender waits for
 * it. */
static void a_name_is_waited_for_again(void **state)
{
    struct end_want named = {.caps = 0};
    struct fi_cq_tagged_entry entry;
    struct end owner, from;
    char name[80], in;

    snprintf(name, sizeof(name), "fi_ns://weft-test-again-%d", (int)getpid());
    named.name = name;
    end_open(&from, "shm(connect_timeout=3600s)");
    end_open_as(&owner, "shm", &named);
    poster = &from;
    posted_to = end_know(&from, name);
    assert_int_equal(fi_trecv(owner.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    end_post(&from, &owner, fi_tinject(from.ep, "1", 1, posted_to, 1));
    assert_int_equal(end_wait(&owner, &from, &entry), 0);
    end_close(&owner);
    while (!fi_tinject(from.ep, "1", 1, posted_to, 1))
        end_drive(&from, NULL);
    named.prepare = post_before_it_listens;
    end_open_as(&owner, "shm", &named);
    assert_int_equal(fi_trecv(owner.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, NULL), 0);
    end_post(&from, &owner, fi_tinject(from.ep, "2", 1, posted_to, 2));
    assert_int_equal(end_wait(&owner, &from, &entry), 0);
    assert_int_equal(in, '2');
    end_close(&owner);
    end_close(&from);
}

/* The memory for unexpected messages is full, and the only receive waits for bytes behind such
 * messages, of a sender that has gone. */
static void a_sender_that_goes_where_no_more_is_saved(void **state)
{
    static char large[LARGE_SIZE], in[LARGE_SIZE], eager[EAGER_SIZE];
    struct fi_cq_tagged_entry entry;
    struct end end, peer;
    fi_addr_t addr;

    end_open(&end, "shm(cma=off,max_saved_size=1k)");
    end_open(&peer, "shm(cma=off)");
    addr = end_introduce(&peer, &end);
    assert_int_equal(fi_trecv(end.ep, in, LARGE_SIZE, NULL, FI_ADDR_UNSPEC, 0, 0, in), 0);
    end_post(&peer, NULL, fi_tsend(peer.ep, large, LARGE_SIZE, NULL, addr, 0, NULL));
    for (uint64_t tag = 1; tag <= EAGER; tag++)
        end_post(&peer, NULL, fi_tinject(peer.ep, eager, EAGER_SIZE, addr, tag));
    for (int i = 0; i < ROUNDS; i++)
        end_drive(&end, NULL);
    end_close(&peer);
    assert_int_equal(end_wait(&end, NULL, &entry), FI_ECONNRESET);
    assert_ptr_equal(entry.op_context, in);
    for (uint64_t tag = 1; tag <= EAGER; tag++) {
        assert_int_equal(fi_trecv(end.ep, in, LARGE_SIZE, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, in), 0);
        assert_int_equal(end_wait(&end, NULL, &entry), 0);
        assert_int_equal(entry.tag, tag);
        assert_int_equal(entry.len, EAGER_SIZE);
    }
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_while_streaming),
        cmocka_unit_test(killed_while_attached),
        cmocka_unit_test(killed_while_mapped),
        cmocka_unit_test(killed_while_the_other_sleeps),
        cmocka_unit_test(a_name_is_taken_over),
        cmocka_unit_test(a_peer_that_has_gone_is_not_waited_for),
        cmocka_unit_test(a_name_is_waited_for_again),
        cmocka_unit_test(a_sender_that_goes_where_no_more_is_saved),
    };

    alarm(END_ALARM);
    began = time(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* As many operations as tx_attr->size says are accepted, whatever the peer does, and end once, in
 * their order. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>

#include "ends.h"

enum {
    SIZE = 512, /* tx_attr->size */
    ROOM = 40000,
    BURST = 100, /* more than a ring holds, less than two */
    LOOKS = 10000,
    KEY = 5,
    INJECTED = 100,
    INJECTED_SIZE = 400,
};

static const char *const spec = "shm(tx_size=512)";

static const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC};

/* Sizes for lines, for bulk, and for what is announced, in turn. */
static size_t size_of(unsigned i)
{
    static const size_t sizes[] = {8, 100, 400, 4096, 20000, 35000};

    return sizes[i % 6];
}

static void fill(char *memory, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        memory[i] = (char)(i * 7 + seed);
}

static bool holds(const char *memory, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        if (memory[i] != (char)(i * 7 + seed))
            return false;
    }
    return true;
}

static void messages_to_a_peer_that_does_not_look(void **state)
{
    static char ended[SIZE];
    char *out = malloc((size_t)SIZE * ROOM), *in = malloc(ROOM);
    struct fi_cq_tagged_entry entry;
    struct end from, to;
    fi_addr_t peer;

    end_open_as(&from, spec, &want);
    end_open_as(&to, spec, &want);
    peer = end_introduce(&from, &to);
    assert_int_equal(from.info->tx_attr->size, SIZE);
    for (unsigned i = 0; i < SIZE; i++) {
        char *buf = out + (size_t)i * ROOM;

        fill(buf, size_of(i), i);
        assert_int_equal(fi_tsend(from.ep, buf, size_of(i), NULL, peer, 1, &ended[i]), 0);
    }
    for (unsigned i = 0; i < SIZE; i++) {
        assert_int_equal(fi_trecv(to.ep, in, ROOM, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
        assert_int_equal(end_wait(&to, &from, &entry), 0);
        assert_int_equal(entry.len, size_of(i));
        assert_true(holds(in, entry.len, i));
    }
    for (unsigned i = 0; i < SIZE; i++) {
        assert_int_equal(end_wait(&from, &to, &entry), 0);
        assert_int_equal((*(char *)entry.op_context)++, 0);
    }
    end_close(&from);
    end_close(&to);
    free(out);
    free(in);
}

/* Posts receives, drives the receiver alone, and returns how many messages came. */
static unsigned come(struct end *to, unsigned posted)
{
    static char in[8];
    struct fi_cq_tagged_entry entry;
    unsigned count = 0;

    for (unsigned i = 0; i < posted; i++)
        assert_int_equal(fi_trecv(to->ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    for (int i = 0; i < LOOKS; i++)
        count += fi_cq_read(to->cq, &entry, 1) == 1;
    return count;
}

/* A layer above posts while its own progress waits: with each post those before it leave that the
 * receiver has made room for. */
static void a_post_lets_those_before_it_go(void **state)
{
    struct end from, to;
    char name[END_NAME];
    fi_addr_t peer;
    unsigned first;

    end_open_as(&from, "lnx;[shm]", &want);
    end_open_as(&to, "lnx;[shm]", &want);
    end_name(&to, name);
    assert_int_equal(fi_av_insert(from.av, name, 1, &peer, 0, NULL), 1);
    for (unsigned sent = 0; sent < BURST; sent++)
        assert_int_equal(fi_tsend(from.ep, "x", 1, NULL, peer, 1, NULL), 0);
    first = come(&to, BURST);
    assert_in_range(first, 1, BURST - 1);
    assert_int_equal(fi_tsend(from.ep, "y", 1, NULL, peer, 1, NULL), 0);
    assert_int_equal(come(&to, 1), BURST + 1 - first);
    end_close(&from);
    end_close(&to);
}

/* Each access adds one to a word of its own, or reads or writes it: in an order that shows. */
static ssize_t post_access(struct end *end, unsigned i, uint64_t *local, fi_addr_t peer)
{
    static uint64_t one = 1;
    uint64_t at = i / 3 * sizeof(uint64_t);

    switch (i % 3) {
    case 0: return fi_write(end->ep, &local[i], 8, NULL, peer, at, KEY, &local[i]);
    case 1: return fi_atomic(end->ep, &one, 1, NULL, peer, at, KEY, FI_UINT64, FI_SUM, &local[i]);
    default: return fi_read(end->ep, &local[i], 8, NULL, peer, at, KEY, &local[i]);
    }
}

static void accesses_of_a_peer_that_does_not_look(void **state)
{
    struct end_want ordered = want;
    static uint64_t local[SIZE], memory[SIZE];
    struct fi_cq_tagged_entry entry;
    struct end from, to;
    struct fid_mr *mr;
    fi_addr_t peer;

    ordered.order = FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_RMA_RAW | FI_ORDER_ATOMIC_WAW;
    end_open_as(&from, spec, &ordered);
    end_open_as(&to, spec, &ordered);
    assert_int_equal(fi_mr_reg(to.domain, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE,
                               0, KEY, 0, &mr, NULL),
                     0);
    peer = end_introduce(&from, &to);
    for (unsigned i = 0; i < SIZE; i++) {
        local[i] = 1000 + i;
        assert_int_equal(post_access(&from, i, local, peer), 0);
    }
    for (unsigned i = 0; i < SIZE; i++)
        assert_int_equal(end_wait(&from, &to, &entry), 0);
    for (unsigned i = 2; i < SIZE; i += 3)
        assert_int_equal(local[i], 1000 + (i - 2) + 1);
    fi_close(&mr->fid);
    end_close(&from);
    end_close(&to);
}

/* An access that a fence waits for waits for the peer; operations behind the fence are accepted,
 * too. */
static void a_fence_and_what_is_behind_it(void **state)
{
    static char out[ROOM], memory[ROOM], in[2];
    struct iovec iov = {.iov_base = "f", .iov_len = 1};
    struct fi_msg_tagged fenced = {.msg_iov = &iov, .iov_count = 1, .tag = 1};
    struct fi_cq_tagged_entry entry;
    struct end from, to;
    struct fid_mr *mr;

    end_open_as(&from, spec, &want);
    end_open_as(&to, spec, &want);
    assert_int_equal(
        fi_mr_reg(to.domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
    fenced.addr = end_introduce(&from, &to);
    fill(out, ROOM, 3);
    assert_int_equal(fi_write(from.ep, out, ROOM, NULL, fenced.addr, 0, KEY, out), 0);
    assert_int_equal(fi_tsendmsg(from.ep, &fenced, FI_FENCE | FI_COMPLETION), 0);
    assert_int_equal(fi_tsend(from.ep, "b", 1, NULL, fenced.addr, 1, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_trecv(to.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        assert_int_equal(end_wait(&to, &from, &entry), 0);
        assert_true(holds(memory, ROOM, 3));
    }
    assert_memory_equal(in, "fb", 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(end_wait(&from, &to, &entry), 0);
    fi_close(&mr->fid);
    end_close(&from);
    end_close(&to);
}

/* ---- A peer that is another process, and sleeps ---- */

static void be_sleeper(struct pipes *pipes)
{
    char name[END_NAME] = "", in[INJECTED_SIZE], go;
    struct fi_cq_tagged_entry entry;
    struct end end;

    alarm(END_ALARM);
    end_open(&end, "shm");
    end_name(&end, name);
    assert_int_equal(write(pipes->from[1], name, sizeof(name)), sizeof(name));
    assert_int_equal(read(pipes->to[0], &go, 1), 1);
    for (unsigned i = 0; i < INJECTED; i++) {
        assert_int_equal(fi_trecv(end.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        if (end_wait(&end, NULL, &entry) || !holds(in, INJECTED_SIZE, i))
            _exit(1);
    }
    end_close(&end);
    _exit(0);
}

static pid_t start_sleeper(struct pipes *pipes, struct end *end, fi_addr_t *peer)
{
    char name[END_NAME];
    pid_t pid;

    open_pipes(pipes);
    pid = fork();
    if (!pid)
        be_sleeper(pipes);
    assert_int_equal(read(pipes->from[0], name, sizeof(name)), sizeof(name));
    end_open(end, spec);
    *peer = end_know(end, name);
    return pid;
}

static unsigned pids_asked;

/* Instead of the C library's, whose answer costs a system call. */
pid_t getpid(void)
{
    pids_asked++;
    return (pid_t)syscall(SYS_getpid);
}

/* The first one makes the link; the ring is full long before the last one. */
static void inject_all(struct end *end, fi_addr_t peer)
{
    char out[INJECTED_SIZE];
    unsigned asked = 0;

    for (unsigned i = 0; i < INJECTED; i++) {
        fill(out, sizeof(out), i);
        assert_int_equal(fi_tinject(end->ep, out, sizeof(out), peer, 1), 0);
        memset(out, 0, sizeof(out));
        if (!i)
            asked = pids_asked;
    }
    assert_int_equal(pids_asked, asked);
}

/* As MPICH's sendrecv3 does: none of them waits until the peer wakes up. */
static void injects_to_a_peer_that_sleeps(void **state)
{
    struct pipes pipes;
    struct end end;
    fi_addr_t peer;
    pid_t pid = start_sleeper(&pipes, &end, &peer);
    int status;

    inject_all(&end, peer);
    assert_int_equal(write(pipes.to[1], "g", 1), 1);
    while (!waitpid(pid, &status, WNOHANG))
        end_drive(&end, NULL);
    assert_int_equal(status, 0);
    end_close(&end);
    close_pipes(&pipes);
}

/* They are done as far as the program knows, and it may close. */
static void injects_survive_the_end_of_their_endpoint(void **state)
{
    struct pipes pipes;
    struct end end;
    fi_addr_t peer;
    pid_t pid = start_sleeper(&pipes, &end, &peer);
    int status;

    inject_all(&end, peer);
    assert_int_equal(write(pipes.to[1], "g", 1), 1);
    end_close(&end);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close_pipes(&pipes);
}

static void a_dead_peer_ends_them_all(void **state)
{
    static char ended[SIZE];
    struct fi_cq_tagged_entry entry;
    struct pipes pipes;
    struct end end;
    fi_addr_t peer;
    pid_t pid = start_sleeper(&pipes, &end, &peer);
    int err, seen = 0;

    for (unsigned i = 0; i < SIZE; i++)
        assert_int_equal(fi_tsend(end.ep, "x", 1, NULL, peer, 1, &ended[i]), 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (unsigned i = 0; i < SIZE; i++) {
        err = end_wait(&end, NULL, &entry);
        assert_true(!err || err == FI_ECONNRESET);
        assert_int_equal((*(char *)entry.op_context)++, 0);
        seen += !!err;
    }
    assert_true(seen > 0);
    assert_int_equal(fi_cq_read(end.cq, &entry, 1), -FI_EAGAIN);
    end_close(&end);
    close_pipes(&pipes);
}

/* The peer takes nothing, and fi_close does not wait for that for ever. */
static void a_peer_that_takes_nothing_holds_no_close_up(void **state)
{
    struct pipes pipes;
    struct end end;
    fi_addr_t peer;
    pid_t pid = start_sleeper(&pipes, &end, &peer);

    inject_all(&end, peer);
    end_close(&end);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close_pipes(&pipes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_to_a_peer_that_does_not_look),
        cmocka_unit_test(a_post_lets_those_before_it_go),
        cmocka_unit_test(accesses_of_a_peer_that_does_not_look),
        cmocka_unit_test(a_fence_and_what_is_behind_it),
        cmocka_unit_test(injects_to_a_peer_that_sleeps),
        cmocka_unit_test(injects_survive_the_end_of_their_endpoint),
        cmocka_unit_test(a_dead_peer_ends_them_all),
        cmocka_unit_test(a_peer_that_takes_nothing_holds_no_close_up),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

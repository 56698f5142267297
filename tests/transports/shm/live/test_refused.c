/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel refuses to attach: to one side or both, in one direction, in the middle of a transfer.
 * Messages, remote memory and atomics are as they would be. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>

#include "ends.h"

enum {
    LARGE = 3 << 20,
    WORDS = LARGE / sizeof(uint64_t),
    ATOMICS = 2048, /* 16 KiB, the most */
    KEY = 9,
    ROUNDS = 2,
    SKIPPED = 77,
    NOBODY = 65534,
};

static const char *const specs[] = {"shm(cma=on)", "shm"};
static const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC};

/* In a child, which cmocka does not know of. */
#define check(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok)) {                                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* ---- What a process may do ---- */

enum power {
    FREE,
    FILTERED,      /* from the start */
    FILTERED_LATE, /* after the first round */
    NOT_DUMPABLE,  /* the other one may not attach to it; both are no root */
    DUMPABLE,
};

static void become(enum power power)
{
    if (power == FILTERED)
        end_forbid_attaching();
    if (power < NOT_DUMPABLE)
        return;
    /* Root may attach to everybody. */
    if (!geteuid() && (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
        _exit(SKIPPED);
    if (prctl(PR_SET_DUMPABLE, power == DUMPABLE))
        _exit(SKIPPED);
}

/* ---- The two sides ---- */

struct side {
    struct end end;
    fi_addr_t peer;
    uint64_t *memory, *other;
    uint64_t base;
    int fd; /* to the other side */
};

struct greeting {
    char name[END_NAME];
    pid_t pid;
    bool refuses; /* the other one is not to be able to attach */
    uint64_t *memory;
};

static void greet(struct side *side, enum power power)
{
    struct greeting mine = {
        .pid = getpid(), .refuses = power == NOT_DUMPABLE, .memory = side->memory};
    struct iovec local, remote;
    struct greeting other;

    end_name(&side->end, mine.name);
    check(write(side->fd, &mine, sizeof(mine)) == sizeof(mine));
    check(read(side->fd, &other, sizeof(other)) == sizeof(other));
    side->peer = end_know(&side->end, other.name);
    side->base = side->end.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
                     ? (uint64_t)(uintptr_t)other.memory
                     : 0;
    local = (struct iovec){side->other, 1};
    remote = (struct iovec){other.memory, 1};
    if (other.refuses && process_vm_readv(other.pid, &local, 1, &remote, 1, 0) != -1)
        _exit(SKIPPED); /* this system lets anybody attach */
}

static void open_side(struct side *side, const char *spec, enum power power)
{
    become(power);
    side->memory = calloc(WORDS, sizeof(uint64_t));
    side->other = calloc(WORDS, sizeof(uint64_t));
    check(side->memory && side->other);
    end_open_as(&side->end, spec, &want);
    greet(side, power);
}

static void fill(uint64_t *words, uint64_t seed)
{
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = seed << 32 | i;
}

static bool holds(const uint64_t *words, uint64_t seed)
{
    for (uint64_t i = 0; i < WORDS; i++) {
        if (words[i] != (seed << 32 | i))
            return false;
    }
    return true;
}

static void wait_end(struct side *side)
{
    struct fi_cq_tagged_entry entry;

    check(!end_wait(&side->end, NULL, &entry));
}

/* ---- The initiator ---- */

static void send_and_write(struct side *s, uint64_t seed)
{
    struct iovec halves[] = {{s->memory, LARGE / 4}, {s->memory + WORDS / 4, LARGE - LARGE / 4}};

    fill(s->memory, seed);
    end_post(&s->end, NULL, fi_tsend(s->end.ep, s->memory, LARGE, NULL, s->peer, 1, NULL));
    wait_end(s);
    fill(s->memory, seed + 1);
    end_post(&s->end, NULL, fi_writev(s->end.ep, halves, NULL, 2, s->peer, s->base, KEY, NULL));
    wait_end(s);
    end_post(&s->end, NULL, fi_read(s->end.ep, s->other, LARGE, NULL, s->peer, s->base, KEY, NULL));
    wait_end(s);
    check(holds(s->other, seed + 1));
}

static void do_atomics(struct side *s, uint64_t seed)
{
    static uint64_t ones[ATOMICS], old[ATOMICS], compare[ATOMICS];

    for (uint64_t i = 0; i < ATOMICS; i++) {
        ones[i] = 1;
        compare[i] = ((seed + 1) << 32 | i) + 1;
    }
    end_post(&s->end, NULL,
             fi_fetch_atomic(s->end.ep, ones, ATOMICS, NULL, old, NULL, s->peer, s->base, KEY,
                             FI_UINT64, FI_SUM, NULL));
    wait_end(s);
    for (uint64_t i = 0; i < ATOMICS; i++)
        check(old[i] == compare[i] - 1);
    end_post(&s->end, NULL,
             fi_compare_atomic(s->end.ep, old, ATOMICS, NULL, compare, NULL, old, NULL, s->peer,
                               s->base, KEY, FI_UINT64, FI_CSWAP, NULL));
    wait_end(s);
    check(!memcmp(old, compare, sizeof(old)));
    end_post(&s->end, NULL, fi_read(s->end.ep, s->other, LARGE, NULL, s->peer, s->base, KEY, NULL));
    wait_end(s);
    check(holds(s->other, seed + 1));
}

static void initiate(const char *spec, enum power power, int fd)
{
    struct side s = {.fd = fd};

    open_side(&s, spec, power);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (round && power == FILTERED_LATE)
            end_forbid_attaching();
        /* Several, so that each way is tried where none is said. */
        for (uint64_t i = 0; i < 8; i++)
            send_and_write(&s, 100 * round + 2 * i);
        do_atomics(&s, 100 * round + 14);
        check(write(fd, "r", 1) == 1);
    }
    check(read(fd, s.other, 1) == 1);
    end_close(&s.end);
    _exit(0);
}

/* ---- The target ---- */

static bool told(int fd)
{
    struct pollfd state = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&state, 1, 0) == 1 && read(fd, &byte, 1) == 1;
}

static void serve(const char *spec, enum power power, int fd)
{
    struct side s = {.fd = fd};
    struct fid_mr *mr;

    open_side(&s, spec, power);
    check(!fi_mr_reg(s.end.domain, s.memory, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0,
                     &mr, NULL));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (round && power == FILTERED_LATE)
            end_forbid_attaching();
        for (uint64_t i = 0; i < 8; i++) {
            end_post(&s.end, NULL,
                     fi_trecv(s.end.ep, s.other, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
            wait_end(&s);
            check(holds(s.other, 100 * round + 2 * i));
        }
        while (!told(fd))
            end_drive(&s.end, NULL);
        check(holds(s.memory, 100 * round + 15));
    }
    check(write(fd, "e", 1) == 1);
    check(!fi_close(&mr->fid));
    end_close(&s.end);
    _exit(0);
}

/* ---- Cases ---- */

/* 0, or SKIPPED when this was a test of nothing. */
static int result(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* An assertion that fails in a child is its end: it has no tests of its own to go on with. */
static void be_child(void)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    alarm(END_ALARM);
}

static pid_t start(void (*side)(const char *, enum power, int), const char *spec, enum power power,
                   int mine, int others)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (!pid) {
        be_child();
        close(others);
        side(spec, power, mine);
    }
    close(mine);
    return pid;
}

static void play(enum power initiator, enum power target)
{
    bool skipped = false;

    for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        int fds[2], results[2];
        pid_t pids[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
        pids[0] = start(initiate, specs[i], initiator, fds[0], fds[1]);
        pids[1] = start(serve, specs[i], target, fds[1], -1);
        for (int k = 0; k < 2; k++)
            results[k] = result(pids[k]);
        if (results[0] == SKIPPED || results[1] == SKIPPED) {
            skipped = true;
            continue;
        }
        assert_int_equal(results[0], 0);
        assert_int_equal(results[1], 0);
    }
    if (skipped)
        skip();
}

static void test_to_the_initiator(void **state)
{
    (void)state;
    play(FILTERED, FREE);
}

static void test_to_the_target(void **state)
{
    (void)state;
    play(FREE, FILTERED);
}

static void test_to_both(void **state)
{
    (void)state;
    play(FILTERED, FILTERED);
}

static void test_from_some_time_on(void **state)
{
    (void)state;
    play(FILTERED_LATE, FREE);
    play(FREE, FILTERED_LATE);
}

static void test_in_one_direction(void **state)
{
    (void)state;
    play(NOT_DUMPABLE, DUMPABLE);
    play(DUMPABLE, NOT_DUMPABLE);
}

/* Both ends in one process, which attaches to itself, and may not any more. */
static void stop_in_the_middle(void)
{
    uint64_t *out = calloc(WORDS, sizeof(*out)), *in = calloc(WORDS, sizeof(*in));
    uint64_t *memory = calloc(WORDS, sizeof(*memory)), *back = calloc(WORDS, sizeof(*back));
    uint64_t *source = calloc(WORDS, sizeof(*source));
    struct fi_cq_tagged_entry entry;
    struct end a, b;
    struct fid_mr *mrs[2];
    fi_addr_t peer;

    check(out && in && memory && back && source);
    end_open_as(&a, "shm(cma=on)", &want);
    end_open_as(&b, "shm(cma=on)", &want);
    check(!(a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR));
    peer = end_introduce(&a, &b);
    fill(out, 1);
    fill(source, 2);
    check(!fi_mr_reg(b.domain, memory, LARGE, FI_REMOTE_WRITE, 0, KEY, 0, &mrs[0], NULL));
    check(!fi_mr_reg(b.domain, source, LARGE, FI_REMOTE_READ, 0, KEY + 1, 0, &mrs[1], NULL));
    check(!fi_trecv(b.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    end_post(&a, &b, fi_tsend(a.ep, out, LARGE, NULL, peer, 1, NULL));
    end_post(&a, &b, fi_read(a.ep, back, LARGE, NULL, peer, 0, KEY + 1, NULL));
    end_post(&a, &b, fi_write(a.ep, out, LARGE, NULL, peer, 0, KEY, NULL));
    /* Some of each has moved, and not all. */
    while (!in[0] || !memory[0] || !back[0])
        end_drive(&a, &b);
    check(in[WORDS - 1] == 0 && memory[WORDS - 1] == 0 && back[WORDS - 1] == 0);
    end_forbid_attaching();
    for (int i = 0; i < 3; i++)
        check(!end_wait(&a, &b, &entry));
    check(!end_wait(&b, &a, &entry));
    check(holds(in, 1) && holds(memory, 1) && holds(back, 2));
    for (int i = 0; i < 2; i++)
        check(!fi_close(&mrs[i]->fid));
    end_close(&a);
    end_close(&b);
    free(out);
    free(in);
    free(memory);
    free(back);
    free(source);
    _exit(0);
}

static void test_in_the_middle(void **state)
{
    pid_t pid = fork();
    int rc;

    (void)state;
    if (!pid) {
        be_child();
        stop_in_the_middle();
    }
    rc = result(pid);
    if (rc == SKIPPED)
        skip();
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_the_initiator), cmocka_unit_test(test_to_the_target),
        cmocka_unit_test(test_to_both),          cmocka_unit_test(test_from_some_time_on),
        cmocka_unit_test(test_in_one_direction), cmocka_unit_test(test_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Large transfers from memory that is mapped by XPMEM, and what becomes of them when it is not, or
 * not any more. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../live/ends.h"
#include "../fake.h"

enum {
    LARGE = 3 << 20,
    BIG = 64 << 10, /* the least that is mapped */
    WORDS = LARGE / sizeof(uint64_t),
    KEY = 4,
    MEGA = 1 << 20,
    TIMES = 20,
    SEVERAL = 4,
    SECONDS = 60,
};

static const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA};
static uint64_t *out, *far; /* can be attached: what a sends, what b shows */
static uint64_t *in;

struct pair {
    struct end a, b;
    fi_addr_t peer;
    struct fid_mr *mr;
};

static void open_pair(struct pair *pair, const char *spec)
{
    end_open_as(&pair->a, spec, &want);
    end_open_as(&pair->b, spec, &want);
    pair->peer = end_introduce(&pair->a, &pair->b);
    assert_int_equal(fi_mr_reg(pair->b.domain, far, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY,
                               0, &pair->mr, NULL),
                     0);
}

static void close_pair(struct pair *pair)
{
    assert_int_equal(fi_close(&pair->mr->fid), 0);
    end_close(&pair->a);
    end_close(&pair->b);
    assert_int_equal(fake->attached, 0);
    assert_int_equal(fake->permits, 0);
    assert_int_equal(fake->misuse, 0);
}

static void fill(uint64_t *words, uint64_t seed)
{
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = seed << 32 | i;
}

static void done(struct pair *pair)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(end_wait(&pair->a, &pair->b, &entry), 0);
}

static void send_one(struct pair *pair, size_t len, uint64_t seed)
{
    struct fi_cq_tagged_entry entry;

    fill(out, seed);
    memset(in, 0, LARGE);
    assert_int_equal(fi_trecv(pair->b.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    end_post(&pair->a, &pair->b, fi_tsend(pair->a.ep, out, len, NULL, pair->peer, 1, NULL));
    done(pair);
    assert_int_equal(end_wait(&pair->b, &pair->a, &entry), 0);
    assert_memory_equal(in, out, len);
}

static void write_one(struct pair *pair, uint64_t seed)
{
    struct iovec halves[] = {{out, LARGE / 4}, {out + WORDS / 4, LARGE - LARGE / 4}};

    fill(out, seed);
    memset(far, 0, LARGE);
    end_post(&pair->a, &pair->b, fi_writev(pair->a.ep, halves, NULL, 2, pair->peer, 0, KEY, NULL));
    done(pair);
    assert_memory_equal(far, out, LARGE);
}

static void read_one(struct pair *pair, uint64_t seed)
{
    fill(far, seed);
    memset(in, 0, LARGE);
    end_post(&pair->a, &pair->b, fi_read(pair->a.ep, in, LARGE, NULL, pair->peer, 0, KEY, NULL));
    done(pair);
    assert_memory_equal(in, far, LARGE);
}

static void move_all(struct pair *pair, uint64_t seed)
{
    send_one(pair, LARGE, seed);
    write_one(pair, seed + 1);
    read_one(pair, seed + 2);
}

static void all_are_mapped(void)
{
    struct pair pair;
    unsigned attached;

    fake_begin();
    open_pair(&pair, "shm(xpmem=on)");
    /* Each of the two attaches, from when he has heard of the other's segment. */
    while (fake->permits < 2)
        move_all(&pair, 1);
    fake_crosses = 0;
    attached = fake->calls[FAKE_ATTACH];
    move_all(&pair, 10);
    send_one(&pair, BIG, 20);
    assert_int_equal(fake->calls[FAKE_ATTACH], attached);
    assert_int_equal(fake_crosses, 0);
    close_pair(&pair);
}

/* One right for each direction, asked for when it is needed. */
static void only_what_is_needed(void)
{
    struct pair pair;

    fake_begin();
    open_pair(&pair, "shm(xpmem=on)");
    send_one(&pair, BIG - 1, 1);
    assert_int_equal(fake->calls[FAKE_GET], 0);
    send_one(&pair, LARGE, 2);
    assert_int_equal(fake->calls[FAKE_GET], 1);
    close_pair(&pair);
}

/* Where nothing is said all ways are measured. */
static void it_is_measured(void)
{
    struct pair pair;
    struct end first;

    fake_begin();
    /* The process has its segment, whether or not this system allows it, since it was told to. */
    end_open(&first, "shm(xpmem=on)");
    end_close(&first);
    open_pair(&pair, "shm");
    fake_crosses = 0;
    for (uint64_t i = 0; i < TIMES; i++)
        send_one(&pair, LARGE, i);
    assert_true(fake_crosses > 0);
    assert_true(fake->calls[FAKE_ATTACH] > 0);
    close_pair(&pair);
    fake_begin();
    open_pair(&pair, "shm(cma=off)");
    fake_crosses = 0;
    for (uint64_t i = 0; i < TIMES; i++)
        move_all(&pair, i);
    assert_int_equal(fake_crosses, 0);
    assert_true(fake->calls[FAKE_ATTACH] > 0);
    close_pair(&pair);
}

/* The other ways do what this one does not, and it is not tried again. */
static void is_given_up(const char *spec)
{
    struct pair pair;
    unsigned calls;

    open_pair(&pair, spec);
    move_all(&pair, 1);
    assert_int_equal(fake->attached, 0);
    calls = fake->calls[FAKE_GET] + fake->calls[FAKE_ATTACH];
    fake->gap = FAKE_WHOLE;
    memset(fake->errs, 0, sizeof(fake->errs));
    move_all(&pair, 10);
    assert_int_equal(fake->calls[FAKE_GET] + fake->calls[FAKE_ATTACH], calls);
    close_pair(&pair);
}

static void refused(void)
{
    fake_begin();
    fake->errs[FAKE_GET] = EACCES;
    is_given_up("shm(xpmem=on)");
    fake_begin();
    fake->errs[FAKE_ATTACH] = EPERM;
    is_given_up("shm(xpmem=on,cma=off)");
}

/* Some of the bytes were there. */
static void gone_in_the_middle(void)
{
    for (enum fake_gap gap = FAKE_BUS; gap <= FAKE_SEGV; gap++) {
        fake_begin();
        fake->gap = gap;
        fake->gap_at = (uintptr_t)out + MEGA + 100;
        is_given_up("shm(xpmem=on)");
        fake_begin();
        fake->gap = gap;
        fake->gap_at = (uintptr_t)out;
        is_given_up("shm(xpmem=on,cma=off)");
    }
}

/* Transfers that had begun learn from the first that the memory is gone. */
static void gone_for_several(void)
{
    struct fi_cq_tagged_entry entry;
    struct pair pair;

    fake_begin();
    fake->gap = FAKE_BUS;
    fake->gap_at = (uintptr_t)out + MEGA;
    open_pair(&pair, "shm(xpmem=on)");
    fill(out, 1);
    for (uint64_t i = 0; i < SEVERAL; i++)
        assert_int_equal(fi_trecv(pair.b.ep, in + i * WORDS / SEVERAL, LARGE / SEVERAL, NULL,
                                  FI_ADDR_UNSPEC, i, 0, NULL),
                         0);
    for (uint64_t i = SEVERAL; i-- > 0;)
        end_post(&pair.a, &pair.b,
                 fi_tsend(pair.a.ep, out + i * WORDS / SEVERAL, LARGE / SEVERAL, NULL, pair.peer, i,
                          NULL));
    for (int i = 0; i < SEVERAL; i++) {
        assert_int_equal(end_wait(&pair.b, &pair.a, &entry), 0);
        done(&pair);
    }
    assert_memory_equal(in, out, LARGE);
    assert_int_equal(fake->calls[FAKE_GET], 1);
    close_pair(&pair);
}

/* ---- Death ---- */

static pid_t owner;

static void kill_owner(void)
{
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    fake->on_attach = NULL;
    fake->gap = FAKE_BUS;
    fake->gap_at = (uintptr_t)out + MEGA;
}

static void be_owner(int to, int from)
{
    char name[END_NAME] = "";
    struct fi_cq_tagged_entry entry;
    struct end end;
    fi_addr_t peer;

    setenv("CMOCKA_TEST_ABORT", "1", 1);
    alarm(SECONDS);
    end_open_as(&end, "shm(xpmem=on)", &want);
    end_name(&end, name);
    if (write(to, name, sizeof(name)) != sizeof(name) ||
        read(from, name, sizeof(name)) != sizeof(name))
        _exit(1);
    peer = end_know(&end, name);
    /* Until one is read from this memory: which way the first ones go is measured. */
    for (;;) {
        end_post(&end, NULL, fi_tsend(end.ep, out, LARGE, NULL, peer, 1, NULL));
        end_wait(&end, NULL, &entry);
    }
}

/* Pages go with their owner while they are read: the receive ends in an error, and nothing is left.
 */
static void the_owner_dies(void)
{
    char name[END_NAME];
    struct fi_cq_tagged_entry entry;
    struct pipes pipes;
    struct end end;
    int rc;

    fake_begin();
    open_pipes(&pipes);
    owner = fork();
    assert_true(owner >= 0);
    if (!owner)
        be_owner(pipes.from[1], pipes.to[0]);
    end_open_as(&end, "shm(xpmem=on)", &want);
    fake->on_attach = kill_owner;
    assert_int_equal(read(pipes.from[0], name, sizeof(name)), sizeof(name));
    end_name(&end, name);
    assert_int_equal(write(pipes.to[1], name, sizeof(name)), sizeof(name));
    do {
        assert_int_equal(fi_trecv(end.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        rc = end_wait(&end, NULL, &entry);
    } while (!rc && fake->on_attach);
    assert_int_equal(rc, FI_ECONNRESET);
    assert_null(fake->on_attach);
    assert_int_equal(fake->attached, 0);
    end_close(&end);
    assert_int_equal(fake->permits, 0);
    close_pipes(&pipes);
}

/* ---- Fork ---- */

/* A child has nothing of its parent's, and all of its own. */
static void be_child(struct pair *pair)
{
    struct pair own;
    unsigned made = fake->calls[FAKE_MAKE];

    setenv("CMOCKA_TEST_ABORT", "1", 1);
    alarm(SECONDS);
    fi_close(&pair->mr->fid);
    end_close(&pair->a);
    end_close(&pair->b);
    assert_int_equal(fake->misuse, 0);
    open_pair(&own, "shm(xpmem=on)");
    move_all(&own, 50);
    assert_int_equal(fake->calls[FAKE_MAKE], made + 1);
    fi_close(&own.mr->fid);
    end_close(&own.a);
    end_close(&own.b);
    _exit(fake->misuse != 0);
}

static void fork_is_safe(void)
{
    struct pair pair;
    unsigned attached;
    int status;
    pid_t pid;

    fake_begin();
    open_pair(&pair, "shm(xpmem=on)");
    move_all(&pair, 1);
    attached = fake->attached;
    assert_true(attached > 0);
    pid = fork();
    if (!pid)
        be_child(&pair);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(fake->attached, attached);
    move_all(&pair, 20);
    assert_int_equal(fake->attached, attached);
    close_pair(&pair);
}

/* ---- Handlers ---- */

static void handlers_of_others(void)
{
    struct pair pair;
    unsigned attached;

    fake_begin();
    open_pair(&pair, "shm(xpmem=on)");
    move_all(&pair, 1);
    attached = fake->calls[FAKE_ATTACH];
    signal(SIGBUS, SIG_DFL);
    move_all(&pair, 10);
    assert_int_equal(fake->attached, 0);
    assert_int_equal(fake->calls[FAKE_ATTACH], attached);
    close_pair(&pair);
}

/* ---- Each in a process of its own, since cmocka wants SIGSEGV again before each ---- */

static int run(void (*act)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (!pid) {
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        alarm(SECONDS);
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

#define CASE(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        assert_int_equal(run(name), 0);                                                            \
    }

CASE(all_are_mapped)
CASE(only_what_is_needed)
CASE(it_is_measured)
CASE(refused)
CASE(gone_in_the_middle)
CASE(gone_for_several)
CASE(the_owner_dies)
CASE(fork_is_safe)
CASE(handlers_of_others)

static int begin(void **state)
{
    (void)state;
    fake_begin();
    out = (uint64_t *)(void *)fake_memory(LARGE, MEGA);
    far = (uint64_t *)(void *)fake_memory(LARGE, MEGA);
    in = malloc(LARGE);
    return !in;
}

static int end(void **state)
{
    (void)state;
    free(in);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_mapped),     cmocka_unit_test(test_only_what_is_needed),
        cmocka_unit_test(test_it_is_measured),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_gone_in_the_middle), cmocka_unit_test(test_gone_for_several),
        cmocka_unit_test(test_the_owner_dies),     cmocka_unit_test(test_fork_is_safe),
        cmocka_unit_test(test_handlers_of_others),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

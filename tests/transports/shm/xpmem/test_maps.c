/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads through windows onto a peer's memory: whole, however it lies; within bounds, for any
 * request; and without bytes that are not there. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/fork.h"
#include "fake.h"
#include "transports/shm/shm_maps.h"
#include "transports/shm/shm_xpmem.h"

enum {
    PAGE = 4096,
    MANY = SHM_WINDOWS + 4,
    LEN = 3 * PAGE,
};

#define HIGHEST ((1ull << 47) - PAGE - LEN)

static char *memory;  /* of MANY windows, of which few pages are touched */
static char *highest; /* up to the last page, at HIGHEST */
static int64_t segment;
static struct shm_maps *maps;

static void fill(char *at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (char)(seed + i / 7 + i);
}

static ssize_t read_there(char *to, const void *from, size_t len)
{
    struct iovec here = {to, len}, there = {(void *)(uintptr_t)from, len};

    return shm_maps_readv(maps, &here, 1, &there, 1);
}

static void across_windows(void)
{
    char *from = memory + SHM_WINDOW - LEN / 2 - 5, to[LEN + 1];

    fill(from, LEN, 3);
    to[LEN] = 'x';
    assert_int_equal(read_there(to, from, LEN), LEN);
    assert_memory_equal(to, from, LEN);
    assert_int_equal(to[LEN], 'x');
    assert_int_equal(fake->calls[FAKE_ATTACH], 2);
    /* Again, and what has changed since. */
    fill(from, LEN, 8);
    assert_int_equal(read_there(to, from, LEN), LEN);
    assert_memory_equal(to, from, LEN);
    assert_int_equal(fake->calls[FAKE_ATTACH], 2);
}

static void in_pieces(void)
{
    char expected[LEN], to[LEN];
    struct iovec here[] = {{to, 1000}, {to + 1000, 1}, {to + 1001, LEN - 1001}};
    struct iovec there[] = {{memory, PAGE}, {memory + 2 * SHM_WINDOW + 9, LEN - PAGE}};

    fill(memory, PAGE, 1);
    fill(memory + 2 * SHM_WINDOW + 9, LEN - PAGE, 2);
    memcpy(expected, memory, PAGE);
    memcpy(expected + PAGE, memory + 2 * SHM_WINDOW + 9, LEN - PAGE);
    assert_int_equal(shm_maps_readv(maps, here, 3, there, 2), LEN);
    assert_memory_equal(to, expected, LEN);
    /* Less there than here. */
    assert_int_equal(shm_maps_readv(maps, here, 3, there, 1), PAGE);
    assert_int_equal(shm_maps_readv(maps, here, 3, there, 0), 0);
}

static void bounded(void)
{
    char to[PAGE];

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < MANY; i++) {
            fill(memory + i * SHM_WINDOW, PAGE, (unsigned)i);
            assert_int_equal(read_there(to, memory + i * SHM_WINDOW, PAGE), PAGE);
            assert_memory_equal(to, memory + i * SHM_WINDOW, PAGE);
        }
    }
    assert_int_equal(fake->most_attached, SHM_WINDOWS);
    /* The one in use stays, whatever comes between. */
    for (size_t i = 0; i < MANY; i++) {
        read_there(to, memory + i * SHM_WINDOW, PAGE);
        read_there(to, memory, PAGE);
    }
    fake->calls[FAKE_ATTACH] = 0;
    read_there(to, memory, PAGE);
    assert_int_equal(fake->calls[FAKE_ATTACH], 0);
}

/* A peer may name any address. */
static void addresses_of_nothing(void)
{
    static const uint64_t nowhere[] = {
        0,          1,          SHM_WINDOW - 1, (1ull << 47) - PAGE,  (1ull << 47) - PAGE - LEN + 1,
        1ull << 47, 1ull << 63, UINT64_MAX,     UINT64_MAX - LEN + 1, UINT64_MAX - SHM_WINDOW + 2,
    };
    char to[LEN];

    for (unsigned i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++)
        assert_true(read_there(to, (void *)(uintptr_t)nowhere[i], LEN) < 0);
    assert_int_equal(read_there(to, memory + MANY * (size_t)SHM_WINDOW - PAGE, LEN), -EFAULT);
    assert_int_equal(read_there(to, memory, LEN), LEN);
}

/* As stacks are, where addresses are not random. */
static void the_end_of_the_address_space(void)
{
    char to[LEN];

    fill(highest, LEN, 4);
    assert_int_equal(read_there(to, (void *)(uintptr_t)HIGHEST, LEN), LEN);
    assert_memory_equal(to, highest, LEN);
    assert_int_equal(read_there(to, (void *)(uintptr_t)(HIGHEST + PAGE), LEN), -EFAULT);
}

static void gone_in_the_middle(void)
{
    char to[LEN];

    for (enum fake_gap gap = FAKE_BUS; gap <= FAKE_SEGV; gap++) {
        fake->gap = gap;
        fake->gap_at = (uintptr_t)memory + PAGE;
        fill(memory, LEN, 5);
        assert_int_equal(read_there(to, memory, LEN), -EFAULT);
        assert_int_equal(read_there(to, memory, PAGE), PAGE);
        assert_memory_equal(to, memory, PAGE);
        shm_maps_close(maps);
        assert_int_equal(shm_maps_open(segment, &maps), 0);
    }
}

static void refused(void)
{
    char to[LEN];
    struct shm_maps *other;

    fake->errs[FAKE_ATTACH] = EACCES;
    assert_int_equal(read_there(to, memory, LEN), -EACCES);
    fake->errs[FAKE_ATTACH] = 0;
    assert_int_equal(read_there(to, memory, LEN), LEN);
    assert_int_equal(shm_maps_open(segment + 1, &other), -ENOENT);
    assert_int_equal(shm_maps_open(-1, &other), -ENOENT);
    fake->errs[FAKE_GET] = EPERM;
    assert_int_equal(shm_maps_open(segment, &other), -EPERM);
    shm_maps_close(NULL);
}

/* The reader does not write into the other's memory; a child of the reader has none of it. */
static void only_to_be_read(void)
{
    char to[PAGE];
    int status;
    pid_t pid;

    memory[0] = 1;
    read_there(to, memory, PAGE);
    pid = fork();
    if (!pid) {
        shm_maps_close(maps);
        _exit(fake->misuse != 0 || fake->attached != 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read_there(to, memory, PAGE), PAGE);
}

/* ---- Each in a process of its own, since cmocka wants SIGSEGV again before each ---- */

static int run(void (*act)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (!pid) {
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        alarm(60);
        fake_begin();
        assert_int_equal(shm_maps_open(segment, &maps), 0);
        act();
        shm_maps_close(maps);
        _exit(fake->attached || fake->permits || fake->misuse);
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

CASE(across_windows)
CASE(in_pieces)
CASE(bounded)
CASE(addresses_of_nothing)
CASE(the_end_of_the_address_space)
CASE(gone_in_the_middle)
CASE(refused)
CASE(only_to_be_read)

static int begin(void **state)
{
    (void)state;
    fork_watch();
    fake_begin();
    memory = fake_memory(MANY * (size_t)SHM_WINDOW, SHM_WINDOW);
    highest = fake_memory_at(HIGHEST, LEN);
    segment = shm_xpmem_segment("shm", true);
    assert_true(segment != 0);
    assert_int_equal(shm_xpmem_segment("shm", false), segment);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_across_windows),
        cmocka_unit_test(test_in_pieces),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_addresses_of_nothing),
        cmocka_unit_test(test_the_end_of_the_address_space),
        cmocka_unit_test(test_gone_in_the_middle),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_only_to_be_read),
    };

    return cmocka_run_group_tests(tests, begin, NULL);
}

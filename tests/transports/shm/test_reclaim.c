/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of bulk go back when it has rested, and only then; nothing that is on its way is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transports/shm/shm_reclaim.h"

enum {
    BLOCK = 512, /* of st_blocks */
    LATE = 10,   /* the clock, when a case begins */
};

/* The memory of a link as both sides have it, sealed as it is there; half 0 is `tx` to `rx`. */
struct stage {
    int fd;
    char *here, *there;
    struct shm_tx tx, back;
    struct shm_rx rx, from;
    struct shm_reclaim rest, other;
    uint64_t now;
};

static char *map(int fd)
{
    char *memory = mmap(NULL, SHM_REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

static int open_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(s->fd >= 0);
    assert_int_equal(ftruncate(s->fd, SHM_REGION), 0);
    assert_int_equal(fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    s->here = map(s->fd);
    s->there = map(s->fd);
    shm_tx_init(&s->tx, s->here, 0);
    shm_rx_init(&s->from, s->here, 1);
    shm_rx_init(&s->rx, s->there, 0);
    shm_tx_init(&s->back, s->there, 1);
    s->now = LATE;
    *state = s;
    return 0;
}

static int close_stage(void **state)
{
    struct stage *s = *state;

    munmap(s->here, SHM_REGION);
    munmap(s->there, SHM_REGION);
    close(s->fd);
    free(s);
    return 0;
}

static size_t resident(const struct stage *s)
{
    struct stat st;

    assert_int_equal(fstat(s->fd, &st), 0);
    return (size_t)st.st_blocks * BLOCK;
}

static uint64_t put(struct stage *s, size_t len, int value)
{
    uint64_t pos;
    char *to = shm_tx_bulk(&s->tx, len, &pos);

    assert_non_null(to);
    memset(to, value, len);
    shm_tx_bulk_commit(&s->tx, pos, len);
    return pos;
}

static void take(struct stage *s, uint64_t pos, size_t len, int value)
{
    const char *from = shm_rx_bulk(&s->rx, pos, len);

    assert_non_null(from);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(from[i], (char)value);
    shm_rx_bulk_done(&s->rx, pos, len);
}

/* Both sides look, after so many ticks. */
static void look(struct stage *s, uint64_t ticks)
{
    s->now += ticks;
    shm_reclaim_visit(&s->other, &s->back, &s->rx, s->now);
    shm_reclaim_visit(&s->rest, &s->tx, &s->from, s->now);
}

static void test_before_during_after(void **state)
{
    struct stage *s = *state;
    size_t before = resident(s);

    for (int round = 0; round < 3; round++) {
        uint64_t pos[SHM_BULK / SHM_CHUNK];

        for (size_t i = 0; i < SHM_BULK / SHM_CHUNK; i++)
            pos[i] = put(s, SHM_CHUNK, 'a' + round);
        for (size_t i = 0; i < SHM_BULK / SHM_CHUNK; i++)
            take(s, pos[i], SHM_CHUNK, 'a' + round);
        look(s, 1);
        look(s, SHM_RECLAIM_TICKS - 1);
        assert_true(resident(s) >= SHM_BULK);
        look(s, 1);
        assert_true(resident(s) <= before + 2 * SHM_HALF);
    }
    assert_false(s->tx.broken);
}

/* The last quarter, of which there were no credits yet. */
static void test_a_few_bytes(void **state)
{
    struct stage *s = *state;
    uint64_t pos = put(s, 200, 'x');

    take(s, pos, 200, 'x');
    assert_true(s->rx.bulk_told != s->rx.bulk_pos);
    for (int i = 0; i < 3; i++)
        look(s, SHM_RECLAIM_TICKS);
    assert_true(resident(s) <= 2 * SHM_HALF);
}

static void test_what_is_on_its_way_stays(void **state)
{
    struct stage *s = *state;
    uint64_t first = put(s, SHM_CHUNK, 'f'), second = put(s, 100, 's');

    for (int i = 0; i < 4; i++)
        look(s, SHM_RECLAIM_TICKS);
    take(s, first, SHM_CHUNK, 'f');
    for (int i = 0; i < 4; i++)
        look(s, SHM_RECLAIM_TICKS);
    assert_true(resident(s) >= SHM_CHUNK);
    take(s, second, 100, 's');
    for (int i = 0; i < 4; i++)
        look(s, SHM_RECLAIM_TICKS);
    assert_true(resident(s) <= 2 * SHM_HALF);
}

static void test_what_is_used_stays(void **state)
{
    struct stage *s = *state;

    for (int i = 0; i < 20; i++) {
        take(s, put(s, SHM_CHUNK, i), SHM_CHUNK, i);
        look(s, SHM_RECLAIM_TICKS - 1);
        look(s, SHM_RECLAIM_TICKS - 1);
        assert_true(resident(s) >= SHM_CHUNK);
    }
}

/* Nothing is asked of the kernel again and again. */
static void test_once(void **state)
{
    struct stage *s = *state;

    take(s, put(s, SHM_CHUNK, 1), SHM_CHUNK, 1);
    for (int i = 0; i < 3; i++)
        look(s, SHM_RECLAIM_TICKS);
    *s->tx.bulk = 1;
    for (int i = 0; i < 3; i++)
        look(s, SHM_RECLAIM_TICKS);
    assert_int_equal(*s->tx.bulk, 1);
}

/* A receiver that claims to have consumed unread bytes loses them, and nothing else is lost. */
static void test_a_receiver_that_lies(void **state)
{
    struct stage *s = *state;
    uint64_t pos = put(s, SHM_CHUNK, 'l');
    size_t other = SHM_HALF + 100; /* the lines of the other half */

    s->there[other] = 'o';
    atomic_store(&s->rx.credits->bulk, s->tx.bulk_pos);
    for (int i = 0; i < 3; i++)
        look(s, SHM_RECLAIM_TICKS);
    assert_int_equal(*shm_rx_bulk(&s->rx, pos, 1), 0);
    assert_int_equal(s->here[other], 'o');
    assert_false(s->tx.broken);
    atomic_store(&s->rx.credits->bulk, s->tx.bulk_pos + 64);
    put(s, 64, 'l');
    atomic_store(&s->rx.credits->bulk, s->tx.bulk_pos + 64);
    for (int i = 0; i < 3; i++)
        look(s, SHM_RECLAIM_TICKS);
    assert_true(s->tx.broken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_before_during_after, open_stage, close_stage),
        cmocka_unit_test_setup_teardown(test_a_few_bytes, open_stage, close_stage),
        cmocka_unit_test_setup_teardown(test_what_is_on_its_way_stays, open_stage, close_stage),
        cmocka_unit_test_setup_teardown(test_what_is_used_stays, open_stage, close_stage),
        cmocka_unit_test_setup_teardown(test_once, open_stage, close_stage),
        cmocka_unit_test_setup_teardown(test_a_receiver_that_lies, open_stage, close_stage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

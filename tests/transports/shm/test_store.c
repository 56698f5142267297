/* SPDX-License-Identifier: BSD-2-Clause */
/* Payload is stored in the manner that took the sender less time, and whole in either. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transports/shm/shm_store.h"

enum {
    MANY = 1000,
    ROOM = 9000,
};

static uint64_t took[2]; /* ticks of a KiB: plain, streamed */
static unsigned timed[2];

static bool copy_of(struct shm_stores *stores, size_t len)
{
    struct shm_store store = shm_store_next(stores, len);

    if (store.timed)
        shm_store_took(stores, &store, took[store.streams] * len >> 10);
    timed[store.streams] += store.timed;
    return store.streams;
}

/* Copies until the choice: all of a ring in each manner, and those that are compared. */
static unsigned learning(size_t len)
{
    return (unsigned)(2 * ((SHM_STORE_WARM + len - 1) / len + SHM_STORE_TRIES));
}

static unsigned streamed(struct shm_stores *stores, size_t len, unsigned copies)
{
    unsigned count = 0;

    while (copies--)
        count += copy_of(stores, len);
    return count;
}

static void clearly_faster_streams_are_chosen(void **state)
{
    struct shm_stores stores = {0};

    (void)state;
    took[0] = 1000, took[1] = 480;
    assert_int_equal(streamed(&stores, 16384, learning(16384)), learning(16384) / 2);
    assert_int_equal(streamed(&stores, 16384, MANY), MANY);
}

static void others_are_not(void **state)
{
    struct shm_stores stores = {0};

    (void)state;
    took[0] = 1000, took[1] = 520; /* not twice */
    assert_int_equal(streamed(&stores, 16384, learning(16384)), learning(16384) / 2);
    assert_int_equal(streamed(&stores, 16384, MANY), 0);
}

static void lengths_choose_for_themselves(void **state)
{
    struct shm_stores stores = {0};

    (void)state;
    took[0] = 1000, took[1] = 480;
    streamed(&stores, 32768, learning(32768));
    took[1] = 2000;
    streamed(&stores, 2048, learning(2048));
    assert_int_equal(streamed(&stores, 32768, MANY), MANY);
    assert_int_equal(streamed(&stores, 1 << 20, MANY), MANY); /* of the last class */
    assert_int_equal(streamed(&stores, 2048, MANY), 0);
    assert_int_equal(streamed(&stores, 4095, MANY), 0);
    assert_int_equal(streamed(&stores, 4096, learning(4096)),
                     learning(4096) / 2); /* nothing known of it */
}

/* One after the other, when lines are where copies of that manner left them. */
static void a_ring_goes_in_a_manner_before_it_is_timed(void **state)
{
    const unsigned half = learning(8192) / 2;
    struct shm_stores stores = {0};

    (void)state;
    took[0] = took[1] = 1000;
    timed[0] = timed[1] = 0;
    assert_int_equal(streamed(&stores, 8192, half - SHM_STORE_TRIES), 0);
    assert_int_equal(timed[0], 0);
    assert_int_equal(streamed(&stores, 8192, SHM_STORE_TRIES), 0);
    assert_int_equal(timed[0], SHM_STORE_TRIES);
    assert_int_equal(streamed(&stores, 8192, half - SHM_STORE_TRIES), half - SHM_STORE_TRIES);
    assert_int_equal(timed[1], 0);
    streamed(&stores, 8192, SHM_STORE_TRIES + MANY);
    assert_int_equal(timed[0], SHM_STORE_TRIES);
    assert_int_equal(timed[1], SHM_STORE_TRIES);
}

static void times_of_one_class_are_compared_by_the_byte(void **state)
{
    struct shm_stores stores = {0};
    unsigned copies = 0;

    (void)state;
    took[0] = took[1] = 1000;
    timed[0] = timed[1] = 0;
    while (timed[1] < SHM_STORE_TRIES) { /* the plain ones are longer */
        copy_of(&stores, timed[0] < SHM_STORE_TRIES ? 4096 + 4000 : 4096);
        assert_true(++copies < learning(4096));
    }
    assert_int_equal(streamed(&stores, 4096, MANY), 0);
}

static void a_process_that_did_not_run_distorts_nothing(void **state)
{
    struct shm_stores stores = {0};
    unsigned copies = learning(8192);

    (void)state;
    for (unsigned i = 0; i < copies; i++) {
        took[0] = i % 3 ? 1000 : UINT64_MAX >> 16; /* a third of the plain ones is interrupted */
        took[1] = 1000;
        streamed(&stores, 8192, 1);
    }
    assert_int_equal(streamed(&stores, 8192, MANY), 0);
}

static void the_choice_is_made_again(void **state)
{
    struct shm_stores stores = {0};

    (void)state;
    took[0] = 1000, took[1] = 480;
    streamed(&stores, 16384, learning(16384));
    assert_int_equal(streamed(&stores, 16384, SHM_STORE_KEEP), SHM_STORE_KEEP);
    took[1] = 3000; /* the process has moved beside its peer */
    streamed(&stores, 16384, learning(16384));
    assert_int_equal(streamed(&stores, 16384, MANY), 0);
}

/* ---- Copies ---- */

static void check_copy(bool streams, size_t to, size_t from, size_t first, size_t len)
{
    _Alignas(64) static char source[ROOM], target[ROOM], expected[ROOM];
    struct shm_store store = {.streams = streams, .len = len};
    struct shm_stores stores = {0};

    for (size_t i = 0; i < ROOM; i++)
        source[i] = (char)(i * 7 + (i >> 8));
    memset(target, 0x55, sizeof(target));
    memset(expected, 0x55, sizeof(expected));
    memcpy(expected + to, source + from, len);
    shm_store_piece(&store, target + to, source + from, first);
    shm_store_piece(&store, target + to + first, source + from + first, len - first);
    shm_store_end(&stores, &store);
    assert_memory_equal(target, expected, sizeof(target));
}

static void bytes_arrive_whole(void **state)
{
    const size_t lens[] = {1, 15, 63, 64, 65, 127, 128, 2048, 2049, 4095, 8191};
    const size_t shifts[] = {0, 1, 15, 16, 33, 63, 64};

    (void)state;
    for (size_t l = 0; l < sizeof(lens) / sizeof(*lens); l++) {
        for (size_t to = 0; to < sizeof(shifts) / sizeof(*shifts); to++) {
            for (size_t from = 0; from < sizeof(shifts) / sizeof(*shifts); from++) {
                check_copy(true, shifts[to], shifts[from], 0, lens[l]);
                check_copy(true, shifts[to], shifts[from], lens[l] / 3, lens[l]);
                check_copy(false, shifts[to], shifts[from], lens[l] / 3, lens[l]);
            }
        }
    }
}

static void short_copies_are_not_timed(void **state)
{
    struct shm_stores stores = {0};
    struct shm_store store = shm_store_begin(&stores, SHM_STORE_LEAST - 1);

    (void)state;
    assert_false(store.streams);
    assert_false(store.timed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clearly_faster_streams_are_chosen),
        cmocka_unit_test(others_are_not),
        cmocka_unit_test(lengths_choose_for_themselves),
        cmocka_unit_test(a_ring_goes_in_a_manner_before_it_is_timed),
        cmocka_unit_test(times_of_one_class_are_compared_by_the_byte),
        cmocka_unit_test(a_process_that_did_not_run_distorts_nothing),
        cmocka_unit_test(the_choice_is_made_again),
        cmocka_unit_test(bytes_arrive_whole),
        cmocka_unit_test(short_copies_are_not_timed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The way of large transfers is the one that has been measured to be faster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "transports/shm/shm_choice.h"

enum {
    LEN = 64 << 10,
    SHORT = SHM_SAMPLE / LEN * SHM_SAMPLES, /* transfers until one way is known */
    LONG = 2 * SHORT,                       /* two are */
    ALL = SHM_WAYS * SHORT,
    WINDOW = 64,
    TWO = 1 << SHM_STREAM | 1 << SHM_CMA,
    THREE = (1 << SHM_WAYS) - 1,
};

static uint64_t clock_ns;
static uint64_t took[SHM_WAYS]; /* ns of a transfer */
static unsigned ways;           /* that there are */

static struct shm_choice fresh(uint64_t stream, uint64_t cross)
{
    struct shm_choice choice;

    memset(&choice, 0, sizeof(choice));
    took[SHM_STREAM] = stream;
    took[SHM_CMA] = cross;
    ways = TWO;
    return choice;
}

static struct shm_choice fresh_three(uint64_t stream, uint64_t mapped, uint64_t cross)
{
    struct shm_choice choice = fresh(stream, cross);

    took[SHM_MAPPED] = mapped;
    ways = THREE;
    return choice;
}

static enum shm_way transfer(struct shm_choice *choice)
{
    enum shm_way way = shm_choice_next(choice, ways);

    shm_choice_begin(choice, way, LEN, clock_ns);
    clock_ns += took[way];
    shm_choice_end(choice, way, LEN, clock_ns);
    clock_ns += 5000; /* the application's time counts for no way */
    return way;
}

/* How many of so many go that way. */
static unsigned of_way(struct shm_choice *choice, enum shm_way way, unsigned transfers)
{
    unsigned count = 0;

    for (unsigned i = 0; i < transfers; i++)
        count += transfer(choice) == way;
    return count;
}

static unsigned crosses(struct shm_choice *choice, unsigned transfers)
{
    return of_way(choice, SHM_CMA, transfers);
}

static void test_both_are_tried(void **state)
{
    struct shm_choice choice = fresh(1000, 900);

    (void)state;
    assert_int_equal(crosses(&choice, LONG), LONG / 2);
}

static void test_the_faster_stays(void **state)
{
    struct shm_choice choice = fresh(1000, 900);

    (void)state;
    crosses(&choice, LONG);
    assert_int_equal(crosses(&choice, 100), 100);
    choice = fresh(900, 1000);
    crosses(&choice, LONG);
    assert_int_equal(crosses(&choice, 100), 0);
    choice = fresh(1000, 1000);
    crosses(&choice, LONG);
    assert_int_equal(crosses(&choice, 100), 100);
}

static void test_the_fastest_of_three_stays(void **state)
{
    static const uint64_t speeds[SHM_WAYS][SHM_WAYS] = {
        [SHM_STREAM] = {800, 900, 1000},
        [SHM_MAPPED] = {900, 800, 1000},
        [SHM_CMA] = {900, 1000, 800},
    };

    (void)state;
    for (enum shm_way best = SHM_STREAM; best < SHM_WAYS; best++) {
        struct shm_choice choice = fresh_three(speeds[best][0], speeds[best][1], speeds[best][2]),
                          tried = choice;

        for (enum shm_way way = SHM_STREAM; way < SHM_WAYS; way++) {
            struct shm_choice again = tried;

            assert_int_equal(of_way(&again, way, ALL), SHORT);
        }
        of_way(&choice, best, ALL);
        assert_int_equal(of_way(&choice, best, 100), 100);
    }
}

/* Refused, or not worth it for so few bytes: the others are as they were. */
static void test_a_way_that_is_not_there(void **state)
{
    struct shm_choice choice = fresh_three(1000, 800, 900);

    (void)state;
    ways = TWO;
    assert_int_equal(of_way(&choice, SHM_MAPPED, LONG), 0);
    assert_int_equal(crosses(&choice, 100), 100);
    ways = THREE;
    assert_int_equal(of_way(&choice, SHM_MAPPED, SHORT), SHORT);
    assert_int_equal(of_way(&choice, SHM_MAPPED, 100), 100);
    ways = TWO;
    assert_int_equal(crosses(&choice, 100), 100);
    ways = 1 << SHM_STREAM | 1 << SHM_MAPPED;
    assert_int_equal(of_way(&choice, SHM_MAPPED, 100), 100);
}

/* A process that was not run for a while is not a slow way. */
static void test_one_delay_does_not_matter(void **state)
{
    struct shm_choice choice = fresh(1000, 900);

    (void)state;
    for (unsigned i = 0; i < LONG; i++) {
        took[SHM_CMA] = i == LONG / 2 ? 10000000 : 900;
        transfer(&choice);
    }
    assert_int_equal(crosses(&choice, 100), 100);
}

static void test_it_is_measured_again(void **state)
{
    struct shm_choice choice = fresh(1000, 900);
    unsigned kept = SHM_KEEP / LEN;

    (void)state;
    crosses(&choice, LONG);
    took[SHM_STREAM] = 500;
    assert_int_equal(crosses(&choice, kept), kept);
    crosses(&choice, LONG);
    assert_int_equal(crosses(&choice, 100), 0);
}

/* Many at once, that share the link: the rate at which they end counts. While both ways are in use
 * nothing is learned: the transfers of one would pass for the other's. */
static void test_a_window(void **state)
{
    struct shm_choice choice = fresh(1000, 1500);
    enum shm_way taken[WINDOW], way;

    (void)state;
    for (unsigned i = 0; i < WINDOW; i++) {
        taken[i] = shm_choice_next(&choice, ways);
        shm_choice_begin(&choice, taken[i], LEN, clock_ns);
    }
    for (unsigned i = 0; i < 40 * WINDOW; i++) {
        way = taken[i % WINDOW];
        /* A crossing that follows a stream looks as if it had taken nothing. */
        clock_ns += way == SHM_CMA && choice.running[SHM_STREAM] ? 1 : took[way];
        shm_choice_end(&choice, way, LEN, clock_ns);
        taken[i % WINDOW] = shm_choice_next(&choice, ways);
        shm_choice_begin(&choice, taken[i % WINDOW], LEN, clock_ns);
    }
    assert_int_equal(shm_choice_next(&choice, ways), SHM_STREAM);
}

/* A window of large ones, that wait while a sample is full: as many of them as the samples take go
 * the slow way, and all others the fast one. */
static void test_a_window_waits_for_samples(void **state)
{
    struct shm_choice choice = fresh(1000, 500);
    enum shm_way taken[WINDOW];
    unsigned begun = 0, ended = 0, slow = 0;

    (void)state;
    while (ended < WINDOW) {
        if (begun < WINDOW && !shm_choice_is_full(&choice, ways)) {
            taken[begun] = shm_choice_next(&choice, ways);
            slow += taken[begun] == SHM_STREAM;
            shm_choice_begin(&choice, taken[begun++], 4 * SHM_SAMPLE, clock_ns);
            continue;
        }
        assert_true(begun > ended); /* what waits has something to wait for */
        clock_ns += took[taken[ended]];
        shm_choice_end(&choice, taken[ended++], 4 * SHM_SAMPLE, clock_ns);
    }
    assert_int_equal(slow, SHM_SAMPLES);
    assert_int_equal(choice.flying, 0);
}

/* Small ones fill a sample together, but none begins beside one of another way. */
static void test_samples_are_of_one_way(void **state)
{
    struct shm_choice choice = fresh(1000, 500);
    unsigned begun = 0;

    (void)state;
    for (; !shm_choice_is_full(&choice, ways); begun++)
        shm_choice_begin(&choice, shm_choice_next(&choice, ways), LEN, clock_ns);
    assert_int_equal(begun, SHM_SAMPLE / LEN);
    for (; begun > 1; begun--)
        shm_choice_end(&choice, SHM_STREAM, LEN, clock_ns);
    assert_false(shm_choice_is_full(&choice, ways));
    choice.samples[SHM_STREAM] = 1; /* the other one is next */
    assert_true(shm_choice_is_full(&choice, ways));
    shm_choice_drop(&choice, SHM_STREAM, LEN);
    assert_false(shm_choice_is_full(&choice, ways));
}

static void test_what_is_given_up_counts_not(void **state)
{
    struct shm_choice choice = fresh(1000, 900);

    (void)state;
    for (unsigned i = 0; i < LONG; i++) {
        shm_choice_begin(&choice, SHM_STREAM, LEN, clock_ns);
        shm_choice_drop(&choice, SHM_STREAM, LEN);
    }
    assert_int_equal(crosses(&choice, LONG), LONG / 2);
    assert_int_equal(choice.running[SHM_STREAM] + choice.running[SHM_CMA], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_are_tried),
        cmocka_unit_test(test_the_faster_stays),
        cmocka_unit_test(test_the_fastest_of_three_stays),
        cmocka_unit_test(test_a_way_that_is_not_there),
        cmocka_unit_test(test_one_delay_does_not_matter),
        cmocka_unit_test(test_it_is_measured_again),
        cmocka_unit_test(test_a_window),
        cmocka_unit_test(test_a_window_waits_for_samples),
        cmocka_unit_test(test_samples_are_of_one_way),
        cmocka_unit_test(test_what_is_given_up_counts_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

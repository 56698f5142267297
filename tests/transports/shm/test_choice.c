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
    LONG = SHM_SAMPLE / LEN * SHM_SAMPLES * SHM_WAYS, /* transfers until everything is known */
    WINDOW = 64,
};

static uint64_t clock_ns;
static uint64_t took[SHM_WAYS]; /* ns of a transfer */

static struct shm_choice fresh(uint64_t stream, uint64_t cross)
{
    struct shm_choice choice;

    memset(&choice, 0, sizeof(choice));
    took[SHM_STREAM] = stream;
    took[SHM_CROSS] = cross;
    return choice;
}

static enum shm_way transfer(struct shm_choice *choice)
{
    enum shm_way way = shm_choice_next(choice);

    shm_choice_begin(choice, way, clock_ns);
    clock_ns += took[way];
    shm_choice_end(choice, way, LEN, clock_ns);
    clock_ns += 5000; /* what the application does is nobody's fault */
    return way;
}

static unsigned crosses(struct shm_choice *choice, unsigned transfers)
{
    unsigned count = 0;

    for (unsigned i = 0; i < transfers; i++)
        count += transfer(choice) == SHM_CROSS;
    return count;
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

/* A process that was not run for a while is not a slow way. */
static void test_one_delay_does_not_matter(void **state)
{
    struct shm_choice choice = fresh(1000, 900);

    (void)state;
    for (unsigned i = 0; i < LONG; i++) {
        took[SHM_CROSS] = i == LONG / 2 ? 10000000 : 900;
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

/* Many at once, that share the link: what counts is how fast they end. While both ways are in use
 * nothing is learned: the transfers of one would pass for the other's. */
static void test_a_window(void **state)
{
    struct shm_choice choice = fresh(1000, 1500);
    enum shm_way ways[WINDOW], way;

    (void)state;
    for (unsigned i = 0; i < WINDOW; i++) {
        ways[i] = shm_choice_next(&choice);
        shm_choice_begin(&choice, ways[i], clock_ns);
    }
    for (unsigned i = 0; i < 40 * WINDOW; i++) {
        way = ways[i % WINDOW];
        /* A crossing that follows a stream looks as if it had taken nothing. */
        clock_ns += way == SHM_CROSS && choice.running[SHM_STREAM] ? 1 : took[way];
        shm_choice_end(&choice, way, LEN, clock_ns);
        ways[i % WINDOW] = shm_choice_next(&choice);
        shm_choice_begin(&choice, ways[i % WINDOW], clock_ns);
    }
    assert_int_equal(shm_choice_next(&choice), SHM_STREAM);
}

static void test_what_is_given_up_counts_not(void **state)
{
    struct shm_choice choice = fresh(1000, 900);

    (void)state;
    for (unsigned i = 0; i < LONG; i++) {
        shm_choice_begin(&choice, SHM_STREAM, clock_ns);
        shm_choice_drop(&choice, SHM_STREAM);
    }
    assert_int_equal(crosses(&choice, LONG), LONG / 2);
    assert_int_equal(choice.running[SHM_STREAM] + choice.running[SHM_CROSS], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_are_tried),
        cmocka_unit_test(test_the_faster_stays),
        cmocka_unit_test(test_one_delay_does_not_matter),
        cmocka_unit_test(test_it_is_measured_again),
        cmocka_unit_test(test_a_window),
        cmocka_unit_test(test_what_is_given_up_counts_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/timer.h"

static struct timer timers[4];
static struct list running;

static int set_up(void **state)
{
    list_init(&running);
    for (int i = 0; i < 4; i++)
        timer_init(&timers[i]);
    return 0;
}

static void earliest_is_due_first(void **state)
{
    timer_start(&timers[0], &running, 30);
    timer_start(&timers[1], &running, 10);
    timer_start(&timers[2], &running, 20);
    assert_int_equal(timers_next(&running), 10);
    assert_null(timers_due(&running, 9));
    for (int i = 0; i < 3; i++) {
        struct timer *due = timers_due(&running, 30);

        assert_ptr_equal(due, &timers[(i + 1) % 3]);
        timer_stop(due);
    }
    assert_null(timers_due(&running, INT64_MAX));
    assert_int_equal(timers_next(&running), TIMER_NEVER);
}

static void equal_deadlines_keep_their_order(void **state)
{
    for (int i = 0; i < 4; i++)
        timer_start(&timers[i], &running, 5);
    timer_start(&timers[0], &running, 5);
    for (int i = 0; i < 4; i++) {
        struct timer *due = timers_due(&running, 5);

        assert_ptr_equal(due, &timers[(i + 1) % 4]);
        timer_stop(due);
    }
}

static void started_anew_has_one_deadline(void **state)
{
    struct list other;

    list_init(&other);
    timer_start(&timers[0], &running, 5);
    timer_start(&timers[0], &running, 50);
    assert_int_equal(timers_next(&running), 50);
    timer_start(&timers[0], &other, 7);
    assert_int_equal(timers_next(&running), TIMER_NEVER);
    assert_int_equal(timers_next(&other), 7);
    timer_stop(&timers[0]);
    timer_stop(&timers[0]);
    assert_int_equal(timers_next(&other), TIMER_NEVER);
}

static void never_is_never_due(void **state)
{
    timer_start(&timers[0], &running, TIMER_NEVER);
    assert_null(timers_due(&running, TIMER_NEVER - 1));
    assert_int_equal(timers_next(&running), TIMER_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(earliest_is_due_first, set_up),
        cmocka_unit_test_setup(equal_deadlines_keep_their_order, set_up),
        cmocka_unit_test_setup(started_anew_has_one_deadline, set_up),
        cmocka_unit_test_setup(never_is_never_due, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <sys/timerfd.h>

#include "core/base/clock.h"
#include "core/progress/wake_timer.h"

static struct progress *progress;
static struct wake_timer timer;

static int set_up(void **state)
{
    if (progress_create_control("test", &progress))
        return -1;
    progress_lock(progress);
    wake_timer_init(&timer);
    return 0;
}

static int tear_down(void **state)
{
    wake_timer_finish(&timer, progress);
    progress_unlock(progress);
    progress_release(progress);
    return 0;
}

static bool is_set(void)
{
    struct itimerspec spec;

    assert_int_equal(timerfd_gettime(timer.source.fd, &spec), 0);
    return spec.it_value.tv_sec || spec.it_value.tv_nsec;
}

static void idle_owner_has_no_source(void **state)
{
    assert_int_equal(timer.source.fd, -1);
    wake_timer_clear(&timer, progress, 5);
    assert_true(list_empty(&timer.source.link));
}

static void deadline_ends_a_sleep(void **state)
{
    int64_t now = clock_ms();
    struct pollfd fd;

    assert_int_equal(wake_timer_set(&timer, progress, now + 5, now), 0);
    assert_false(list_empty(&timer.source.link));
    fd = (struct pollfd){.fd = timer.source.fd, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 60000), 1);
    assert_true(clock_ms() >= now + 4);
}

static void the_same_deadline_is_set_once(void **state)
{
    static const struct itimerspec never;
    int64_t now = clock_ms();

    assert_int_equal(wake_timer_set(&timer, progress, now + 60000, now), 0);
    assert_true(is_set());
    timerfd_settime(timer.source.fd, 0, &never, NULL);
    assert_int_equal(wake_timer_set(&timer, progress, now + 60000, now + 1), 0);
    assert_false(is_set());
    assert_int_equal(wake_timer_set(&timer, progress, now + 30000, now + 1), 0);
    assert_true(is_set());
}

static void cleared_unless_it_is_that_deadline(void **state)
{
    int64_t now = clock_ms();

    assert_int_equal(wake_timer_set(&timer, progress, now + 60000, now), 0);
    wake_timer_clear(&timer, progress, now + 60000);
    assert_false(list_empty(&timer.source.link));
    wake_timer_clear(&timer, progress, INT64_MAX);
    assert_true(list_empty(&timer.source.link));
    assert_false(is_set());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(idle_owner_has_no_source, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deadline_ends_a_sleep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_deadline_is_set_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cleared_unless_it_is_that_deadline, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

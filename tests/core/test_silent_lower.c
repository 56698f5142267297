/* SPDX-License-Identifier: BSD-2-Clause */
/* When a join looks at a lower that finds nothing, by a clock that the test sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "core/layer/silence.h"

enum {
    LONGEST = 16000, /* ns, of a pause */
    READ = 100,      /* of a round of the other lowers */
    LOOKS = 200,
};

static uint64_t now = 1;

int clock_gettime(clockid_t clock, struct timespec *at)
{
    *at = (struct timespec){.tv_sec = (time_t)(now / 1000000000),
                            .tv_nsec = (long)(now % 1000000000)};
    return 0;
}

/* Rounds of `other` ns until the lower is looked at, each time for `look` ns in vain. The share of
 * the time that the looks take, in hundredths. */
static uint64_t share_of(struct silence *silence, uint64_t other, uint64_t look)
{
    uint64_t began = now, looked = 0;

    for (unsigned looks = 0; looks < LOOKS; now += other) {
        if (silence_skips(silence, LONGEST))
            continue;
        now += look;
        looked += look;
        looks++;
        silence_found_nothing(silence);
    }
    return 100 * looked / (now - began);
}

static void a_silent_lower_is_looked_at_after_a_pause_that_grows(void **state)
{
    struct silence silence = {0};

    for (unsigned i = 0; i < SILENCE_LOOKS; i++) {
        assert_false(silence_skips(&silence, LONGEST));
        silence_found_nothing(&silence);
    }
    for (uint64_t pause = SILENCE_LEAST; pause < LONGEST; pause *= 2) {
        while (silence_skips(&silence, LONGEST))
            now += READ;
        silence_found_nothing(&silence);
        assert_int_equal(silence.pause_ns, pause);
        assert_int_equal(silence.due_ns, now + pause);
    }
    share_of(&silence, READ, 0);
    assert_int_equal(silence.pause_ns, LONGEST);
    silence_end(&silence);
    assert_false(silence_skips(&silence, LONGEST));
}

/* With a thousand endpoints a look takes longer than the longest pause. */
static void looks_that_take_long_leave_most_of_the_time_to_others(void **state)
{
    struct silence silence = {0};

    share_of(&silence, READ, 20000);
    assert_true(share_of(&silence, READ, 20000) <= 100 / SILENCE_SHARE);
    assert_true(share_of(&silence, 30000, 20000) <= 100 / SILENCE_SHARE);
}

/* One during which the kernel ran another process says nothing of the lower. */
static void a_look_that_was_interrupted_delays_the_next_by_little(void **state)
{
    struct silence silence = {0};

    share_of(&silence, READ, 500);
    while (silence_skips(&silence, LONGEST))
        now += READ;
    now += 10000000;
    silence_found_nothing(&silence);
    assert_int_equal(silence.due_ns, now + SILENCE_SPARED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_lower_is_looked_at_after_a_pause_that_grows),
        cmocka_unit_test(looks_that_take_long_leave_most_of_the_time_to_others),
        cmocka_unit_test(a_look_that_was_interrupted_delays_the_next_by_little),
    };

    return cmocka_run_group_tests_name("silent lower", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* When a datagram that the kernel's device refuses is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transports/udp/udp_refusal.h"

enum {
    LONG = 9000,
    SHORT = 100,
};

/* A full queue takes it a little later. */
static void one_that_is_taken_in_time_is_tried_again(void **state)
{
    struct udp_refusal refusal = {0};
    uint64_t now = 5;

    for (int i = 0; i < 100; i++, now += UDP_REFUSAL_LASTS / 2) {
        assert_false(udp_refusal_lasts(&refusal, LONG, now));
        udp_refusal_taken(&refusal, LONG);
    }
}

/* Shorter ones, which the device takes, change nothing of that. */
static void one_that_is_too_long_for_the_device_is_lost(void **state)
{
    struct udp_refusal refusal = {0};
    uint64_t now = 5;

    for (; now < 5 + UDP_REFUSAL_LASTS; now += UDP_REFUSAL_LASTS / 20) {
        assert_false(udp_refusal_lasts(&refusal, LONG, now));
        udp_refusal_taken(&refusal, SHORT);
    }
    assert_true(udp_refusal_lasts(&refusal, LONG, now));
    assert_true(udp_refusal_lasts(&refusal, LONG + 1, now));
    udp_refusal_taken(&refusal, SHORT);
    assert_true(udp_refusal_lasts(&refusal, LONG, now));
    udp_refusal_taken(&refusal, LONG);
    assert_false(udp_refusal_lasts(&refusal, LONG, now));
}

/* A shorter datagram, refused after longer ones, is tried as long as they were. */
static void a_shorter_one_has_its_own_time(void **state)
{
    struct udp_refusal refusal = {0};

    assert_false(udp_refusal_lasts(&refusal, LONG, 5));
    assert_true(udp_refusal_lasts(&refusal, LONG, 5 + UDP_REFUSAL_LASTS));
    assert_false(udp_refusal_lasts(&refusal, SHORT, 5 + UDP_REFUSAL_LASTS));
    assert_false(udp_refusal_lasts(&refusal, 0, 5 + UDP_REFUSAL_LASTS));
    assert_true(udp_refusal_lasts(&refusal, 0, 5 + 2 * UDP_REFUSAL_LASTS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_taken_in_time_is_tried_again),
        cmocka_unit_test(one_that_is_too_long_for_the_device_is_lost),
        cmocka_unit_test(a_shorter_one_has_its_own_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* How long the longest datagram may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "transports/udp/udp_info.h"

static void messages_are_what_the_mtu_leaves(void **state)
{
    assert_int_equal(udp_message_max(AF_INET, 1500), 1472);
    assert_int_equal(udp_message_max(AF_INET6, 1500), 1452);
    assert_int_equal(udp_message_max(AF_INET, 65536), 65507);
    assert_int_equal(udp_message_max(AF_INET6, 65536), 65488);
    assert_int_equal(udp_message_max(AF_INET6, 1 << 20), 65527);
    assert_int_equal(udp_message_max(AF_INET, 29), 1);
    assert_int_equal(udp_message_max(AF_INET, 28), 0);
    assert_int_equal(udp_message_max(AF_INET, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_what_the_mtu_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

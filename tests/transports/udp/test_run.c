/* SPDX-License-Identifier: BSD-2-Clause */
/* Which datagrams may leave in one piece, and how long the longest may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transports/udp/udp_batch.h"
#include "transports/udp/udp_info.h"

static struct udp_send sends[UDP_BATCH_MAX];

static void prepare(size_t len)
{
    memset(sends, 0, sizeof(sends));
    for (size_t i = 0; i < UDP_BATCH_MAX; i++) {
        assert_int_equal(addr_from_str("10.0.0.1:7", SIZE_MAX, &sends[i].to), 0);
        sends[i].len = len;
        sends[i].count = 1;
    }
}

static void neighbours_of_one_length_and_peer_are_one_run(void **state)
{
    prepare(100);
    assert_int_equal(udp_batch_run(sends, UDP_BATCH_MAX), UDP_BATCH_MAX);
    assert_int_equal(udp_batch_run(sends, 3), 3);
    assert_int_equal(addr_from_str("10.0.0.1:8", SIZE_MAX, &sends[5].to), 0);
    assert_int_equal(udp_batch_run(sends, UDP_BATCH_MAX), 5);
}

static void a_shorter_one_ends_a_run(void **state)
{
    prepare(100);
    sends[4].len = 99;
    assert_int_equal(udp_batch_run(sends, UDP_BATCH_MAX), 5);
    sends[4].len = 101;
    assert_int_equal(udp_batch_run(sends, UDP_BATCH_MAX), 4);
    sends[4].len = 0; /* there is no piece of no bytes */
    assert_int_equal(udp_batch_run(sends, UDP_BATCH_MAX), 4);
    sends[0].len = 0;
    assert_int_equal(udp_batch_run(sends, UDP_BATCH_MAX), 1);
}

static void a_run_is_no_longer_than_a_datagram_may_be(void **state)
{
    prepare(10000);
    assert_int_equal(udp_batch_run(sends, UDP_BATCH_MAX), 6);
    prepare(65507);
    assert_int_equal(udp_batch_run(sends, UDP_BATCH_MAX), 1);
}

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
        cmocka_unit_test(neighbours_of_one_length_and_peer_are_one_run),
        cmocka_unit_test(a_shorter_one_ends_a_run),
        cmocka_unit_test(a_run_is_no_longer_than_a_datagram_may_be),
        cmocka_unit_test(messages_are_what_the_mtu_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>

#include "core/net/tclass.h"

static int option(int fd, int level, int name)
{
    socklen_t len = sizeof(int);
    int value = -1;

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void codes_are_set_as_they_are(void **state)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    tclass_set("test", fd, FI_TC_UNSPEC);
    assert_int_equal(option(fd, IPPROTO_IP, IP_TOS), 0);
    tclass_set("test", fd, fi_tc_dscp_set(46));
    assert_int_equal(option(fd, IPPROTO_IP, IP_TOS), 46 << 2);
    assert_int_not_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    close(fd);
}

static void labels_have_their_code(void **state)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0), on = 1;

    assert_int_equal(tclass_dscp(FI_TC_UNSPEC), 0);
    assert_int_equal(tclass_dscp(FI_TC_BEST_EFFORT), 0);
    assert_int_equal(tclass_dscp(FI_TC_LOW_LATENCY), 18);
    assert_int_equal(tclass_dscp(FI_TC_SCAVENGER), 1);
    assert_int_equal(tclass_dscp(FI_TC_DSCP | 0xff), 63); /* six bits */
    if (fd < 0)
        return; /* a kernel without IPv6 */
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    tclass_set("test", fd, FI_TC_BULK_DATA);
    assert_int_equal(option(fd, IPPROTO_IPV6, IPV6_TCLASS), 10 << 2);
    close(fd);
}

/* The end of a burst must not wait for an acknowledgement. */
static void no_class_turns_nodelay_off(void **state)
{
    static const uint32_t classes[] = {
        FI_TC_UNSPEC,    FI_TC_BEST_EFFORT, FI_TC_LOW_LATENCY,  FI_TC_DEDICATED_ACCESS,
        FI_TC_BULK_DATA, FI_TC_SCAVENGER,   FI_TC_NETWORK_CTRL, FI_TC_DSCP | 10,
    };

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

        assert_true(fd >= 0);
        assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
        tclass_set("test", fd, classes[i]);
        assert_int_not_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_set_as_they_are),
        cmocka_unit_test(labels_have_their_code),
        cmocka_unit_test(no_class_turns_nodelay_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

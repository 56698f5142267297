/* SPDX-License-Identifier: BSD-2-Clause */
/* A datagram to a closed port comes back as an error that names its destination. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/net/icmp.h"

enum {
    TRIES = 1000, /* looks, a millisecond apart */
    ROOM = 8,
};

static int open_at(const char *host, union addr *addr)
{
    socklen_t len = sizeof(*addr);
    int fd;

    assert_int_equal(addr_from_str(host, SIZE_MAX, addr), 0);
    fd = socket(addr->sa.sa_family, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, &addr->sa, addr_size(&addr->sa)))
        skip(); /* no IPv6 */
    assert_int_equal(getsockname(fd, &addr->sa, &len), 0);
    return fd;
}

static void send_to_closed_port(const char *host)
{
    uint8_t quote[ROOM] = {0};
    union addr gone, own;
    int closed = open_at(host, &gone), fd = open_at(host, &own), rc = -1;
    struct icmp_error error;

    close(closed);
    icmp_ask(fd, own.sa.sa_family);
    assert_int_equal(icmp_read(fd, &error, quote, sizeof(quote)), -1);
    assert_int_equal(sendto(fd, "0123456789", 10, 0, &gone.sa, addr_size(&gone.sa)), 10);
    for (int i = 0; rc < 0 && i < TRIES; i++) {
        usleep(1000);
        rc = icmp_read(fd, &error, quote, sizeof(quote));
    }
    assert_int_equal(rc, 1);
    assert_int_equal(error.err, ECONNREFUSED);
    assert_true(addr_equal(&error.to.sa, &gone.sa));
    assert_int_equal(error.quoted, ROOM);
    assert_memory_equal(quote, "01234567", ROOM);
    close(fd);
}

static void a_closed_port_is_told_over_ipv4(void **state)
{
    send_to_closed_port("127.0.0.1:0");
}

static void a_closed_port_is_told_over_ipv6(void **state)
{
    send_to_closed_port("[::1]:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_port_is_told_over_ipv4),
        cmocka_unit_test(a_closed_port_is_told_over_ipv6),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

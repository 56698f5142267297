/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings that the kernel does not give to a socket: the user is told once, whatever the number of
 * sockets. The kernel here treats the program as one without privileges. */
#define WARNINGS_PUBLIC
#include "ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../support/warnings.h"

static int asked_rx, asked_tx; /* SO_RCVBUF and SO_SNDBUF, of the latest socket */

/* Stands before the C library's. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    int size = 0;

    if (level == SOL_SOCKET && (option == SO_RCVBUFFORCE || option == SO_SNDBUFFORCE)) {
        errno = EPERM;
        return -1;
    }
    if (level == SOL_SOCKET && option == SO_BUSY_POLL) {
        errno = EPERM;
        return -1;
    }
    if (level == SOL_SOCKET && (option == SO_RCVBUF || option == SO_SNDBUF)) {
        memcpy(&size, value, sizeof(size));
        *(option == SO_RCVBUF ? &asked_rx : &asked_tx) = size;
        if (size > 100000) /* the limit, wherever the test runs */
            size = 100000;
        value = &size;
    }
    return (int)syscall(SYS_setsockopt, fd, level, option, value, len);
}

static size_t count(const char *what)
{
    size_t found = 0;

    for (const char *at = warnings; (at = strstr(at, what)); at++)
        found++;
    return found;
}

/* Three sockets of one fabric. */
static void open_and_close(const char *spec)
{
    struct end end;
    struct fid_ep *more[2];

    asked_rx = asked_tx = 0;
    warnings_forget();
    end_open(&end, &(struct options){.spec = spec});
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_endpoint(end.domain, end.info, &more[i], NULL), 0);
        assert_int_equal(fi_ep_bind(more[i], &end.av->fid, 0), 0);
        assert_int_equal(fi_ep_bind(more[i], &end.tx->fid, FI_TRANSMIT), 0);
        assert_int_equal(fi_ep_bind(more[i], &end.rx->fid, FI_RECV), 0);
        assert_int_equal(fi_enable(more[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_close(&more[i]->fid), 0);
    end_close(&end);
}

static void one_line_tells_of_a_cap(void **state)
{
    open_and_close("udp(rx_buffer=64m,tx_buffer=32m)");
    assert_int_equal(asked_rx, 64 << 20);
    assert_int_equal(asked_tx, 32 << 20);
    assert_int_equal(
        count("rx_buffer: 67108864 bytes were asked, the kernel gives 100000: net.core.rmem_max"),
        1);
    assert_int_equal(
        count("tx_buffer: 33554432 bytes were asked, the kernel gives 100000: net.core.wmem_max"),
        1);
    assert_int_equal(warning_count, 2);
}

static void environment_is_told_of_too(void **state)
{
    setenv("FI_UDP_RX_BUFFER", "16m", 1);
    open_and_close(NULL);
    unsetenv("FI_UDP_RX_BUFFER");
    assert_int_equal(asked_rx, 16 << 20);
    assert_int_equal(count("rx_buffer: 16777216 bytes were asked"), 1);
    assert_int_equal(warning_count, 1);
}

/* Neither what is given, nor what was not asked for, is worth a line. */
static void nothing_is_said_of_what_is_given(void **state)
{
    open_and_close("udp(rx_buffer=50000,tx_buffer=50000)");
    assert_int_equal(asked_rx, 50000);
    assert_int_equal(asked_tx, 50000);
    assert_int_equal(warning_count, 0);
    open_and_close("udp");
    assert_int_equal(warning_count, 0);
    open_and_close("udp(rx_buffer=0,tx_buffer=0)");
    assert_int_equal(asked_rx, 0);
    assert_int_equal(asked_tx, 0);
    assert_int_equal(warning_count, 0);
}

static void one_line_tells_of_busy_polling(void **state)
{
    open_and_close("udp(busy_poll=50)");
    assert_int_equal(
        count("busy_poll: the kernel refuses 50 microseconds: Operation not permitted"), 1);
    assert_int_equal(warning_count, 1);
}

static int keep_warnings(void **state)
{
    return warnings_import();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_tells_of_a_cap),
        cmocka_unit_test(environment_is_told_of_too),
        cmocka_unit_test(nothing_is_said_of_what_is_given),
        cmocka_unit_test(one_line_tells_of_busy_polling),
    };

    return cmocka_run_group_tests(tests, keep_warnings, NULL);
}

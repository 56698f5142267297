/* SPDX-License-Identifier: BSD-2-Clause */
/* A device that drops what is longer than it takes, as a veth whose other end has a smaller MTU. */
#include "../../../support/any_address.h"
#include "../../../support/mmsg.h"
#include "ends.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TAKES = 500, /* bytes */
    LONG = 1000,
    SHORT = 8,
};

static unsigned dropped;

static bool drops(size_t len)
{
    dropped += len > TAKES;
    errno = ENOBUFS;
    return len > TAKES;
}

/* They stand before the kernel's. */
ssize_t sendto(int fd, const void *data, size_t len, int flags, any_const_address to,
               socklen_t size)
{
    return drops(len) ? -1 : syscall(SYS_sendto, fd, data, len, flags, to, size);
}

ssize_t send(int fd, const void *data, size_t len, int flags)
{
    return drops(len) ? -1 : syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, mmsg_flags flags)
{
    for (unsigned i = 0; i < count; i++)
        if (drops(messages[i].msg_hdr.msg_iov->iov_len))
            return i ? (int)syscall(SYS_sendmmsg, fd, messages, i, flags) : -1;
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static char in[SHORT], out[LONG];

static void short_one_passes(void)
{
    receive(&b, in, sizeof(in));
    send_to(&a, a.peer, out, SHORT);
    expect(a.tx, out, NULL);
    expect(b.rx, in, NULL);
}

/* It is refused for a while, beside others that leave, and then lost, as on any path. */
static void one_that_is_too_long_is_lost(void **state)
{
    unsigned refused = 0;
    ssize_t rc;

    ends_open(&(struct options){.caps = FI_SOURCE});
    while ((rc = fi_send(a.ep, out, LONG, NULL, a.peer, out)) == -FI_EAGAIN) {
        refused++;
        short_one_passes();
    }
    assert_int_equal(rc, 0);
    assert_true(refused);
    expect(a.tx, out, NULL);
    expect_nothing(b.rx);
    short_one_passes();
    ends_close();
}

/* Datagrams posted behind it leave. */
static void it_keeps_none_of_a_batch(void **state)
{
    ends_open(&(struct options){.spec = "udp(gso=no)", .caps = FI_SOURCE});
    receive(&b, in, sizeof(in));
    dropped = 0;
    send_flags(&a, a.peer, out, LONG, FI_MORE);
    send_flags(&a, a.peer, out, LONG, FI_MORE);
    send_flags(&a, a.peer, out, SHORT, 0);
    for (int i = 0; i < 3; i++)
        expect(a.tx, out, NULL);
    expect(b.rx, in, NULL);
    assert_true(dropped > 2);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_too_long_is_lost),
        cmocka_unit_test(it_keeps_none_of_a_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

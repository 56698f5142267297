/* SPDX-License-Identifier: BSD-2-Clause */
/* By which calls datagrams are read: all but recvfrom are counted on their way to the kernel. */
#include "../../../support/mmsg.h"
#include "ends.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned whole; /* recvmsg and recvmmsg, with room for what the kernel says beside */

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    whole++;
    return syscall(SYS_recvmsg, fd, msg, flags);
}

int recvmmsg(int fd, struct mmsghdr *msgs, unsigned count, mmsg_flags flags,
             struct timespec *timeout)
{
    whole++;
    return (int)syscall(SYS_recvmmsg, fd, msgs, count, flags, timeout);
}

enum {
    RECEIVES = 8,
    TURNS = 50,
};

static char in[TURNS + RECEIVES][100], out[100];

/* A program that waits for each datagram, with several receives posted, pays for the name of the
 * sender and no more: it looks, in vain, between datagrams. */
static void a_lone_datagram_is_read_bare(void **state)
{
    ends_open(&(struct options){.caps = FI_SOURCE});
    for (int i = 0; i < RECEIVES; i++)
        receive(&b, in[i], sizeof(in[i]));
    whole = 0;
    for (int i = 0; i < TURNS; i++) {
        send_to(&a, a.peer, out, 8);
        expect(b.rx, in[i], NULL);
        expect(a.tx, out, NULL);
        expect_nothing(b.rx);
        receive(&b, in[i + RECEIVES], sizeof(in[0]));
    }
    assert_int_equal(whole, 0);
    ends_close();
}

/* One whose only receive is used up by each, with no look in vain between them, asks for the
 * kernel's count of drops now and then. */
static void a_lone_receive_is_read_bare(void **state)
{
    ends_open(&(struct options){.caps = FI_SOURCE});
    whole = 0;
    for (int i = 0; i < TURNS; i++) {
        send_to(&a, a.peer, out, 8);
        receive(&b, in[i], sizeof(in[i]));
        expect(b.rx, in[i], NULL);
        expect(a.tx, out, NULL);
    }
    assert_true(whole <= TURNS / 8);
    ends_close();
}

/* Where a program is behind, calls bring several. */
static void datagrams_that_wait_come_together(void **state)
{
    ends_open(&(struct options){.caps = FI_SOURCE});
    for (int i = 0; i < TURNS; i++) {
        send_to(&a, a.peer, out, 8);
        expect(a.tx, out, NULL);
    }
    whole = 0;
    for (int i = 0; i < TURNS; i++)
        receive(&b, in[i], sizeof(in[i]));
    for (int i = 0; i < TURNS; i++)
        expect(b.rx, in[i], NULL);
    assert_true(whole > 0 && whole < TURNS / 3);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_datagram_is_read_bare),
        cmocka_unit_test(a_lone_receive_is_read_bare),
        cmocka_unit_test(datagrams_that_wait_come_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

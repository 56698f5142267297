/* SPDX-License-Identifier: BSD-2-Clause */
/* The answer to an introduction takes descriptors in flight, of which a user may have too many for
 * a while: it comes later. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ends.h"

enum {
    PATIENCE = 60, /* s */
};

static unsigned refusals; /* to come */
static int error;

/* The library's, too. An answer passes one descriptor on, a request two. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    if (refusals && msg->msg_controllen == CMSG_SPACE(sizeof(int))) {
        refusals--;
        errno = error;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, msg, flags);
}

static void exchange(struct end *from, struct end *to, fi_addr_t peer)
{
    struct fi_cq_tagged_entry entry;
    struct iovec iov = {(char[]){'y'}, 1};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = peer, .tag = 2};
    char in = 0;

    assert_int_equal(fi_trecv(to->ep, &in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, NULL), 0);
    end_post(from, to, fi_tsendmsg(from->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    assert_int_equal(end_wait(to, from, &entry), 0);
    assert_int_equal(in, 'y');
    assert_int_equal(end_wait(from, to, &entry), 0);
}

static void answered_later(int err, bool sleeps)
{
    struct end_want want = {.wait = sleeps ? FI_WAIT_UNSPEC : FI_WAIT_NONE};
    double begin = end_seconds();
    struct end from, to;
    fi_addr_t peer;

    end_open_as(&from, "shm", &want);
    end_open_as(&to, "shm", &want);
    peer = end_introduce(&from, &to);
    refusals = 3;
    error = err;
    exchange(&from, &to, peer);
    /* The receiver must not need anything to happen. */
    while (refusals && end_seconds() - begin < PATIENCE) {
        struct fi_cq_tagged_entry entry;

        assert_int_equal(sleeps ? fi_cq_sread(to.cq, &entry, 1, NULL, 100)
                                : fi_cq_read(to.cq, &entry, 1),
                         -FI_EAGAIN);
    }
    assert_int_equal(refusals, 0);
    exchange(&from, &to, peer);
    exchange(&to, &from, end_introduce(&to, &from));
    end_close(&from);
    end_close(&to);
}

static void test_too_many_in_flight(void **state)
{
    (void)state;
    answered_later(ETOOMANYREFS, false);
    answered_later(ENOBUFS, false);
}

static void test_a_sleeper_answers(void **state)
{
    (void)state;
    answered_later(ETOOMANYREFS, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_many_in_flight),
        cmocka_unit_test(test_a_sleeper_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

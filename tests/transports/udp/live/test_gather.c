/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams posted with FI_MORE leave together, in as few calls as can be, and also where the
 * kernel cuts nothing or has no room. */
#include "../../../support/mmsg.h"
#include "ends.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static char out[200000], in[200000];
static int calls, pieces, refuse_pieces, refuse_calls;

/* Stands before the kernel's. */
int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, mmsg_flags flags)
{
    calls++;
    if (refuse_calls && refuse_calls-- > 0) {
        errno = EAGAIN;
        return -1;
    }
    for (unsigned i = 0; i < count; i++) {
        if (messages[i].msg_hdr.msg_controllen && refuse_pieces) {
            if (i)
                return (int)syscall(SYS_sendmmsg, fd, messages, i, flags);
            errno = EIO;
            return -1;
        }
        pieces++;
    }
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static int setup(void **state)
{
    calls = pieces = refuse_pieces = refuse_calls = 0;
    return 0;
}

/* count datagrams of len bytes, the last without FI_MORE, arrive in order. */
static void exchange(unsigned count, size_t len)
{
    for (unsigned i = 0; i < count; i++) {
        receive(&b, in + i * len, len);
        fill(out + i * len, len, i);
        send_flags(&a, a.peer, out + i * len, len, FI_COMPLETION | (i < count - 1 ? FI_MORE : 0));
    }
    for (unsigned i = 0; i < count; i++) {
        expect(a.tx, out + i * len, NULL);
        expect(b.rx, in + i * len, NULL);
        check_filled(in + i * len, len, i);
    }
}

static void one_length_and_peer_are_one_piece(void **state)
{
    ends_open(&(struct options){0});
    exchange(40, 1000);
    assert_int_equal(calls, 1);
    assert_int_equal(pieces, 1);
    ends_close();
}

static void without_cutting_it_is_one_call(void **state)
{
    ends_open(&(struct options){.spec = "udp(gso=no)"});
    exchange(40, 1000);
    assert_int_equal(calls, 1);
    assert_int_equal(pieces, 40);
    ends_close();
}

static void a_kernel_that_refuses_to_cut_is_asked_once(void **state)
{
    ends_open(&(struct options){0});
    refuse_pieces = 1;
    exchange(10, 1000);
    assert_int_equal(calls, 2);
    exchange(10, 1000);
    assert_int_equal(calls, 3);
    ends_close();
}

static void peers_and_lengths_in_turn(void **state)
{
    struct end other;
    fi_addr_t second;

    ends_open(&(struct options){0});
    end_open(&other, &(struct options){0});
    second = introduce(&a, &other);
    for (unsigned i = 0; i < 12; i++)
        receive(i % 2 ? &other : &b, in + 100 * i, 100);
    for (unsigned i = 0; i < 12; i++) {
        fill(out + 100 * i, 40 + i, i);
        send_flags(&a, i % 2 ? second : a.peer, out + 100 * i, 40 + i,
                   FI_COMPLETION | (i < 11 ? FI_MORE : 0));
    }
    for (unsigned i = 0; i < 12; i++) {
        expect(a.tx, out + 100 * i, NULL);
        assert_int_equal(expect(i % 2 ? other.rx : b.rx, in + 100 * i, NULL).len, 40 + i);
        check_filled(in + 100 * i, 40 + i, i);
    }
    assert_int_equal(calls, 1);
    end_close(&other);
    ends_close();
}

static void what_has_no_room_waits_and_keeps_its_order(void **state)
{
    ends_open(&(struct options){0});
    refuse_calls = 3;
    for (unsigned i = 0; i < 6; i++) {
        receive(&b, in + 10 * i, 10);
        out[i] = (char)i;
        /* Later ones wait, too, though they could leave alone. */
        send_flags(&a, a.peer, out + i, 1, FI_COMPLETION | (i < 2 ? FI_MORE : 0));
    }
    assert_int_equal(fi_inject(a.ep, "6", 1, a.peer), 0);
    receive(&b, in + 60, 10);
    for (unsigned i = 0; i < 6; i++) {
        expect(b.rx, in + 10 * i, NULL);
        assert_int_equal(in[10 * i], i);
        expect(a.tx, out + i, NULL);
    }
    expect(b.rx, in + 60, NULL);
    assert_int_equal(in[60], '6');
    ends_close();
}

/* One that must be copied leaves with them; where they stay, it does not. */
static void the_last_may_be_injected(void **state)
{
    ends_open(&(struct options){0});
    for (unsigned i = 0; i < 4; i++) {
        receive(&b, in + 1000 * i, 1000);
        fill(out + 1000 * i, 1000, i);
        if (i < 3)
            send_flags(&a, a.peer, out + 1000 * i, 1000, FI_COMPLETION | FI_MORE);
    }
    refuse_calls = 1;
    assert_int_equal(fi_inject(a.ep, out + 3000, 1000, a.peer), -FI_EAGAIN);
    assert_int_equal(fi_inject(a.ep, out + 3000, 1000, a.peer), 0);
    memset(out + 3000, 0, 1000);
    assert_int_equal(calls, 2);
    assert_int_equal(pieces, 1);
    for (unsigned i = 0; i < 4; i++) {
        expect(b.rx, in + 1000 * i, NULL);
        check_filled(in + 1000 * i, 1000, i);
        if (i < 3)
            expect(a.tx, out + 1000 * i, NULL);
    }
    expect_nothing(a.tx);
    ends_close();
}

static void what_nobody_follows_leaves_with_progress(void **state)
{
    ends_open(&(struct options){0});
    receive(&b, in, 10);
    send_flags(&a, a.peer, out, 10, FI_COMPLETION | FI_MORE);
    assert_int_equal(calls, 0);
    expect(a.tx, out, NULL);
    expect(b.rx, in, NULL);
    ends_close();
    /* Also where no call makes it. */
    ends_open(&(struct options){.automatic = true});
    receive(&b, in, 10);
    send_flags(&a, a.peer, out, 10, FI_COMPLETION | FI_MORE);
    while (!fi_cntr_read(b.received))
        usleep(1000);
    ends_close();
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_length_and_peer_are_one_piece),          TEST(without_cutting_it_is_one_call),
        TEST(a_kernel_that_refuses_to_cut_is_asked_once), TEST(peers_and_lengths_in_turn),
        TEST(what_has_no_room_waits_and_keeps_its_order), TEST(the_last_may_be_injected),
        TEST(what_nobody_follows_leaves_with_progress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains (OPT_TRAINS of core/base/seam.h): many datagrams of one length that leave by one call. */
#include "../../../support/mmsg.h"
#include "ends.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    BUFFER = 96 << 10, /* holds more than a train */
    ROOM = 2000,       /* of a plain receive */
    HEAT = 200,        /* datagrams in a row: more than make a peer hot */
};

static char out[BUFFER], in[64][ROOM];

/* ---- Stand before the kernel's ---- */

static unsigned trains_left, unnamed; /* calls that send several datagrams; without a peer */
static int refuse, refuse_unnamed;    /* an errno, once */
static bool hold_batches;
static unsigned cuts; /* calls that say how long datagrams are from now on, */
static size_t cut;    /* and how long that is */

static bool fails(int *error)
{
    errno = *error;
    *error = 0;
    return errno;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    int *error = !message->msg_name && refuse_unnamed ? &refuse_unnamed : &refuse;

    if (!message->msg_controllen)
        return syscall(SYS_sendmsg, fd, message, flags);
    trains_left++;
    unnamed += !message->msg_name;
    return fails(error) ? -1 : syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    if (cut && len > cut) {
        trains_left++;
        unnamed++;
        if (fails(refuse_unnamed ? &refuse_unnamed : &refuse))
            return -1;
    }
    return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    int bytes = 0;

    if (level == SOL_UDP && name == UDP_SEGMENT) {
        memcpy(&bytes, value, sizeof(bytes));
        cut = (size_t)bytes;
        cuts++;
    }
    return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, mmsg_flags flags)
{
    if (!hold_batches)
        return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
    errno = EAGAIN;
    return -1;
}

static int setup(void **state)
{
    trains_left = unnamed = 0;
    refuse = refuse_unnamed = 0;
    hold_batches = false;
    cuts = 0;
    cut = 0;
    return 0;
}

/* ---- The option ---- */

static void none_comes(void *arg, void *context, uint64_t flags, const struct train *train,
                       uint64_t notes)
{
    fail();
}

/* The endpoint forgets ports that it refuses. */
static void set_wrong_ones(struct end *end)
{
    struct train_port port = {.of = b.ep == end->ep ? a.ep : NULL, .came = none_comes};

    assert_int_equal(set_train_port(end, &port, sizeof(port)), -FI_ENOPROTOOPT);
    port.of = end->ep;
    assert_int_equal(set_train_port(end, &port, sizeof(port) - 1), -FI_EINVAL);
    assert_int_equal(set_train_port(end, &port, sizeof(port) + 1), -FI_EINVAL);
}

static void is_for_the_layer_right_above(void **state)
{
    struct train_port port;
    size_t len = sizeof(port) - 1;

    ends_open(&(struct options){.prepare = set_wrong_ones});
    assert_int_equal(ask_train_port(&a, b.ep, &port), -FI_ENOPROTOOPT);
    assert_int_equal(ask_train_port(&a, NULL, &port), -FI_ENOPROTOOPT);
    port.of = a.ep;
    assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, OPT_TRAINS, &port, &len), -FI_EINVAL);
    assert_int_equal(ask_train_port(&a, a.ep, &port), 0);
    assert_non_null(port.send);
    port.came = none_comes;
    assert_int_equal(set_train_port(&a, &port, sizeof(port)), -FI_EINVAL); /* it is enabled */
    ends_close();
    ends_open(&(struct options){.spec = "noop;udp"});
    assert_int_equal(ask_train_port(&a, a.ep, &port), -FI_ENOPROTOOPT);
    ends_close();
}

/* ---- Trains that leave ---- */

/* Of segments that begin and end where no datagram does. */
static ssize_t send_train(struct train_port *port, fi_addr_t peer, size_t len, size_t segment)
{
    const size_t half = (len - 7) / 2;
    const struct iovec iov[] = {
        {out, 7}, {out + 7, 0}, {out + 7, half}, {out + 7 + half, len - 7 - half}};
    const struct train train = {
        .peer = peer, .iov = iov, .count = 4, .len = len, .segment = segment};

    return port->send(port->lower, &train);
}

static void post_receives(struct end *end, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        receive(end, in[i], ROOM);
}

/* The datagrams of a train, from receive `first` on, at a peer that knows of none. */
static void check_datagrams(struct end *end, unsigned first, size_t len, size_t segment)
{
    for (size_t at = 0; at < len; at += segment) {
        size_t its = len - at < segment ? len - at : segment;

        assert_int_equal(expect(end->rx, in[first], NULL).len, its);
        assert_memory_equal(in[first++], out + at, its);
    }
}

static void exchange(struct train_port *port, size_t len, size_t segment)
{
    unsigned before = trains_left;

    fill(out, len, (unsigned)len);
    post_receives(&b, (unsigned)((len + segment - 1) / segment));
    assert_int_equal(send_train(port, a.peer, len, segment), 0);
    assert_int_equal(trains_left, before + 1);
    check_datagrams(&b, 0, len, segment);
    expect_nothing(b.rx);
}

static void arrive_as_datagrams(const struct options *options)
{
    struct train_port port;

    ends_open(options);
    port = train_port_of(&a);
    exchange(&port, 40000, 1000);
    exchange(&port, 39001, 1000); /* the last has a byte */
    exchange(&port, 39999, 1000);
    exchange(&port, 1001, 1000);
    exchange(&port, 30 * 8, 8);
    assert_int_equal(unnamed, 0);
    expect_nothing(a.tx); /* an upper knows the end by itself */
    ends_close();
}

static void a_train_arrives_as_datagrams(void **state)
{
    arrive_as_datagrams(&(struct options){0});
    arrive_as_datagrams(&(struct options){.format = FI_ADDR_STR});
    arrive_as_datagrams(&(struct options){.alone = true});
}

static void heat(void)
{
    for (int i = 0; i < HEAT; i++) {
        receive(&b, in[0], ROOM);
        send_to(&a, a.peer, out, 8);
        expect(a.tx, out, NULL);
        expect(b.rx, in[0], NULL);
    }
}

static void a_hot_peer_has_its_own_socket_for_them(void **state)
{
    struct train_port port;

    ends_open(&(struct options){0});
    port = train_port_of(&a);
    heat();
    exchange(&port, 39001, 1000);
    exchange(&port, 9001, 1000);
    assert_int_equal(unnamed, 2);
    assert_int_equal(cuts, 1);
    exchange(&port, 20000, 500);
    assert_int_equal(unnamed, 3);
    assert_int_equal(cuts, 2);
    refuse = EAGAIN; /* it stays hot */
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_EAGAIN);
    exchange(&port, 39001, 1000);
    assert_int_equal(unnamed, 5);
    assert_int_equal(cuts, 3);
    /* A train that its socket refuses leaves by the main one, and so do later ones. */
    refuse_unnamed = ECONNREFUSED;
    fill(out, 5000, 1);
    post_receives(&b, 5);
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), 0);
    check_datagrams(&b, 0, 5000, 1000);
    assert_int_equal(unnamed, 6);
    assert_int_equal(cut, 0);
    exchange(&port, 39001, 1000);
    assert_int_equal(unnamed, 6);
    ends_close();
}

/* Where no lone datagram leaves, trains make a peer hot. */
static void trains_make_a_peer_hot(void **state)
{
    struct train_port port;

    ends_open(&(struct options){0});
    port = train_port_of(&a);
    for (int i = 0; i < HEAT && !unnamed; i++)
        exchange(&port, 2500, 1000);
    assert_int_equal(unnamed, 1);
    assert_true(trains_left > 10);
    ends_close();
}

static void exchange_lone(size_t len)
{
    fill(out, len, (unsigned)len);
    receive(&b, in[0], ROOM);
    send_to(&a, a.peer, out, len);
    assert_int_equal(expect(b.rx, in[0], NULL).len, len);
    assert_memory_equal(in[0], out, len);
    expect_nothing(b.rx);
    expect(a.tx, out, NULL);
}

/* A socket that cuts what is longer than a train's datagrams cuts no lone one. */
static void a_lone_datagram_is_not_cut(void **state)
{
    struct train_port port;

    ends_open(&(struct options){0});
    port = train_port_of(&a);
    heat();
    for (int i = 0; i < 3; i++) {
        exchange(&port, 39001, 1000);
        exchange_lone(900);
        exchange_lone(1000);
        assert_int_equal(cut, 1000);
        exchange_lone(1001);
        assert_int_equal(cut, 0);
        exchange_lone(1900);
        assert_int_equal(cuts, 2 * i + 2);
    }
    assert_int_equal(unnamed, 3);
    ends_close();
}

/* That memory is for datagrams that wait, too: they leave before it is given. */
static void a_train_may_be_put_together_in_the_lowers_memory(void **state)
{
    enum {
        WAITING = 4
    };
    static char before[WAITING][100];
    struct train_port port;
    struct iovec iov = {.iov_len = 9001};
    struct train train = {.iov = &iov, .count = 1, .len = 9001, .segment = 1000};

    ends_open(&(struct options){0});
    port = train_port_of(&a);
    train.peer = a.peer;
    fill(out, 9001, 1);
    for (int held = 0; held < 2; held++) {
        post_receives(&b, WAITING + 10);
        for (int i = 0; i < WAITING; i++) {
            memset(before[i], 'a' + i, sizeof(before[i]));
            send_flags(&a, a.peer, before[i], sizeof(before[i]), FI_MORE);
        }
        hold_batches = held; /* the kernel takes none, and then all */
        refuse = held ? EAGAIN : 0;
        iov.iov_base = port.memory(port.lower);
        hold_batches = false;
        refuse = 0;
        if (held)
            assert_null(iov.iov_base);
        iov.iov_base = held ? out : iov.iov_base;
        if (!held)
            memcpy(iov.iov_base, out, 9001);
        assert_int_equal(port.send(port.lower, &train), 0);
        for (int i = 0; i < WAITING; i++) {
            assert_int_equal(expect(b.rx, in[i], NULL).len, sizeof(before[i]));
            assert_memory_equal(in[i], before[i], sizeof(before[i]));
        }
        check_datagrams(&b, WAITING, 9001, 1000);
        for (int i = 0; i < WAITING; i++)
            expect(a.tx, before[i], NULL);
    }
    ends_close();
}

static void datagrams_that_wait_leave_before_it(void **state)
{
    static char before[3][8];
    struct train_port port;

    ends_open(&(struct options){0});
    port = train_port_of(&a);
    post_receives(&b, 8);
    fill(out, 4500, 3);
    for (int i = 0; i < 3; i++) {
        fill(before[i], 8, (unsigned)i);
        send_flags(&a, a.peer, before[i], 8, FI_MORE | FI_COMPLETION);
    }
    hold_batches = true;
    assert_int_equal(send_train(&port, a.peer, 4500, 1000), -FI_EAGAIN);
    assert_int_equal(trains_left, 0);
    hold_batches = false;
    assert_int_equal(send_train(&port, a.peer, 4500, 1000), 0);
    for (unsigned i = 0; i < 3; i++) {
        expect(a.tx, before[i], NULL);
        assert_int_equal(expect(b.rx, in[i], NULL).len, 8);
        check_filled(in[i], 8, i);
    }
    check_datagrams(&b, 3, 4500, 1000);
    ends_close();
}

static void where_nothing_cuts_there_are_none(void **state)
{
    struct train_port port;

    ends_open(&(struct options){.spec = "udp(gso=no)"});
    assert_int_equal(ask_train_port(&a, a.ep, &port), 0);
    assert_null(port.send);
    ends_close();
    /* The kernel may say so only when it is asked to. */
    ends_open(&(struct options){0});
    port = train_port_of(&a);
    refuse = EIO;
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_ENOSYS);
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_ENOSYS);
    assert_int_equal(trains_left, 1);
    assert_int_equal(ask_train_port(&a, a.ep, &port), 0);
    assert_null(port.send);
    ends_close();
}

static void one_that_does_not_leave_says_why(void **state)
{
    static const int full[] = {EAGAIN, EINTR, ENOBUFS};
    struct train_port port;

    ends_open(&(struct options){0});
    port = train_port_of(&a);
    assert_int_equal(send_train(&port, a.peer + 1, 5000, 1000), -FI_EINVAL);
    assert_int_equal(send_train(&port, FI_ADDR_UNSPEC, 5000, 1000), -FI_EINVAL);
    assert_int_equal(trains_left, 0);
    for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++) {
        refuse = full[i];
        assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_EAGAIN);
    }
    refuse = EPERM;
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_EPERM);
    exchange(&port, 5000, 1000);
    ends_close();
}

/* The kernel tells of it with the next call, whose datagrams have not left then. */
static void the_end_of_an_earlier_datagram_is_no_end_of_it(void **state)
{
    struct train_port port;
    struct end dead;
    fi_addr_t gone;

    ends_open(&(struct options){0});
    port = train_port_of(&a);
    end_open(&dead, &(struct options){0});
    gone = introduce(&a, &dead);
    end_close(&dead);
    fill(out, 5000, 1);
    post_receives(&b, 5);
    send_to(&a, gone, out, 8);
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), 0);
    check_datagrams(&b, 0, 5000, 1000);
    expect_event_error(a.eq, FI_ECONNREFUSED);
    ends_close();
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(is_for_the_layer_right_above),
        TEST(a_train_arrives_as_datagrams),
        TEST(a_hot_peer_has_its_own_socket_for_them),
        TEST(trains_make_a_peer_hot),
        TEST(a_lone_datagram_is_not_cut),
        TEST(a_train_may_be_put_together_in_the_lowers_memory),
        TEST(datagrams_that_wait_leave_before_it),
        TEST(where_nothing_cuts_there_are_none),
        TEST(one_that_does_not_leave_says_why),
        TEST(the_end_of_an_earlier_datagram_is_no_end_of_it),
    };

    return cmocka_run_group_tests_name("udp: trains", tests, NULL, NULL);
}

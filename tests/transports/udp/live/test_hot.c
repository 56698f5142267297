/* SPDX-License-Identifier: BSD-2-Clause */
/* One peer that much goes to, datagram by datagram, and the others beside it. */
#include "../../../support/any_address.h"
#include "ends.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    MANY = 200,  /* datagrams in a row: more than make a peer hot */
    LONG = 1400, /* more than those after which the kernel is not asked for the sender */
    LEN = 8,
};

static struct end third;
static fi_addr_t a_for_third, third_for_a;
static char out[LEN], in[LEN], late[LEN];
static unsigned bare; /* datagrams that left without an address */
static int bare_fd;
static unsigned named; /* datagrams that were read with the sender's name */

/* Stands before the kernel's. */
ssize_t send(int fd, const void *data, size_t len, int flags)
{
    bare++;
    bare_fd = fd;
    return syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
}

ssize_t recvfrom(int fd, void *data, size_t len, int flags, any_address from, socklen_t *size)
{
    ssize_t rc = syscall(SYS_recvfrom, fd, data, len, flags, from, size);

    named += rc >= 0 && ADDRESS(from);
    return rc;
}

static void open_third(const struct options *options)
{
    ends_open(options);
    end_open(&third, options);
    a_for_third = introduce(&third, &a);
    third_for_a = introduce(&a, &third);
}

static void close_third(void)
{
    end_close(&third);
    ends_close();
}

/* From a to one of its peers; the source that the receiver sees. */
static fi_addr_t pass(struct end *to, fi_addr_t addr)
{
    fi_addr_t from;

    receive(to, in, LEN);
    send_to(&a, addr, out, LEN);
    expect(a.tx, out, NULL);
    expect(to->rx, in, &from);
    return from;
}

static void answer(struct end *from, fi_addr_t a_there, fi_addr_t here)
{
    fi_addr_t src;

    receive(&a, in, LEN);
    send_to(from, a_there, out, LEN);
    expect(from->tx, out, NULL);
    expect(a.rx, in, &src);
    assert_int_equal(src, here);
}

static void heat(struct end *peer, fi_addr_t addr, fi_addr_t a_there)
{
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(pass(peer, addr), a_there);
        answer(peer, a_there, addr);
    }
    bare = 0;
    pass(peer, addr);
    assert_int_equal(bare, 1);
}

static void one_that_is_sent_to_alone_needs_no_address(void **state)
{
    ends_open(&(struct options){.caps = FI_SOURCE});
    heat(&b, a.peer, b.peer);
    ends_close();
    ends_open(&(struct options){.caps = FI_SOURCE, .format = FI_ADDR_STR});
    heat(&b, a.peer, b.peer);
    ends_close();
    ends_open(&(struct options){.caps = FI_SOURCE, .node = "::1", .format = FI_SOCKADDR_IN6});
    heat(&b, a.peer, b.peer);
    ends_close();
}

static void peers_in_turns_are_not_hot(void **state)
{
    open_third(&(struct options){.caps = FI_SOURCE});
    bare = 0;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(pass(&b, a.peer), b.peer);
        assert_int_equal(pass(&third, third_for_a), a_for_third);
    }
    assert_int_equal(bare, 0);
    close_third();
}

static void others_are_heard_beside_it(void **state)
{
    open_third(&(struct options){.caps = FI_SOURCE});
    heat(&b, a.peer, b.peer);
    for (int i = 0; i < MANY; i++) {
        answer(&third, a_for_third, third_for_a);
        if (i % 3)
            answer(&b, b.peer, a.peer);
        pass(&third, third_for_a);
    }
    close_third();
}

/* Its receives are used up by the hot peer: one datagram of the other still comes in between. */
static void others_are_heard_where_it_never_pauses(void **state)
{
    fi_addr_t src = FI_ADDR_NOTAVAIL;

    open_third(&(struct options){.caps = FI_SOURCE});
    heat(&b, a.peer, b.peer);
    send_to(&third, a_for_third, out, LEN);
    for (int i = 0; i < MANY && src != third_for_a; i++) {
        send_to(&b, b.peer, out, LEN);
        receive(&a, in, LEN);
        expect(a.rx, in, &src);
    }
    assert_int_equal(src, third_for_a);
    close_third();
}

/* Datagrams that the former one had sent come, too. */
static void another_one_takes_its_place(void **state)
{
    fi_addr_t src;

    open_third(&(struct options){.caps = FI_SOURCE});
    for (int turn = 0; turn < 3; turn++) {
        heat(&b, a.peer, b.peer);
        send_to(&b, b.peer, out, LEN);
        expect(b.tx, out, NULL);
        for (int i = 0; i < MANY; i++)
            pass(&third, third_for_a);
        bare = 0;
        pass(&third, third_for_a);
        assert_int_equal(bare, 1);
        receive(&a, late, LEN);
        expect(a.rx, late, &src);
        assert_int_equal(src, a.peer);
        heat(&third, third_for_a, a_for_third);
    }
    close_third();
}

/* Its socket brings nothing of others, so the kernel is asked for no name. All have their sources,
 * also when other peers send, and when another is hot next. */
static void its_sender_is_known(void **state)
{
    fi_addr_t src;

    open_third(&(struct options){.caps = FI_SOURCE});
    for (int i = 0; i < LONG; i++) {
        pass(&b, a.peer);
        answer(&b, b.peer, a.peer);
    }
    named = 0;
    for (int i = 0; i < MANY; i++)
        answer(&b, b.peer, a.peer);
    assert_int_equal(named, 0);
    for (int i = 0; i < MANY; i++) {
        answer(&third, a_for_third, third_for_a);
        answer(&b, b.peer, a.peer);
    }
    send_to(&b, b.peer, out, LEN);
    expect(b.tx, out, NULL);
    for (int i = 0; i < MANY; i++)
        pass(&third, third_for_a);
    receive(&a, late, LEN);
    expect(a.rx, late, &src);
    assert_int_equal(src, a.peer);
    answer(&third, a_for_third, third_for_a);
    close_third();
}

/* Nothing listens at its port any more, which is reported, and then something does again. */
static void it_closes_and_comes_again(void **state)
{
    struct options again = {.caps = FI_SOURCE};
    struct sockaddr_in name;
    size_t len = sizeof(name);
    char port[8];

    ends_open(&again);
    heat(&b, a.peer, b.peer);
    assert_int_equal(fi_getname(&b.ep->fid, &name, &len), 0);
    end_close(&b);
    for (int i = 0; i < 3; i++) {
        send_to(&a, a.peer, out, LEN);
        expect(a.tx, out, NULL);
        assert_int_equal(expect_event_error(a.eq, FI_ECONNREFUSED).data, a.peer);
    }
    snprintf(port, sizeof(port), "%d", ntohs(name.sin_port));
    again.node = "127.0.0.1";
    again.port = port;
    end_open(&b, &again);
    b.peer = introduce(&b, &a);
    heat(&b, a.peer, b.peer);
    ends_close();
}

/* Without an event queue errors are forgotten: neither a send nor a sleeper knows of them. */
static void its_end_keeps_no_sleeper_awake(void **state)
{
    struct pollfd fd = {.events = POLLIN};
    struct fid *fid;

    ends_open(&(struct options){.caps = FI_SOURCE, .wait = FI_WAIT_FD, .no_eq = true});
    fid = &a.rx->fid;
    heat(&b, a.peer, b.peer);
    receive(&a, in, LEN);
    assert_int_equal(fi_control(fid, FI_GETWAIT, &fd.fd), 0);
    for (int i = 0; fi_trywait(a.fabric, &fid, 1); i++)
        assert_true(i < MANY);
    end_close(&b);
    send_to(&a, a.peer, out, LEN);
    for (int i = 0; fi_trywait(a.fabric, &fid, 1); i++)
        assert_true(i < MANY);
    assert_int_equal(poll(&fd, 1, 0), 0);
    for (int i = 0; i < MANY; i++) {
        send_to(&a, a.peer, out, LEN);
        expect(a.tx, out, NULL);
        expect_nothing(a.rx);
    }
    end_close(&a);
}

static void a_sleeper_is_woken_by_it(void **state)
{
    struct fi_cq_tagged_entry entry;

    ends_open(&(struct options){.caps = FI_SOURCE, .wait = FI_WAIT_UNSPEC});
    heat(&b, a.peer, b.peer);
    receive(&a, in, LEN);
    assert_int_equal(fi_cq_sread(a.rx, &entry, 1, NULL, 1), -FI_EAGAIN);
    send_to(&b, b.peer, out, LEN);
    assert_int_equal(fi_cq_sread(a.rx, &entry, 1, NULL, 60000), 1);
    assert_ptr_equal(entry.op_context, in);
    ends_close();
}

/* Its socket sends as the endpoint's, and is shared with no other program. */
static void it_is_as_the_endpoint_is(void **state)
{
    struct sockaddr_in name, here;
    size_t len = sizeof(name);
    socklen_t size = sizeof(here);
    int value, fd;

    ends_open(&(struct options){.caps = FI_SOURCE});
    heat(&b, a.peer, b.peer);
    assert_int_equal(fi_getname(&a.ep->fid, &name, &len), 0);
    assert_int_equal(getsockname(bare_fd, (struct sockaddr *)&here, &size), 0);
    assert_int_equal(here.sin_port, name.sin_port);
    assert_int_equal(here.sin_addr.s_addr, name.sin_addr.s_addr);
    size = sizeof(value);
    assert_int_equal(getsockopt(bare_fd, IPPROTO_IP, IP_RECVERR, &value, &size), 0);
    assert_int_equal(value, 1); /* there is an event queue */
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    value = 1;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, sizeof(value)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), -1);
    close(fd);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_sent_to_alone_needs_no_address),
        cmocka_unit_test(peers_in_turns_are_not_hot),
        cmocka_unit_test(others_are_heard_beside_it),
        cmocka_unit_test(others_are_heard_where_it_never_pauses),
        cmocka_unit_test(another_one_takes_its_place),
        cmocka_unit_test(its_sender_is_known),
        cmocka_unit_test(it_closes_and_comes_again),
        cmocka_unit_test(its_end_keeps_no_sleeper_awake),
        cmocka_unit_test(a_sleeper_is_woken_by_it),
        cmocka_unit_test(it_is_as_the_endpoint_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

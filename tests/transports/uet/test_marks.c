/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion marks (ECN): the NIC sees those of real packets, and PDS tells the sender, in what
 * answers a packet that has one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pds_world.h"
#include "transports/uet/nic/nic.h"

enum {
    TURNS = 1000000, /* of both ends, for an acknowledgement */
};

/* ---- PDS ---- */

static bool marking;                   /* what comes to the second node has a mark */
static unsigned told_acks, told_nacks; /* it sent, with the flag */
static unsigned nacks;                 /* and all of these */

static void deliver_marked(void *arg, unsigned port, const union addr *from, const uint8_t *bytes,
                           size_t len)
{
    pds_receive(nodes[port].pds, sw.now, from, bytes, len, marking && port == 1);
}

static bool note(struct sw *at, struct sw_packet *packet)
{
    unsigned type = packet->bytes[0] >> 3;
    bool told = packet->bytes[1] & PDS_MARKED;

    if (packet->from == 1 && pds_is_ack((uint8_t)type)) {
        told_acks += told;
    } else if (packet->from == 1 && type == PDS_NACK) {
        nacks++;
        told_nacks += told;
    } else if (type == PDS_RUD || type == PDS_ROD) {
        assert_false(told);
    }
    return true;
}

static void begin_marking(void)
{
    struct pds_settings settings = patient();

    begin(&settings);
    sw.deliver = deliver_marked;
    sw.filter = note;
    nacks = told_acks = told_nacks = 0;
}

static void send_one(uint32_t number, bool mark)
{
    marking = mark;
    send_message(0, 1, number, 1);
    run(sw.now + 10 * SECOND);
    marking = false;
}

static void each_mark_is_told_once(void **state)
{
    for (int i = 0; i < 2; i++) {
        begin_marking();
        ordered = i;
        for (uint32_t m = 0; m < 20; m++) {
            unsigned before = told_acks;

            send_one(m, m % 2);
            assert_int_equal(told_acks - before, m % 2);
        }
        assert_int_equal(nacks, 0);
        check_inbox(1, 0, 20);
        end();
    }
    ordered = false;
}

/* Of several packets that share it, none of which asks for it: that of the mark leaves at once. */
static void an_acknowledgement_of_a_mark_is_urgent(void **state)
{
    begin_marking();
    send_one(0, false);
    send_message(0, 1, 1, 8); /* whose last packet asks */
    pds_run(nodes[0].pds, sw.now);
    losing(PDS_RUD, 7, 1);
    sw.filter = NULL;
    switch_run(&sw, switch_next(&sw) - 1);
    assert_false(pds_is_urgent(nodes[1].pds));
    marking = true;
    switch_run(&sw, switch_next(&sw));
    assert_true(pds_is_urgent(nodes[1].pds));
    marking = false;
    run(sw.now + 10 * SECOND);
    check_inbox(1, 0, 9);
    end();
}

/* Answers that are kept, and those that come later, have acknowledgements of their own. */
static void answers_tell_of_marks(void **state)
{
    begin_marking();
    send_one(0, false);
    nodes[1].guaranteed = 255;
    send_one(1, true);
    assert_int_equal(told_acks, 1);
    nodes[1].guaranteed = 0;
    send_one(2, false);
    assert_int_equal(told_acks, 1);
    end();
}

static void refusals_tell_of_marks(void **state)
{
    begin_marking();
    send_one(0, false);
    nodes[1].nack = NACK_NO_RESOURCE;
    nodes[1].nacks = 1;
    send_one(1, false);
    assert_int_equal(nacks, 1);
    assert_int_equal(told_nacks, 0);
    nodes[1].nacks = 1;
    send_one(2, true);
    assert_int_equal(nacks, 2);
    assert_int_equal(told_nacks, 1);
    end();
}

/* ---- The NIC ---- */

struct seen {
    unsigned packets, marked;
};

static void see(void *arg, const union addr *from, const uint8_t *bytes, size_t len, bool marked)
{
    struct seen *seen = arg;

    assert_int_equal(marked, bytes[2]);
    seen->packets++;
    seen->marked += marked;
}

static void send_with_tos(int fd, const union addr *to, int tos)
{
    const uint8_t packet[64] = {PDS_RUD << 3, 0, (tos & 3) == 3};
    bool six = to->sa.sa_family == AF_INET6;

    assert_int_equal(setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_TCLASS : IP_TOS,
                                &tos, sizeof(tos)),
                     0);
    assert_int_equal(sendto(fd, packet, sizeof(packet), 0, &to->sa, addr_size(&to->sa)),
                     sizeof(packet));
}

static void a_mark_is_of_its_packet(const char *text, bool gro)
{
    const struct uet_nic_settings settings = {.packet = 1024, .gro = gro, .slot = -1};
    static const int tos[] = {2, 3, 1, 0, 46 << 2 | 3, 46 << 2 | 2, 3, 3};
    const unsigned count = sizeof(tos) / sizeof(tos[0]);
    struct seen seen = {0, 0};
    struct uet_nic *nic;
    union addr addr;
    bool more;
    int fd;

    assert_int_equal(addr_from_str(text, SIZE_MAX, &addr), 0);
    fd = socket(addr.sa.sa_family, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(uet_nic_open(&addr, &settings, &nic), 0);
    for (unsigned i = 0; i < count; i++)
        send_with_tos(fd, uet_nic_addr(nic), tos[i]);
    while (uet_nic_receive(nic, 0, see, &seen, &more))
        ;
    assert_int_equal(seen.packets, count);
    assert_int_equal(seen.marked, 4);
    uet_nic_close(nic);
    close(fd);
}

static void the_nic_sees_marks(void **state)
{
    for (int gro = 0; gro < 2; gro++) {
        a_mark_is_of_its_packet("127.0.0.1:0", gro);
        a_mark_is_of_its_packet("[::1]:0", gro);
    }
}

/* ---- From one kernel's mark to the other end's window ---- */

static struct uet_nic *ends[2];
static unsigned acks, marked_acks; /* that the sender's window heard of */

static void hear(struct window *window, const struct window_ack *ack)
{
    acks++;
    marked_acks += ack->marked;
}

static const struct window_ops hearing = {.name = "hearing", .acked = hear};

/* Packets of the first two nodes go by sockets. */
static bool by_socket(struct sw *at, struct sw_packet *packet)
{
    const struct iovec iov = {packet->bytes, packet->len};

    uet_nic_send(ends[packet->from], uet_nic_addr(ends[packet->to]), &iov, 1, false);
    assert_true(uet_nic_flush(ends[packet->from]));
    return false;
}

static void take_from_socket(void *arg, const union addr *from, const uint8_t *bytes, size_t len,
                             bool marked)
{
    unsigned to = *(unsigned *)arg;
    const union addr peer = switch_addr(1 - to);

    pds_receive(nodes[to].pds, sw.now, &peer, bytes, len, marked);
}

static void watch_windows(void)
{
    for (unsigned id = 0; id < nodes[0].pds->id_count; id++) {
        struct pdc *pdc = nodes[0].pds->ids[id];

        if (pdc && !pdc_rests(pdc))
            pdc->tx->window.ops = &hearing;
    }
}

static void send_by_socket(uint32_t number, int tos)
{
    int fd = uet_nic_fd(ends[0]);
    bool more;

    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), 0);
    acks = marked_acks = 0;
    send_message(0, 1, number, 1);
    for (unsigned turns = 0; !acks; turns++) {
        assert_true(turns < TURNS);
        for (unsigned i = 0; i < 2; i++) {
            pds_run(nodes[i].pds, sw.now);
            watch_windows();
            uet_nic_receive(ends[1 - i], 0, take_from_socket, &(unsigned){1 - i}, &more);
        }
        sw.now += 1000;
    }
}

static void a_mark_comes_back_to_the_window(void **state)
{
    const struct uet_nic_settings settings = {.packet = 1024, .slot = -1};
    struct pds_settings patience = patient();
    union addr addr;

    assert_int_equal(addr_from_str("127.0.0.1:0", SIZE_MAX, &addr), 0);
    begin(&patience);
    sw.filter = by_socket;
    for (int i = 0; i < 2; i++)
        assert_int_equal(uet_nic_open(&addr, &settings, &ends[i]), 0);
    for (uint32_t number = 0; number < 8; number++) {
        send_by_socket(number, number % 2 ? 3 : 2);
        assert_int_equal(marked_acks > 0, number % 2);
    }
    check_inbox(1, 0, 8);
    end();
    for (int i = 0; i < 2; i++)
        uet_nic_close(ends[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mark_is_told_once),
        cmocka_unit_test(an_acknowledgement_of_a_mark_is_urgent),
        cmocka_unit_test(answers_tell_of_marks),
        cmocka_unit_test(refusals_tell_of_marks),
        cmocka_unit_test(the_nic_sees_marks),
        cmocka_unit_test(a_mark_comes_back_to_the_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

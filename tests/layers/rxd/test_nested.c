/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint whose lower looks at what comes while it sends, as a join does: packets are taken,
 * posts are made and lives end after a packet has its head and before it leaves, and the lower may
 * refuse it then. And an endpoint whose packets all wait for others.
 */
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "layers/rxd/rxd.h"
#include "tests/layers/rxd/acquainted.h"
#include "tests/support/end.h"
#include "tests/support/inside.h"
#include "tests/support/patience.h"

enum {
    SIZE = 8,
    COME = RXD_WINDOW / 2, /* packets while another one leaves: the peer is to hear of them */
    PACKET = RXD_HEAD_SIZE + RXD_RECORD_SIZE + SIZE,
    TURNS = 1000,
};

static struct end a, b;
static struct rxd_ep *ep; /* of a */
static struct rxd_peer *peer;
static uint8_t out[SIZE], in[2][SIZE];

/* ---- The lower ---- */

static void (*meanwhile)(void); /* what the lower does once, before it sends */
static bool refuses;            /* and then does not send */
static uint32_t told, written;  /* how many packets the head that left last acknowledges; and that
                                 * of the packet that left behind the look */
static struct op_target target; /* the lower as it was */
static struct fi_ops_msg *msg;

static bool looks_and_takes(const void *start, size_t len)
{
    void (*look)(void) = meanwhile;
    struct rxd_head head;

    meanwhile = NULL;
    if (look)
        look();
    if (look && refuses)
        return false;
    assert_null(
        rxd_head_get((const uint8_t *)start + ep->base.prefix, len - ep->base.prefix, &head));
    told = head.ack;
    written = look ? told : written;
    return true;
}

static ssize_t look_and_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             fi_addr_t dest, void *context)
{
    return looks_and_takes(buf, len) ? msg->send(ep->base.lower, buf, len, desc, dest, context)
                                     : -FI_EAGAIN;
}

static ssize_t look_and_sendmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags)
{
    return looks_and_takes(message->msg_iov->iov_base, message->msg_iov->iov_len)
               ? msg->sendmsg(ep->base.lower, message, flags)
               : -FI_EAGAIN;
}

static ssize_t receive_there(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                             void *context)
{
    return msg->recv(ep->base.lower, buf, len, desc, src, context);
}

static void put_lower(void)
{
    static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .ops_open = enosys_ops_open};
    static struct fi_ops_msg ops;
    static struct fid_ep looking = {.fid = {.fclass = FI_CLASS_EP, .ops = &fid_ops}, .msg = &ops};

    msg = ep->base.lower->msg;
    ops = (struct fi_ops_msg){.size = sizeof(ops),
                              .recv = receive_there,
                              .send = look_and_send,
                              .sendmsg = look_and_sendmsg};
    target = ep->base.target;
    ep->base.target = op_target_of(&looking);
    ep->base.lower->msg = &ops;
}

/* ---- The ends ---- */

/* Without a lock no thread drives an endpoint that its application does not look at. */
static void open_end(struct end *end)
{
    struct fi_info *info = end_info("rxd;loop(shape=srd,seed=11)", FI_MSG, 0);

    info->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    end_open(end, info, FI_CQ_FORMAT_TAGGED);
}

static size_t ended(struct end *end)
{
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(end->cq, &entry, 1);

    assert_true(rc == 1 || rc == -FI_EAGAIN);
    return rc == 1;
}

/* Until so many operations of each end, and no more, are over. */
static void await(size_t of_a, size_t of_b)
{
    for (struct patience p = {0}; patience_lasts(&p) && (of_a || of_b);) {
        of_a -= ended(&a);
        of_b -= ended(&b);
    }
    assert_int_equal(of_a, 0);
    assert_int_equal(of_b, 0);
}

/* A message; whole: it ends when the peer has it, and so is remembered until then. */
static void post(struct end *from, bool whole, void *context)
{
    struct iovec iov = {out, SIZE};
    struct fi_msg message = {
        .msg_iov = &iov, .iov_count = 1, .addr = from->peer, .context = context};

    if (whole)
        assert_int_equal(fi_sendmsg(from->ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    else
        assert_int_equal(fi_send(from->ep, out, SIZE, NULL, from->peer, context), 0);
}

static void receive(struct end *end, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(fi_recv(end->ep, in[i], SIZE, NULL, FI_ADDR_UNSPEC, in[i]), 0);
}

static void exchange(struct end *from, struct end *to)
{
    receive(to, 1);
    post(from, false, out);
    await(1, 1);
}

static int open_pair(void **state)
{
    meanwhile = NULL;
    refuses = false;
    for (size_t i = 0; i < SIZE; i++)
        out[i] = (uint8_t)(i * 7 + i / 251);
    open_end(&a);
    open_end(&b);
    peer = acquainted(&a, &b, exchange);
    ep = rxd_ep_of(peer->base.ep);
    put_lower();
    return 0;
}

static int close_pair(void **state)
{
    ep->base.target = target;
    ep->base.lower->msg = msg;
    end_close(&b);
    end_close(&a);
    return 0;
}

static size_t put_message(uint8_t *packet, uint32_t sequence)
{
    const struct rxd_record message = {.kind = RXD_MSG, .id = 1, .size = SIZE, .len = SIZE};
    uint8_t *payload;

    rxd_head_put_number(packet, RXD_ORDERED, peer->number ^ ep->salt, sequence, peer->acked);
    payload = rxd_record_put(&message, packet + RXD_HEAD_SIZE);
    memcpy(payload, out, SIZE);
    return (size_t)(payload - packet) + SIZE;
}

/* The end of the peer's that is there is not driven while the endpoint is handed packets in its
 * name: a message each. */
static void hand_in(uint32_t sequence)
{
    uint8_t packet[PACKET];
    size_t len = put_message(packet, sequence);

    assert_true(rxd_in_read(&ep->base, packet, len, peer->base.lower));
    assert_true(list_empty(&peer->base.broken));
}

/* ---- A lower that looks ---- */

static void packets_come(void)
{
    for (size_t i = 0; i < COME; i++)
        hand_in(peer->next_in);
}

static void the_peer_hears_of_all(bool whole)
{
    uint32_t before = peer->next_in;

    meanwhile = packets_come;
    post(&a, whole, out);
    assert_null(meanwhile);
    assert_int_equal(written, before);
    assert_int_equal(peer->next_in, before + COME);
    for (int i = 0; i < TURNS; i++)
        ended(&a);
    assert_int_equal(told, before + COME);
}

static void what_comes_while_a_small_message_leaves_is_told_of(void **state)
{
    the_peer_hears_of_all(false);
}

static void what_comes_while_a_packet_leaves_is_told_of(void **state)
{
    the_peer_hears_of_all(true);
}

static void another_is_posted(void)
{
    post(&a, false, out);
}

/* The packet that was refused has the number before the other one's. */
static void a_post_meanwhile_has_a_number_of_its_own(void **state)
{
    refuses = true;
    for (int whole = 0; whole < 2; whole++) {
        receive(&b, 2);
        meanwhile = another_is_posted;
        post(&a, whole, out);
        assert_null(meanwhile);
        await(2, 2);
        exchange(&a, &b);
        exchange(&b, &a);
    }
}

static void the_peer_ends(void)
{
    rxd_peer_reset(&peer->base, FI_ECONNRESET);
}

/* An operation that was begun ends with its peer, and leaves no packet; one that nothing is
 * remembered of is a message to the next one. */
static void an_end_meanwhile_leaves_no_packet(void **state)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    size_t outgoing;

    refuses = true;
    ended(&a);
    outgoing = ep->base.outgoing;
    meanwhile = the_peer_ends;
    post(&a, true, in);
    assert_null(meanwhile);
    assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
    assert_int_equal(error.err, FI_ECONNRESET);
    assert_ptr_equal(error.op_context, in);
    assert_int_equal(ep->base.outgoing, outgoing);
    assert_int_equal(ep->base.flying, outgoing);
    exchange(&a, &b);
    exchange(&b, &a);
    receive(&b, 1);
    meanwhile = the_peer_ends;
    post(&a, false, out);
    assert_null(meanwhile);
    await(1, 1);
    exchange(&b, &a);
}

/* ---- No packet ---- */

/* The others wait for the one whose turn it is, so a post may come again. */
static void packets_that_wait_for_others_come_back(void **state)
{
    uint32_t first = peer->next_in, next = first;
    struct mr_pool *packets = &ep->base.packets;
    struct mr_buffer *free;

    for (int i = 0; i < TURNS; i++)
        ended(&a);
    assert_int_equal(ep->base.outgoing, 0);
    packets->skip = UINT_MAX;
    free = packets->free;
    packets->free = NULL;
    assert_int_equal(fi_send(a.ep, out, SIZE, NULL, a.peer, out), -FI_ENOMEM);
    packets->free = free;
    while (packets->free)
        hand_in(++next);
    assert_int_equal(fi_send(a.ep, out, SIZE, NULL, a.peer, out), -FI_EAGAIN);
    hand_in(first);
    for (int i = 0; i < TURNS; i++)
        ended(&a);
    assert_int_equal(peer->next_in, next + 1);
    post(&a, false, out);
    packets->skip = 0;
}

/* The same by the memory that the lower receives into. */
static void receive_into_pool(uint32_t sequence)
{
    struct message_packet *packet = message_packet_get(&peer->base);
    uint8_t raw[PACKET];
    size_t len;

    assert_non_null(packet);
    len = put_message(raw, sequence);
    memcpy(rxd_packet_of(packet)->bytes + ep->base.prefix, raw, len);
    packet->in = true;
    message_in(packet, ep->base.prefix + len, peer->base.lower);
    assert_true(list_empty(&peer->base.broken));
}

static void packets_that_wait_leave_room_for_others(void **state)
{
    uint32_t first = peer->next_in;
    size_t used = ep->base.packets.used;

    ep->base.packets.skip = UINT_MAX; /* as a lower that has refused to register more */
    ep->base.packets.skips = 1;
    for (uint32_t i = 1; i < RXD_WINDOW; i++)
        receive_into_pool(first + i);
    receive_into_pool(first);
    for (int i = 0; i < TURNS; i++)
        ended(&a);
    assert_int_equal(peer->next_in, first + RXD_WINDOW);
    assert_int_equal(ep->base.packets.used, used);
    ep->base.packets.skip = ep->base.packets.skips = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_comes_while_a_small_message_leaves_is_told_of,
                                        open_pair, close_pair),
        cmocka_unit_test_setup_teardown(what_comes_while_a_packet_leaves_is_told_of, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(a_post_meanwhile_has_a_number_of_its_own, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(an_end_meanwhile_leaves_no_packet, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(packets_that_wait_for_others_come_back, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(packets_that_wait_leave_room_for_others, open_pair,
                                        close_pair),
    };

    return cmocka_run_group_tests_name("rxd: nested", tests, NULL, NULL);
}

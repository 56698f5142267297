/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets out. A record goes into the last packet that has not left, if it fits: so small requests
 * that are posted while the lower is full, the window closed, or with FI_MORE share a packet. Heads
 * are written when a packet leaves.
 */
#include <rdma/fi_errno.h>

#include "layers/rxd/rxd.h"

static struct rxd_packet *packet_get(struct rxd_peer *peer, bool ordered)
{
    struct rxd_ep *ep = peer->ep;
    struct rxd_packet *packet = mr_pool_get(&ep->packets);

    if (!packet)
        return NULL;
    ep->outgoing++;
    packet->ep = ep;
    packet->peer = peer;
    packet->move = NULL;
    packet->reads = NULL;
    packet->in = false;
    packet->ordered = ordered;
    packet->fence = packet->owed = false;
    packet->len = packet->slice_count = 0;
    packet->records = packet->bytes + ep->prefix + ep->heads;
    list_init(&packet->link);
    list_init(&packet->ops);
    if (ordered)
        packet->sequence = peer->next_out++;
    return packet;
}

void rxd_packet_put(struct rxd_packet *packet)
{
    if (!packet->in) {
        packet->ep->outgoing--;
        packet->ep->owed -= packet->owed;
    }
    list_detach(&packet->link);
    mr_pool_put(&packet->ep->packets, packet);
}

static struct rxd_packet *packet_with_room(struct rxd_peer *peer, struct list *queue, bool ordered,
                                           size_t bytes, bool fence)
{
    struct rxd_packet *last = list_item(queue->prev, struct rxd_packet, link);

    if (!list_empty(queue) && !fence && !last->move && bytes <= peer->ep->room - last->len)
        return last;
    last = packet_get(peer, ordered);
    if (!last)
        return NULL;
    last->fence = fence;
    list_attach(&last->link, queue);
    return last;
}

struct rxd_packet *rxd_out_ordered(struct rxd_peer *peer, size_t bytes, bool fence)
{
    return packet_with_room(peer, &peer->out, true, bytes, fence);
}

struct rxd_packet *rxd_out_urgent(struct rxd_peer *peer, size_t bytes)
{
    return packet_with_room(peer, &peer->urgent, false, bytes, false);
}

void rxd_out_control(struct rxd_peer *peer, const struct rxd_record *record)
{
    size_t size = rxd_record_size(record);
    struct rxd_packet *packet = rxd_out_urgent(peer, size);

    if (!packet) {
        rxd_peer_break(peer, FI_ENOMEM, "no memory for an answer");
        return;
    }
    rxd_record_put(record, packet->records + packet->len);
    packet->len += size;
    rxd_peer_attend(peer);
}

void rxd_out_done(struct rxd_peer *peer, uint32_t id, int err)
{
    struct rxd_record record = {.kind = RXD_DONE, .id = id, .size = (uint64_t)err};

    rxd_out_control(peer, &record);
}

/* ---- To the lower ---- */

static uint8_t *put_head(struct rxd_packet *packet)
{
    struct rxd_peer *peer = packet->peer;
    struct rxd_head head = {
        .flags = packet->ordered ? RXD_ORDERED : 0,
        .number = peer->theirs,
        .sequence = packet->ordered ? packet->sequence : 0,
        .ack = peer->next_in,
    };
    uint8_t *start;

    if (!peer->theirs || !peer->introduced) {
        head.flags |= RXD_INTRO;
        head.epoch = peer->epoch;
        head.giving = (uint32_t)peer->number;
        head.name = peer->ep->name;
    }
    start = packet->records - rxd_head_size(&head);
    rxd_head_put(&head, start);
    return start - peer->ep->prefix;
}

/* Ops that end when the lower has the packet: in `early` meanwhile, since it may be sent, and
 * gone, when the lower returns. True: the first op was of them. */
static bool take_early(struct rxd_packet *packet, struct list *early)
{
    bool first =
        !list_empty(&packet->ops) && list_item(packet->ops.next, struct rxd_op, in_packet)->early;

    list_init(early);
    list_for_each_safe (pos, after, &packet->ops) {
        if (!list_item(pos, struct rxd_op, in_packet)->early)
            continue;
        list_detach(pos);
        list_attach(pos, early);
    }
    packet->owed = !list_empty(early);
    packet->ep->owed += packet->owed;
    return first;
}

static void put_back(struct rxd_packet *packet, struct list *early, bool first)
{
    if (first)
        list_join(&packet->ops, early);
    list_join(early, &packet->ops);
    packet->ep->owed -= packet->owed;
    packet->owed = false;
}

/* Each of them is sent. What a report posts goes behind. */
static void settle_all(struct list *ops)
{
    while (!list_empty(ops)) {
        struct rxd_op *op = list_item(ops->next, struct rxd_op, in_packet);

        list_detach(&op->in_packet);
        op->sent = true;
        rxd_op_settle(op);
    }
}

static ssize_t post(struct rxd_packet *packet, uint8_t *start, size_t len, bool more)
{
    struct iovec iov[RXD_IOV + 1] = {{.iov_base = start, .iov_len = len}};
    void *desc[RXD_IOV + 1] = {packet->buffer.desc};
    struct op op = {
        .call = OP_SENDMSG,
        .group = OP_GROUP_SEND,
        .kind = FI_MSG | FI_SEND,
        .flags = FI_COMPLETION | (more ? FI_MORE : 0),
        .peer = packet->peer->lower,
        .context = packet,
        .iov = iov,
        .desc = desc,
        .count = 1 + packet->slice_count,
        .len = len + iov_bytes(packet->slices, packet->slice_count),
    };

    for (size_t i = 0; i < packet->slice_count; i++)
        iov[i + 1] = packet->slices[i];
    return op_post(&packet->ep->target, &op);
}

/* more: another packet follows at once. False when the lower takes no more for now, or the peer has
 * broken. */
static bool send_packet(struct rxd_packet *packet, bool more)
{
    struct rxd_peer *peer = packet->peer;
    struct rxd_ep *ep = peer->ep;
    uint8_t *start = put_head(packet);
    size_t len = (size_t)(packet->records - start) + packet->len;
    struct list *queue = packet->ordered ? &peer->out : &peer->urgent, early;
    bool first = take_early(packet, &early);
    ssize_t rc;

    list_detach(&packet->link);
    list_attach(&packet->link, &peer->flying);
    peer->in_flight++;
    ep->flying++;
    rc = post(packet, start, len, more);
    if (!rc) { /* the packet may have been sent, and gone, already */
        peer->told = peer->next_in;
        peer->answer = false;
        settle_all(&early);
        return true;
    }
    put_back(packet, &early, first);
    peer->in_flight--;
    ep->flying--;
    list_detach(&packet->link);
    list_attach_before(&packet->link, queue->next);
    if (rc != -FI_EAGAIN && rc != -FI_ENOMEM)
        rxd_peer_break(peer, (int)-rc, NULL);
    return false;
}

bool rxd_out_alone(struct rxd_peer *peer, const struct rxd_record *record, const struct op *op)
{
    struct rxd_ep *ep = peer->ep;
    struct rxd_packet *packet = packet_get(peer, true);
    uint8_t *payload, *start;

    if (!packet)
        return false;
    payload = rxd_record_put(record, packet->records);
    iov_gather(op->iov, op->count, 0, payload, record->len);
    packet->len = (size_t)(payload - packet->records) + record->len;
    packet->owed = true;
    start = put_head(packet);
    list_attach(&packet->link, &peer->flying);
    peer->in_flight++;
    ep->owed++;
    ep->flying++;
    if (!post(packet, start, (size_t)(packet->records - start) + packet->len, false)) {
        peer->told = peer->next_in;
        return true;
    }
    peer->next_out--;
    peer->in_flight--;
    ep->flying--;
    rxd_packet_put(packet);
    return false;
}

/* The window is open, and what a fence waits for has ended. */
static bool may_leave(const struct rxd_packet *packet)
{
    const struct rxd_peer *peer = packet->peer;
    const struct rxd_op *oldest = list_item(peer->ops.next, struct rxd_op, of_peer);

    if (packet->sequence - peer->acked >= RXD_WINDOW)
        return false;
    return !packet->fence || list_empty(&packet->ops) ||
           oldest == list_item(packet->ops.next, struct rxd_op, in_packet);
}

static bool owes_ack(const struct rxd_peer *peer)
{
    return peer->answer || peer->next_in - peer->told >= RXD_WINDOW / 4;
}

/* The next ordered packet, if it may leave; or NULL. */
static struct rxd_packet *next_ordered(const struct rxd_peer *peer)
{
    struct rxd_packet *packet = list_item(peer->out.next, struct rxd_packet, link);

    return !list_empty(&peer->out) && may_leave(packet) ? packet : NULL;
}

static bool flush_urgent(struct rxd_peer *peer, bool more)
{
    while (!list_empty(&peer->urgent)) {
        struct rxd_packet *packet = list_item(peer->urgent.next, struct rxd_packet, link);
        bool last = packet->link.next == &peer->urgent;

        if (!send_packet(packet, more || !last || next_ordered(peer)))
            return false;
    }
    return true;
}

static bool flush_ordered(struct rxd_peer *peer, bool more)
{
    struct rxd_packet *packet;

    while ((packet = next_ordered(peer))) {
        if (!send_packet(packet, more || packet->link.next != &peer->out))
            return false;
    }
    return true;
}

void rxd_out_flush(struct rxd_peer *peer, bool more)
{
    bool all = list_empty(&peer->broken) && flush_urgent(peer, more) && flush_ordered(peer, more);

    if (all && owes_ack(peer) && rxd_out_urgent(peer, 0))
        all = flush_urgent(peer, more);
    if (all || !list_empty(&peer->broken))
        return;
    list_detach(&peer->attended);
    list_attach(&peer->attended, &peer->ep->stalled);
}

/* Only one packet waits, and has room; acknowledgements of those before it drive the endpoint. */
static bool may_gather(const struct rxd_peer *peer)
{
    const struct rxd_packet *first = list_item(peer->out.next, struct rxd_packet, link);

    return peer->in_flight >= RXD_CORK && peer->out.next == peer->out.prev &&
           first->len <= peer->ep->room / 2;
}

void rxd_out_added(struct rxd_peer *peer, bool more)
{
    if (more || may_gather(peer))
        rxd_peer_attend(peer);
    else
        rxd_out_flush(peer, false);
}

/* One packet less is on its way. more: others may follow. */
static void moved(struct rxd_move *move, bool more)
{
    move->pending--;
    if (more && move->at < move->limit && list_empty(&move->link))
        list_attach(&move->link, &move->peer->ep->moving);
    else if (!move->pending && move->at == move->limit)
        move->idle(move);
}

void rxd_out_sent(struct rxd_packet *packet, int err)
{
    struct rxd_ep *ep = packet->ep;
    struct rxd_peer *peer = packet->peer;
    struct rxd_move *move = packet->move;

    ep->flying--;
    if (peer)
        peer->in_flight--;
    list_join(&ep->stalled, &ep->attention);
    if (peer && !err)
        settle_all(&packet->ops);
    while (!list_empty(&packet->ops)) /* they end with the peer's */
        list_detach(packet->ops.next);
    rxd_packet_put(packet);
    if (move && peer && err)
        move->pending--;
    else if (move && ep->buckets)
        moved(move, peer);
    if (peer && err)
        rxd_peer_break(peer, err, NULL);
}

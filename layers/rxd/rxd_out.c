/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets out. A record goes into the last packet that has not left, if it fits: so small requests
 * that are posted while the lower is full, the window closed, or with FI_MORE share a packet. Heads
 * are written when a packet leaves.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/rxd/rxd.h"

static struct rxd_packet *packet_init(struct rxd_peer *peer, struct message_packet *base,
                                      bool ordered)
{
    struct rxd_packet *packet = rxd_packet_of(base);

    packet->ordered = ordered;
    packet->fence = packet->owed = false;
    packet->slice_count = 0;
    packet->records = packet->bytes + base->ep->prefix + rxd_ep_of(base->ep)->heads;
    list_init(&packet->ops);
    list_init(&packet->early);
    if (ordered)
        packet->sequence = peer->next_out++;
    return packet;
}

/* The last packet of the queue, if so many bytes fit; or NULL. */
static struct rxd_packet *last_with_room(const struct rxd_peer *peer, const struct list *queue,
                                         size_t bytes)
{
    struct rxd_packet *last = list_item(queue->prev, struct rxd_packet, base.link);
    bool fits = !list_empty(queue) && !last->base.move && !last->base.apart &&
                bytes <= rxd_ep_of(peer->base.ep)->room - last->base.len;

    return fits ? last : NULL;
}

static struct rxd_packet *packet_get(struct rxd_peer *peer, bool ordered)
{
    struct message_packet *base = message_packet_get(&peer->base);

    return base ? packet_init(peer, base, ordered) : NULL;
}

struct rxd_packet *rxd_out_ordered(struct rxd_peer *peer, size_t bytes, bool fence)
{
    struct rxd_packet *packet = fence ? NULL : last_with_room(peer, &peer->ordered, bytes);

    if (packet)
        return packet;
    packet = packet_get(peer, true);
    if (!packet)
        return NULL;
    packet->fence = fence;
    list_attach(&packet->base.link, &peer->ordered);
    return packet;
}

struct rxd_packet *rxd_out_long(struct rxd_peer *peer, size_t bytes, bool fence)
{
    const struct rxd_ep *ep = rxd_ep_of(peer->base.ep);
    struct message_packet *base =
        message_packet_get_apart(&peer->base, ep->base.prefix + ep->heads + bytes);
    struct rxd_packet *packet;

    if (!base)
        return NULL;
    packet = packet_init(peer, base, true);
    packet->fence = fence;
    list_attach(&packet->base.link, &peer->ordered);
    return packet;
}

struct rxd_packet *rxd_out_urgent(struct rxd_peer *peer, size_t bytes, bool any)
{
    struct rxd_packet *packet = last_with_room(peer, &peer->base.out, bytes);
    struct message_packet *base;

    if (packet)
        return packet;
    base = any ? message_packet_get_any(&peer->base) : message_packet_get(&peer->base);
    if (!base)
        return NULL;
    packet = packet_init(peer, base, false);
    list_attach(&base->link, &peer->base.out);
    return packet;
}

struct rxd_packet *rxd_out_behind(struct rxd_peer *peer, struct message_packet *base)
{
    struct rxd_packet *packet = packet_init(peer, base, true);

    list_attach(&base->link, &peer->ordered);
    return packet;
}

void rxd_packet_copy(struct message_packet *to, const struct message_packet *from)
{
    struct rxd_packet *packet = rxd_packet_of(to);
    const struct rxd_packet *bare = rxd_packet_of(from);
    size_t at = (size_t)(bare->records - bare->bytes);

    memcpy(packet, bare, sizeof(*packet));
    memcpy(packet->bytes + at, bare->records, from->len);
    packet->records = packet->bytes + at;
    list_init(&packet->ops);
    list_init(&packet->early);
}

uint8_t *rxd_out_record(struct rxd_peer *peer, const struct rxd_record *record)
{
    size_t size = rxd_record_size(record) + record->len;
    struct rxd_packet *packet = rxd_out_urgent(peer, size, true);
    uint8_t *payload;

    if (!packet)
        return NULL;
    payload = rxd_record_put(record, packet->records + packet->base.len);
    packet->base.len += size;
    message_peer_attend(&peer->base);
    return payload;
}

bool rxd_out_try(struct rxd_peer *peer, const struct rxd_record *record)
{
    return rxd_out_record(peer, record) != NULL;
}

void rxd_out_control(struct rxd_peer *peer, const struct rxd_record *record)
{
    if (!rxd_out_try(peer, record))
        message_peer_break(&peer->base, FI_ENOMEM, "no memory for an answer");
}

void rxd_out_done(struct message_peer *peer, uint32_t id, int err)
{
    struct rxd_record record = {.kind = RXD_DONE, .id = id, .size = (uint64_t)err};

    rxd_out_control(rxd_peer_of(peer), &record);
}

void rxd_out_gone(struct message_peer *peer, uint32_t taker)
{
    struct rxd_record record = {.kind = RXD_GONE, .id = taker};

    rxd_out_control(rxd_peer_of(peer), &record);
}

/* ---- To the lower ---- */

static __attribute__((noinline)) uint8_t *put_introduction(struct rxd_packet *packet, bool tells)
{
    struct rxd_peer *peer = rxd_peer_of(packet->base.peer);
    struct rxd_head head = {
        .flags = packet->ordered ? RXD_ORDERED : 0,
        .number = peer->theirs,
        .sequence = packet->ordered ? packet->sequence : 0,
        .ack = peer->next_in,
        .unasked = RXD_UNASKED / RXD_UNASKED_UNIT,
        .abilities = rxd_ep_of(peer->base.ep)->in_place ? RXD_LENDS | RXD_TRAINS : RXD_LENDS,
        .name = rxd_ep_of(peer->base.ep)->name,
    };
    uint8_t *start;

    rxd_life_put(peer, tells, &head);
    start = packet->records - rxd_head_size(&head);
    rxd_head_put(&head, start);
    return start - peer->base.ep->prefix;
}

static uint8_t *put_head(struct rxd_packet *packet, bool tells)
{
    const struct rxd_peer *peer = rxd_peer_of(packet->base.peer);
    uint8_t *start = packet->records - RXD_HEAD_SIZE;

    if (__builtin_expect(!peer->theirs || !(peer->known & RXD_KNOWS_US) || tells, 0))
        return put_introduction(packet, tells);
    rxd_head_put_number(start, packet->ordered ? RXD_ORDERED : 0, peer->theirs,
                        packet->ordered ? packet->sequence : 0, peer->next_in);
    return start - peer->base.ep->prefix;
}

/* Each of them is sent. Operations that a report posts go behind. */
static void settle_all(struct list *ops)
{
    while (!list_empty(ops)) {
        struct rxd_op *op = list_item(ops->next, struct rxd_op, in_packet);

        list_detach(&op->in_packet);
        op->sent = true;
        message_op_settle(&op->base);
    }
}

void rxd_out_acked(struct rxd_peer *peer)
{
    list_for_each (item, &peer->base.flying) {
        struct rxd_packet *packet = list_item(item, struct rxd_packet, base.link);

        if (packet->ordered && (int32_t)(packet->sequence - peer->acked) < 0)
            settle_all(&packet->ops);
    }
}

/* The same of those whose end the lower's taking of the packet is. */
static void end_early(struct list *ops)
{
    while (!list_empty(ops)) {
        struct rxd_op *op = list_item(ops->next, struct rxd_op, in_packet);

        list_detach(&op->in_packet);
        message_op_end_brief(&op->base);
    }
}

/* A packet has left whose head acknowledges so many. A lower may look at what comes while it sends:
 * more may have been taken by now, others told, or a life have ended. */
static void note_told(struct rxd_peer *peer, uint32_t taken)
{
    if (peer->next_in - taken < peer->next_in - peer->told)
        peer->told = taken;
}

/* more: another packet follows at once. False when the lower takes no more for now, or the peer has
 * broken. */
static bool send_packet(struct rxd_packet *packet, bool more)
{
    struct rxd_peer *peer = rxd_peer_of(packet->base.peer);
    bool tells = !packet->ordered && !packet->base.len && rxd_life_tells(peer);
    bool answers = peer->answer && !tells;
    uint32_t taken = peer->next_in;
    uint8_t *start = put_head(packet, tells);
    size_t len = (size_t)(packet->records - start) + packet->base.len;
    struct list *queue = packet->ordered ? &peer->ordered : &peer->base.out;
    struct list early; /* the packet may be sent, and gone, when the lower returns */
    const struct message_slices slices = {.iov = packet->slices, .count = packet->slice_count};
    bool owed = !packet->owed && !list_empty(&packet->early);

    list_init(&early);
    list_join(&packet->early, &early);
    packet->owed = packet->owed || owed;
    peer->base.ep->owed += owed;
    peer->in_flight++;
    if (answers)
        peer->answer = false;
    if (message_packet_send(&packet->base, queue, start, len, &slices, more)) {
        if (__builtin_expect(tells, 0))
            rxd_life_told(peer);
        else
            note_told(peer, taken);
        end_early(&early);
        return true;
    }
    peer->in_flight--;
    peer->answer = peer->answer || answers;
    packet->owed = packet->owed && !owed;
    peer->base.ep->owed -= owed;
    list_join(&early, &packet->early);
    return false;
}

struct rxd_packet *rxd_out_lone(struct rxd_peer *peer)
{
    return packet_get(peer, true);
}

/* The lower did not take it. Its number is free again, unless a life has ended, or the next one has
 * been given: the lower looked at what came, and the report of an end posted anew. True: it waits.
 */
static bool keep_lone(struct rxd_packet *packet, struct rxd_peer *peer)
{
    bool lives = packet->base.peer, last = packet->sequence + 1 == peer->next_out;

    if (lives)
        peer->in_flight--;
    if (lives && !last) {
        list_attach_before(&packet->base.link, peer->ordered.next);
        message_peer_stall(&peer->base);
        return true;
    }
    if (lives)
        peer->next_out--;
    peer->base.ep->owed--;
    message_packet_put(&packet->base);
    return false;
}

bool rxd_out_send_lone(struct rxd_packet *packet)
{
    struct rxd_peer *peer = rxd_peer_of(packet->base.peer);
    uint32_t taken = peer->next_in;
    uint8_t *start = put_head(packet, false);

    packet->owed = true;
    peer->in_flight++;
    peer->base.ep->owed++;
    if (message_packet_send_lone(&packet->base, start,
                                 (size_t)(packet->records - start) + packet->base.len)) {
        note_told(peer, taken);
        return true;
    }
    return keep_lone(packet, peer);
}

/* The window is open, and all that a fence waits for has ended. */
static bool may_leave(const struct rxd_packet *packet)
{
    const struct rxd_peer *peer = rxd_peer_of(packet->base.peer);
    const struct rxd_op *oldest;

    if (packet->sequence - peer->acked >= RXD_WINDOW)
        return false;
    if (__builtin_expect(!packet->fence, 1) ||
        (list_empty(&packet->ops) && list_empty(&packet->early)))
        return true;
    oldest = list_item(peer->base.ops.next, struct rxd_op, base.of_peer);
    return oldest == list_item(packet->ops.next, struct rxd_op, in_packet) ||
           oldest == list_item(packet->early.next, struct rxd_op, in_packet);
}

static bool owes_answer(const struct rxd_peer *peer)
{
    return peer->answer || rxd_life_tells(peer) || peer->next_in - peer->told >= RXD_WINDOW / 4;
}

/* The next ordered packet, if it may leave; or NULL. */
static struct rxd_packet *next_ordered(const struct rxd_peer *peer)
{
    struct rxd_packet *packet = list_item(peer->ordered.next, struct rxd_packet, base.link);

    return !list_empty(&peer->ordered) && may_leave(packet) ? packet : NULL;
}

static bool flush_urgent(struct rxd_peer *peer, bool more)
{
    struct list *queue = &peer->base.out;

    while (!list_empty(queue)) {
        struct rxd_packet *packet = list_item(queue->next, struct rxd_packet, base.link);
        bool last = packet->base.link.next == queue;

        if (!send_packet(packet, more || !last || next_ordered(peer)))
            return false;
    }
    return true;
}

static bool flush_ordered(struct rxd_peer *peer, bool more)
{
    struct rxd_packet *packet;

    while ((packet = next_ordered(peer))) {
        if (!send_packet(packet, more || packet->base.link.next != &peer->ordered))
            return false;
    }
    return true;
}

void rxd_flush(struct message_peer *base, bool more)
{
    struct rxd_peer *peer = rxd_peer_of(base);
    bool all = list_empty(&base->broken);
    struct list rest;

    list_init(&rest);
    if (__builtin_expect(base->ep->bare, 0) && all)
        message_packets_equip(base, &rest);
    all = all && flush_urgent(peer, more) && flush_ordered(peer, more);
    if (__builtin_expect(!list_empty(&rest), 0)) {
        list_join(&rest, &base->out);
        all = false;
    }
    while (all && owes_answer(peer) && rxd_out_urgent(peer, 0, false))
        all = flush_urgent(peer, more);
    if (!all && list_empty(&base->broken))
        message_peer_stall(base);
}

/* Few bytes wait; acknowledgements of what is before them drive the endpoint. */
static bool may_gather(const struct rxd_peer *peer)
{
    const struct rxd_packet *first = list_item(peer->ordered.next, struct rxd_packet, base.link);
    const struct rxd_packet *last = list_item(peer->ordered.prev, struct rxd_packet, base.link);
    size_t before = last->sequence - first->sequence;

    return peer->in_flight >= RXD_CORK && !last->base.move && !last->base.apart &&
           before * rxd_ep_of(peer->base.ep)->room + last->base.len <= RXD_GATHER;
}

void rxd_out_added(struct rxd_peer *peer, bool more)
{
    if (more || may_gather(peer))
        message_peer_attend(&peer->base);
    else
        rxd_flush(&peer->base, false);
}

void rxd_sent(struct message_packet *base, int err)
{
    struct rxd_packet *packet = rxd_packet_of(base);
    struct message_peer *peer = base->peer;

    if (__builtin_expect(base->other, 0)) {
        rxd_read_done(packet, err);
        return;
    }
    if (peer)
        rxd_peer_of(peer)->in_flight--;
    if (peer && !err)
        settle_all(&packet->ops);
    while (!list_empty(&packet->ops)) /* they end with the peer's */
        list_detach(packet->ops.next);
    if (peer && err && base->move) {
        base->move->pending--;
        base->move = NULL;
    }
    base->ep->owed -= packet->owed;
    message_packet_sent(base, err);
}

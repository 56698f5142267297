/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in. Requests are carried out in the order of their sender; packets that have come too
 * early are held back, at most a window of them. Answers and data are taken as they come.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "layers/rxd/rxd.h"

enum {
    MEET_MS = 100, /* between two looks through the address vector */
};

/* A packet. */
struct incoming {
    struct rxd_peer *peer;
    struct rxd_records records;
    fi_addr_t src; /* as the lower told */
    uint32_t sequence;
    /* A packet that ends with one DATA or FOLLOW: the places that its bytes are in; else none. */
    const struct iovec *parts;
    size_t part_count;
    const struct rxd_record *data;
    bool deferred; /* it came before */
    bool next;     /* of a life that is not there yet */
    bool waits;    /* there is no memory for what it may want */
};

/* ---- Who sends ---- */

/* The lower knows all peers that we have by its AV, and a new one only from now on. One whose
 * completions are read from a queue may have looked before, and so has any with a packet that was
 * deferred: a later one, or the application, may have made the peer since. */
static bool is_from(const struct rxd_ep *ep, const struct rxd_peer *peer, bool deferred,
                    fi_addr_t src)
{
    if (src == FI_ADDR_NOTAVAIL)
        return !peer || deferred || !ep->base.domain->fabric->lower->peer;
    return peer && src == peer->base.lower;
}

/* Of the lower's address vector. */
static struct message_peer *find_source(const struct message_ep *ep, fi_addr_t src)
{
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            if (peer->lower == src)
                return peer;
    }
    return NULL;
}

/* An address of a form that only the lower reads may be another one of the same endpoint (uet's has
 * capabilities, which one that was made of a node and a service lacks): the lower has said whose
 * packet it is. */
static struct rxd_peer *find_named(struct rxd_ep *ep, const struct rxd_name *name, fi_addr_t src)
{
    struct message_peer *peer = rxd_name_is_any(name) ? NULL : message_peer_find(&ep->base, name);

    if (!peer && (rxd_name_is_any(name) || (name->own_len && src != FI_ADDR_NOTAVAIL)))
        peer = find_source(&ep->base, src);
    return rxd_peer_of(peer);
}

/* An endpoint of every interface, at an address that was not used yet: those of the application's
 * vector with its port become peers, which the lower knows then. True: its packet may be
 * understood when it comes again. */
static bool meet(struct rxd_ep *ep, const struct rxd_name *name)
{
    const struct av *av = ep->base.endpoint.av;
    long long now = clock_ms();
    bool met = false;

    if (ep->met_ms && now < ep->met_ms + MEET_MS)
        return true; /* not for each packet of a peer that invents ports */
    ep->met_ms = now;
    for (fi_addr_t i = 0; i < av_limit(av); i++) {
        const void *raw = av_addr(av, i);
        struct message_peer *peer;
        unsigned context = 0;
        size_t len = !raw ? 0 : av->format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);
        union addr its;

        if (raw && !addr_import(av->format, raw, len, &its) &&
            addr_port(&its.sa) == addr_port(&name->addr.sa) && !peer_map_at(&ep->base.map, i))
            met |= !message_peer_at(&ep->base, i, &peer, &context);
    }
    return met;
}

/* 0 is no peer's number: the endpoint has it. */
static struct rxd_peer *find_numbered(const struct rxd_ep *ep, uint32_t number)
{
    number ^= ep->salt;
    return number ? ids_find(&ep->numbers, number) : NULL;
}

/* The peer of an introduction, if the packet counts in its present life; else NULL and *fate. */
static struct rxd_peer *introduced(struct rxd_ep *ep, struct incoming *incoming,
                                   const struct rxd_head *head, size_t len, enum message_fate *fate)
{
    struct rxd_peer *peer = incoming->peer;

    if (!peer && head->name.own_len == ep->name.own_len)
        peer = rxd_peer_of(message_peer_of(&ep->base, &head->name));
    if (!peer) {
        *fate = MESSAGE_LATER;
        return NULL;
    }
    if (!list_empty(&peer->base.broken)) {
        *fate = MESSAGE_LATER; /* its present life is about to end, and this may be of the next */
        return NULL;
    }
    incoming->peer = peer;
    switch (rxd_life_hear(peer, head, head->flags & RXD_ORDERED || len > rxd_head_size(head))) {
    case RXD_HEARD: return peer;
    case RXD_UNTOLD: *fate = MESSAGE_LATER; return NULL;
    case RXD_HELD:
        incoming->next = rxd_life_may_hold(peer);
        *fate = incoming->next ? MESSAGE_KEPT : MESSAGE_OVER;
        return NULL;
    default: return NULL;
    }
}

/* The peer that introduces itself, likewise. */
static __attribute__((noinline)) struct rxd_peer *introduction(struct rxd_ep *ep,
                                                               struct incoming *incoming,
                                                               const struct rxd_head *head,
                                                               size_t len, enum message_fate *fate)
{
    struct rxd_peer *peer = find_named(ep, &head->name, incoming->src);

    if (!peer && rxd_name_is_any(&head->name)) {
        if (incoming->src == FI_ADDR_NOTAVAIL && meet(ep, &head->name))
            *fate = MESSAGE_LATER;
        else
            message_say_wrong(&ep->base, "a packet of an endpoint of every interface, at none of "
                                         "the addresses that are known");
        return NULL;
    }
    if (!is_from(ep, peer, incoming->deferred, incoming->src)) {
        message_say_wrong(&ep->base, "a packet in the name of another peer");
        return NULL;
    }
    incoming->peer = peer;
    return introduced(ep, incoming, head, len, fate);
}

/* NULL, and the packet's fate: MESSAGE_OVER, unless it is another. */
static struct rxd_peer *sender(struct rxd_ep *ep, struct incoming *incoming,
                               const struct rxd_head *head, size_t len, enum message_fate *fate)
{
    struct rxd_peer *peer;

    if (__builtin_expect(head->flags & RXD_INTRO, 0))
        return introduction(ep, incoming, head, len, fate);
    peer = find_numbered(ep, head->number);
    if (!peer)
        return NULL; /* for a state that we have left, or for another endpoint */
    if (!is_from(ep, peer, incoming->deferred, incoming->src)) {
        message_say_wrong(&ep->base, "a packet in the name of another peer");
        return NULL;
    }
    peer->known |= RXD_KNOWS_US;
    return peer;
}

static bool acked(struct rxd_peer *peer, uint32_t ack)
{
    if (ack - peer->acked > peer->next_out - peer->acked)
        return (int32_t)(ack - peer->acked) < 0; /* an old one, overtaken */
    if (ack != peer->acked && !list_empty(&peer->ordered))
        message_peer_attend(&peer->base);
    peer->acked = ack;
    return true;
}

/* ---- Records ---- */

static const char *take_pull(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct message_op *op = message_op_find(&peer->base, record->id, MESSAGE_OPS);

    if (!op && rxd_loan_pulled(&peer->base, record))
        return NULL;
    if (!op || op->answered) { /* it has ended since */
        rxd_out_gone(&peer->base, record->taker);
        return NULL;
    }
    if (record->size > op->len || !op->move.iov)
        return "a question for bytes that a request does not have";
    if (record->flags & RXD_AGAIN) {
        size_t unasked = rxd_op_of(op)->unasked;

        if (!unasked || rxd_op_of(op)->again)
            return "a question again for bytes that did not leave unasked";
        rxd_op_of(op)->again = true;
        op->move.at = op->move.limit = unasked;
    }
    op->move.taker = record->taker;
    message_move_start(&op->move, record->size);
    return NULL;
}

static void take_done(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct message_op *op = message_op_find(&peer->base, record->id, MESSAGE_OPS);

    if (!op) {
        rxd_loan_back(&peer->base, record);
        return;
    }
    message_move_stop(&op->move); /* the peer wants no more */
    message_op_answered(op, (int)record->size, 0);
}

static void take_question(struct rxd_peer *peer, const struct rxd_record *record)
{
    const struct rxd_record here = {.kind = RXD_HERE, .id = record->id};

    rxd_out_control(peer, &here);
}

static const char *take_follow(struct rxd_peer *peer, const struct rxd_record *record)
{
    const struct iovec part = {(void *)(uintptr_t)record->payload, record->len};

    return rxd_message_more(peer, record, &part, 1);
}

static const char *take_record(struct rxd_peer *peer, const struct rxd_record *record)
{
    if (__builtin_expect(peer->following, 0) && record->kind < RXD_BYE)
        return "a request among the bytes of another";
    switch (record->kind) {
    case RXD_MSG: return rxd_message(peer, record);
    case RXD_PULL: return take_pull(peer, record);
    case RXD_DATA: return rxd_take_data(peer, record);
    case RXD_DONE: take_done(peer, record); return NULL;
    case RXD_GONE: rxd_take_gone(peer, record); return NULL;
    case RXD_FOLLOW: return take_follow(peer, record);
    case RXD_LENT: return rxd_borrow(peer, record);
    case RXD_ASK: take_question(peer, record); return NULL;
    case RXD_HERE: rxd_life_here(peer, record->id); return NULL;
    case RXD_BYE: rxd_life_left(peer); return NULL;
    default: return rxd_remote(peer, record);
    }
}

/* Until all are read, or (ordered ones) the next request has to wait. */
static void read_records(struct rxd_peer *peer, struct rxd_records *records)
{
    const char *wrong = NULL;

    while (!wrong && records->at < records->len && !(records->ordered && peer->base.busy)) {
        struct rxd_record record;
        size_t size = 0;

        if (records->ordered && rxd_take_quick(peer, records))
            continue;
        if (records->ordered && !message_has_spares(peer->base.ep)) {
            rxd_owe(peer); /* it waits, as its sender does for what it asks for */
            return;
        }
        wrong = rxd_record_get(records->bytes + records->at, records->len - records->at,
                               records->ordered, &record, &size);
        records->at += size;
        if (!wrong)
            wrong = take_record(peer, &record);
    }
    if (wrong)
        message_peer_break(&peer->base, FI_EPROTO, wrong);
}

static void read_parts(struct rxd_peer *peer, const struct incoming *incoming)
{
    const struct rxd_record *record = incoming->data;
    const struct iovec *parts = incoming->parts;
    const char *wrong = record->kind == RXD_DATA
                            ? rxd_take_parts(peer, record, parts, incoming->part_count)
                            : rxd_message_more(peer, record, parts, incoming->part_count);

    if (wrong)
        message_peer_break(&peer->base, FI_EPROTO, wrong);
}

/* May the next request be carried out? Bytes that follow one may in any case: there is room for
 * them, and a receive may wait for them. */
static bool is_free(struct rxd_peer *peer)
{
    return !peer->base.busy && list_empty(&peer->base.broken) &&
           (peer->following || !message_is_full(peer->base.ep));
}

/* The packet whose turn it is; incoming: it, if it has places of bytes behind the records, or NULL.
 * False: its peer has broken, or there is more to be done later. */
static bool read_next(struct rxd_peer *peer, struct rxd_records *records,
                      const struct incoming *incoming)
{
    read_records(peer, records);
    if (records->at < records->len || !list_empty(&peer->base.broken))
        return false;
    if (incoming)
        read_parts(peer, incoming);
    peer->begun = 0;
    peer->next_in++;
    return true;
}

static void run_held(struct rxd_peer *peer)
{
    while (!list_empty(&peer->held) && is_free(peer)) {
        struct rxd_packet *packet = list_item(peer->held.next, struct rxd_packet, base.link);

        packet->rest.bytes = packet->bytes + packet->start;
        if (packet->sequence != peer->next_in || !read_next(peer, &packet->rest, NULL))
            return;
        message_packet_put(&packet->base);
    }
}

void rxd_run(struct message_peer *base)
{
    run_held(rxd_peer_of(base));
    if (__builtin_expect(rxd_peer_of(base)->owes, 0))
        rxd_pay(rxd_peer_of(base));
    rxd_flush(base, false);
}

/* ---- A packet ---- */

/* Where it belongs among those that are held; NULL: it is there twice. */
static struct list *place_of(struct rxd_peer *peer, uint32_t sequence)
{
    struct list *pos = peer->held.prev;

    while (pos != &peer->held &&
           (int32_t)(list_item(pos, struct rxd_packet, base.link)->sequence - sequence) > 0)
        pos = pos->prev;
    if (pos != &peer->held && list_item(pos, struct rxd_packet, base.link)->sequence == sequence)
        return NULL;
    return pos->next;
}

/* Its records are in its own memory. */
static void hold(struct rxd_packet *packet, const struct incoming *incoming)
{
    struct rxd_peer *peer = incoming->peer;

    packet->sequence = incoming->sequence;
    packet->rest = incoming->records;
    packet->start = (size_t)(incoming->records.bytes - packet->bytes);
    packet->base.peer = &peer->base;
    list_attach_before(&packet->base.link, place_of(peer, incoming->sequence));
    message_peer_attend(&peer->base);
}

/* An ordered one: at once, if it is its turn. */
static enum message_fate take_ordered(struct incoming *incoming)
{
    struct rxd_peer *peer = incoming->peer;

    if (incoming->sequence - peer->next_in >= RXD_WINDOW || !place_of(peer, incoming->sequence)) {
        message_peer_break(&peer->base, FI_EPROTO, "a packet twice, or beyond its window");
        return MESSAGE_OVER;
    }
    if (incoming->sequence == peer->next_in) /* what was carried out of it is not once more */
        incoming->records.at =
            peer->begun < incoming->records.len ? peer->begun : incoming->records.len;
    if (incoming->sequence != peer->next_in || !is_free(peer))
        return MESSAGE_KEPT;
    if (!read_next(peer, &incoming->records, incoming->parts ? incoming : NULL))
        return list_empty(&peer->base.broken) ? MESSAGE_KEPT : MESSAGE_OVER;
    if (peer->next_in - peer->told >= RXD_WINDOW / 4 || !list_empty(&peer->held))
        message_peer_attend(&peer->base); /* it is to hear of it; others have waited for it */
    return MESSAGE_OVER;
}

/* raw: behind the prefix. */
static enum message_fate take_packet(struct rxd_ep *ep, const uint8_t *raw, size_t len,
                                     struct incoming *incoming)
{
    enum message_fate fate = MESSAGE_OVER;
    struct rxd_head head = {0};
    const char *wrong = rxd_head_get(raw, len, &head);
    struct rxd_peer *peer;

    if (__builtin_expect(!!wrong, 0)) {
        message_say_wrong(&ep->base, wrong);
        return MESSAGE_OVER;
    }
    peer = sender(ep, incoming, &head, len, &fate);
    if (!peer || !list_empty(&peer->base.broken))
        return fate;
    peer->base.heard = true;
    peer->base.gone = false;
    if (!acked(peer, head.ack)) {
        message_peer_break(&peer->base, FI_EPROTO, "an acknowledgement of what was never sent");
        return MESSAGE_OVER;
    }
    incoming->peer = peer;
    incoming->sequence = head.sequence;
    incoming->records = (struct rxd_records){.bytes = raw + rxd_head_size(&head),
                                             .len = len - rxd_head_size(&head),
                                             .ordered = head.flags & RXD_ORDERED};
    if (incoming->records.ordered)
        return take_ordered(incoming);
    if (!message_has_spares(&ep->base)) {
        incoming->waits = true;
        return MESSAGE_LATER;
    }
    if (incoming->parts)
        read_parts(peer, incoming);
    else
        read_records(peer, &incoming->records);
    return MESSAGE_OVER;
}

enum message_fate rxd_in_packet(struct message_packet *packet, fi_addr_t src)
{
    struct message_ep *ep = packet->ep;
    struct incoming incoming = {.src = src, .deferred = packet->tries < MESSAGE_TRIES};
    enum message_fate fate = take_packet(rxd_ep_of(ep), rxd_packet_of(packet)->bytes + ep->prefix,
                                         packet->len - ep->prefix, &incoming);

    if (fate == MESSAGE_KEPT && incoming.next)
        rxd_life_hold(incoming.peer, packet, src);
    else if (fate == MESSAGE_KEPT)
        hold(rxd_packet_of(packet), &incoming);
    else if (incoming.waits)
        packet->tries = MESSAGE_TRIES; /* for as long as it takes */
    return fate;
}

/* ---- Packets in the lower's memory ---- */

/* A packet with these bytes; NULL without memory. */
static struct rxd_packet *copy(struct rxd_ep *ep, const uint8_t *bytes, size_t len)
{
    bool apart = len > ep->heads + ep->room;
    struct rxd_packet *packet = NULL;

    if (!apart)
        packet = mr_pool_get(&ep->base.packets);
    else if (len <= RXD_RECORD_SIZE + RXD_PAYLOAD_MAX) /* what FOLLOW may have */
        packet = malloc(sizeof(*packet) + len);
    if (!packet)
        return NULL;
    packet->base.ep = &ep->base;
    packet->base.peer = NULL;
    packet->base.from = NULL;
    packet->base.in = true;
    packet->base.apart = apart;
    packet->base.len = len;
    list_init(&packet->base.link);
    memcpy(packet->bytes, bytes, len);
    return packet;
}

static bool hold_next(struct rxd_ep *ep, const struct incoming *incoming, const uint8_t *bytes,
                      size_t len, fi_addr_t src)
{
    struct rxd_packet *packet = copy(ep, bytes, len);

    if (packet)
        rxd_life_hold(incoming->peer, &packet->base, src);
    return packet;
}

/* False: there is no memory. */
static bool hold_copy(struct rxd_ep *ep, struct incoming *incoming)
{
    size_t rest = incoming->records.len - incoming->records.at;
    struct rxd_packet *packet = copy(ep, incoming->records.bytes + incoming->records.at, rest);

    if (!packet)
        return false;
    incoming->records.bytes = packet->bytes;
    incoming->records.at = 0;
    incoming->records.len = rest;
    if (incoming->sequence == incoming->peer->next_in)
        incoming->peer->begun = 0;
    hold(packet, incoming);
    return true;
}

bool rxd_in_read(void *arg, const uint8_t *bytes, size_t len, uint64_t src)
{
    struct rxd_ep *ep = rxd_ep_of(arg);
    struct incoming incoming = {.src = src};
    enum message_fate fate;

    if (__builtin_expect(!ep->base.buckets, 0))
        return true; /* the lower is being closed, and there are no peers any more */
    fate = take_packet(ep, bytes, len, &incoming);
    if (__builtin_expect(fate == MESSAGE_OVER, 1))
        return true;
    if (fate == MESSAGE_LATER)
        return false;
    if (incoming.next)
        return hold_next(ep, &incoming, bytes, len, src);
    if (hold_copy(ep, &incoming))
        return true;
    if (incoming.sequence == incoming.peer->next_in)
        incoming.peer->begun = (uint32_t)incoming.records.at; /* it may be half done */
    return false;
}

/* Puts together a packet that has other records. */
static bool read_whole(struct rxd_ep *ep, const struct iovec *parts, size_t count, uint64_t src)
{
    size_t len = iov_bytes(parts, count);
    uint8_t *bytes = malloc(len ? len : 1);
    bool taken;

    if (!bytes)
        return false;
    iov_gather(parts, count, 0, bytes, len);
    taken = rxd_in_read(ep, bytes, len, src);
    free(bytes);
    return taken;
}

/* Where the record of the bytes begins that a packet ends with, of which the first are at raw; 0:
 * it has others. */
static size_t bytes_at(const uint8_t *raw, size_t first, size_t len, struct rxd_record *record)
{
    if (rxd_bytes_get(raw, first, len, record))
        return RXD_HEAD_SIZE;
    return rxd_led_bytes_get(raw, first, len, record);
}

bool rxd_in_read_parts(void *arg, const struct iovec *parts, size_t count, uint64_t src)
{
    struct rxd_ep *ep = rxd_ep_of(arg);
    struct iovec payload[RXD_PARTS];
    struct rxd_record record;
    struct incoming incoming = {.src = src, .parts = payload, .part_count = count, .data = &record};
    const uint8_t *raw = parts[0].iov_base;
    size_t len = iov_bytes(parts, count), before = 0;

    if (count && count <= RXD_PARTS)
        before = bytes_at(raw, parts[0].iov_len, len, &record);
    if (!before)
        return read_whole(ep, parts, count, src);
    if (!ep->base.buckets)
        return true; /* as above */
    memcpy(payload, parts, count * sizeof(*parts));
    payload[0].iov_base = (char *)payload[0].iov_base + before + RXD_RECORD_SIZE;
    payload[0].iov_len -= before + RXD_RECORD_SIZE;
    switch (take_packet(ep, raw, before, &incoming)) {
    case MESSAGE_OVER: return true;
    case MESSAGE_LATER: return false;
    default: return read_whole(ep, parts, count, src); /* it comes too early, so it is copied */
    }
}

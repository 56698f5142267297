/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in. Requests are carried out in the order of their sender; packets that have come too
 * early are held back, at most a window of them. Answers and data are taken as they come.
 */
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "layers/rxd/rxd.h"

enum {
    TRIES = 1000,    /* to make a peer for a packet: memory may come back */
    QUIET_MS = 60000 /* between two lines about packets that cannot be */
};

/* ---- Receives of the lower ---- */

int rxd_in_fill(struct rxd_ep *ep)
{
    while (ep->posted < ep->receives) {
        struct rxd_packet *packet = mr_pool_get(&ep->packets);
        ssize_t rc;

        if (!packet)
            return -FI_ENOMEM;
        packet->ep = ep;
        packet->peer = NULL;
        packet->in = true;
        list_init(&packet->link);
        ep->posted++;
        rc = fi_recv(ep->lower, packet->bytes, ep->prefix + ep->heads + ep->room,
                     packet->buffer.desc, FI_ADDR_UNSPEC, packet);
        if (!rc)
            continue;
        ep->posted--;
        rxd_packet_put(packet);
        return rc == -FI_EAGAIN ? 0 : (int)rc; /* the next drive goes on */
    }
    return 0;
}

/* ---- Who sends ---- */

static void say_wrong(struct rxd_ep *ep, const char *wrong)
{
    long long now = clock_ms();

    if (ep->told_ms && now - ep->told_ms < QUIET_MS)
        return;
    ep->told_ms = now;
    LOG_WARN("rxd", FI_LOG_EP_DATA,
             ": %s came, and is dropped; further ones within a minute are not told", wrong);
}

/* The lower knows all peers that we have by its AV, and a new one only from now on. One whose
 * completions are read from a queue may have looked before. */
static bool is_from(const struct rxd_ep *ep, const struct rxd_peer *peer, fi_addr_t src)
{
    if (src == FI_ADDR_NOTAVAIL)
        return !peer || !ep->domain->fabric->lower->peer;
    return peer && src == peer->lower;
}

/* An introduction: of a peer that is new, that has started again, or that does not know yet that we
 * know it. */
static struct rxd_peer *introduced(struct rxd_ep *ep, const struct rxd_head *head, bool *again)
{
    struct rxd_peer *peer =
        head->name.own_len == ep->name.own_len ? rxd_peer_of(ep, &head->name) : NULL;

    *again = !peer;
    if (!peer || head->epoch < peer->their_epoch || head->epoch <= peer->forgotten)
        return NULL;
    if (peer->their_epoch && head->epoch > peer->their_epoch)
        rxd_peer_reset(peer, FI_ECONNRESET);
    if (head->number && head->number != (uint32_t)peer->number) {
        peer->answer = true; /* for a state that we have left, perhaps with a program before us */
        rxd_peer_attend(peer);
        return NULL;
    }
    peer->their_epoch = head->epoch;
    peer->theirs = head->giving;
    if (head->number) {
        peer->introduced = true;
    } else {
        peer->answer = true;
        rxd_peer_attend(peer);
    }
    return peer;
}

/* again: there is no memory for a peer now. */
static struct rxd_peer *sender(struct rxd_ep *ep, const struct rxd_head *head, fi_addr_t src,
                               bool *again)
{
    bool intro = head->flags & RXD_INTRO;
    struct rxd_peer *peer =
        intro ? rxd_peer_find(ep, &head->name) : rxd_find(&ep->numbers, head->number);

    if (!peer && !intro)
        return NULL; /* for a state that we have left, or somebody else's */
    if (!is_from(ep, peer, src)) {
        say_wrong(ep, "a packet in the name of another peer");
        return NULL;
    }
    if (intro)
        return introduced(ep, head, again);
    peer->introduced = true;
    return peer;
}

static bool acked(struct rxd_peer *peer, uint32_t ack)
{
    if (ack - peer->acked > peer->next_out - peer->acked)
        return (int32_t)(ack - peer->acked) < 0; /* an old one, overtaken */
    if (ack != peer->acked && !list_empty(&peer->out))
        rxd_peer_attend(peer);
    peer->acked = ack;
    return true;
}

/* ---- Records ---- */

static const char *take_pull(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct rxd_op *op = rxd_find(&peer->ep->requests, record->id);

    if (!op || op->peer != peer || op->answered)
        return NULL; /* it has ended since */
    if (record->size > op->len || !op->move.peer)
        return "a question for bytes that a request does not have";
    op->move.taker = record->taker;
    rxd_move_start(&op->move, record->size);
    return NULL;
}

static void take_done(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct rxd_op *op = rxd_find(&peer->ep->requests, record->id);

    if (op && op->peer == peer)
        rxd_op_done(op, (int)record->size);
}

static const char *take_record(struct rxd_peer *peer, const struct rxd_record *record)
{
    switch (record->kind) {
    case RXD_MSG: return rxd_message(peer, record);
    case RXD_PULL: return take_pull(peer, record);
    case RXD_DATA: return rxd_take_data(peer, record);
    case RXD_DONE: take_done(peer, record); return NULL;
    case RXD_BYE: rxd_peer_break(peer, FI_ECONNRESET, NULL); return NULL;
    default: return rxd_remote(peer, record);
    }
}

/* Until the packet is read, or (ordered ones) the next request has to wait. */
static void read_packet(struct rxd_peer *peer, struct rxd_packet *packet)
{
    const char *wrong = NULL;

    while (!wrong && packet->at < packet->len && !(packet->ordered && peer->busy)) {
        struct rxd_record record;
        size_t size = 0;

        wrong = rxd_record_get(packet->records + packet->at, packet->len - packet->at,
                               packet->ordered, &record, &size);
        packet->at += size;
        if (!wrong)
            wrong = take_record(peer, &record);
    }
    if (wrong)
        rxd_peer_break(peer, FI_EPROTO, wrong);
}

static bool is_full(struct rxd_ep *ep)
{
    if (ep->saved <= ep->saved_limit)
        return false;
    if (!ep->saved_said)
        LOG_WARN("rxd", FI_LOG_EP_DATA,
                 ": %zu bytes of unexpected messages are kept; no more are taken until some are "
                 "received (saved_size is %zu)",
                 ep->saved, ep->saved_limit);
    ep->saved_said = true;
    return true;
}

void rxd_in_run(struct rxd_peer *peer)
{
    while (!list_empty(&peer->held) && !peer->busy && list_empty(&peer->broken) &&
           !is_full(peer->ep)) {
        struct rxd_packet *packet = list_item(peer->held.next, struct rxd_packet, link);

        if (packet->sequence != peer->next_in)
            return;
        read_packet(peer, packet);
        if (packet->at < packet->len || !list_empty(&peer->broken))
            return;
        peer->next_in++;
        rxd_packet_put(packet);
    }
}

/* ---- A packet ---- */

static bool hold(struct rxd_peer *peer, struct rxd_packet *packet, uint32_t sequence)
{
    struct list *pos = peer->held.prev;

    if (sequence - peer->next_in >= RXD_WINDOW)
        return false;
    while (pos != &peer->held &&
           (int32_t)(list_item(pos, struct rxd_packet, link)->sequence - sequence) > 0)
        pos = pos->prev;
    if (pos != &peer->held && list_item(pos, struct rxd_packet, link)->sequence == sequence)
        return false;
    packet->sequence = sequence;
    packet->peer = peer;
    list_attach_before(&packet->link, pos->next);
    rxd_peer_attend(peer);
    return true;
}

/* The lower has told its sender that the packet has come. */
static void defer(struct rxd_packet *packet, size_t len, fi_addr_t src)
{
    packet->len = len;
    packet->src = src;
    list_attach(&packet->link, &packet->ep->deferred);
}

/* True when the packet is kept. */
static bool take_packet(struct rxd_packet *packet, size_t len, fi_addr_t src)
{
    struct rxd_ep *ep = packet->ep;
    uint8_t *raw = packet->bytes + ep->prefix;
    struct rxd_head head = {0};
    bool again = false;
    const char *wrong = len < ep->prefix ? "a packet shorter than its prefix"
                                         : rxd_head_get(raw, len - ep->prefix, &head);
    struct rxd_peer *peer;

    if (wrong) {
        say_wrong(ep, wrong);
        return false;
    }
    peer = sender(ep, &head, src, &again);
    if (__builtin_expect(again, 0)) {
        defer(packet, len, src);
        return true;
    }
    if (!peer || !list_empty(&peer->broken))
        return false;
    peer->heard = true;
    peer->gone = false;
    packet->ordered = head.flags & RXD_ORDERED;
    packet->records = raw + rxd_head_size(&head);
    packet->at = 0;
    packet->len = len - ep->prefix - rxd_head_size(&head);
    if (!acked(peer, head.ack)) {
        rxd_peer_break(peer, FI_EPROTO, "an acknowledgement of what was never sent");
        return false;
    }
    if (packet->ordered) {
        if (hold(peer, packet, head.sequence))
            return true;
        rxd_peer_break(peer, FI_EPROTO, "a packet twice, or beyond its window");
        return false;
    }
    read_packet(peer, packet);
    return false;
}

void rxd_in_deferred(struct rxd_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->deferred, &all);
    while (!list_empty(&all)) {
        struct rxd_packet *packet = list_item(all.next, struct rxd_packet, link);

        list_detach(&packet->link);
        if (!packet->tries-- || !take_packet(packet, packet->len, packet->src))
            rxd_packet_put(packet);
    }
}

void rxd_in_packet(struct rxd_packet *packet, size_t len, fi_addr_t src)
{
    packet->tries = TRIES;
    if (!take_packet(packet, len, src))
        rxd_packet_put(packet);
}

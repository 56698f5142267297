/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in. Requests are carried out in the order of their sender; packets that have come too
 * early are held back, at most a window of them. Answers and data are taken as they come.
 */
#include <string.h>

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

/* What peers can bring about again and again is not told each time. last: when it was, or 0. */
static bool may_tell(long long *last)
{
    long long now = clock_ms();

    if (*last && now - *last < QUIET_MS)
        return false;
    *last = now;
    return true;
}

static void say_wrong(struct rxd_ep *ep, const char *wrong)
{
    if (may_tell(&ep->told_ms))
        LOG_WARN("rxd", FI_LOG_EP_DATA,
                 ": %s came, and is dropped; further ones within a minute are not told", wrong);
}

/* The lower knows all peers that we have by its AV, and a new one only from now on. One whose
 * completions are read from a queue may have looked before, and so has any with a packet that was
 * deferred: a later one, or the application, may have made the peer since. */
static bool is_from(const struct rxd_ep *ep, const struct rxd_peer *peer, bool deferred,
                    fi_addr_t src)
{
    if (src == FI_ADDR_NOTAVAIL)
        return !peer || deferred || !ep->domain->fabric->lower->peer;
    return peer && src == peer->lower;
}

/* A peer takes our state for the first one that it had with us, and goes on with its own, which we
 * have left: it had not heard of us when that ended. It learns from another epoch of ours. */
static void begin_again(struct rxd_peer *peer)
{
    rxd_peer_reset(peer, FI_ECONNRESET);
    peer->gone = false;
    peer->answer = true;
    rxd_peer_attend(peer);
}

/* An introduction: of a peer that is new, that has started again, or that does not know yet that we
 * know it. */
static struct rxd_peer *introduced(struct rxd_ep *ep, const struct rxd_head *head, bool *again)
{
    struct rxd_peer *peer =
        head->name.own_len == ep->name.own_len ? rxd_peer_of(ep, &head->name) : NULL;

    *again = !peer;
    if (!peer || head->epoch < peer->their_epoch)
        return NULL;
    if (head->epoch <= peer->forgotten) {
        if (head->number == (uint32_t)peer->number)
            begin_again(peer);
        return NULL;
    }
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
static struct rxd_peer *sender(struct rxd_ep *ep, const struct rxd_head *head, bool deferred,
                               fi_addr_t src, bool *again)
{
    bool intro = head->flags & RXD_INTRO;
    struct rxd_peer *peer =
        intro ? rxd_peer_find(ep, &head->name) : rxd_find(&ep->numbers, head->number);

    if (!peer && !intro)
        return NULL; /* for a state that we have left, or somebody else's */
    if (!is_from(ep, peer, deferred, src)) {
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

/* Until all are read, or (ordered ones) the next request has to wait. */
static void read_records(struct rxd_peer *peer, struct rxd_records *records)
{
    const char *wrong = NULL;

    while (!wrong && records->at < records->len && !(records->ordered && peer->busy)) {
        struct rxd_record record;
        size_t size = 0;

        wrong = rxd_record_get(records->bytes + records->at, records->len - records->at,
                               records->ordered, &record, &size);
        records->at += size;
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
    if (!ep->saved_said && may_tell(&ep->full_ms))
        LOG_WARN("rxd", FI_LOG_EP_DATA,
                 ": %zu bytes of unexpected messages are kept; no more are taken until some are "
                 "received (saved_size is %zu)",
                 ep->saved, ep->saved_limit);
    ep->saved_said = true;
    return true;
}

/* May the next request be carried out? */
static bool is_free(struct rxd_peer *peer)
{
    return !peer->busy && list_empty(&peer->broken) && !is_full(peer->ep);
}

/* The packet whose turn it is. False: its peer has broken, or there is more to be done later. */
static bool read_next(struct rxd_peer *peer, struct rxd_records *records)
{
    read_records(peer, records);
    if (records->at < records->len || !list_empty(&peer->broken))
        return false;
    peer->next_in++;
    return true;
}

void rxd_in_run(struct rxd_peer *peer)
{
    while (!list_empty(&peer->held) && is_free(peer)) {
        struct rxd_packet *packet = list_item(peer->held.next, struct rxd_packet, link);

        if (packet->sequence != peer->next_in || !read_next(peer, &packet->rest))
            return;
        rxd_packet_put(packet);
    }
}

/* ---- A packet ---- */

/* What is to be done with a packet. */
enum fate {
    OVER,  /* nothing */
    LATER, /* there is no memory for its peer now */
    EARLY, /* it is to be kept until those before it are carried out, or it can be */
};

struct incoming {
    struct rxd_peer *peer;
    struct rxd_records records;
    uint32_t sequence;
    bool deferred; /* it came before, when there was no memory */
};

/* Where it belongs among those that are held; NULL: it is there twice. */
static struct list *place_of(struct rxd_peer *peer, uint32_t sequence)
{
    struct list *pos = peer->held.prev;

    while (pos != &peer->held &&
           (int32_t)(list_item(pos, struct rxd_packet, link)->sequence - sequence) > 0)
        pos = pos->prev;
    if (pos != &peer->held && list_item(pos, struct rxd_packet, link)->sequence == sequence)
        return NULL;
    return pos->next;
}

/* Its records are in its own memory. */
static void hold(struct rxd_packet *packet, const struct incoming *incoming)
{
    struct rxd_peer *peer = incoming->peer;

    packet->sequence = incoming->sequence;
    packet->rest = incoming->records;
    packet->peer = peer;
    list_attach_before(&packet->link, place_of(peer, incoming->sequence));
    rxd_peer_attend(peer);
}

/* An ordered one: at once, if it is its turn. */
static enum fate take_ordered(struct incoming *incoming)
{
    struct rxd_peer *peer = incoming->peer;

    if (incoming->sequence - peer->next_in >= RXD_WINDOW || !place_of(peer, incoming->sequence)) {
        rxd_peer_break(peer, FI_EPROTO, "a packet twice, or beyond its window");
        return OVER;
    }
    if (incoming->sequence != peer->next_in || !list_empty(&peer->held) || !is_free(peer))
        return EARLY;
    if (!read_next(peer, &incoming->records))
        return list_empty(&peer->broken) ? EARLY : OVER;
    if (peer->next_in - peer->told >= RXD_WINDOW / 4)
        rxd_peer_attend(peer); /* it is to hear of it */
    return OVER;
}

/* raw: behind the prefix. */
static enum fate take_packet(struct rxd_ep *ep, const uint8_t *raw, size_t len, fi_addr_t src,
                             struct incoming *incoming)
{
    struct rxd_head head = {0};
    bool again = false;
    const char *wrong = rxd_head_get(raw, len, &head);
    struct rxd_peer *peer;

    if (__builtin_expect(!!wrong, 0)) {
        say_wrong(ep, wrong);
        return OVER;
    }
    peer = sender(ep, &head, incoming->deferred, src, &again);
    if (__builtin_expect(again, 0))
        return LATER;
    if (!peer || !list_empty(&peer->broken))
        return OVER;
    peer->heard = true;
    peer->gone = false;
    if (!acked(peer, head.ack)) {
        rxd_peer_break(peer, FI_EPROTO, "an acknowledgement of what was never sent");
        return OVER;
    }
    incoming->peer = peer;
    incoming->sequence = head.sequence;
    incoming->records = (struct rxd_records){.bytes = raw + rxd_head_size(&head),
                                             .len = len - rxd_head_size(&head),
                                             .ordered = head.flags & RXD_ORDERED};
    if (incoming->records.ordered)
        return take_ordered(incoming);
    read_records(peer, &incoming->records);
    return OVER;
}

/* The lower has told its sender that the packet has come. */
static void defer(struct rxd_packet *packet, size_t len, fi_addr_t src)
{
    packet->len = len;
    packet->src = src;
    list_attach(&packet->link, &packet->ep->deferred);
}

static void take_own(struct rxd_packet *packet, size_t len, fi_addr_t src)
{
    struct rxd_ep *ep = packet->ep;
    struct incoming incoming = {.deferred = packet->tries < TRIES};
    enum fate fate = OVER;

    if (len < ep->prefix)
        say_wrong(ep, "a packet shorter than its prefix");
    else
        fate = take_packet(ep, packet->bytes + ep->prefix, len - ep->prefix, src, &incoming);
    if (fate == EARLY)
        hold(packet, &incoming);
    else if (fate == LATER && packet->tries--)
        defer(packet, len, src);
    else
        rxd_packet_put(packet);
}

void rxd_in_deferred(struct rxd_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->deferred, &all);
    while (!list_empty(&all)) {
        struct rxd_packet *packet = list_item(all.next, struct rxd_packet, link);

        list_detach(&packet->link);
        take_own(packet, packet->len, packet->src);
    }
}

void rxd_in_packet(struct rxd_packet *packet, size_t len, fi_addr_t src)
{
    packet->tries = TRIES;
    take_own(packet, len, src);
}

/* ---- Packets in the lower's memory ---- */

/* False: there is no memory. */
static bool hold_copy(struct rxd_ep *ep, struct incoming *incoming)
{
    size_t rest = incoming->records.len - incoming->records.at;
    struct rxd_packet *packet = rest <= ep->heads + ep->room ? mr_pool_get(&ep->packets) : NULL;

    if (!packet)
        return false;
    packet->ep = ep;
    packet->in = true;
    list_init(&packet->link);
    memcpy(packet->bytes, incoming->records.bytes + incoming->records.at, rest);
    incoming->records.bytes = packet->bytes;
    incoming->records.at = 0;
    incoming->records.len = rest;
    hold(packet, incoming);
    return true;
}

bool rxd_in_read(void *arg, const uint8_t *bytes, size_t len, uint64_t src)
{
    struct rxd_ep *ep = arg;
    struct incoming incoming = {.deferred = false};
    enum fate fate;

    if (__builtin_expect(!ep->buckets, 0))
        return true; /* the lower is being closed, and there are no peers any more */
    fate = take_packet(ep, bytes, len, src, &incoming);
    if (__builtin_expect(fate == LATER, 0))
        return false;
    if (fate == OVER || hold_copy(ep, &incoming))
        return true;
    if (!incoming.records.at)
        return false;
    rxd_peer_break(incoming.peer, FI_ENOMEM, "no memory for a packet"); /* it is half done */
    return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages, as records bring them. The rest of a large one is asked for, or read by the lower, when
 * it is matched. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/match/match_entry.h"
#include "layers/rxd/rxd.h"

enum {
    OVERHEAD = 256,  /* the cost of a kept message besides its bytes */
    UNASKED_PART = 2 /* of the room for unmatched messages, for bytes that come unasked */
};

static struct message_told told_of(const struct rxd_record *record)
{
    return (struct message_told){
        .tagged = record->flags & RXD_TAGGED,
        .has_data = record->flags & RXD_HAS_DATA,
        .context = (uint8_t)record->context,
        .tag = record->tag,
        .data = record->data,
        .size = record->size,
    };
}

/* ---- Messages that are kept ---- */

/* Bytes that are kept of one without a receive, besides those that came with it. */
static uint32_t follows_kept(const struct message_ep *ep, const struct rxd_record *record)
{
    size_t size = OVERHEAD + record->len + record->follows;

    return ep->saved + size <= ep->saved_limit / UNASKED_PART ? record->follows : 0;
}

/* matched: its bytes have a place. */
static struct rxd_inbound *inbound_get(struct rxd_peer *peer, const struct rxd_record *record,
                                       bool matched)
{
    uint32_t follows = matched ? record->follows : follows_kept(peer->base.ep, record);
    size_t kept = matched ? 0 : record->len + follows;
    struct fi_rma_iov places[RXD_PLACES];
    unsigned place_count = rxd_read_places(record, places);
    size_t places_at = (kept + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
    struct rxd_inbound *inbound =
        malloc(sizeof(*inbound) + places_at + place_count * sizeof(places[0]));

    if (!inbound)
        return NULL;
    *inbound = (struct rxd_inbound){
        .base = {.told = told_of(record),
                 .receipt = record->flags & RXD_WANTS_DONE || record->size > record->len,
                 .taker = {.got = record->len}},
        .id = record->id,
        .place_count = place_count,
        .places = (const struct fi_rma_iov *)(inbound->bytes + places_at),
        .follows = follows,
        .dropped = follows < record->follows,
        .first = record->len,
    };
    if (kept)
        memcpy(inbound->bytes, record->payload, record->len);
    if (place_count)
        memcpy(inbound->bytes + places_at, places, place_count * sizeof(places[0]));
    message_inbound_add(&inbound->base, &peer->base, OVERHEAD + (matched ? record->len : kept));
    return inbound;
}

/* The memory of one that has no receive is not ours to keep. */
void rxd_message_answer(struct message_inbound *base)
{
    struct rxd_inbound *inbound = rxd_inbound_of(base);
    const struct rxd_record done = {.kind = RXD_DONE, .id = inbound->id};

    if (!base->receipt)
        return;
    if (!base->matched)
        rxd_out_control(rxd_peer_of(base->handle.peer), &done);
    else
        inbound->owes = !rxd_out_try(rxd_peer_of(base->handle.peer), &done);
}

static void taken(struct message_taker *taker)
{
    message_inbound_end(object_of(taker, struct message_inbound, taker), 0);
}

/* Bytes of a message that its receive has room for. */
static size_t wanted(const struct rxd_inbound *inbound)
{
    size_t room = match_entry_room(inbound->base.entry);

    return room < inbound->base.told.size ? room : inbound->base.told.size;
}

/* Asks for the rest of a message that has its receive; or has it read, or knows that it comes. */
static void fetch(struct rxd_inbound *inbound, bool may_read)
{
    struct message_inbound *base = &inbound->base;
    size_t want = wanted(inbound);
    size_t comes = inbound->first + inbound->follows;

    if (want <= inbound->first) {
        message_inbound_end(base, 0);
        return;
    }
    if (may_read && rxd_read_start(inbound, want))
        return;
    base->taker.iov = base->entry->iov;
    base->taker.iov_count = base->entry->count;
    base->taker.ended = taken;
    if (message_handle_open(&base->handle)) {
        message_inbound_end(base, FI_ENOMEM);
        return;
    }
    if (comes > want)
        comes = want;
    message_take(&base->taker, &base->handle, inbound->id, inbound->first, comes, want);
    if (inbound->follows)
        rxd_pull(&base->taker); /* of what comes behind those */
}

/* One piece after the other; after an error all but what came first is asked for. */
void rxd_message_read(struct rxd_inbound *inbound, size_t len, int err)
{
    struct message_inbound *base = &inbound->base;
    size_t want = wanted(inbound);

    inbound->reading = false;
    inbound->fetched += err ? 0 : len;
    if (base->lost)
        message_inbound_end(base, FI_ECONNRESET);
    else if (!err && inbound->first + inbound->fetched >= want)
        message_inbound_end(base, 0);
    else if (err || !rxd_read_start(inbound, want))
        fetch(inbound, false);
}

void rxd_message_place(struct message_inbound *base)
{
    const struct rxd_inbound *inbound = rxd_inbound_of(base);

    iov_scatter(base->entry->iov, base->entry->count, 0, inbound->bytes, inbound->first);
}

void rxd_message_go_on(struct message_inbound *base)
{
    if (base->entry)
        fetch(rxd_inbound_of(base), true);
    else
        message_inbound_end(base, 0);
}

/* One that is being read ends when the lower writes to its receive no more. */
bool rxd_message_failing(struct message_inbound *base)
{
    struct rxd_inbound *inbound = rxd_inbound_of(base);

    if (inbound->reading && !base->handle.peer->ep->closing)
        return false;
    if (inbound->reading)
        rxd_read_forget(&base->handle);
    return true;
}

/* ---- From the peer ---- */

static const char *begin(struct rxd_peer *peer, const struct rxd_record *record,
                         struct fi_peer_rx_entry *entry, const struct message_told *told)
{
    struct rxd_inbound *inbound = inbound_get(peer, record, true);

    if (!inbound) {
        message_deliver(&peer->base, entry, told, FI_ENOMEM);
        return "a message for which there is no memory";
    }
    inbound->base.entry = entry;
    inbound->base.matched = true;
    fetch(inbound, true);
    return NULL;
}

/* For a context that is not open. */
static const char *come_early(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct rxd_inbound *inbound;

    if (message_context_may_come(peer->base.ep, record->context)) {
        inbound = inbound_get(peer, record, false);
        if (!inbound)
            return "a message for which there is no memory";
        message_come_early(&inbound->base);
        return NULL;
    }
    message_say_wrong(peer->base.ep, "a message for a receive context that there is not");
    if (record->flags & RXD_WANTS_DONE || record->size > record->len)
        rxd_out_done(&peer->base, record->id, FI_ECONNREFUSED);
    return NULL;
}

const char *rxd_message(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct message_told told = told_of(record);
    struct fi_peer_rx_entry *entry;
    struct rxd_inbound *inbound;
    int rc;

    if (__builtin_expect(record->follows > RXD_UNASKED, 0))
        return "more bytes behind a message than are taken";
    peer->following = record->follows;
    if (__builtin_expect(!message_context_at(peer->base.ep, record->context), 0))
        return come_early(peer, record);
    rc = message_match(&peer->base, &told, &entry);
    if (rc == -FI_ENOENT) {
        inbound = inbound_get(peer, record, false);
        return message_keep(inbound ? &inbound->base : NULL, entry);
    }
    if (rc)
        return "a message for which there is no memory";
    iov_scatter(entry->iov, entry->count, 0, record->payload, record->len);
    if (__builtin_expect(record->len != record->size, 0))
        return begin(peer, record, entry, &told);
    if (record->flags & RXD_WANTS_DONE)
        rxd_out_done(&peer->base, record->id, 0);
    message_deliver(&peer->base, entry, &told, 0);
    return NULL;
}

/* ---- Bytes behind a message ---- */

/* Of the last message, if it waits for them: one that has ended, or whose bytes are not kept, does
 * not. */
static struct rxd_inbound *last_of(const struct rxd_peer *peer, uint32_t id)
{
    const struct list *last = peer->base.inbounds.prev;
    struct rxd_inbound *inbound;

    if (last == &peer->base.inbounds)
        return NULL;
    inbound = list_item(last, struct rxd_inbound, base.link);
    return inbound->id == id && inbound->follows && !inbound->base.lost ? inbound : NULL;
}

/* As far as its receive has room. */
static const char *take_more(struct message_taker *taker, const struct rxd_record *record,
                             const struct iovec *parts, size_t count)
{
    size_t left = record->size < taker->want ? taker->want - record->size : 0;
    struct iovec taken[RXD_PARTS];

    if (!left)
        return NULL;
    if (record->len <= left)
        return message_take_parts(taker, record->size, parts, count);
    return message_take_parts(taker, record->size, taken, rxd_slice(parts, count, 0, left, taken));
}

const char *rxd_message_more(struct rxd_peer *peer, const struct rxd_record *record,
                             const struct iovec *parts, size_t count)
{
    struct rxd_inbound *inbound = last_of(peer, record->id);

    if (record->len > peer->following)
        return "bytes that no message has announced";
    peer->following -= (uint32_t)record->len;
    if (!inbound)
        return NULL;
    if (record->size != inbound->first || record->len > inbound->follows)
        return "bytes at another place than behind those before";
    inbound->follows -= (uint32_t)record->len;
    inbound->first += record->len;
    if (inbound->base.taker.handle)
        return take_more(&inbound->base.taker, record, parts, count);
    iov_gather(parts, count, 0, inbound->bytes + record->size, record->len);
    inbound->base.taker.got = inbound->first;
    return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages meet their receives. One that has no receive yet is kept with the bytes that came; the
 * rest of a large one waits at its sender, and is asked for when it is matched.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/match/match_entry.h"
#include "layers/rxd/rxd.h"

enum {
    OVERHEAD = 256 /* what a kept message costs besides its bytes */
};

/* ---- Delivery ---- */

/* What of a message its completion tells. */
struct told {
    uint8_t flags;
    uint64_t tag, data;
    size_t size;
};

static void report_error(struct rxd_peer *peer, struct fi_peer_rx_entry *entry,
                         const struct told *told, uint64_t flags, int err)
{
    bool whole = err == FI_EADDRNOTAVAIL;
    size_t room = match_entry_room(entry);
    size_t copied = whole ? told->size : err == FI_ETRUNC ? room : 0;
    size_t len = whole || err == FI_ETRUNC ? told->size : 0;
    struct fi_cq_err_entry error = match_entry_error(entry, flags, copied, len, err);

    error.data = told->data;
    error.tag = told->tag;
    error.src_addr = rxd_peer_source(peer);
    if (whole) {
        error.err_data = peer->name.own_len ? (void *)(uintptr_t)peer->name.own : &peer->name.addr;
        error.err_data_size =
            peer->name.own_len ? peer->name.own_len : addr_size(&peer->name.addr.sa);
    }
    complete_error(&peer->ep->base.binding, BIND_RECV, &error);
}

/* Ends a message, and gives the entry back. */
static void deliver(struct rxd_peer *peer, struct fi_peer_rx_entry *entry, const struct told *told,
                    int err)
{
    struct rxd_ep *ep = peer->ep;
    uint64_t flags = (entry->flags & ~FI_COMPLETION) | FI_RECV |
                     (told->flags & RXD_TAGGED ? FI_TAGGED : FI_MSG) |
                     (told->flags & RXD_HAS_DATA ? FI_REMOTE_CQ_DATA : 0);
    void *buf = entry->count ? entry->iov[0].iov_base : NULL;

    if (!err && __builtin_expect(told->size > match_entry_room(entry), 0))
        err = FI_ETRUNC;
    if (!err && __builtin_expect(ep->source_err && peer->source.addr == FI_ADDR_UNSPEC, 0))
        err = FI_EADDRNOTAVAIL;
    if (ep->closing)
        ;
    else if (__builtin_expect(!err, 1))
        complete(&ep->base.binding, BIND_RECV, entry->flags & FI_COMPLETION, entry->context, flags,
                 told->size, buf, told->data, told->tag, rxd_peer_source(peer));
    else
        report_error(peer, entry, told, flags, err);
    match_entry_free(entry);
}

/* ---- Messages that are kept ---- */

static struct rxd_inbound *inbound_get(struct rxd_peer *peer, const struct rxd_record *record,
                                       size_t kept)
{
    struct rxd_inbound *inbound = malloc(sizeof(*inbound) + kept);

    if (!inbound)
        return NULL;
    *inbound = (struct rxd_inbound){
        .taker = {.id = IDS_NONE, .peer = peer},
        .flags = record->flags,
        .id = record->id,
        .tag = record->tag,
        .data = record->data,
        .addr = record->addr,
        .key = record->key,
        .size = record->size,
        .first = record->len,
    };
    if (kept)
        memcpy(inbound->bytes, record->payload, kept);
    list_attach(&inbound->link, &peer->inbounds);
    peer->ep->saved += OVERHEAD + record->len;
    return inbound;
}

static void inbound_put(struct rxd_inbound *inbound)
{
    struct rxd_ep *ep = inbound->taker.peer->ep;

    ep->saved -= OVERHEAD + inbound->first;
    if (__builtin_expect(ep->saved_said && ep->saved <= ep->saved_limit, 0)) {
        ep->saved_said = false;
        for (size_t i = 0; i < RXD_BUCKETS; i++) {
            for (struct rxd_peer *peer = ep->buckets[i]; peer; peer = peer->next)
                rxd_peer_attend(peer);
        }
    }
    rxd_take_stop(&inbound->taker);
    list_detach(&inbound->link);
    free(inbound);
}

static struct told told_of(const struct rxd_inbound *inbound)
{
    return (struct told){inbound->flags, inbound->tag, inbound->data, inbound->size};
}

/* It is whole, as far as its receive has room, or lost. */
static void end_inbound(struct rxd_inbound *inbound, int err)
{
    struct rxd_peer *peer = inbound->taker.peer;
    struct fi_peer_rx_entry *entry = inbound->entry;
    struct told told = told_of(inbound);

    if (!inbound->lost && (inbound->flags & RXD_WANTS_DONE || inbound->size > inbound->first))
        rxd_out_done(peer, inbound->id, 0);
    inbound_put(inbound);
    if (entry)
        deliver(peer, entry, &told, err);
}

static void taken(struct rxd_taker *taker)
{
    end_inbound(object_of(taker, struct rxd_inbound, taker), 0);
}

/* Asks for the rest of a message that has its receive; or has it read. */
static void fetch(struct rxd_inbound *inbound, bool may_read)
{
    size_t room = match_entry_room(inbound->entry);
    size_t want = room < inbound->size ? room : inbound->size;

    if (want <= inbound->first) {
        end_inbound(inbound, 0);
        return;
    }
    if (may_read && rxd_read_start(inbound, want))
        return;
    inbound->taker.iov = inbound->entry->iov;
    inbound->taker.iov_count = inbound->entry->count;
    inbound->taker.ended = taken;
    if (rxd_take(&inbound->taker, inbound->taker.peer, inbound->id, inbound->first, want))
        end_inbound(inbound, FI_ENOMEM);
}

void rxd_message_read(struct rxd_inbound *inbound, int err)
{
    if (inbound->lost)
        end_inbound(inbound, FI_ECONNRESET);
    else if (err)
        fetch(inbound, false);
    else
        end_inbound(inbound, 0);
}

/* ---- From the owner of the receives ---- */

/* The endpoint of a message that waits with an upper's context was closed. */
static void drop_orphan(struct rxd_inbound *inbound, struct fi_peer_rx_entry *entry)
{
    free(inbound);
    match_entry_free(entry);
}

static int start(struct fi_peer_rx_entry *entry)
{
    struct rxd_inbound *inbound = entry->peer_context;

    if (!inbound->taker.peer) {
        drop_orphan(inbound, entry);
        return -FI_ENOTCONN;
    }
    inbound->entry = entry;
    inbound->matched = true;
    iov_scatter(entry->iov, entry->count, 0, inbound->bytes, inbound->first);
    if (inbound->lost)
        end_inbound(inbound, FI_ECONNRESET);
    else
        fetch(inbound, true);
    return 0;
}

static int discard(struct fi_peer_rx_entry *entry)
{
    struct rxd_inbound *inbound = entry->peer_context;

    if (!inbound->taker.peer) {
        drop_orphan(inbound, entry);
        return 0;
    }
    match_entry_free(entry);
    inbound->entry = NULL;
    if (inbound->taker.peer->ep->closing)
        inbound_put(inbound);
    else
        end_inbound(inbound, 0);
    return 0;
}

struct fi_ops_srx_peer rxd_source_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

/* ---- From the peer ---- */

static const char *keep(struct rxd_peer *peer, const struct rxd_record *record,
                        struct fi_peer_rx_entry *entry)
{
    struct rxd_inbound *inbound = inbound_get(peer, record, record->len);

    if (inbound && !match_entry_queue(entry, record->flags & RXD_TAGGED, inbound,
                                      record->flags & RXD_HAS_DATA, record->data))
        return NULL;
    match_entry_free(entry);
    if (inbound)
        inbound_put(inbound);
    return "a message for which there is no memory";
}

const char *rxd_message(struct rxd_peer *peer, const struct rxd_record *record)
{
    struct fi_peer_match_attr attr = {
        .addr = FI_ADDR_UNSPEC, .msg_size = record->size, .tag = record->tag};
    struct told told = {record->flags, record->tag, record->data, record->size};
    struct fi_peer_rx_entry *entry;
    struct rxd_inbound *inbound;
    int rc = match_entry_get(&peer->source.srx, record->flags & RXD_TAGGED, &attr, &entry);

    if (rc == -FI_ENOENT)
        return keep(peer, record, entry);
    if (rc)
        return "a message for which there is no memory";
    iov_scatter(entry->iov, entry->count, 0, record->payload, record->len);
    if (__builtin_expect(record->len == record->size, 1)) {
        if (record->flags & RXD_WANTS_DONE)
            rxd_out_done(peer, record->id, 0);
        deliver(peer, entry, &told, 0);
        return NULL;
    }
    inbound = inbound_get(peer, record, 0);
    if (!inbound) {
        deliver(peer, entry, &told, FI_ENOMEM);
        return "a message for which there is no memory";
    }
    inbound->entry = entry;
    inbound->matched = true;
    fetch(inbound, true);
    return NULL;
}

void rxd_messages_fail(struct rxd_peer *peer, int err)
{
    struct list all;

    /* What a report calls may end any of them. */
    list_init(&all);
    list_join(&peer->inbounds, &all);
    while (!list_empty(&all)) {
        struct rxd_inbound *inbound = list_item(all.next, struct rxd_inbound, link);

        list_detach(&inbound->link);
        list_attach(&inbound->link, &peer->inbounds);
        inbound->flags &= ~RXD_WANTS_DONE;
        if (inbound->size > inbound->first)
            inbound->lost = true;
        if (inbound->reading && !peer->ep->closing)
            continue; /* it ends when the lower writes to its receive no more */
        if (inbound->reading)
            rxd_read_forget(inbound);
        if (inbound->matched) {
            end_inbound(inbound, err);
        } else if (peer->ep->closing) { /* it stays with the upper's context */
            list_detach(&inbound->link);
            peer->ep->saved -= OVERHEAD + inbound->first;
            inbound->taker.peer = NULL;
        }
    }
}

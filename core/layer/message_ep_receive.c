/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages meet their receives. One that has no receive yet is kept with the bytes that came; the
 * rest of a large one waits at its sender, and is asked for when it is matched.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"
#include "core/match/match_entry.h"
#include "core/match/match_quick.h"

/* ---- Delivery ---- */

static void report_error(struct message_context *context, struct message_peer *peer,
                         struct fi_peer_rx_entry *entry, const struct message_told *told,
                         uint64_t flags, int err)
{
    struct message_ep *ep = peer->ep;
    bool whole = err == FI_EADDRNOTAVAIL;
    size_t room = match_entry_room(entry);
    size_t copied = whole ? told->size : err == FI_ETRUNC ? room : 0;
    size_t len = whole || err == FI_ETRUNC ? told->size : 0;
    struct fi_cq_err_entry error = match_entry_error(entry, flags, copied, len, err);
    size_t own = ep->wire->own_size(ep->lower_info);
    union addr_raw raw;

    error.prov_errno = message_code_of(ep, err);
    error.data = told->data;
    error.tag = told->tag;
    error.src_addr = message_peer_source(peer);
    if (whole) {
        ep->wire->address(peer, own ? ep->lower_info->addr_format : FI_SOCKADDR, &raw);
        error.err_data = &raw;
        error.err_data_size = own ? own : addr_size(&raw.addr.sa);
    }
    complete_error(&context->endpoint.binding, BIND_RECV, &error);
}

void message_deliver(struct message_peer *peer, struct fi_peer_rx_entry *entry,
                     const struct message_told *told, int err)
{
    struct message_ep *ep = peer->ep;
    struct message_context *context = message_context_at(ep, told->context);
    uint64_t flags = (entry->flags & ~FI_COMPLETION) | FI_RECV |
                     (told->tagged ? FI_TAGGED : FI_MSG) | (told->has_data ? FI_REMOTE_CQ_DATA : 0);
    void *buf = entry->count ? entry->iov[0].iov_base : NULL;

    if (!err && __builtin_expect(told->size > match_entry_room(entry), 0))
        err = FI_ETRUNC;
    if (!err && __builtin_expect(ep->source_err && peer->addr == FI_ADDR_UNSPEC, 0))
        err = FI_EADDRNOTAVAIL;
    if (context->closing)
        ;
    else if (__builtin_expect(!err, 1))
        complete(&context->endpoint.binding, BIND_RECV, entry->flags & FI_COMPLETION,
                 entry->context, flags, told->size, buf, told->data, told->tag,
                 message_peer_source(peer));
    else
        report_error(context, peer, entry, told, flags, err);
    match_entry_free(entry);
}

bool message_deliver_brief(struct message_peer *peer, bool tagged, uint64_t tag,
                           const uint8_t *bytes, size_t len)
{
    struct message_ep *ep = peer->ep;
    struct match *match = ep->own.match;
    struct rx *rx;

    if (__builtin_expect(ep->rx || !match || match->watch || ep->own.closing, 0) ||
        __builtin_expect(ep->source_err && peer->addr == FI_ADDR_UNSPEC, 0))
        return false;
    rx = match_quick_take(match, tagged ? &match->tag : &match->msg, tag, len);
    if (__builtin_expect(!rx, 0))
        return false;
    if (__builtin_expect(len == sizeof(uint64_t), 1))
        memcpy(rx->iov[0].iov_base, bytes, sizeof(uint64_t));
    else if (len)
        memcpy(rx->iov[0].iov_base, bytes, len);
    complete(&ep->endpoint.binding, BIND_RECV, rx->entry.flags & FI_COMPLETION, rx->entry.context,
             rx->entry.flags & ~FI_COMPLETION, len, rx->iov[0].iov_base, 0, tag,
             message_peer_source(peer));
    pool_put(&match->pool, rx);
    return true;
}

/* ---- Messages that are kept ---- */

void message_inbound_add(struct message_inbound *inbound, struct message_peer *peer, size_t saved)
{
    inbound->handle =
        (struct message_handle){.kind = MESSAGE_INBOUND, .peer = peer, .id = IDS_NONE};
    inbound->saved = saved;
    list_init(&inbound->link);
    list_attach(&inbound->link, &peer->inbounds);
    peer->ep->saved += saved;
}

static void end_fullness(struct message_ep *ep)
{
    ep->saved_said = false;
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            message_peer_attend(peer);
    }
}

/* Its bytes, and its number. */
static void give_back(struct message_inbound *inbound)
{
    struct message_ep *ep = inbound->handle.peer->ep;

    ep->saved -= inbound->saved;
    if (ep->wire->inbound_put)
        ep->wire->inbound_put(inbound);
    message_take_stop(&inbound->taker);
    message_handle_close(&inbound->handle);
    list_detach(&inbound->link);
}

void message_inbound_put(struct message_inbound *inbound)
{
    struct message_ep *ep = inbound->handle.peer->ep;

    give_back(inbound);
    if (!ep->wire->inbound_stays || !ep->wire->inbound_stays(inbound))
        free(inbound);
    if (__builtin_expect(ep->saved_said && ep->saved <= ep->saved_limit, 0))
        end_fullness(ep);
}

void message_inbound_end(struct message_inbound *inbound, int err)
{
    struct message_peer *peer = inbound->handle.peer;
    struct fi_peer_rx_entry *entry = inbound->entry;
    struct message_told told = inbound->told;

    if (!inbound->lost)
        peer->ep->wire->answer(inbound);
    message_inbound_put(inbound);
    if (entry)
        message_deliver(peer, entry, &told, err);
}

const char *message_keep(struct message_inbound *inbound, struct fi_peer_rx_entry *entry)
{
    if (inbound && !match_entry_queue(entry, inbound->told.tagged, inbound, inbound->told.has_data,
                                      inbound->told.data))
        return NULL;
    match_entry_free(entry);
    if (inbound)
        message_inbound_put(inbound);
    return "a message for which there is no memory";
}

/* ---- From the owner of the receives ---- */

/* The endpoint of a message that waits with an upper's context was closed. */
static void drop_orphan(struct message_inbound *inbound, struct fi_peer_rx_entry *entry)
{
    free(inbound);
    match_entry_free(entry);
}

static int start(struct fi_peer_rx_entry *entry)
{
    struct message_inbound *inbound = entry->peer_context;

    if (!inbound->handle.peer) {
        drop_orphan(inbound, entry);
        return -FI_ENOTCONN;
    }
    inbound->entry = entry;
    inbound->matched = true;
    inbound->handle.peer->ep->wire->place(inbound);
    if (inbound->lost)
        message_inbound_end(inbound, FI_ECONNRESET);
    else
        inbound->handle.peer->ep->wire->go_on(inbound);
    return 0;
}

static int discard(struct fi_peer_rx_entry *entry)
{
    struct message_inbound *inbound = entry->peer_context;

    if (!inbound->handle.peer) {
        drop_orphan(inbound, entry);
        return 0;
    }
    match_entry_free(entry);
    inbound->entry = NULL;
    inbound->matched = true;
    if (inbound->handle.peer->ep->closing)
        message_inbound_put(inbound);
    else if (inbound->lost)
        message_inbound_end(inbound, 0);
    else
        inbound->handle.peer->ep->wire->go_on(inbound);
    return 0;
}

struct fi_ops_srx_peer message_source_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

/* ---- The end of their sender, the life of their context ---- */

/* A record of it stays with the upper's context. */
static void leave(struct message_inbound *inbound)
{
    give_back(inbound);
    inbound->handle.peer = NULL;
}

static void fail(struct message_inbound *inbound, int err)
{
    struct message_ep *ep = inbound->handle.peer->ep;

    inbound->receipt = false;
    if (inbound->told.size > inbound->taker.got)
        inbound->lost = true;
    if (inbound->early) {
        if (ep->closing)
            message_inbound_put(inbound);
        return;
    }
    if (ep->wire->failing && !ep->wire->failing(inbound))
        return;
    if (inbound->matched) {
        message_inbound_end(inbound, err);
    } else if (ep->closing) {
        leave(inbound);
    }
}

/* Functions that a report calls may end any of them. */
static void for_each_inbound(struct message_peer *peer, int arg,
                             void (*call)(struct message_inbound *inbound, int arg))
{
    struct list all;

    list_init(&all);
    list_join(&peer->inbounds, &all);
    while (!list_empty(&all)) {
        struct message_inbound *inbound = list_item(all.next, struct message_inbound, link);

        list_detach(&inbound->link);
        list_attach(&inbound->link, &peer->inbounds);
        call(inbound, arg);
    }
}

void message_inbounds_fail(struct message_peer *peer, int err)
{
    for_each_inbound(peer, err, fail);
}

static void for_all(struct message_context *context,
                    void (*call)(struct message_inbound *inbound, int index))
{
    struct message_ep *ep = context->ep;

    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            for_each_inbound(peer, (int)context->index, call);
    }
}

/* One that came early meets its receives. */
static void claim(struct message_inbound *inbound, int index)
{
    struct message_peer *peer = inbound->handle.peer;
    struct fi_peer_rx_entry *entry;
    int rc;

    if (!inbound->early || inbound->told.context != index)
        return;
    inbound->early = false;
    rc = message_match(peer, &inbound->told, &entry);
    if (!rc) {
        entry->peer_context = inbound;
        start(entry);
        return;
    }
    if (rc == -FI_ENOENT && !message_keep(inbound, entry))
        return;
    if (rc != -FI_ENOENT)
        message_inbound_put(inbound);
    message_peer_break(peer, FI_ENOMEM, "no memory for a message");
}

void message_context_opened(struct message_context *context)
{
    for_all(context, claim);
}

/* Of those that wait with an engine of ours that engine disposes. */
static void abandon(struct message_inbound *inbound, int index)
{
    struct message_ep *ep = inbound->handle.peer->ep;

    if (inbound->told.context != index || inbound->early)
        return;
    if (inbound->matched) {
        message_inbound_end(inbound, FI_ECANCELED);
    } else if (!message_context_at(ep, (unsigned)index)->match) {
        if (!inbound->lost)
            ep->wire->answer(inbound);
        leave(inbound);
    }
}

void message_context_abandon(struct message_context *context)
{
    for_all(context, abandon);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers: found by fi_addr_t on the data path, by their name when a packet introduces them. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"
#include "core/match/match_entry.h"

/* ---- Sources ---- */

/* A peer as the source of messages for one context. */
struct message_source {
    union {
        struct match_source source;
        struct match_forward forward; /* with an upper's context */
    };
    struct message_peer *peer;
    struct message_context *context;
    struct message_source *next; /* of the peer */
    struct list link;            /* in ep->sources */
};

static void source_init(struct message_source *source, struct message_peer *peer,
                        struct message_context *context)
{
    source->peer = peer;
    source->context = context;
    source->next = peer->sources;
    peer->sources = source;
    if (context->match)
        match_source_init(&source->source, context->match, peer->addr);
    else
        match_forward_init(&source->forward, context->endpoint.srx->peer, peer->addr);
    source->source.srx.peer_ops = &message_source_ops;
}

static void source_resolve(struct message_source *source, fi_addr_t addr)
{
    if (!source->context->match)
        match_forward_resolve(&source->forward, addr);
    else if (addr == FI_ADDR_UNSPEC)
        source->source.addr = addr;
    else
        match_source_resolve(&source->source, addr);
}

static void source_finish(struct message_source *source)
{
    struct message_ep *ep = source->peer->ep;

    if (!ep->rx)
        ep->source_count--;
    if (source->context->match)
        match_source_finish(&source->source);
    else
        match_forward_finish(&source->forward);
    list_detach(&source->link);
    free(source);
}

/* No message that has come has it. */
static bool is_idle(const struct message_source *source)
{
    return list_empty(&source->source.unexpected) && list_empty(&source->peer->inbounds);
}

/* That of a peer which rests, of an ordinary endpoint; or NULL. */
static struct message_source *take_idle(struct message_ep *ep)
{
    enum {
        LOOKS = 4
    };

    if (ep->rx || !ep->own.match || ep->source_count < MESSAGE_SOURCES)
        return NULL;
    for (unsigned i = 0; i < LOOKS; i++) {
        struct message_source *source = list_item(ep->sources.next, struct message_source, link);

        list_detach(&source->link);
        list_attach(&source->link, &ep->sources);
        if (!is_idle(source))
            continue;
        match_source_finish(&source->source);
        source->peer->sources = NULL;
        return source;
    }
    return NULL;
}

static struct message_source *make_source(struct message_ep *ep)
{
    struct message_source *source = calloc(1, sizeof(*source));

    if (!source)
        return NULL;
    list_init(&source->link);
    if (ep->rx)
        return source;
    list_attach(&source->link, &ep->sources);
    ep->source_count++;
    return source;
}

/* NULL without memory. */
static struct message_source *source_for(struct message_peer *peer, struct message_context *context)
{
    struct message_source *source = peer->sources;

    while (source && source->context != context)
        source = source->next;
    if (source)
        return source;
    source = take_idle(peer->ep);
    if (!source)
        source = make_source(peer->ep);
    if (source)
        source_init(source, peer, context);
    return source;
}

int message_match(struct message_peer *peer, const struct message_told *told,
                  struct fi_peer_rx_entry **entry)
{
    struct fi_peer_match_attr attr = {
        .addr = FI_ADDR_UNSPEC, .msg_size = told->size, .tag = told->tag};
    struct message_context *context = message_context_at(peer->ep, told->context);
    struct message_source *source = peer->sources;

    if (__builtin_expect(!source || source->context != context, 0))
        source = source_for(peer, context);
    return source ? match_entry_get(&source->source.srx, told->tagged, &attr, entry) : -FI_ENOMEM;
}

static void end_source(struct message_peer *peer, const struct message_context *context)
{
    struct message_source **at = &peer->sources, *source;

    while (*at && (*at)->context != context)
        at = &(*at)->next;
    source = *at;
    if (!source)
        return;
    *at = source->next;
    source_finish(source);
}

void message_sources_finish(struct message_context *context)
{
    const struct message_ep *ep = context->ep;

    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            end_source(peer, context);
    }
}

/* ---- Addresses ---- */

static fi_addr_t find_addr(const struct message_peer *peer)
{
    struct av *av = peer->ep->endpoint.av;
    union addr_raw raw;

    peer->ep->wire->address(peer, av->format, &raw);
    return av_find(av, &raw);
}

fi_addr_t message_peer_source(const struct message_peer *peer)
{
    fi_addr_t addr = peer->addr;

    return peer->ep->user_ids && addr != FI_ADDR_UNSPEC ? av_source(peer->ep->endpoint.av, addr)
                                                        : addr;
}

static void set_source(struct message_peer *peer, fi_addr_t addr)
{
    if (peer->addr == addr)
        return;
    peer->addr = addr;
    for (struct message_source *i = peer->sources; i; i = i->next)
        source_resolve(i, addr);
    if (peer->ep->wire->addressed)
        peer->ep->wire->addressed(peer);
}

/* ---- Life ---- */

static void init_peer(struct message_peer *peer, struct message_ep *ep)
{
    peer->ep = ep;
    list_init(&peer->attended);
    list_init(&peer->broken);
    list_init(&peer->ops);
    list_init(&peer->out);
    list_init(&peer->flying);
    list_init(&peer->inbounds);
    list_init(&peer->accesses);
}

static struct message_peer **bucket(struct message_ep *ep, const void *name)
{
    return &ep->buckets[ep->wire->hash(name) % MESSAGE_BUCKETS];
}

struct message_peer *message_peer_find(struct message_ep *ep, const void *name)
{
    struct message_peer *peer = *bucket(ep, name);

    while (peer && !ep->wire->is_named(peer, name))
        peer = peer->next;
    return peer;
}

static bool insert(struct message_peer *peer)
{
    struct message_ep *ep = peer->ep;
    union addr_raw raw;

    ep->wire->address(peer, ep->lower_info->addr_format, &raw);
    return fi_av_insert(ep->lower_av, &raw, 1, &peer->lower, 0, NULL) == 1;
}

struct message_peer *message_peer_of(struct message_ep *ep, const void *name)
{
    struct message_peer **head = bucket(ep, name), *peer = message_peer_find(ep, name);

    if (peer)
        return peer;
    peer = ep->wire->peer_new(name);
    if (!peer)
        return NULL;
    init_peer(peer, ep);
    /* An address that is in the lower's vector twice is there once: it may stay. */
    if (!insert(peer) || ep->wire->peer_open(peer)) {
        free(peer);
        return NULL;
    }
    peer->addr = find_addr(peer);
    peer->next = *head;
    *head = peer;
    if (ep->wire->addressed)
        ep->wire->addressed(peer);
    return peer;
}

/* An address that was not used yet, or names a context. */
static int peer_of_address(struct message_ep *ep, fi_addr_t addr, struct message_peer **peer,
                           unsigned *context)
{
    unsigned bits = ep->endpoint.av->rx_ctx_bits;
    const void *raw;
    void **slot;
    int rc = -FI_ENOMEM;

    if (bits) {
        *context = (unsigned)(addr >> (64 - bits));
        addr &= UINT64_MAX >> bits;
        *peer = peer_map_at(&ep->map, addr);
    }
    if (*context >= ep->wire->contexts)
        return -FI_EINVAL;
    if (*peer)
        return 0;
    raw = av_addr(ep->endpoint.av, addr);
    if (!raw)
        return -FI_EINVAL;
    slot = peer_map_slot(&ep->map, addr);
    *peer = slot ? ep->wire->peer_at(ep, raw, &rc) : NULL;
    if (!*peer)
        return rc;
    *slot = *peer;
    return 0;
}

int message_peer_at(struct message_ep *ep, fi_addr_t addr, struct message_peer **peer,
                    unsigned *context)
{
    *context = 0;
    *peer = peer_map_at(&ep->map, addr);
    return __builtin_expect(!!*peer, 1) ? 0 : peer_of_address(ep, addr, peer, context);
}

void message_peer_stall(struct message_peer *peer)
{
    list_detach(&peer->attended);
    list_attach(&peer->attended, &peer->ep->stalled);
}

/* ---- Ends ---- */

void message_peer_break(struct message_peer *peer, int err, const char *why)
{
    char text[ADDR_TEXT_MAX];
    int code = peer->ep->code;

    if (!list_empty(&peer->broken))
        return;
    if (why)
        LOG_WARN(peer->ep->wire->name, FI_LOG_EP_DATA, ": what is under way with %s ends: %s",
                 peer->ep->wire->text(peer, text), why);
    peer->err = (int16_t)err;
    peer->code = (int16_t)(code > 0 && code <= INT16_MAX ? code : 0);
    list_attach(&peer->broken, &peer->ep->broken);
}

bool message_is_ours(int err)
{
    return err == FI_EPROTO || err == FI_ENOMEM || err == FI_EIO;
}

/* Packets that are with the lower stay there without a peer; operations among them end. A report
 * may post anew. */
static void drop_flying(struct message_peer *peer, int err)
{
    struct list ended;

    list_init(&ended);
    list_for_each_safe (item, after, &peer->flying) {
        struct message_packet *packet = list_item(item, struct message_packet, link);

        list_detach(&packet->link);
        packet->peer = NULL;
        if (packet->from)
            list_attach(&packet->link, &ended);
        else
            peer->ep->wire->dropped(packet);
    }
    while (!list_empty(&ended)) {
        struct message_packet *packet = list_item(ended.next, struct message_packet, link);

        list_detach(&packet->link);
        message_packet_end_op(packet, err);
    }
}

void message_peer_drop(struct message_peer *peer, int err)
{
    struct list ops;

    drop_flying(peer, err);
    message_remote_fail(peer);
    list_init(&ops);
    list_join(&peer->ops, &ops);
    while (!list_empty(&ops)) /* a report may post anew, to the new state */
        message_op_end(list_item(ops.next, struct message_op, of_peer), err);
    message_inbounds_fail(peer, err);
}

/* ---- The application's AV ---- */

static void take_away(struct message_ep *ep, fi_addr_t addr)
{
    struct message_peer *peer = peer_map_at(&ep->map, addr);

    if (!peer)
        return;
    *peer_map_slot(&ep->map, addr) = NULL;
    if (ep->wire->removed)
        ep->wire->removed(peer);
}

static bool was_removed(const struct av_changes *changes, fi_addr_t addr)
{
    if (addr == FI_ADDR_UNSPEC || changes->removed_count > AV_WATCH_REMOVED)
        return addr != FI_ADDR_UNSPEC;
    for (size_t i = 0; i < changes->removed_count; i++) {
        if (changes->removed[i] == addr)
            return true;
    }
    return false;
}

/* Tells the wire of peers whose address was removed, though nothing was posted to them, and finds
 * the sources of all peers anew: an address may be at another place now, or at none. */
static void refresh_sources(struct message_ep *ep, const struct av_changes *changes)
{
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            if (ep->wire->removed && was_removed(changes, peer->addr))
                ep->wire->removed(peer);
            set_source(peer, find_addr(peer));
        }
    }
}

void message_peers_take_changes(struct message_ep *ep)
{
    struct av_changes changes;
    fi_addr_t addr;

    av_watch_take(&ep->watch, &changes);
    if (changes.removed_count > AV_WATCH_REMOVED) {
        for (addr = peer_map_next(&ep->map, 0); addr != FI_ADDR_NOTAVAIL;
             addr = peer_map_next(&ep->map, addr + 1))
            take_away(ep, addr);
    } else {
        for (size_t i = 0; i < changes.removed_count; i++)
            take_away(ep, changes.removed[i]);
    }
    refresh_sources(ep, &changes);
}

bool message_peer_is_idle(const struct message_peer *peer)
{
    return list_empty(&peer->attended) && list_empty(&peer->broken) && list_empty(&peer->ops) &&
           list_empty(&peer->out) && list_empty(&peer->flying) && list_empty(&peer->inbounds) &&
           list_empty(&peer->accesses) && !peer->busy && !peer->takes;
}

void message_peer_forget(struct message_peer *peer, const void *name)
{
    struct message_peer **at = bucket(peer->ep, name);

    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    while (peer->sources) {
        struct message_source *source = peer->sources;

        peer->sources = source->next;
        source_finish(source);
    }
    free(peer);
}

bool message_peers_await(const struct message_ep *ep)
{
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (const struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            if (!peer->gone && (!list_empty(&peer->ops) || !list_empty(&peer->flying)))
                return true;
    }
    return false;
}

/* The pool takes those that are its with it. */
static void drop_out(struct message_peer *peer)
{
    list_for_each_safe (item, after, &peer->out) {
        struct message_packet *packet = list_item(item, struct message_packet, link);

        if (packet->bare)
            message_packet_drop(packet);
    }
}

void message_peers_finish(struct message_ep *ep)
{
    for (size_t i = 0; ep->buckets && i < MESSAGE_BUCKETS; i++) {
        struct message_peer *peer;

        while ((peer = ep->buckets[i])) {
            if (ep->wire->peer_close)
                ep->wire->peer_close(peer);
            message_peer_drop(peer, 0);
            drop_out(peer);
            end_source(peer, &ep->own);
            /* An operation that ends with another peer may make all be attended. */
            ep->buckets[i] = peer->next;
            list_detach(&peer->attended);
            list_detach(&peer->broken);
            free(peer);
        }
    }
    message_packets_put(&ep->deferred);
    message_spares_free(ep);
    free(ep->buckets);
    ep->buckets = NULL;
    peer_map_finish(&ep->map);
}

/* ---- Numbers ---- */

int message_handle_open(struct message_handle *handle)
{
    handle->id = ids_add(&handle->peer->ep->ids, handle);
    return handle->id == IDS_NONE ? -FI_ENOMEM : 0;
}

void message_handle_close(struct message_handle *handle)
{
    if (handle->id != IDS_NONE)
        ids_remove(&handle->peer->ep->ids, handle->id);
    handle->id = IDS_NONE;
}

uint32_t message_handle_id(const struct message_handle *handle)
{
    return handle->id == IDS_NONE ? 0 : (uint32_t)handle->id ^ handle->peer->ep->salt;
}

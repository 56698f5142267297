/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers: found by fi_addr_t on the data path, by address and by number when a packet comes. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "layers/srd/srd.h"

/* ---- Addresses ---- */

static fi_addr_t find_addr(struct srd_ep *ep, const struct srd_name *name)
{
    union srd_raw raw;

    srd_name_export(ep->base.av->format, name, &raw);
    return av_find(ep->base.av, &raw);
}

static fi_addr_t reported(const struct srd_ep *ep, fi_addr_t addr)
{
    return ep->user_ids && addr != FI_ADDR_UNSPEC ? av_source(ep->base.av, addr) : addr;
}

fi_addr_t srd_peer_source(const struct srd_peer *peer)
{
    return reported(peer->ep, peer->source.addr);
}

static void set_source(struct srd_peer *peer, fi_addr_t addr)
{
    if (peer->source.addr == addr)
        return;
    if (!peer->ep->match)
        match_forward_resolve(&peer->forward, addr);
    else if (addr == FI_ADDR_UNSPEC)
        peer->source.addr = addr;
    else
        match_source_resolve(&peer->source, addr);
}

/* ---- Life ---- */

static void init_peer(struct srd_peer *peer, struct srd_ep *ep, const struct srd_name *name)
{
    fi_addr_t known = find_addr(ep, name);

    peer->ep = ep;
    peer->name = *name;
    peer->known = ep->efa;
    peer->connid = srd_name_connid(name);
    list_init(&peer->attended);
    list_init(&peer->broken);
    list_init(&peer->ops);
    list_init(&peer->out);
    list_init(&peer->flying);
    list_init(&peer->inbounds);
    list_init(&peer->accesses);
    if (ep->match)
        match_source_init(&peer->source, ep->match, known);
    else
        match_forward_init(&peer->forward, ep->base.srx->peer, known);
    peer->source.srx.peer_ops = &srd_source_ops;
}

static struct srd_peer **bucket(struct srd_ep *ep, const struct srd_name *name)
{
    return &ep->buckets[srd_name_hash(name) % SRD_BUCKETS];
}

struct srd_peer *srd_peer_find(struct srd_ep *ep, const struct srd_name *name)
{
    struct srd_peer *peer = *bucket(ep, name);

    while (peer && memcmp(&peer->name, name, sizeof(*name)))
        peer = peer->next;
    return peer;
}

struct srd_peer *srd_peer_of(struct srd_ep *ep, const struct srd_name *name)
{
    struct srd_peer **head = bucket(ep, name), *peer = srd_peer_find(ep, name);
    union srd_raw raw;
    void **slot = NULL;

    if (peer)
        return peer;
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        return NULL;
    srd_name_export(ep->lower_info->addr_format, name, &raw);
    if (fi_av_insert(ep->lower_av, &raw, 1, &peer->lower, 0, NULL) == 1)
        slot = peer_map_slot(&ep->by_lower, peer->lower);
    if (!slot) { /* an address that is in the lower's vector twice is there once */
        free(peer);
        return NULL;
    }
    *slot = peer;
    init_peer(peer, ep, name);
    peer->next = *head;
    *head = peer;
    return peer;
}

static int name_at(struct srd_ep *ep, fi_addr_t addr, struct srd_name *name)
{
    const void *raw = av_addr(ep->base.av, addr);
    uint32_t format = ep->base.av->format;
    size_t len;

    if (!raw)
        return -FI_EINVAL;
    if (format == FI_ADDR_EFA)
        return srd_name_import(format, raw, SRD_ADDR_SIZE, name);
    len = format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);
    return srd_name_import(format, raw, len, name);
}

int srd_peer_at(struct srd_ep *ep, fi_addr_t addr, struct srd_peer **ret_peer)
{
    struct srd_peer *peer = peer_map_at(&ep->map, addr);
    struct srd_name key;
    void **slot;

    if (__builtin_expect(!peer, 0)) {
        if (name_at(ep, addr, &key))
            return -FI_EINVAL;
        slot = peer_map_slot(&ep->map, addr);
        peer = slot ? srd_peer_of(ep, &key) : NULL;
        if (!peer)
            return -FI_ENOMEM;
        *slot = peer;
    }
    *ret_peer = peer;
    return 0;
}

void srd_peer_attend(struct srd_peer *peer)
{
    list_detach(&peer->attended);
    list_attach(&peer->attended, &peer->ep->attention);
}

/* ---- Ends ---- */

void srd_peer_break(struct srd_peer *peer, int err, const char *why)
{
    char text[ADDR_TEXT_MAX];

    if (!list_empty(&peer->broken))
        return;
    if (why)
        LOG_WARN("srd", FI_LOG_EP_DATA, ": what is under way with %s ends: %s",
                 srd_name_text(peer->ep->lower_info->addr_format, &peer->name, text), why);
    peer->err = err;
    list_attach(&peer->broken, &peer->ep->broken);
}

static void drop_packets(struct list *packets)
{
    while (!list_empty(packets))
        srd_packet_put(list_item(packets->next, struct srd_packet, link));
}

static void drop_all(struct srd_peer *peer, int err)
{
    struct list ops;

    list_for_each_safe (item, after, &peer->flying) {
        struct srd_packet *packet = list_item(item, struct srd_packet, link);

        list_detach(&packet->link);
        packet->peer = NULL;
        packet->move = NULL;
    }
    srd_remote_fail(peer);
    list_init(&ops);
    list_join(&peer->ops, &ops);
    while (!list_empty(&ops)) { /* a report may post anew, to the new state */
        struct srd_op *op = list_item(ops.next, struct srd_op, of_peer);

        op->move.pending = 0;
        srd_op_end(op, err);
    }
    srd_messages_fail(peer, err);
}

static void drop_early(struct srd_peer *peer)
{
    struct list old;

    list_init(&old);
    reorder_reset(&peer->early, &old);
    peer->ep->saved -= peer->early_bytes;
    peer->early_bytes = 0;
    drop_packets(&old);
}

/* The peer is there still, with another idea of what was sent. */
static bool is_ours(int err)
{
    return err == FI_EPROTO || err == FI_ENOMEM || err == FI_EIO;
}

void srd_peer_reset(struct srd_peer *peer, int err)
{
    list_detach(&peer->broken);
    list_detach(&peer->attended);
    list_for_each (item, &peer->out)
        list_item(item, struct srd_packet, link)->move = NULL;
    drop_packets(&peer->out);
    drop_early(peer);
    if (peer->known && !peer->ep->efa)
        peer->forgotten[peer->forgotten_count++ % SRD_FORGOTTEN] = peer->connid;
    peer->known = peer->ep->efa;
    peer->greeted = peer->forced = peer->introduced = false;
    peer->features = 0;
    srd_out_refusals(peer, false);
    peer->next_msg = 0;
    peer->dead = is_ours(err) ? err : 0;
    peer->gone = true;
    drop_all(peer, err);
}

/* ---- The application's AV ---- */

static void take_away(struct srd_ep *ep, fi_addr_t addr)
{
    struct srd_peer *peer = peer_map_at(&ep->map, addr);

    if (peer)
        *peer_map_slot(&ep->map, addr) = NULL;
}

/* Whose address is at another place now, or at none. */
static void refresh_sources(struct srd_ep *ep)
{
    for (size_t i = 0; i < SRD_BUCKETS; i++) {
        for (struct srd_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            set_source(peer, find_addr(ep, &peer->name));
    }
}

void srd_peers_take_changes(struct srd_ep *ep)
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
    refresh_sources(ep);
}

bool srd_peers_await(const struct srd_ep *ep)
{
    for (size_t i = 0; i < SRD_BUCKETS; i++) {
        for (const struct srd_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            if (!peer->gone && (!list_empty(&peer->ops) || !list_empty(&peer->flying)))
                return true;
    }
    return false;
}

void srd_peers_finish(struct srd_ep *ep)
{
    for (size_t i = 0; ep->buckets && i < SRD_BUCKETS; i++) {
        struct srd_peer *peer, *next;

        for (peer = ep->buckets[i]; peer; peer = next) {
            next = peer->next;
            drop_early(peer);
            srd_out_refusals(peer, false);
            reorder_finish(&peer->early, &ep->deferred);
            drop_all(peer, 0);
            if (ep->match)
                match_source_finish(&peer->source);
            else
                match_forward_finish(&peer->forward);
            free(peer);
        }
    }
    drop_packets(&ep->deferred);
    free(ep->buckets);
    ep->buckets = NULL;
    peer_map_finish(&ep->map);
    peer_map_finish(&ep->by_lower);
}

/* ---- Numbers of the wire ---- */

int srd_handle_open(struct srd_handle *handle, enum srd_kind kind, struct srd_peer *peer)
{
    handle->kind = kind;
    handle->peer = peer;
    handle->id = ids_add(&peer->ep->ids, handle);
    return handle->id == IDS_NONE ? -FI_ENOMEM : 0;
}

void srd_handle_close(struct srd_handle *handle)
{
    if (handle->id != IDS_NONE)
        ids_remove(&handle->peer->ep->ids, handle->id);
    handle->id = IDS_NONE;
}

uint32_t srd_handle_id(const struct srd_handle *handle)
{
    return (uint32_t)handle->id ^ handle->peer->ep->salt;
}

struct srd_handle *srd_handle_find(const struct srd_peer *peer, uint32_t id, unsigned kinds)
{
    struct srd_handle *handle = ids_find(&peer->ep->ids, id ^ peer->ep->salt);

    return handle && handle->peer == peer && kinds & 1U << handle->kind ? handle : NULL;
}

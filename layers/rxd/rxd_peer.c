/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers: found by fi_addr_t on the data path, by address and by number when a packet comes. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "layers/rxd/rxd.h"

/* ---- Addresses ---- */

static fi_addr_t find_addr(struct rxd_ep *ep, const struct rxd_name *name)
{
    union rxd_raw raw;

    rxd_name_export(ep->base.av->format, name, &raw);
    return av_find(ep->base.av, &raw);
}

static fi_addr_t reported(const struct rxd_ep *ep, fi_addr_t addr)
{
    return ep->user_ids && addr != FI_ADDR_UNSPEC ? av_source(ep->base.av, addr) : addr;
}

fi_addr_t rxd_peer_source(const struct rxd_peer *peer)
{
    return reported(peer->ep, peer->source.addr);
}

static void set_source(struct rxd_peer *peer, fi_addr_t addr)
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

/* Later than all that this address has had, of this endpoint or of one before it. */
static uint64_t new_epoch(struct rxd_ep *ep)
{
    struct timespec now;
    uint64_t ns;

    clock_gettime(CLOCK_REALTIME, &now);
    ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    ep->last_epoch = ns > ep->last_epoch ? ns : ep->last_epoch + 1;
    return ep->last_epoch;
}

static void init_peer(struct rxd_peer *peer, struct rxd_ep *ep, const struct rxd_name *name)
{
    fi_addr_t known = find_addr(ep, name);

    peer->ep = ep;
    peer->name = *name;
    if (name->own_len)
        peer->name.own = memcpy(peer + 1, name->own, name->own_len);
    peer->epoch = new_epoch(ep);
    list_init(&peer->attended);
    list_init(&peer->broken);
    list_init(&peer->ops);
    list_init(&peer->out);
    list_init(&peer->urgent);
    list_init(&peer->flying);
    list_init(&peer->held);
    list_init(&peer->inbounds);
    list_init(&peer->accesses);
    if (ep->match)
        match_source_init(&peer->source, ep->match, known);
    else
        match_forward_init(&peer->forward, ep->base.srx->peer, known);
    peer->source.srx.peer_ops = &rxd_source_ops;
}

static struct rxd_peer **bucket(struct rxd_ep *ep, const struct rxd_name *name)
{
    return &ep->buckets[rxd_name_hash(name) % RXD_BUCKETS];
}

struct rxd_peer *rxd_peer_find(struct rxd_ep *ep, const struct rxd_name *name)
{
    struct rxd_peer *peer = *bucket(ep, name);

    while (peer && !rxd_name_equal(&peer->name, name))
        peer = peer->next;
    return peer;
}

struct rxd_peer *rxd_peer_of(struct rxd_ep *ep, const struct rxd_name *name)
{
    struct rxd_peer **head = bucket(ep, name), *peer = rxd_peer_find(ep, name);
    union rxd_raw raw;

    if (peer)
        return peer;
    peer = calloc(1, sizeof(*peer) + name->own_len);
    if (!peer)
        return NULL;
    peer->number = ids_add(&ep->numbers, peer);
    rxd_name_export(ep->lower_info->addr_format, name, &raw);
    if (peer->number == IDS_NONE ||
        fi_av_insert(ep->lower_av, &raw, 1, &peer->lower, 0, NULL) != 1) {
        if (peer->number != IDS_NONE)
            ids_remove(&ep->numbers, peer->number);
        free(peer);
        return NULL;
    }
    init_peer(peer, ep, name);
    peer->next = *head;
    *head = peer;
    return peer;
}

static int name_at(struct rxd_ep *ep, fi_addr_t addr, struct rxd_name *name)
{
    const void *raw = av_addr(ep->base.av, addr);
    uint32_t format = ep->base.av->format;
    size_t len;

    if (!raw)
        return -FI_EINVAL;
    if (rxd_name_is_own(format))
        len = ep->name.own_len;
    else
        len = format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);
    return rxd_name_import(format, raw, len, name);
}

int rxd_peer_at(struct rxd_ep *ep, fi_addr_t addr, struct rxd_peer **ret_peer)
{
    struct rxd_peer *peer = peer_map_at(&ep->map, addr);
    struct rxd_name key;
    void **slot;

    if (__builtin_expect(!peer, 0)) {
        if (name_at(ep, addr, &key))
            return -FI_EINVAL;
        slot = peer_map_slot(&ep->map, addr);
        peer = slot ? rxd_peer_of(ep, &key) : NULL;
        if (!peer)
            return -FI_ENOMEM;
        *slot = peer;
    }
    *ret_peer = peer;
    return 0;
}

void rxd_peer_attend(struct rxd_peer *peer)
{
    list_detach(&peer->attended);
    list_attach(&peer->attended, &peer->ep->attention);
}

/* ---- Ends ---- */

void rxd_peer_break(struct rxd_peer *peer, int err, const char *why)
{
    char text[ADDR_TEXT_MAX];

    if (!list_empty(&peer->broken))
        return;
    if (why)
        LOG_WARN("rxd", FI_LOG_EP_DATA, ": what is under way with %s ends: %s",
                 rxd_name_text(&peer->name, text), why);
    peer->err = err;
    list_attach(&peer->broken, &peer->ep->broken);
}

static void drop_packets(struct list *packets)
{
    while (!list_empty(packets))
        rxd_packet_put(list_item(packets->next, struct rxd_packet, link));
}

static void drop_all(struct rxd_peer *peer, int err)
{
    struct list ops;

    list_for_each_safe (item, after, &peer->flying) {
        struct rxd_packet *packet = list_item(item, struct rxd_packet, link);

        list_detach(&packet->link);
        peer->in_flight--;
        packet->peer = NULL;
        if (packet->move && (!packet->move->direct || peer->ep->closing))
            packet->move = NULL;
        while (!list_empty(&packet->ops))
            list_detach(packet->ops.next);
    }
    rxd_remote_fail(peer);
    list_init(&ops);
    list_join(&peer->ops, &ops);
    while (!list_empty(&ops)) /* a report may post anew, to the new state */
        rxd_op_end(list_item(ops.next, struct rxd_op, of_peer), err);
    rxd_messages_fail(peer, err);
}

/* The peer is there, and has to learn that what was under way is over. */
static bool is_ours(int err)
{
    return err == FI_EPROTO || err == FI_ENOMEM || err == FI_EIO;
}

void rxd_peer_reset(struct rxd_peer *peer, int err)
{
    struct rxd_ep *ep = peer->ep;
    struct list old;

    list_detach(&peer->broken);
    list_init(&old);
    list_join(&peer->out, &old);
    list_join(&peer->urgent, &old);
    list_join(&peer->held, &old);
    list_for_each (item, &old) {
        struct rxd_packet *packet = list_item(item, struct rxd_packet, link);

        while (!packet->in && !list_empty(&packet->ops))
            list_detach(packet->ops.next);
        if (!packet->in && packet->move)
            packet->move->pending--;
    }
    drop_packets(&old);
    ids_remove(&ep->numbers, peer->number);
    peer->number = ids_add(&ep->numbers, peer); /* there is room: that which was just left */
    peer->epoch = new_epoch(ep);
    peer->forgotten = peer->their_epoch > peer->forgotten ? peer->their_epoch : peer->forgotten;
    peer->their_epoch = 0;
    peer->theirs = 0;
    peer->introduced = peer->answer = false;
    peer->gone = !is_ours(err);
    peer->next_out = peer->acked = peer->next_in = peer->told = 0;
    drop_all(peer, err);
    if (!is_ours(err))
        return;
    peer->answer = true; /* the peer learns of it */
    rxd_peer_attend(peer);
}

/* ---- The application's AV ---- */

static void take_away(struct rxd_ep *ep, fi_addr_t addr)
{
    struct rxd_peer *peer = peer_map_at(&ep->map, addr);

    if (peer)
        *peer_map_slot(&ep->map, addr) = NULL;
}

/* Whose address is at another place now, or at none. */
static void refresh_sources(struct rxd_ep *ep)
{
    for (size_t i = 0; i < RXD_BUCKETS; i++) {
        for (struct rxd_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            set_source(peer, find_addr(ep, &peer->name));
    }
}

void rxd_peers_take_changes(struct rxd_ep *ep)
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

bool rxd_peers_await(const struct rxd_ep *ep)
{
    for (size_t i = 0; i < RXD_BUCKETS; i++) {
        for (const struct rxd_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            if (!peer->gone && (!list_empty(&peer->ops) || !list_empty(&peer->flying)))
                return true;
    }
    return false;
}

void rxd_peers_bye(struct rxd_ep *ep)
{
    struct rxd_record record = {.kind = RXD_BYE};

    for (size_t i = 0; i < RXD_BUCKETS; i++) {
        for (struct rxd_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            struct rxd_packet *packet =
                peer->theirs ? rxd_out_ordered(peer, RXD_RECORD_SIZE, false) : NULL;

            if (!packet)
                continue;
            rxd_record_put(&record, packet->records + packet->len);
            packet->len += RXD_RECORD_SIZE;
            rxd_out_flush(peer, false);
        }
    }
}

void rxd_peers_finish(struct rxd_ep *ep)
{
    for (size_t i = 0; ep->buckets && i < RXD_BUCKETS; i++) {
        struct rxd_peer *peer, *next;

        for (peer = ep->buckets[i]; peer; peer = next) {
            next = peer->next;
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
}

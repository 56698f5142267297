/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks, outermost first: the AV's, ep->changes.mutex; and the unit's, then the AV's (av_find). */
#include "layers/rxm/rxm_av.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/rxm/rxm_link.h"
#include "layers/rxm/rxm_wait.h"

/* ---- Addresses in the formats of infos and the AV ---- */

size_t rxm_addr_export(uint32_t format, const union addr *addr, char raw[ADDR_TEXT_MAX])
{
    if (format == FI_ADDR_STR)
        return addr_to_str(&addr->sa, raw, ADDR_TEXT_MAX) + 1;
    memcpy(raw, addr, sizeof(*addr));
    return addr_size(&addr->sa);
}

int rxm_addr_import(uint32_t format, const void *raw, union addr *addr)
{
    size_t len = format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);

    return addr_import(format, raw, len, addr);
}

static fi_addr_t find_addr(struct rxm_ep *ep, const union addr *addr)
{
    _Alignas(union addr) char raw[ADDR_TEXT_MAX];

    rxm_addr_export(ep->av->format, addr, raw);
    return av_find(ep->av, raw);
}

/* ---- Peers and the AV ---- */

/* The AV has the peer's address at addr, or has it no more. */
static void set_addr(struct rxm_ep *ep, struct rxm_peer *peer, fi_addr_t addr)
{
    if (addr != FI_ADDR_UNSPEC && !(peer->cm.context & RXM_CM_SOURCE) &&
        rxm_peers_lead(&ep->peers, addr, peer))
        addr = FI_ADDR_UNSPEC; /* no memory: as if it were not there */
    peer->addr = addr;
    list_for_each (item, &ep->links) {
        struct rxm_link *link = list_item(item, struct rxm_link, all);

        if (addr_equal(&link->addr.sa, &peer->cm.addr.sa))
            rxm_link_resolve(link, addr);
    }
}

static void drop_peer(struct rxm_ep *ep, struct rxm_peer *peer)
{
    rxm_cm_forget(&ep->cm, &peer->cm);
    rxm_wait_fail(ep, peer, FI_ECANCELED, NULL);
    rxm_peers_remove(&ep->peers, peer);
}

static void take_away_from(struct rxm_ep *ep, fi_addr_t addr, unsigned context)
{
    struct rxm_peer *peer = rxm_peers_mislead(&ep->peers, addr, context);

    if (!peer)
        return;
    if (peer->addr == addr)
        set_addr(ep, peer, find_addr(ep, &peer->cm.addr));
    if (!peer->slots)
        drop_peer(ep, peer);
}

static void take_away(struct rxm_ep *ep, fi_addr_t addr)
{
    take_away_from(ep, addr, 0);
    for (unsigned context = 1; ep->peers.more && context < RXM_CONTEXTS; context++)
        take_away_from(ep, addr, context);
    /* Connections of transmit contexts: no address leads there. */
    list_for_each (item, &ep->links) {
        struct rxm_link *link = list_item(item, struct rxm_link, all);

        if (link->source.addr == addr)
            rxm_link_resolve(link, find_addr(ep, &link->addr));
    }
}

/* Too many were removed to remember which. */
static void take_away_all_missing(struct rxm_ep *ep)
{
    fi_addr_t addr = rxm_peers_next(&ep->peers, 0);

    for (; addr != FI_ADDR_NOTAVAIL; addr = rxm_peers_next(&ep->peers, addr + 1)) {
        const void *raw = av_addr(ep->av, addr);
        struct rxm_peer *peer = NULL;
        union addr now;

        for (unsigned context = 0; !peer; context++)
            peer = rxm_peers_of(&ep->peers, addr, context);
        if (!raw || rxm_addr_import(ep->av->format, raw, &now) ||
            !addr_equal(&now.sa, &peer->cm.addr.sa))
            take_away(ep, addr);
    }
}

/* Connections of peers that were not in the AV when they came. */
static void resolve_unknown(struct rxm_ep *ep)
{
    list_for_each (item, &ep->links) {
        struct rxm_link *link = list_item(item, struct rxm_link, all);
        struct rxm_peer *peer;
        fi_addr_t addr;

        if (link->source.addr != FI_ADDR_UNSPEC)
            continue;
        addr = find_addr(ep, &link->addr);
        if (addr == FI_ADDR_NOTAVAIL)
            continue;
        peer = rxm_peers_find(&ep->peers, &link->addr, link->context);
        if (peer)
            set_addr(ep, peer, addr);
        else
            rxm_link_resolve(link, addr);
    }
}

void rxm_av_take_changes(struct rxm_ep *ep)
{
    struct rxm_av_changes *changes = &ep->changes;
    fi_addr_t removed[RXM_REMOVED_MAX];
    size_t count;
    bool inserted;

    pthread_mutex_lock(&changes->mutex);
    atomic_store(&changes->any, false);
    count = changes->removed_count;
    inserted = changes->inserted;
    memcpy(removed, changes->removed, sizeof(removed));
    changes->removed_count = 0;
    changes->inserted = false;
    pthread_mutex_unlock(&changes->mutex);
    if (count > RXM_REMOVED_MAX)
        take_away_all_missing(ep);
    else
        for (size_t i = 0; i < count; i++)
            take_away(ep, removed[i]);
    if (inserted)
        resolve_unknown(ep);
}

static void av_changed(struct rxm_ep *ep, bool inserted, fi_addr_t removed)
{
    struct rxm_av_changes *changes = &ep->changes;

    pthread_mutex_lock(&changes->mutex);
    if (inserted)
        changes->inserted = true;
    else if (changes->removed_count++ < RXM_REMOVED_MAX)
        changes->removed[changes->removed_count - 1] = removed;
    atomic_store(&changes->any, true);
    pthread_mutex_unlock(&changes->mutex);
    unit_wake(ep->unit);
}

static void on_inserted(struct av_listener *listener, fi_addr_t addr)
{
    av_changed(object_of(listener, struct rxm_ep, listener), true, addr);
}

static void on_removed(struct av_listener *listener, fi_addr_t addr)
{
    av_changed(object_of(listener, struct rxm_ep, listener), false, addr);
}

struct rxm_peer *rxm_av_peer_of(struct rxm_ep *ep, const union addr *addr, unsigned context)
{
    struct rxm_peer *peer = rxm_peers_find(&ep->peers, addr, context);

    if (peer)
        return peer;
    peer = rxm_peers_add(&ep->peers, addr, context);
    if (peer)
        set_addr(ep, peer, find_addr(ep, addr));
    return peer;
}

fi_addr_t rxm_av_split(const struct rxm_ep *ep, fi_addr_t addr, unsigned *context)
{
    unsigned bits = ep->av->rx_ctx_bits;

    *context = bits ? (unsigned)(addr >> (64 - bits)) : 0;
    return bits ? addr & UINT64_MAX >> bits : addr;
}

int rxm_av_peer(struct rxm_ep *ep, fi_addr_t addr, struct rxm_peer **ret_peer)
{
    struct rxm_peer *peer;
    const void *raw;
    unsigned context;
    union addr key;
    int rc = 0;

    addr = rxm_av_split(ep, addr, &context);
    peer = rxm_peers_of(&ep->peers, addr, context);
    if (!peer) {
        raw = av_addr(ep->av, addr);
        if (context >= RXM_CONTEXTS || !raw || rxm_addr_import(ep->av->format, raw, &key))
            return -FI_EINVAL;
        peer = rxm_av_peer_of(ep, &key, context);
        rc = peer ? rxm_peers_lead(&ep->peers, addr, peer) : -FI_ENOMEM;
    }
    if (!rc)
        *ret_peer = peer;
    return rc;
}

void rxm_av_attach(struct rxm_ep *ep)
{
    ep->listener.inserted = on_inserted;
    ep->listener.removed = on_removed;
    ep->listener.unit = ep->unit;
    av_attach(ep->av, &ep->listener);
}

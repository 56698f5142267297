/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_av.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/rxm/conn/rxm_conn.h"
#include "layers/rxm/conn/rxm_wait.h"

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

    rxm_addr_export(ep->base.av->format, addr, raw);
    return av_find(ep->base.av, raw);
}

/* ---- Peers and the AV ---- */

/* The AV has the peer's address at addr, or has it no more. */
static void set_addr(struct rxm_ep *ep, struct rxm_peer *peer, fi_addr_t addr)
{
    if (addr != FI_ADDR_UNSPEC && !(peer->cm.context & RXM_CM_SOURCE) &&
        rxm_peers_lead(&ep->peers, addr, peer))
        addr = FI_ADDR_UNSPEC; /* no memory: as if it were not there */
    peer->addr = addr;
    list_for_each (item, &ep->conns) {
        struct rxm_conn *conn = list_item(item, struct rxm_conn, all);

        if (addr_equal(&conn->addr.sa, &peer->cm.addr.sa))
            rxm_conn_resolve(conn, addr);
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
    list_for_each (item, &ep->conns) {
        struct rxm_conn *conn = list_item(item, struct rxm_conn, all);

        if (conn->number == addr)
            rxm_conn_resolve(conn, find_addr(ep, &conn->addr));
    }
}

/* Too many were removed to remember which. */
static void take_away_all_missing(struct rxm_ep *ep)
{
    fi_addr_t addr = rxm_peers_next(&ep->peers, 0);

    for (; addr != FI_ADDR_NOTAVAIL; addr = rxm_peers_next(&ep->peers, addr + 1)) {
        const void *raw = av_addr(ep->base.av, addr);
        struct rxm_peer *peer = NULL;
        union addr now;

        for (unsigned context = 0; !peer; context++)
            peer = rxm_peers_of(&ep->peers, addr, context);
        if (!raw || rxm_addr_import(ep->base.av->format, raw, &now) ||
            !addr_equal(&now.sa, &peer->cm.addr.sa))
            take_away(ep, addr);
    }
}

/* Connections of peers that were not in the AV when they came. */
static void resolve_unknown(struct rxm_ep *ep)
{
    list_for_each (item, &ep->conns) {
        struct rxm_conn *conn = list_item(item, struct rxm_conn, all);
        struct rxm_peer *peer;
        fi_addr_t addr;

        if (conn->number != FI_ADDR_UNSPEC)
            continue;
        addr = find_addr(ep, &conn->addr);
        if (addr == FI_ADDR_NOTAVAIL)
            continue;
        peer = rxm_peers_find(&ep->peers, &conn->addr, conn->context);
        if (peer)
            set_addr(ep, peer, addr);
        else
            rxm_conn_resolve(conn, addr);
    }
}

void rxm_av_take_changes(struct rxm_ep *ep)
{
    struct av_changes changes;

    av_watch_take(&ep->watch, &changes);
    if (changes.removed_count > AV_WATCH_REMOVED)
        take_away_all_missing(ep);
    else
        for (size_t i = 0; i < changes.removed_count; i++)
            take_away(ep, changes.removed[i]);
    if (changes.inserted)
        resolve_unknown(ep);
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
    unsigned bits = ep->base.av->rx_ctx_bits;

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
        raw = av_addr(ep->base.av, addr);
        if (context >= RXM_CONTEXTS || !raw || rxm_addr_import(ep->base.av->format, raw, &key))
            return -FI_EINVAL;
        peer = rxm_av_peer_of(ep, &key, context);
        rc = peer ? rxm_peers_lead(&ep->peers, addr, peer) : -FI_ENOMEM;
    }
    if (!rc)
        *ret_peer = peer;
    return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peers of an endpoint, found by fi_addr_t on the data path (two loads) and by address when a
 * connection comes in. A peer, made with its first operation or request, costs about 260 bytes; an
 * address that was never used what core/av/peer_map.h says. Progress domain locked.
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_PEER_H
#define WEFT_LAYERS_RXM_CONN_RXM_PEER_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include "core/av/peer_map.h"
#include "core/base/hash.h"
#include "core/ep/sep.h"
#include "layers/rxm/conn/rxm_cm.h"

struct rxm_conn;

struct rxm_peer {
    struct rxm_conn *up; /* the connection that carries operations, or NULL */
    fi_addr_t addr;      /* the lowest that the AV has, FI_ADDR_UNSPEC: not in it */
    struct rxm_cm_peer cm;
    UT_hash_handle hh;   /* in peers->by_addr, by cm.addr and cm.context */
    unsigned slots;      /* addresses that lead here */
    struct list waiting; /* struct queued_op: operations without a connection */
    struct list ready;   /* in ep->waits.ready: they are to be looked at */
};

enum {
    RXM_CONTEXTS =
        SEP_CONTEXTS /* most of a scalable endpoint, in each direction; at most 255 on the wire */
};

struct rxm_peers {
    struct peer_map map;   /* of receive context 0 */
    struct peer_map *more; /* of the others, from 1 on; NULL until one is used */
    struct rxm_peer *by_addr;
};

/* Frees the peers too. Takes a zeroed one. */
void rxm_peers_finish(struct rxm_peers *peers);

/* By address and context (as in rxm_cm_peer); NULL when there is none. */
struct rxm_peer *rxm_peers_find(const struct rxm_peers *peers, const union addr *addr,
                                unsigned context);
/* A new one, idle and not in the AV; NULL without memory. */
struct rxm_peer *rxm_peers_add(struct rxm_peers *peers, const union addr *addr, unsigned context);
/* No address may lead to it any more. Frees it. */
void rxm_peers_remove(struct rxm_peers *peers, struct rxm_peer *peer);

/* From now on addr leads to peer, for its receive context; it led nowhere, or there already.
 * -FI_ENOMEM. */
int rxm_peers_lead(struct rxm_peers *peers, fi_addr_t addr, struct rxm_peer *peer);
/* From now on addr leads nowhere for that receive context; returns where it led. */
struct rxm_peer *rxm_peers_mislead(struct rxm_peers *peers, fi_addr_t addr, unsigned context);
/* The next address from addr on that leads somewhere, for any context, or FI_ADDR_NOTAVAIL. */
fi_addr_t rxm_peers_next(const struct rxm_peers *peers, fi_addr_t addr);
/* Where addr leads for that receive context. */
struct rxm_peer *rxm_peers_of(struct rxm_peers *peers, fi_addr_t addr, unsigned context);

/* For receive context 0. An address that names another one leads nowhere. */
static inline struct rxm_peer *rxm_peers_at(const struct rxm_peers *peers, fi_addr_t addr)
{
    return peer_map_at(&peers->map, addr);
}

#endif

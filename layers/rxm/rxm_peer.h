/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peers of an endpoint, found by fi_addr_t on the data path (two loads) and by address when a
 * connection comes in. An inserted address that was never used costs at most 8 bytes here, in
 * chunks made on the first use of an address in them; a peer, made with its first operation or
 * request, about 200. Unit locked.
 */
#ifndef WEFT_LAYERS_RXM_PEER_H
#define WEFT_LAYERS_RXM_PEER_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include "core/sep.h"
#include "layers/rxm/rxm_cm.h"

struct rxm_peer {
    struct fid_ep *up; /* the lower's endpoint that carries operations, or NULL */
    fi_addr_t addr;    /* the lowest that the AV has, FI_ADDR_UNSPEC: not in it */
    struct rxm_cm_peer cm;
    struct rxm_peer *next; /* of the same bucket */
    unsigned slots;        /* addresses that lead here */
    struct list waiting;   /* struct rxm_wait: operations without a connection */
    struct list ready;     /* in ep->waits.ready: they are to be looked at */
};

enum {
    RXM_PEER_CHUNK = 512,
    RXM_CONTEXTS =
        SEP_CONTEXTS /* most of a scalable endpoint, in each direction; at most 255 on the wire */
};

struct rxm_peer_chunk {
    struct rxm_peer *peers[RXM_PEER_CHUNK];
};

/* The peers that the addresses of an AV lead to. */
struct rxm_peer_map {
    struct rxm_peer_chunk **chunks;
    size_t chunk_count;
};

struct rxm_peers {
    struct rxm_peer_map map;   /* of receive context 0 */
    struct rxm_peer_map *more; /* of the others, from 1 on; NULL until one is used */
    struct rxm_peer **buckets;
    size_t bucket_count, count;
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
struct rxm_peer *rxm_peers_of(const struct rxm_peers *peers, fi_addr_t addr, unsigned context);

static inline struct rxm_peer *rxm_peer_map_at(const struct rxm_peer_map *map, fi_addr_t addr)
{
    size_t index = addr / RXM_PEER_CHUNK;

    if (__builtin_expect(index >= map->chunk_count || !map->chunks[index], 0))
        return NULL;
    return map->chunks[index]->peers[addr % RXM_PEER_CHUNK];
}

/* For receive context 0. An address that names another one leads nowhere. */
static inline struct rxm_peer *rxm_peers_at(const struct rxm_peers *peers, fi_addr_t addr)
{
    return rxm_peer_map_at(&peers->map, addr);
}

#endif

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

#include "layers/rxm/rxm_cm.h"

struct rxm_peer {
    struct fid_ep *up; /* the lower's endpoint that carries operations, or NULL */
    fi_addr_t addr;    /* the lowest that the AV has, FI_ADDR_UNSPEC: not in it */
    struct rxm_cm_peer cm;
    struct rxm_peer *next; /* of the same bucket */
    unsigned slots;        /* addresses that lead here */
};

enum {
    RXM_PEER_CHUNK = 512
};

struct rxm_peer_chunk {
    struct rxm_peer *peers[RXM_PEER_CHUNK];
};

struct rxm_peers {
    struct rxm_peer_chunk **chunks;
    size_t chunk_count;
    struct rxm_peer **buckets;
    size_t bucket_count, count;
};

/* Frees the peers too. Takes a zeroed one. */
void rxm_peers_finish(struct rxm_peers *peers);

/* By address; NULL when there is none. */
struct rxm_peer *rxm_peers_find(const struct rxm_peers *peers, const union addr *addr);
/* A new one, idle and not in the AV; NULL without memory. */
struct rxm_peer *rxm_peers_add(struct rxm_peers *peers, const union addr *addr);
/* No address may lead to it any more. Frees it. */
void rxm_peers_remove(struct rxm_peers *peers, struct rxm_peer *peer);

/* From now on addr leads to peer; it led nowhere, or there already. -FI_ENOMEM. */
int rxm_peers_lead(struct rxm_peers *peers, fi_addr_t addr, struct rxm_peer *peer);
/* From now on addr leads nowhere; returns where it led. */
struct rxm_peer *rxm_peers_mislead(struct rxm_peers *peers, fi_addr_t addr);
/* The next address from addr on that leads somewhere, or FI_ADDR_NOTAVAIL. */
fi_addr_t rxm_peers_next(const struct rxm_peers *peers, fi_addr_t addr);

static inline struct rxm_peer *rxm_peers_at(const struct rxm_peers *peers, fi_addr_t addr)
{
    size_t index = addr / RXM_PEER_CHUNK;

    if (__builtin_expect(index >= peers->chunk_count || !peers->chunks[index], 0))
        return NULL;
    return peers->chunks[index]->peers[addr % RXM_PEER_CHUNK];
}

#endif

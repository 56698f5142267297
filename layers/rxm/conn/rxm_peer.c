/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_peer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

/* Addresses are compared as such: not what else is in their bytes. */
#undef HASH_KEYCMP
#define HASH_KEYCMP(a, b, len) (!is_at((a), (b)))

static bool is_at(const struct rxm_cm_peer *a, const struct rxm_cm_peer *b)
{
    return a->context == b->context && addr_equal(&a->addr.sa, &b->addr.sa);
}

static unsigned hash_of(const union addr *addr, unsigned context)
{
    return hash_fold(addr_hash(&addr->sa) + context);
}

void rxm_peers_finish(struct rxm_peers *peers)
{
    struct rxm_peer *peer = peers->by_addr, *next;

    HASH_CLEAR(hh, peers->by_addr);
    for (; peer; peer = next) {
        next = peer->hh.next;
        free(peer);
    }
    peer_map_finish(&peers->map);
    for (unsigned i = 1; peers->more && i < RXM_CONTEXTS; i++)
        peer_map_finish(&peers->more[i - 1]);
    free(peers->more);
    memset(peers, 0, sizeof(*peers));
}

struct rxm_peer *rxm_peers_find(const struct rxm_peers *peers, const union addr *addr,
                                unsigned context)
{
    const struct rxm_cm_peer key = {.addr = *addr, .context = context};
    struct rxm_peer *peer;

    HASH_FIND_BYHASHVALUE(hh, peers->by_addr, &key, sizeof(key), hash_of(addr, context), peer);
    return peer;
}

struct rxm_peer *rxm_peers_add(struct rxm_peers *peers, const union addr *addr, unsigned context)
{
    struct rxm_peer *peer = calloc(1, sizeof(*peer));

    if (!peer)
        return NULL;
    peer->addr = FI_ADDR_UNSPEC;
    list_init(&peer->waiting);
    list_init(&peer->ready);
    rxm_cm_peer_init(&peer->cm, addr, context);
    HASH_ADD_BYHASHVALUE(hh, peers->by_addr, cm, sizeof(peer->cm), hash_of(addr, context), peer);
    if (hash_has(peer))
        return peer;
    free(peer);
    return NULL;
}

void rxm_peers_remove(struct rxm_peers *peers, struct rxm_peer *peer)
{
    assert(!peer->slots);
    HASH_DEL(peers->by_addr, peer);
    free(peer);
}

static struct peer_map *map_of(struct rxm_peers *peers, unsigned context)
{
    if (!context)
        return &peers->map;
    return peers->more && context < RXM_CONTEXTS ? &peers->more[context - 1] : NULL;
}

struct rxm_peer *rxm_peers_of(struct rxm_peers *peers, fi_addr_t addr, unsigned context)
{
    struct peer_map *map = map_of(peers, context);

    return map ? peer_map_at(map, addr) : NULL;
}

int rxm_peers_lead(struct rxm_peers *peers, fi_addr_t addr, struct rxm_peer *peer)
{
    struct peer_map *map = &peers->map;
    void **slot;

    assert(peer->cm.context < RXM_CONTEXTS);
    if (peer->cm.context) {
        if (!peers->more)
            peers->more = calloc(RXM_CONTEXTS - 1, sizeof(*peers->more));
        if (!peers->more)
            return -FI_ENOMEM;
        map = &peers->more[peer->cm.context - 1];
    }
    slot = peer_map_slot(map, addr);
    if (!slot)
        return -FI_ENOMEM;
    assert(!*slot || *slot == peer);
    peer->slots += !*slot;
    *slot = peer;
    return 0;
}

struct rxm_peer *rxm_peers_mislead(struct rxm_peers *peers, fi_addr_t addr, unsigned context)
{
    struct peer_map *map = map_of(peers, context);
    struct rxm_peer *peer = map ? peer_map_at(map, addr) : NULL;

    if (peer) {
        *peer_map_slot(map, addr) = NULL; /* it is there */
        peer->slots--;
    }
    return peer;
}

fi_addr_t rxm_peers_next(const struct rxm_peers *peers, fi_addr_t addr)
{
    fi_addr_t next = peer_map_next(&peers->map, addr);

    for (unsigned i = 1; peers->more && i < RXM_CONTEXTS; i++) {
        fi_addr_t other = peer_map_next(&peers->more[i - 1], addr);

        next = other < next ? other : next;
    }
    return next;
}

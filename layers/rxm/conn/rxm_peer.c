/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_peer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum {
    FIRST_BUCKETS = 16
};

static struct rxm_peer **bucket(const struct rxm_peers *peers, const union addr *addr,
                                unsigned context)
{
    return &peers->buckets[(addr_hash(&addr->sa) + context) & (peers->bucket_count - 1)];
}

void rxm_peers_finish(struct rxm_peers *peers)
{
    for (size_t i = 0; i < peers->bucket_count; i++)
        while (peers->buckets[i]) {
            struct rxm_peer *peer = peers->buckets[i];

            peers->buckets[i] = peer->next;
            free(peer);
        }
    free(peers->buckets);
    peer_map_finish(&peers->map);
    for (unsigned i = 1; peers->more && i < RXM_CONTEXTS; i++)
        peer_map_finish(&peers->more[i - 1]);
    free(peers->more);
    memset(peers, 0, sizeof(*peers));
}

struct rxm_peer *rxm_peers_find(const struct rxm_peers *peers, const union addr *addr,
                                unsigned context)
{
    struct rxm_peer *peer = peers->bucket_count ? *bucket(peers, addr, context) : NULL;

    while (peer && (peer->cm.context != context || !addr_equal(&peer->cm.addr.sa, &addr->sa)))
        peer = peer->next;
    return peer;
}

static bool grow(struct rxm_peers *peers)
{
    size_t old = peers->bucket_count, count = old ? 2 * old : FIRST_BUCKETS;
    struct rxm_peer **from = peers->buckets, **to = calloc(count, sizeof(*to));

    if (!to)
        return false;
    peers->buckets = to;
    peers->bucket_count = count;
    for (size_t i = 0; i < old; i++)
        while (from[i]) {
            struct rxm_peer *peer = from[i],
                            **head = bucket(peers, &peer->cm.addr, peer->cm.context);

            from[i] = peer->next;
            peer->next = *head;
            *head = peer;
        }
    free(from);
    return true;
}

struct rxm_peer *rxm_peers_add(struct rxm_peers *peers, const union addr *addr, unsigned context)
{
    struct rxm_peer *peer, **head;

    if (peers->count == peers->bucket_count && !grow(peers))
        return NULL;
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        return NULL;
    peer->addr = FI_ADDR_UNSPEC;
    list_init(&peer->waiting);
    list_init(&peer->ready);
    rxm_cm_peer_init(&peer->cm, addr, context);
    head = bucket(peers, addr, context);
    peer->next = *head;
    *head = peer;
    peers->count++;
    return peer;
}

void rxm_peers_remove(struct rxm_peers *peers, struct rxm_peer *peer)
{
    struct rxm_peer **pos = bucket(peers, &peer->cm.addr, peer->cm.context);

    assert(!peer->slots);
    while (*pos != peer)
        pos = &(*pos)->next;
    *pos = peer->next;
    peers->count--;
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

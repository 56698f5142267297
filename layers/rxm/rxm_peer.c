/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_peer.h"

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

static void finish_map(struct rxm_peer_map *map)
{
    for (size_t i = 0; i < map->chunk_count; i++)
        free(map->chunks[i]);
    free(map->chunks);
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
    finish_map(&peers->map);
    for (unsigned i = 1; peers->more && i < RXM_CONTEXTS; i++)
        finish_map(&peers->more[i - 1]);
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

static struct rxm_peer_chunk *chunk_of(struct rxm_peer_map *map, fi_addr_t addr)
{
    size_t index = addr / RXM_PEER_CHUNK;

    if (index >= map->chunk_count) {
        size_t count = index + 1;
        struct rxm_peer_chunk **chunks = realloc(map->chunks, count * sizeof(*chunks));

        if (!chunks)
            return NULL;
        memset(chunks + map->chunk_count, 0, (count - map->chunk_count) * sizeof(*chunks));
        map->chunks = chunks;
        map->chunk_count = count;
    }
    if (!map->chunks[index])
        map->chunks[index] = calloc(1, sizeof(struct rxm_peer_chunk));
    return map->chunks[index];
}

static const struct rxm_peer_map *map_of(const struct rxm_peers *peers, unsigned context)
{
    if (!context)
        return &peers->map;
    return peers->more && context < RXM_CONTEXTS ? &peers->more[context - 1] : NULL;
}

struct rxm_peer *rxm_peers_of(const struct rxm_peers *peers, fi_addr_t addr, unsigned context)
{
    const struct rxm_peer_map *map = map_of(peers, context);

    return map ? rxm_peer_map_at(map, addr) : NULL;
}

int rxm_peers_lead(struct rxm_peers *peers, fi_addr_t addr, struct rxm_peer *peer)
{
    struct rxm_peer_map *map = &peers->map;
    struct rxm_peer_chunk *chunk;
    struct rxm_peer **slot;

    assert(peer->cm.context < RXM_CONTEXTS);
    if (peer->cm.context) {
        if (!peers->more)
            peers->more = calloc(RXM_CONTEXTS - 1, sizeof(*peers->more));
        if (!peers->more)
            return -FI_ENOMEM;
        map = &peers->more[peer->cm.context - 1];
    }
    chunk = chunk_of(map, addr);
    if (!chunk)
        return -FI_ENOMEM;
    slot = &chunk->peers[addr % RXM_PEER_CHUNK];
    assert(!*slot || *slot == peer);
    peer->slots += !*slot;
    *slot = peer;
    return 0;
}

struct rxm_peer *rxm_peers_mislead(struct rxm_peers *peers, fi_addr_t addr, unsigned context)
{
    const struct rxm_peer_map *map = map_of(peers, context);
    struct rxm_peer *peer = map ? rxm_peer_map_at(map, addr) : NULL;

    if (peer) {
        map->chunks[addr / RXM_PEER_CHUNK]->peers[addr % RXM_PEER_CHUNK] = NULL;
        peer->slots--;
    }
    return peer;
}

static fi_addr_t next_in(const struct rxm_peer_map *map, fi_addr_t addr)
{
    for (; addr / RXM_PEER_CHUNK < map->chunk_count; addr++) {
        if (rxm_peer_map_at(map, addr))
            return addr;
    }
    return FI_ADDR_NOTAVAIL;
}

fi_addr_t rxm_peers_next(const struct rxm_peers *peers, fi_addr_t addr)
{
    fi_addr_t next = next_in(&peers->map, addr);

    for (unsigned i = 1; peers->more && i < RXM_CONTEXTS; i++) {
        fi_addr_t other = next_in(&peers->more[i - 1], addr);

        next = other < next ? other : next;
    }
    return next;
}

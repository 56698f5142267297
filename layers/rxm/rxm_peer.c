/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_peer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum {
    FIRST_BUCKETS = 16
};

static struct rxm_peer **bucket(const struct rxm_peers *peers, const union addr *addr)
{
    return &peers->buckets[addr_hash(&addr->sa) & (peers->bucket_count - 1)];
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
    for (size_t i = 0; i < peers->chunk_count; i++)
        free(peers->chunks[i]);
    free(peers->chunks);
    memset(peers, 0, sizeof(*peers));
}

struct rxm_peer *rxm_peers_find(const struct rxm_peers *peers, const union addr *addr)
{
    struct rxm_peer *peer = peers->bucket_count ? *bucket(peers, addr) : NULL;

    while (peer && !addr_equal(&peer->cm.addr.sa, &addr->sa))
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
            struct rxm_peer *peer = from[i], **head = bucket(peers, &peer->cm.addr);

            from[i] = peer->next;
            peer->next = *head;
            *head = peer;
        }
    free(from);
    return true;
}

struct rxm_peer *rxm_peers_add(struct rxm_peers *peers, const union addr *addr)
{
    struct rxm_peer *peer, **head;

    if (peers->count == peers->bucket_count && !grow(peers))
        return NULL;
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        return NULL;
    peer->addr = FI_ADDR_UNSPEC;
    rxm_cm_peer_init(&peer->cm, addr);
    head = bucket(peers, addr);
    peer->next = *head;
    *head = peer;
    peers->count++;
    return peer;
}

void rxm_peers_remove(struct rxm_peers *peers, struct rxm_peer *peer)
{
    struct rxm_peer **pos = bucket(peers, &peer->cm.addr);

    assert(!peer->slots);
    while (*pos != peer)
        pos = &(*pos)->next;
    *pos = peer->next;
    peers->count--;
    free(peer);
}

static struct rxm_peer_chunk *chunk_of(struct rxm_peers *peers, fi_addr_t addr)
{
    size_t index = addr / RXM_PEER_CHUNK;

    if (index >= peers->chunk_count) {
        size_t count = index + 1;
        struct rxm_peer_chunk **chunks = realloc(peers->chunks, count * sizeof(*chunks));

        if (!chunks)
            return NULL;
        memset(chunks + peers->chunk_count, 0, (count - peers->chunk_count) * sizeof(*chunks));
        peers->chunks = chunks;
        peers->chunk_count = count;
    }
    if (!peers->chunks[index])
        peers->chunks[index] = calloc(1, sizeof(struct rxm_peer_chunk));
    return peers->chunks[index];
}

int rxm_peers_lead(struct rxm_peers *peers, fi_addr_t addr, struct rxm_peer *peer)
{
    struct rxm_peer_chunk *chunk = chunk_of(peers, addr);
    struct rxm_peer **slot;

    if (!chunk)
        return -FI_ENOMEM;
    slot = &chunk->peers[addr % RXM_PEER_CHUNK];
    assert(!*slot || *slot == peer);
    peer->slots += !*slot;
    *slot = peer;
    return 0;
}

struct rxm_peer *rxm_peers_mislead(struct rxm_peers *peers, fi_addr_t addr)
{
    struct rxm_peer *peer = rxm_peers_at(peers, addr);

    if (peer) {
        peers->chunks[addr / RXM_PEER_CHUNK]->peers[addr % RXM_PEER_CHUNK] = NULL;
        peer->slots--;
    }
    return peer;
}

fi_addr_t rxm_peers_next(const struct rxm_peers *peers, fi_addr_t addr)
{
    for (; addr / RXM_PEER_CHUNK < peers->chunk_count; addr++) {
        if (rxm_peers_at(peers, addr))
            return addr;
    }
    return FI_ADDR_NOTAVAIL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/arq/arq_peer.h"

#include <stdlib.h>

#include "layers/arq/arq_ep.h"

enum {
    FIRST_BUCKETS = 16,
    INDEX_BITS = 20 /* of an identifier */
};

void arq_peers_init(struct arq_peers *peers, size_t most)
{
    ids_init(&peers->ids, INDEX_BITS, INDEX_BITS);
    list_init(&peers->links);
    peers->link_most = most;
}

void arq_peers_finish(struct arq_peers *peers)
{
    for (size_t i = 0; i < peers->bucket_count; i++) {
        while (peers->buckets[i]) {
            struct arq_peer *peer = peers->buckets[i];

            peers->buckets[i] = peer->next;
            free(peer);
        }
    }
    free(peers->buckets);
    peers->buckets = NULL;
    peers->bucket_count = 0;
    peer_map_finish(&peers->map);
    ids_finish(&peers->ids);
}

/* ---- By address ---- */

static struct arq_peer **bucket_of(const struct arq_peers *peers, const struct arq_addr *name)
{
    return &peers->buckets[arq_addr_hash(name) & (peers->bucket_count - 1)];
}

struct arq_peer *arq_peers_find(const struct arq_peers *peers, const struct arq_addr *name)
{
    struct arq_peer *peer = peers->bucket_count ? *bucket_of(peers, name) : NULL;

    while (peer && !arq_addr_equal(&peer->name, name))
        peer = peer->next;
    return peer;
}

static bool grow(struct arq_peers *peers)
{
    size_t count = peers->bucket_count ? 2 * peers->bucket_count : FIRST_BUCKETS;
    struct arq_peer **buckets = calloc(count, sizeof(struct arq_peer *)), **old = peers->buckets;
    size_t old_count = peers->bucket_count;

    if (!buckets)
        return false;
    peers->buckets = buckets;
    peers->bucket_count = count;
    for (size_t i = 0; i < old_count; i++) {
        while (old[i]) {
            struct arq_peer *peer = old[i], **bucket = bucket_of(peers, &peer->name);

            old[i] = peer->next;
            peer->next = *bucket;
            *bucket = peer;
        }
    }
    free(old);
    return true;
}

struct arq_peer *arq_peer_get(struct arq_ep *ep, const struct arq_addr *name)
{
    struct arq_peers *peers = &ep->peers;
    struct arq_peer *peer = arq_peers_find(peers, name), **bucket;

    if (peer)
        return peer;
    if (peers->count >= peers->bucket_count && !grow(peers))
        return NULL;
    peer = calloc(1, offsetof(struct arq_peer, name.bytes) + name->len);
    if (!peer)
        return NULL;
    arq_addr_copy(&peer->name, name);
    peer->lower = FI_ADDR_NOTAVAIL;
    peer->addr = av_find(ep->up.base.av, name->bytes);
    bucket = bucket_of(peers, name);
    peer->next = *bucket;
    *bucket = peer;
    peers->count++;
    return peer;
}

void arq_peer_drop_unused(struct arq_ep *ep, struct arq_peer *peer)
{
    struct arq_peer **at;

    if (peer->slots || peer->link)
        return;
    at = bucket_of(&ep->peers, &peer->name);
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    ep->peers.count--;
    free(peer);
}

/* ---- By number ---- */

int arq_peer_of(struct arq_ep *ep, fi_addr_t addr, struct arq_peer **ret_peer)
{
    const void *raw = av_addr(ep->up.base.av, addr);
    struct arq_addr name;
    struct arq_peer *peer;
    void **slot;

    if (!raw || !arq_addr_of_av(ep->up.base.av->format, raw, &name))
        return -FI_EINVAL;
    slot = peer_map_slot(&ep->peers.map, addr);
    peer = slot ? arq_peer_get(ep, &name) : NULL;
    if (!peer)
        return -FI_ENOMEM;
    if (*slot != peer)
        peer->slots++;
    *slot = peer;
    if (peer->addr == FI_ADDR_NOTAVAIL)
        peer->addr = addr;
    *ret_peer = peer;
    return 0;
}

void arq_peer_leave(struct arq_ep *ep, fi_addr_t addr)
{
    struct arq_peer *peer = peer_map_at(&ep->peers.map, addr);
    void **slot;

    if (peer) {
        slot = peer_map_slot(&ep->peers.map, addr);
        *slot = NULL;
        peer->slots--;
    }
    for (size_t i = 0; i < ep->peers.bucket_count; i++) {
        for (struct arq_peer *other = ep->peers.buckets[i]; other; other = other->next) {
            if (other->addr == addr)
                other->addr = av_find(ep->up.base.av, other->name.bytes);
        }
    }
    if (peer)
        arq_peer_drop_unused(ep, peer);
}

void arq_peers_resolve(struct arq_ep *ep)
{
    for (size_t i = 0; i < ep->peers.bucket_count; i++) {
        for (struct arq_peer *peer = ep->peers.buckets[i]; peer; peer = peer->next) {
            if (peer->addr == FI_ADDR_NOTAVAIL)
                peer->addr = av_find(ep->up.base.av, peer->name.bytes);
        }
    }
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors: each address has an address handle, and is found by the numbers that come with a
 * packet. Endpoints remember whom they sent to and heard of last. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

enum {
    FIRST_BUCKETS = 16
};

/* An idle address is one of these, so it is small. */
struct efa_peer {
    struct efa_peer *next; /* of the bucket */
    struct efa_handle *handle;
    fi_addr_t index;
    uint32_t qkey;
    uint16_t qpn;
    bool found; /* by handle and qpn: it is the latest address with these */
};

static struct efa_av *efa_av_of(struct av *av)
{
    return object_of(av, struct efa_av, base);
}

static struct efa_domain *home_of(const struct av *av)
{
    return object_of(av->domain, struct efa_domain, base);
}

/* Endpoints forget the addresses that they remember. */
static void changed(const struct av *av)
{
    atomic_fetch_add(&home_of(av)->changes, 1);
}

bool efa_av_usable(const void *raw)
{
    static const uint8_t none[16];

    return memcmp(raw, none, sizeof(none)) != 0;
}

static bool usable(const struct av *av, const void *raw)
{
    return efa_av_usable(raw);
}

/* ---- By what the device tells of a sender ---- */

static struct efa_peer **bucket(const struct efa_av *av, const struct efa_handle *handle,
                                uint32_t qpn)
{
    uint64_t key = ((uintptr_t)handle >> 4 << 16) + qpn;

    return &av->buckets[key * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (av->bucket_count - 1)];
}

/* Where it is linked, or the end of the bucket. */
static struct efa_peer **place_of(const struct efa_av *av, const struct efa_handle *handle,
                                  uint32_t qpn)
{
    struct efa_peer **at = bucket(av, handle, qpn);

    while (*at && ((*at)->handle != handle || (*at)->qpn != qpn))
        at = &(*at)->next;
    return at;
}

static void link_peer(struct efa_av *av, struct efa_peer *peer)
{
    struct efa_peer **at = bucket(av, peer->handle, peer->qpn);

    peer->next = *at;
    *at = peer;
}

/* Without memory the buckets become longer. */
static int make_buckets(struct efa_av *av)
{
    size_t count = av->bucket_count, more = count ? 2 * count : FIRST_BUCKETS;
    struct efa_peer **old = av->buckets, **buckets;

    if (av->found_count < count)
        return 0;
    buckets = calloc(more, sizeof(*buckets));
    if (!buckets)
        return count ? 0 : -FI_ENOMEM;
    av->buckets = buckets;
    av->bucket_count = more;
    for (size_t i = 0; i < count; i++) {
        for (struct efa_peer *peer = old[i], *next; peer; peer = next) {
            next = peer->next;
            link_peer(av, peer);
        }
    }
    free(old);
    return 0;
}

static void lose(struct efa_av *av, struct efa_peer *peer)
{
    struct efa_peer **at = place_of(av, peer->handle, peer->qpn);

    *at = peer->next;
    peer->found = false;
    av->found_count--;
}

/* A queue pair number that is used again belongs to the address that was inserted last. */
static void make_found(struct efa_av *av, struct efa_peer *peer)
{
    struct efa_peer *old = *place_of(av, peer->handle, peer->qpn);

    if (old)
        lose(av, old);
    link_peer(av, peer);
    peer->found = true;
    av->found_count++;
}

/* ---- Insertions ---- */

static void drop(struct efa_av *av, struct efa_peer *peer)
{
    efa_handle_release(home_of(&av->base), peer->handle);
    pool_put(&av->peers, peer);
}

static int inserted(struct av *base, fi_addr_t index, const void *raw)
{
    struct efa_av *av = efa_av_of(base);
    void **slot = peer_map_slot(&av->by_index, index);
    struct efa_handle *handle;
    struct efa_peer *peer;
    struct efa_addr addr;
    int rc = slot ? make_buckets(av) : -FI_ENOMEM;

    memcpy(&addr, raw, sizeof(addr));
    if (!rc)
        rc = efa_handle_hold(home_of(base), addr.gid, &handle);
    if (rc)
        return rc;
    peer = pool_get(&av->peers);
    if (!peer) {
        efa_handle_release(home_of(base), handle);
        return -FI_ENOMEM;
    }
    *peer = (struct efa_peer){.handle = handle, .index = index, .qkey = addr.qkey, .qpn = addr.qpn};
    *slot = peer;
    make_found(av, peer);
    changed(base);
    return 0;
}

static void removed(struct av *base, fi_addr_t index)
{
    struct efa_av *av = efa_av_of(base);
    struct efa_peer *peer = peer_map_at(&av->by_index, index);

    if (!peer)
        return;
    changed(base);
    if (peer->found)
        lose(av, peer);
    *peer_map_slot(&av->by_index, index) = NULL;
    drop(av, peer);
}

static void identified(struct av *av, fi_addr_t index)
{
    changed(av);
}

static void closed(struct av *base)
{
    struct efa_av *av = efa_av_of(base);

    for (fi_addr_t index = peer_map_next(&av->by_index, 0); index != FI_ADDR_NOTAVAIL;
         index = peer_map_next(&av->by_index, index + 1))
        drop(av, peer_map_at(&av->by_index, index));
    peer_map_finish(&av->by_index);
    pool_finish(&av->peers);
    free(av->buckets);
}

int efa_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    struct efa_domain *domain = efa_domain_of(fid);
    int rc;

    domain->kind = (struct av_kind){
        .size = EFA_ADDR_SIZE,
        .object_size = sizeof(struct efa_av),
        .usable = usable,
        .inserted = inserted,
        .removed = removed,
        .identified = identified,
        .closed = closed,
    };
    rc = av_open_kind(&domain->base, attr, &domain->kind, av, context);
    if (!rc)
        pool_init(&efa_av_of(object_of(*av, struct av, fid))->peers, sizeof(struct efa_peer), 0);
    return rc;
}

/* ---- Where to, and where from ---- */

int efa_av_route(struct efa_ep *ep, fi_addr_t addr)
{
    struct efa_domain *domain = ep->domain;
    struct av *base = ep->base.av;
    struct efa_peer *peer;
    int rc = -FI_EINVAL;

    if (ep->starved && ep->sends)
        return -FI_EAGAIN;
    ep->starved = false;
    if (efa_is_pressed(domain) && !ep->sends)
        efa_handle_unpin_all(domain, &ep->pins);
    ep->dest = FI_ADDR_NOTAVAIL;
    ep->dest_changes = atomic_load(&domain->changes);
    pthread_mutex_lock(&base->mutex);
    peer = peer_map_at(&efa_av_of(base)->by_index, addr);
    if (peer)
        rc = efa_handle_pin(domain, peer->handle, &ep->pins, ep->read);
    if (!rc) {
        ep->dest = addr;
        ep->route =
            (struct efa_route){peer->handle->ah, peer->qpn, peer->qkey, peer->handle->number};
    }
    pthread_mutex_unlock(&base->mutex);
    ep->starved = rc == -FI_EAGAIN;
    return rc;
}

static const struct efa_peer *peer_of(const struct efa_av *av, const struct efa_handle *handle,
                                      uint32_t qpn)
{
    return handle && av->bucket_count ? *place_of(av, handle, qpn) : NULL;
}

/* since: the number may be what it was then. */
static fi_addr_t find(struct av *base, unsigned number, uint32_t qpn, const uint8_t *gid,
                      unsigned since)
{
    struct efa_av *av = efa_av_of(base);
    const struct efa_peer *peer;
    fi_addr_t index;

    pthread_mutex_lock(&base->mutex);
    peer = peer_of(av, efa_handle_of(home_of(base), number, gid), qpn);
    for (unsigned i = 0; i < EFA_FORMERS && !peer && !gid; i++)
        peer = peer_of(av, efa_handle_former(home_of(base), number, i, since), qpn);
    index = peer ? peer->index : FI_ADDR_NOTAVAIL;
    pthread_mutex_unlock(&base->mutex);
    return peer ? av_source(base, index) : FI_ADDR_NOTAVAIL;
}

/* A packet that came before its sender's handle has the GID only: the handle may be there now. */
fi_addr_t efa_av_source(struct efa_ep *ep, unsigned number, uint32_t qpn, const uint8_t *gid)
{
    unsigned changes = atomic_load(&ep->domain->changes);
    uint64_t numbers = (uint64_t)number << 32 | qpn;

    if (gid)
        return find(ep->base.av, number, qpn, gid, 0);
    if (__builtin_expect(ep->source_numbers == numbers && ep->source_changes == changes, 1))
        return ep->source_addr;
    ep->source_addr = find(ep->base.av, number, qpn, NULL, ep->read);
    ep->source_numbers = numbers;
    ep->source_changes = changes;
    return ep->source_addr;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors: each address has an address handle, and is found by the numbers that come with a
 * packet. Endpoints remember whom they sent to and heard of last. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

/* The device's name for a sender, with no bytes between. */
struct efa_numbers {
    uintptr_t handle; /* struct efa_handle */
    uintptr_t qpn;
};

struct efa_peer {
    fi_addr_t index;
    struct efa_numbers device;
    UT_hash_handle by_device; /* of the latest address with these */
    uint32_t qkey;
    bool found; /* by them */
};

static struct efa_av *efa_av_of(struct av *av)
{
    return object_of(av, struct efa_av, base);
}

static struct efa_domain *home_of(const struct av *av)
{
    return object_of(av->domain, struct efa_domain, base);
}

static struct efa_handle *handle_of(const struct efa_peer *peer)
{
    return (struct efa_handle *)peer->device.handle;
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

/* A queue pair number that is used again belongs to the address that was inserted last. */
static void make_found(struct efa_av *av, struct efa_peer *peer)
{
    struct efa_peer *old;

    HASH_FIND(by_device, av->by_device, &peer->device, sizeof(peer->device), old);
    if (old) {
        HASH_DELETE(by_device, av->by_device, old);
        old->found = false;
    }
    HASH_ADD(by_device, av->by_device, device, sizeof(peer->device), peer);
    peer->found = peer->by_device.tbl != NULL;
}

static void drop(struct efa_av *av, struct efa_peer *peer)
{
    efa_handle_release(home_of(&av->base), handle_of(peer));
    free(peer);
}

static int inserted(struct av *base, fi_addr_t index, const void *raw)
{
    struct efa_av *av = efa_av_of(base);
    struct efa_peer *peer = calloc(1, sizeof(*peer));
    struct efa_handle *handle;
    struct efa_addr addr;
    void **slot = peer ? peer_map_slot(&av->by_index, index) : NULL;
    int rc = slot ? 0 : -FI_ENOMEM;

    memcpy(&addr, raw, sizeof(addr));
    if (!rc)
        rc = efa_handle_hold(home_of(base), addr.gid, &handle);
    if (rc) {
        free(peer);
        return rc;
    }
    peer->index = index;
    peer->device = (struct efa_numbers){(uintptr_t)handle, addr.qpn};
    peer->qkey = addr.qkey;
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
        HASH_DELETE(by_device, av->by_device, peer);
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

    HASH_CLEAR(by_device, av->by_device);
    for (fi_addr_t index = peer_map_next(&av->by_index, 0); index != FI_ADDR_NOTAVAIL;
         index = peer_map_next(&av->by_index, index + 1))
        drop(av, peer_map_at(&av->by_index, index));
    peer_map_finish(&av->by_index);
}

int efa_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    struct efa_domain *domain = efa_domain_of(fid);

    domain->kind = (struct av_kind){
        .size = EFA_ADDR_SIZE,
        .object_size = sizeof(struct efa_av),
        .usable = usable,
        .inserted = inserted,
        .removed = removed,
        .identified = identified,
        .closed = closed,
    };
    return av_open_kind(&domain->base, attr, &domain->kind, av, context);
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
        rc = efa_handle_pin(domain, handle_of(peer), &ep->pins);
    if (!rc) {
        ep->dest = addr;
        ep->route = (struct efa_route){handle_of(peer)->ah, (uint32_t)peer->device.qpn, peer->qkey,
                                       handle_of(peer)->number};
    }
    pthread_mutex_unlock(&base->mutex);
    ep->starved = rc == -FI_EAGAIN;
    return rc;
}

static fi_addr_t find(struct av *base, unsigned number, uint32_t qpn, const uint8_t *gid)
{
    struct efa_numbers key = {.qpn = qpn};
    struct efa_peer *peer = NULL;

    pthread_mutex_lock(&base->mutex);
    key.handle = (uintptr_t)efa_handle_of(home_of(base), number, gid);
    if (key.handle)
        HASH_FIND(by_device, efa_av_of(base)->by_device, &key, sizeof(key), peer);
    pthread_mutex_unlock(&base->mutex);
    return peer ? av_source(base, peer->index) : FI_ADDR_NOTAVAIL;
}

/* A packet that came before its sender's handle has the GID only: the handle may be there now. */
fi_addr_t efa_av_source(struct efa_ep *ep, unsigned number, uint32_t qpn, const uint8_t *gid)
{
    unsigned changes = atomic_load(&ep->domain->changes);
    uint64_t numbers = (uint64_t)number << 32 | qpn;

    if (gid)
        return find(ep->base.av, number, qpn, gid);
    if (__builtin_expect(ep->source_numbers == numbers && ep->source_changes == changes, 1))
        return ep->source_addr;
    ep->source_addr = find(ep->base.av, number, qpn, NULL);
    ep->source_numbers = numbers;
    ep->source_changes = changes;
    return ep->source_addr;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors: each address has an address handle of the device, and is found by the numbers
 * that come with a packet. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

struct efa_peer {
    fi_addr_t index;
    struct {
        uint32_t handle, qpn;
    } device;
    UT_hash_handle by_device; /* of the latest address with these numbers */
    bool found;               /* by them */
    struct efa_handle *handle;
    struct efa_route route;
};

static struct efa_av *efa_av_of(struct av *av)
{
    return object_of(av, struct efa_av, base);
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

    av->last = NULL;
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
    efa_handle_release(object_of(av->base.domain, struct efa_domain, base), peer->handle);
    free(peer);
}

static int inserted(struct av *base, fi_addr_t index, const void *raw)
{
    struct efa_av *av = efa_av_of(base);
    struct efa_domain *domain = object_of(base->domain, struct efa_domain, base);
    struct efa_peer *peer = calloc(1, sizeof(*peer));
    struct efa_addr addr;
    void **slot = peer ? peer_map_slot(&av->by_index, index) : NULL;

    if (!slot) {
        free(peer);
        return -FI_ENOMEM;
    }
    memcpy(&addr, raw, sizeof(addr));
    peer->handle = efa_handle_hold(domain, addr.gid);
    if (!peer->handle) {
        free(peer);
        return verbs_error(-1);
    }
    peer->index = index;
    peer->device.handle = peer->handle->number;
    peer->device.qpn = addr.qpn;
    peer->route = (struct efa_route){peer->handle->ah, addr.qpn, addr.qkey, peer->handle->number};
    *slot = peer;
    make_found(av, peer);
    return 0;
}

static void removed(struct av *base, fi_addr_t index)
{
    struct efa_av *av = efa_av_of(base);
    struct efa_peer *peer = peer_map_at(&av->by_index, index);

    if (!peer)
        return;
    av->last = NULL;
    if (peer->found)
        HASH_DELETE(by_device, av->by_device, peer);
    *peer_map_slot(&av->by_index, index) = NULL;
    drop(av, peer);
}

static void identified(struct av *av, fi_addr_t index)
{
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

bool efa_av_route(struct av *base, fi_addr_t addr, struct efa_route *route)
{
    struct efa_peer *peer;

    pthread_mutex_lock(&base->mutex);
    peer = peer_map_at(&efa_av_of(base)->by_index, addr);
    if (peer)
        *route = peer->route;
    pthread_mutex_unlock(&base->mutex);
    return peer;
}

static struct efa_peer *find(struct efa_av *av, unsigned handle, uint32_t qpn)
{
    struct efa_peer key = {.device = {.handle = handle, .qpn = qpn}}, *peer = av->last;

    if (__builtin_expect(peer && peer->device.handle == handle && peer->device.qpn == qpn, 1))
        return peer;
    HASH_FIND(by_device, av->by_device, &key.device, sizeof(key.device), peer);
    av->last = peer;
    return peer;
}

/* A packet that came before its sender's handle has the GID only: the handle may be there now. */
fi_addr_t efa_av_source(struct av *base, unsigned handle, uint32_t qpn, const uint8_t *gid)
{
    struct efa_peer *peer;
    fi_addr_t addr;

    if (gid)
        handle = efa_handle_number(object_of(base->domain, struct efa_domain, base), gid);
    pthread_mutex_lock(&base->mutex);
    peer = find(efa_av_of(base), handle, qpn);
    addr = peer ? av_source(base, peer->index) : FI_ADDR_NOTAVAIL;
    pthread_mutex_unlock(&base->mutex);
    return addr;
}

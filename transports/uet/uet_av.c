/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors of 32-byte addresses, and who is behind an IP address, port and initiator ID: a
 * packet names its sender by nothing else that an address has. An address without an initiator is
 * that of any.
 */
#include <stdint.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "transports/uet/uet.h"

enum {
    SLOTS_MIN = 64,
    EMPTY = 0,
    GONE = UINT32_MAX, /* was taken: what is behind it is found over it */
};

/* Open addressing: a slot is the index of an address, and 1. At most half of them are in use. */
struct uet_av {
    struct av base;
    uint32_t *slots; /* guarded by the control lock, as all here */
    size_t room, used;
};

static struct uet_av *av_of(const struct av *base)
{
    return object_of(base, struct uet_av, base);
}

/* All packets of an endpoint name these. */
struct peer {
    union addr host;
    uint32_t initiator; /* 0 without one: */
    bool has_initiator;
};

static size_t first_slot(const struct uet_av *av, const struct peer *peer)
{
    uint64_t hash = addr_hash(&peer->host.sa) + peer->initiator * UINT64_C(0x9e3779b97f4a7c15);

    return (hash ^ hash >> 32) & (av->room - 1);
}

static bool usable(const struct av *base, const void *raw)
{
    struct uet_address address;

    return uet_address_get(raw, &address);
}

static bool peer_in(const void *raw, struct peer *peer)
{
    struct uet_address address;

    if (!raw || !uet_address_get(raw, &address))
        return false;
    peer->host = address.host;
    peer->has_initiator = address.flags & UET_HAS_INITIATOR;
    peer->initiator = peer->has_initiator ? address.initiator : 0;
    return true;
}

static bool peer_of(const struct av *base, fi_addr_t index, struct peer *peer)
{
    return peer_in(av_addr(base, index), peer);
}

static bool is_same(const struct peer *a, const struct peer *b)
{
    return a->has_initiator == b->has_initiator && a->initiator == b->initiator &&
           addr_equal(&a->host.sa, &b->host.sa);
}

static void put(struct uet_av *av, uint32_t index, const struct peer *peer)
{
    size_t at = first_slot(av, peer);

    while (av->slots[at] != EMPTY)
        at = (at + 1) & (av->room - 1);
    av->slots[at] = index + 1;
    av->used++;
}

static int grow(struct uet_av *av)
{
    struct uet_av before = *av;
    struct peer peer;

    av->room = before.room ? 2 * before.room : SLOTS_MIN;
    av->slots = calloc(av->room, sizeof(*av->slots));
    if (!av->slots) {
        av->slots = before.slots;
        av->room = before.room;
        return -FI_ENOMEM;
    }
    av->used = 0;
    for (size_t i = 0; i < before.room; i++)
        if (before.slots[i] != EMPTY && before.slots[i] != GONE &&
            peer_of(&av->base, before.slots[i] - 1, &peer))
            put(av, before.slots[i] - 1, &peer);
    free(before.slots);
    return 0;
}

static int inserted(struct av *base, fi_addr_t index, const void *raw)
{
    struct uet_av *av = av_of(base);
    struct peer peer;

    if (index >= GONE - 1)
        return -FI_ENOMEM;
    if (2 * (av->used + 1) > av->room && grow(av))
        return -FI_ENOMEM;
    if (!peer_in(raw, &peer))
        return -FI_EINVAL;
    put(av, (uint32_t)index, &peer);
    return 0;
}

static void removed(struct av *base, fi_addr_t index)
{
    struct uet_av *av = av_of(base);
    struct peer peer;

    if (!av->room || !peer_of(base, index, &peer))
        return;
    for (size_t at = first_slot(av, &peer); av->slots[at] != EMPTY;
         at = (at + 1) & (av->room - 1)) {
        if (av->slots[at] != index + 1)
            continue;
        av->slots[at] = GONE;
        return;
    }
}

static void identified(struct av *base, fi_addr_t index)
{
}

static void closed(struct av *base)
{
    free(av_of(base)->slots);
}

static bool key_usable(const struct av *av, const void *key, size_t size)
{
    return size == UET_JOB_SIZE;
}

static const struct av_kind kind = {
    .size = UET_ADDRESS_SIZE,
    .object_size = sizeof(struct uet_av),
    .usable = usable,
    .inserted = inserted,
    .removed = removed,
    .identified = identified,
    .closed = closed,
    .key_usable = key_usable,
};

int uet_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    return av_open_kind(object_of(fid, struct domain, fid), attr, &kind, av, context);
}

/* key: the peer's; NULL: the AV has none. Of several that are the same the first is it. */
static fi_addr_t find(struct uet_av *av, const struct peer *peer, const struct av_key *key)
{
    fi_addr_t found = FI_ADDR_UNSPEC;
    struct peer other;

    if (!av->room)
        return found;
    for (size_t at = first_slot(av, peer); av->slots[at] != EMPTY; at = (at + 1) & (av->room - 1)) {
        fi_addr_t index = av->slots[at] - 1;

        if (av->slots[at] != GONE && index < found && peer_of(&av->base, index, &other) &&
            is_same(&other, peer) && (!key || av_key_of(&av->base, index) == key))
            found = index;
    }
    return found;
}

/* The address with that initiator ID, or one without. */
static fi_addr_t find_initiator(struct uet_av *av, const union addr *host, uint32_t initiator,
                                const struct av_key *key)
{
    const struct peer peer = {.host = *host, .initiator = initiator, .has_initiator = true};
    const struct peer any = {.host = *host};
    fi_addr_t found = find(av, &peer, key);

    return found == FI_ADDR_UNSPEC ? find(av, &any, key) : found;
}

fi_addr_t uet_av_find(struct av *base, const union addr *host, uint32_t job, uint32_t initiator)
{
    const struct av_key *key = NULL;
    fi_addr_t found = FI_ADDR_UNSPEC;
    uint8_t bytes[UET_JOB_SIZE];

    pthread_mutex_lock(&base->mutex);
    if (base->keys) {
        uet_job_put(job, bytes);
        key = av_key_find(base, bytes, sizeof(bytes), SIZE_MAX);
    }
    if (key || !base->keys)
        found = find_initiator(av_of(base), host, initiator, key);
    /* A peer that is not in the AV is one of its job. */
    if (key && found == FI_ADDR_UNSPEC)
        found = key->addr;
    pthread_mutex_unlock(&base->mutex);
    return found;
}

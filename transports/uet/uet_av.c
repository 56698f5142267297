/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors of 32-byte addresses, and who is behind an IP address and port: a packet names
 * its sender by nothing else that an address has.
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

static size_t first_slot(const struct uet_av *av, const union addr *host)
{
    uint64_t hash = addr_hash(&host->sa);

    return (hash ^ hash >> 32) & (av->room - 1);
}

static bool usable(const struct av *base, const void *raw)
{
    struct uet_address address;

    return uet_address_get(raw, &address);
}

static bool host_of(const struct av *base, fi_addr_t index, union addr *host)
{
    struct uet_address address;
    const void *raw = av_addr(base, index);

    if (!raw || !uet_address_get(raw, &address))
        return false;
    *host = address.host;
    return true;
}

static void put(struct uet_av *av, uint32_t index, const union addr *host)
{
    size_t at = first_slot(av, host);

    while (av->slots[at] != EMPTY)
        at = (at + 1) & (av->room - 1);
    av->slots[at] = index + 1;
    av->used++;
}

static int grow(struct uet_av *av)
{
    struct uet_av before = *av;
    union addr host;

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
            host_of(&av->base, before.slots[i] - 1, &host))
            put(av, before.slots[i] - 1, &host);
    free(before.slots);
    return 0;
}

static int inserted(struct av *base, fi_addr_t index, const void *raw)
{
    struct uet_av *av = av_of(base);
    struct uet_address address;

    if (index >= GONE - 1)
        return -FI_ENOMEM;
    if (2 * (av->used + 1) > av->room && grow(av))
        return -FI_ENOMEM;
    uet_address_get(raw, &address);
    put(av, (uint32_t)index, &address.host);
    return 0;
}

static void removed(struct av *base, fi_addr_t index)
{
    struct uet_av *av = av_of(base);
    union addr host;

    if (!av->room || !host_of(base, index, &host))
        return;
    for (size_t at = first_slot(av, &host); av->slots[at] != EMPTY;
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

/* key: the peer's; NULL: the AV has none. Of several with one host the first is it. */
static fi_addr_t find(struct uet_av *av, const union addr *host, const struct av_key *key)
{
    fi_addr_t found = FI_ADDR_UNSPEC;
    union addr other;

    if (!av->room)
        return found;
    for (size_t at = first_slot(av, host); av->slots[at] != EMPTY; at = (at + 1) & (av->room - 1)) {
        fi_addr_t index = av->slots[at] - 1;

        if (av->slots[at] != GONE && index < found && host_of(&av->base, index, &other) &&
            addr_equal(&other.sa, &host->sa) && (!key || av_key_of(&av->base, index) == key))
            found = index;
    }
    return found;
}

fi_addr_t uet_av_find(struct av *base, const union addr *host, uint32_t job)
{
    const struct av_key *key = NULL;
    uint8_t bytes[UET_JOB_SIZE];
    fi_addr_t found;

    pthread_mutex_lock(&base->mutex);
    if (base->keys) {
        uet_job_put(job, bytes);
        key = av_key_find(base, bytes, sizeof(bytes), SIZE_MAX);
    }
    found = base->keys && !key ? FI_ADDR_UNSPEC : find(av_of(base), host, key);
    /* A peer that is not in the AV is one of its job. */
    if (key && found == FI_ADDR_UNSPEC)
        found = key->addr;
    pthread_mutex_unlock(&base->mutex);
    return found;
}

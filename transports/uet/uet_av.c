/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors of 32-byte addresses, and who is behind an IP address and port: a packet names
 * its sender by nothing else that an address has.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "transports/uet/uet.h"

enum {
    BUCKETS = 256
};

struct known {
    struct known *next;
    union addr host;
    fi_addr_t fi_addr;
};

struct uet_av {
    struct av base;
    struct known *buckets[BUCKETS]; /* guarded by the control lock */
};

static struct uet_av *av_of(const struct av *base)
{
    return object_of(base, struct uet_av, base);
}

static struct known **bucket_of(struct uet_av *av, const union addr *host)
{
    uint64_t hash = addr_hash(&host->sa);

    return &av->buckets[(hash ^ hash >> 32) % BUCKETS];
}

static bool usable(const struct av *base, const void *raw)
{
    struct uet_address address;

    return uet_address_get(raw, &address);
}

static int inserted(struct av *base, fi_addr_t index, const void *raw)
{
    struct uet_av *av = av_of(base);
    struct known *known = malloc(sizeof(*known));
    struct uet_address address;
    struct known **at;

    if (!known)
        return -FI_ENOMEM;
    uet_address_get(raw, &address);
    known->host = address.host;
    known->fi_addr = index;
    known->next = NULL;
    /* Behind the others: of several with one host the first is it. */
    for (at = bucket_of(av, &known->host); *at; at = &(*at)->next)
        ;
    *at = known;
    return 0;
}

static void removed(struct av *base, fi_addr_t index)
{
    struct uet_av *av = av_of(base);
    struct uet_address address;
    const void *raw = av_addr(base, index);

    if (!raw || !uet_address_get(raw, &address))
        return;
    for (struct known **at = bucket_of(av, &address.host); *at; at = &(*at)->next) {
        struct known *known = *at;

        if (known->fi_addr != index)
            continue;
        *at = known->next;
        free(known);
        return;
    }
}

static void identified(struct av *base, fi_addr_t index)
{
}

static void closed(struct av *base)
{
    struct uet_av *av = av_of(base);

    for (size_t i = 0; i < BUCKETS; i++) {
        while (av->buckets[i]) {
            struct known *known = av->buckets[i];

            av->buckets[i] = known->next;
            free(known);
        }
    }
}

static const struct av_kind kind = {
    .size = UET_ADDRESS_SIZE,
    .object_size = sizeof(struct uet_av),
    .usable = usable,
    .inserted = inserted,
    .removed = removed,
    .identified = identified,
    .closed = closed,
};

int uet_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    return av_open_kind(object_of(fid, struct domain, fid), attr, &kind, av, context);
}

fi_addr_t uet_av_find(struct av *base, const union addr *host)
{
    fi_addr_t found = FI_ADDR_UNSPEC;

    pthread_mutex_lock(&base->mutex);
    for (const struct known *known = *bucket_of(av_of(base), host); known; known = known->next) {
        if (addr_equal(&known->host.sa, &host->sa)) {
            found = known->fi_addr;
            break;
        }
    }
    pthread_mutex_unlock(&base->mutex);
    return found;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of the application's regions, by key: atomics in packets of ours are done by the
 * target, which must know where. Keys, rights and ranges are checked as the lower does for its own.
 */
#ifndef WEFT_LAYERS_RXM_MSGPROTO_RXM_REGION_H
#define WEFT_LAYERS_RXM_MSGPROTO_RXM_REGION_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/base/hash.h"

struct rxm_region {
    UT_hash_handle hh; /* in regions->by_key; zeroed before it is added */
    uint64_t key, access;
    uint64_t addr; /* remote, of the first byte */
    size_t len;
    size_t iov_count;
    struct iovec *iov;
    void *owner; /* the caller's */
};

/* Of a domain. The mutex is a leaf. */
struct rxm_regions {
    pthread_mutex_t mutex;
    struct rxm_region *by_key;
};

void rxm_regions_init(struct rxm_regions *regions);
void rxm_regions_finish(struct rxm_regions *regions); /* an empty one */
/* -FI_ENOMEM, and it is not added. */
int rxm_regions_add(struct rxm_regions *regions, struct rxm_region *region);
/* Takes one that is not added. When it returns the memory is unused. */
void rxm_regions_remove(struct rxm_regions *regions, struct rxm_region *region);

/*
 * Locks, and finds. access: all of these rights. 0, and the caller unlocks with rxm_regions_unlock;
 * -FI_EACCES, -FI_EINVAL: as mr_resolve (core/domain/mr.h).
 */
int rxm_regions_lock(struct rxm_regions *regions, uint64_t key, uint64_t addr, size_t len,
                     uint64_t access, struct rxm_region **region);
void rxm_regions_unlock(struct rxm_regions *regions);
/* The memory at addr of a region, and how much of it is in one piece. */
void *rxm_region_at(const struct rxm_region *region, uint64_t addr, size_t *len);

#endif

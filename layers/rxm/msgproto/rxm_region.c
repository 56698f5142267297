/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/msgproto/rxm_region.h"

#include <rdma/fi_errno.h>

void rxm_regions_init(struct rxm_regions *regions)
{
    pthread_mutex_init(&regions->mutex, NULL);
}

void rxm_regions_finish(struct rxm_regions *regions)
{
    pthread_mutex_destroy(&regions->mutex);
}

int rxm_regions_add(struct rxm_regions *regions, struct rxm_region *region)
{
    int rc;

    pthread_mutex_lock(&regions->mutex);
    HASH_ADD(hh, regions->by_key, key, sizeof(region->key), region);
    rc = hash_has(region) ? 0 : -FI_ENOMEM;
    pthread_mutex_unlock(&regions->mutex);
    return rc;
}

void rxm_regions_remove(struct rxm_regions *regions, struct rxm_region *region)
{
    pthread_mutex_lock(&regions->mutex);
    if (hash_has(region))
        HASH_DEL(regions->by_key, region);
    pthread_mutex_unlock(&regions->mutex);
}

int rxm_regions_lock(struct rxm_regions *regions, uint64_t key, uint64_t addr, size_t len,
                     uint64_t access, struct rxm_region **ret_region)
{
    struct rxm_region *region;
    int rc = 0;

    pthread_mutex_lock(&regions->mutex);
    HASH_FIND(hh, regions->by_key, &key, sizeof(key), region);
    if (!region || (region->access & access) != access)
        rc = -FI_EACCES;
    else if (addr < region->addr || addr - region->addr > region->len ||
             len > region->len - (addr - region->addr))
        rc = -FI_EINVAL;
    if (rc)
        pthread_mutex_unlock(&regions->mutex);
    else
        *ret_region = region;
    return rc;
}

void rxm_regions_unlock(struct rxm_regions *regions)
{
    pthread_mutex_unlock(&regions->mutex);
}

void *rxm_region_at(const struct rxm_region *region, uint64_t addr, size_t *len)
{
    uint64_t at = addr - region->addr;
    size_t i = 0;

    while (i + 1 < region->iov_count && at >= region->iov[i].iov_len)
        at -= region->iov[i++].iov_len;
    *len = region->iov[i].iov_len - at;
    return (char *)region->iov[i].iov_base + at;
}

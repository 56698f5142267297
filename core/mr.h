/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and the check of every remote access. Modes by domain_attr->mr_mode: keys chosen by
 * the provider (FI_MR_PROV_KEY: random 64 bits that cannot be guessed) or by the application; addresses virtual
 * (FI_MR_VIRT_ADDR) or offsets from the region's start (requested offset added); FI_MR_ENDPOINT
 * regions are checked after bind and enable only. Source: fi_mr(3).
 */
#ifndef WEFT_CORE_MR_H
#define WEFT_CORE_MR_H

#include <rdma/fi_domain.h>

#include "core/fid.h"

struct cntr;
struct mr_map;

struct mr {
    struct fid_mr fid;
    struct domain *domain;
    struct mr_map *map;
    uint64_t access;
    uint64_t offset; /* remote address of the first byte when not FI_MR_VIRT_ADDR */
    uint64_t flags;
    size_t len;
    size_t iov_count;
    struct iovec *iov;
    struct cntr *remote_write; /* FI_RMA_EVENT binding, or NULL */
    struct cntr *remote_read;
    bool enabled;
    atomic_int users; /* remote accesses under way, and the application's hold */
};

/* One per domain; has a lock of its own, taken for a look-up only. */
int mr_map_create(struct domain *domain, struct mr_map **map);
void mr_map_destroy(struct mr_map *map); /* takes NULL */

/* reg, regv, regattr over domain->mrs, which mr_map_create sets. */
extern struct fi_ops_mr mr_ops;

/*
 * Resolves a remote access of len bytes at addr under key to local memory: fills iov (at most *count
 * entries, set to what was used). access: FI_REMOTE_READ or FI_REMOTE_WRITE. On success *mr is held
 * (mr_release when the transfer is over; a region closed meanwhile lives until then).
 * -FI_ENOKEY (no such key), -FI_EACCES (access not granted), -FI_EINVAL (out of range).
 */
int mr_resolve(struct mr_map *map, uint64_t key, uint64_t addr, size_t len, uint64_t access,
               struct iovec *iov, size_t *count, struct mr **mr);
void mr_release(struct mr *mr);

#endif

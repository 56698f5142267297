/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and the check of every remote access. Modes by domain_attr->mr_mode: keys chosen
 * by the provider (FI_MR_PROV_KEY: random 64 bits that cannot be guessed) or by the application;
 * addresses virtual (FI_MR_VIRT_ADDR) or offsets from the region's start (requested offset added);
 * FI_MR_ENDPOINT regions are checked after bind and enable only. Source: fi_mr(3).
 */
#ifndef WEFT_CORE_DOMAIN_MR_H
#define WEFT_CORE_DOMAIN_MR_H

#include <rdma/fi_domain.h>

#include "core/base/fid.h"
#include "core/domain/mr_grant.h"

struct cntr;
struct mr_map;

/*
 * A flag of registration between our own parts, outside the public ones: accesses of the region
 * are the upper's own affair, and counters bound to endpoints do not count them. A lower that does
 * not know it answers -FI_EBADFLAGS; the upper goes on without.
 */
#define MR_UNCOUNTED (UINT64_C(1) << 62)
/* Likewise, of mr_ops alone: the requested key is the region's although the provider chooses keys
 * (FI_MR_PROV_KEY). A layer takes that of the same memory's region in its lower. */
#define MR_KEY_GIVEN (UINT64_C(1) << 61)

struct mr {
    struct fid_mr fid; /* fid.key is FI_KEY_NOTAVAIL in FI_MR_RAW mode */
    struct domain *domain;
    struct mr_map *map;
    struct mr *base;      /* a sub-region's, held; or NULL */
    struct fid_mr *below; /* a layer's: the lower's of the same memory, closed with it; or NULL */
    uint64_t key;
    uint64_t access;
    uint64_t offset; /* remote address of the first byte */
    uint64_t flags;
    size_t len;
    size_t iov_count;
    struct iovec *iov;
    struct cntr *remote_write; /* FI_RMA_EVENT binding, or NULL */
    struct cntr *remote_read;
    bool enabled;
    bool bound;  /* to an endpoint */
    bool device; /* memory that the CPU does not reach: a layer's, whose lower does */
    struct mr_grant grant;
    struct children children; /* sub-regions */
    atomic_int users;         /* remote accesses under way, and the application's hold */
    atomic_bool closed;
    atomic_uint watched;
    struct list watches; /* of mr_watch.c */
};

/* One per domain; has a lock of its own, taken for a look-up only. */
int mr_map_create(struct domain *domain, struct mr_map **map);
void mr_map_destroy(struct mr_map *map); /* takes NULL */

/*
 * reg, regv, regattr over domain->mrs, which mr_map_create sets. A region of zero length is taken.
 * Regions without remote access have no key that a peer could use, and may share a requested one.
 * -FI_ENOKEY: the requested key is in use; -FI_EKEYREJECTED: it does not fit mr_key_size;
 * -FI_EBADFLAGS, -FI_EINVAL, -FI_ENOSYS (device memory, authorization keys in a domain without
 * domain->auth_key_size), -FI_ENOMEM. In a domain of FI_AV_AUTH_KEY each region needs a struct
 * fi_mr_auth_key: fi_mr_reg and fi_mr_regv are -FI_EINVAL.
 */
extern struct fi_ops_mr mr_ops;

/* Entries of a table whose regattr does all the work: they call it, with a struct of full size. */
int mr_reg(struct fid *domain, const void *buf, size_t len, uint64_t access, uint64_t offset,
           uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context);
int mr_regv(struct fid *domain, const struct iovec *iov, size_t count, uint64_t access,
            uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
            void *context);

/* FI_MAP_RAW_MR and FI_UNMAP_KEY, for the fi_control of domains; -FI_ENOSYS for other commands. */
int mr_domain_control(struct fid *domain, int command, void *arg);

/*
 * Resolves a remote access of len bytes at addr under key to local memory: fills iov (at most
 * *count entries; *count is set to the number used). access: FI_REMOTE_READ or FI_REMOTE_WRITE. On
 * success *mr is held (mr_release when the transfer is over; a region closed meanwhile lives until
 * then, its memory does not: see mr_any_closed). -FI_EACCES (no such key, or access not granted:
 * the peer is not told which, and as libfabric has it), -FI_EINVAL (out of range), -FI_ETOOSMALL
 * (more than *count pieces; mr_iov_limit always suffices). No bytes are never refused: *mr is NULL
 * when they are of no region.
 */
int mr_resolve(struct mr_map *map, uint64_t key, uint64_t addr, size_t len, uint64_t access,
               struct iovec *iov, size_t *count, struct mr **mr);
/* Is it for that requester? Parts whose domain has authorization keys, or whose regions know their
 * endpoint (FI_MR_ENDPOINT), ask for each region that they resolved. */
static inline bool mr_permits(const struct mr *mr, const struct mr_requester *who)
{
    return !mr || mr_grant_permits(&mr->grant, who);
}
void mr_release(struct mr *mr); /* takes NULL, and so do those that follow */
/* One of them was closed meanwhile: its memory may be gone. A transfer in parts asks before each,
 * with its progress domain locked as long as the part takes: fi_close waits until each thread has
 * left those of the domain. */
bool mr_any_closed(struct mr *const *mrs, size_t count);

/* One operation on these regions is done, which had that access (FI_REMOTE_READ, FI_REMOTE_WRITE; a
 * fetching atomic has both): each of their counters for it goes up by one, however many of the
 * regions, or of their ranges, it touched. */
void mr_accessed(struct mr *const *mrs, size_t count, uint64_t access);
/* Does an access of these regions count as one of its endpoint? (MR_UNCOUNTED) */
bool mr_counted(struct mr *const *mrs, size_t count);

/*
 * The same without a lock, a hold, or a locked instruction: where the access is to be done, before
 * the progress domain is unlocked. NULL: it is refused, or the region has several pieces, counters,
 * or endpoints, or the map is being changed; mr_resolve tells. len: not 0.
 */
void *mr_find(const struct mr_map *map, uint64_t key, uint64_t addr, size_t len, uint64_t access);

#endif

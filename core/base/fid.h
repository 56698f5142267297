/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts of every object: children that keep it open, and the bases of fabric and domain objects,
 * which core/domain opens. Children hold their parent; close with children is -FI_EBUSY.
 */
#ifndef WEFT_CORE_BASE_FID_H
#define WEFT_CORE_BASE_FID_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "core/base/list.h"
#include "core/base/seam.h"

/* The object that embeds `member` (a fid or a base) at `ptr`. */
#define object_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct children {
    atomic_int count;
};

static inline void children_hold(struct children *children)
{
    atomic_fetch_add_explicit(&children->count, 1, memory_order_relaxed);
}

static inline void children_release(struct children *children)
{
    atomic_fetch_sub_explicit(&children->count, 1, memory_order_release);
}

static inline bool children_any(const struct children *children)
{
    return atomic_load_explicit(&children->count, memory_order_acquire) != 0;
}

static inline void fid_init(struct fid *fid, size_t fclass, void *context, struct fi_ops *ops)
{
    fid->fclass = fclass;
    fid->context = context;
    fid->ops = ops;
}

/* Base of a part's fabric object; first member of it. */
struct fabric {
    struct fid_fabric fid;
    struct children children;
    uint32_t api_version;
    unsigned abi;     /* enum abi_level: layouts of the structs that the upper passes in */
    const char *part; /* part's name, for logs */
};

struct mr_map;

struct progress;
struct progress_group;

/* The bindings of a domain's endpoints (core/queue/binding.h), and what any of them may change. */
struct domain_reports {
    pthread_mutex_t mutex;
    struct list list; /* struct report */
    struct progress
        *common; /* the progress domain that all belong to once one must drive all; held; or NULL */
};

/* Base of a part's domain object; first member of it. */
struct domain {
    struct fid_domain fid;
    struct fabric *fabric;
    struct children children;
    struct fi_info *info; /* current layout, all attrs present; as passed to fi_domain */
    struct reach reach;   /* peers that its endpoints reach (CONTROL_REACH); len 0: all */
    struct mr_map *mrs;   /* of parts that check remote access themselves; else NULL */
    struct domain_reports reports;
    struct progress_group *progress_group;
    /* fi_cq_strerror of a prov_errno that is no FI_E code; NULL, or NULL from it: it is one. */
    const char *(*error_text)(const struct domain *domain, int prov_errno);
    size_t auth_key_size; /* bytes of authorization keys of regions; 0: the part has none */
    uint64_t mr_flags;    /* flags of registration of the part's own, which it looks at itself */
    /* A key that the provider chooses (FI_MR_PROV_KEY) for a region of those flags, of a random
     * number; called again, with attempts counted from 0, while it gives keys that are taken. NULL:
     * the number is the key. */
    uint64_t (*make_key)(const struct domain *domain, uint64_t flags, uint64_t random,
                         unsigned attempt);
};

#endif

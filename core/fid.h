/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every object has: children that keep it open, and the bases of fabric and domain objects.
 * Children hold their parent; close with children is -FI_EBUSY.
 */
#ifndef WEFT_CORE_FID_H
#define WEFT_CORE_FID_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "core/list.h"

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

struct unit;

/* What the endpoints of a domain report to (core/report.h), for what any of them may change. */
struct domain_reports {
    pthread_mutex_t mutex;
    struct list list;    /* struct report */
    struct unit *common; /* the unit that all belong to once one must drive all; held; or NULL */
};

/* Base of a part's domain object; first member of it. */
struct domain {
    struct fid_domain fid;
    struct fabric *fabric;
    struct children children;
    struct fi_info *info; /* current layout, all attrs present; what fi_domain was given */
    struct mr_map *mrs;   /* of parts that check remote access themselves; else NULL */
    struct domain_reports reports;
};

struct open_args;

/* Fills base fields from args; ops tables are the caller's. */
void fabric_init(struct fabric *fabric, const struct open_args *args, struct fi_ops *fid_ops,
                 struct fi_ops_fabric *ops, void *context);

/* Imports info by the fabric's abi level, and holds the fabric. -FI_ENOMEM. */
int domain_init(struct domain *domain, struct fabric *fabric, const struct fi_info *info,
                struct fi_ops *fid_ops, struct fi_ops_domain *ops, struct fi_ops_mr *mr_ops,
                void *context);
/* Frees the info and the map of regions, releases the fabric. */
void domain_finish(struct domain *domain);

/* `info` as given to fi_endpoint, fi_passive_ep, ... in the current layout with all attrs: a copy
 * that the caller frees with info_free. NULL without memory. */
struct fi_info *fabric_info(const struct fabric *fabric, const struct fi_info *info);

#endif

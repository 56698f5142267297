/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fabric and domain: one of each branch's below. A domain is one progress domain: one lock, under
 * which all calls on its branches are made, which have none.
 */
#ifndef WEFT_LAYERS_LNX_LNX_DOMAIN_H
#define WEFT_LAYERS_LNX_LNX_DOMAIN_H

#include <stdatomic.h>

#include <rdma/fi_atomic.h>

#include "core/av/av.h"
#include "core/layer/join_fabric.h"
#include "core/progress/progress.h"
#include "layers/lnx/lnx_addr.h"
#include "layers/lnx/lnx_keys.h"

/* A branch that the domain has. */
struct lnx_branch {
    struct lower *lower;
    size_t slot;
    struct fid_domain *domain;
    struct fi_info *info; /* that it was opened with, which it may keep pointers into */
    uint16_t kind;        /* lnx_addr_kind */
    bool local;           /* reaches peers of this node only */
    struct reach reach;   /* len 0: reaches each peer with its address */
    bool keys;            /* chooses the keys of its regions */
    bool virt;            /* addresses its regions by virtual addresses */
    bool local_mr;        /* wants descriptors of local buffers */
};

enum {
    LNX_AV_CHANGED = 1 << 0,    /* a branch's, since the branches were driven last */
    LNX_AV_RENUMBERED = 1 << 1, /* a branch has had another number for a peer than the join */
    LNX_WATCHED = 8,            /* queues of a domain, at most */
    LNX_UNSEEN = 64,            /* calls, at most, of lnx_ep.unseen */
    LNX_KINDS = 3,              /* of atomics: plain, fetch, compare */
    LNX_DATATYPES = 32,
    LNX_OPS = 32
};

struct cq;

struct lnx_domain {
    struct domain base;
    struct join_fabric *fabric;
    struct progress *progress; /* of all queues, counters and endpoints */
    atomic_uint av_state;      /* LNX_AV_... */
    struct list unlocked;      /* endpoints, by lnx_ep.quick.link. Progress domain locked */
    int mr_bits;               /* info_mr_bits of its info */
    bool local_mr;             /* of any branch */
    bool source_err;           /* its info has FI_SOURCE_ERR: queues have relays (lnx_relay.h) */
    bool devices;              /* its info has FI_HMEM: the only branch registers such memory */
    bool own_keys;             /* several branches insist on keys: peers ask for theirs */
    struct lnx_keys keys;      /* with own_keys */
    size_t count;
    size_t face; /* the branch whose addresses and names are ours; not below count: none is */
    struct av_kind av_kind; /* with a face */
    unsigned rails;         /* most branches of one kind */
    bool per_msg;           /* they take turns in each operation */
    struct lnx_branch branch[LNX_BRANCHES];
    /* Queues that polls of branches may write into; there may be more. Progress domain locked. */
    const struct cq *watched[LNX_WATCHED];
    size_t watched_count;
    /* Elements of an atomic that every branch takes, and one more; 1: it is not valid on all of
     * them; 0: not asked yet. Progress domain locked. */
    uint32_t atomics[LNX_KINDS][LNX_DATATYPES][LNX_OPS];
};

/* Elements of such an operation that every branch takes; function as in struct op. -FI_EOPNOTSUPP:
 * not all of them have it. Progress domain locked. */
int lnx_atomic_count(struct lnx_domain *domain, uint64_t function, enum fi_datatype datatype,
                     enum fi_op op, size_t *count);

/* Of the part table. */
int lnx_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

static inline unsigned lnx_av_state(const struct lnx_domain *domain)
{
    return atomic_load_explicit(&domain->av_state, memory_order_relaxed);
}

/* LNX_AV_... is so from now on: the next call of each endpoint looks. Progress domain locked. */
void lnx_av_note(struct lnx_domain *domain, unsigned state);

static inline struct lnx_domain *lnx_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct lnx_domain, base.fid);
}

#endif

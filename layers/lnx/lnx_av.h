/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address vector: each address is inserted into the one of a branch that reaches it, which is
 * chosen then. Branches report sources by the join's numbers (FI_AV_USER_ID).
 */
#ifndef WEFT_LAYERS_LNX_LNX_AV_H
#define WEFT_LAYERS_LNX_LNX_AV_H

#include "core/av/av.h"
#include "layers/lnx/lnx_domain.h"

enum {
    LNX_NO_BRANCH = LNX_BRANCHES
};

/* An address vector has less than 2^32 addresses, of which this is none. */
#define LNX_NO_ADDR UINT32_MAX

/* By which branch a peer is reached. A peer has as many as the domain has branches of one kind
 * (lnx_domain.rails), first the one that is used: it may send by any, and is known there. */
struct lnx_path {
    uint32_t addr; /* in the branch's AV */
    uint32_t branch;
};

struct lnx_av {
    union {
        struct av base;
        struct fid_av fid;
    };
    struct lnx_domain *domain;
    /* Guarded by the domain's progress lock. */
    bool no_local;          /* FI_OPT_SHARED_MEMORY_PERMITTED is false */
    struct lnx_path *paths; /* path_count times domain->rails */
    size_t path_count;
    /* With a face: by which else a peer of this node may send, and is known. NULL while there is no
     * such peer. */
    struct lnx_path *beside;
    size_t beside_count;
    struct lnx_answers answers; /* of keys, where the domain has them */
    struct list strangers;      /* that have asked for keys */
    size_t stranger_count;
    struct {
        struct fid_av *av;
        uint32_t *up; /* of each of its addresses, the join's; LNX_NO_ADDR */
        size_t up_count;
    } branch[LNX_BRANCHES];
};

int lnx_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);

/* Permits or forbids branches that do not leave the node. While they are forbidden, peers without
 * another branch are unreachable. Progress domain unlocked. */
void lnx_av_permit_local(struct lnx_av *av, bool permitted);

static inline struct lnx_av *lnx_av_of(struct av *av)
{
    return object_of(av, struct lnx_av, base);
}

/* Inserts into a branch's AV, for peers that need only `source` reported. Progress domain
 * locked. */
int lnx_av_insert_below(struct lnx_av *av, unsigned branch, const void *raw, fi_addr_t source,
                        fi_addr_t *addr);

/* NULL: it is no address, or one that no branch reaches. Progress domain locked. */
static inline const struct lnx_path *lnx_av_path(const struct lnx_av *av, fi_addr_t addr)
{
    const struct lnx_path *path;

    if (__builtin_expect(addr >= av->path_count, 0))
        return NULL;
    path = &av->paths[addr * av->domain->rails];
    return __builtin_expect(path->branch != LNX_NO_BRANCH, 1) ? path : NULL;
}

/* Its path by that branch, or NULL. */
static inline const struct lnx_path *lnx_av_path_by(const struct lnx_av *av, fi_addr_t addr,
                                                    unsigned branch)
{
    const struct lnx_path *path = lnx_av_path(av, addr);

    for (unsigned i = 0; path && i < av->domain->rails; i++) {
        if (path[i].branch == branch)
            return &path[i];
    }
    return NULL;
}

/* The join's number of a branch's. Progress domain locked. */
static inline fi_addr_t lnx_av_up(const struct lnx_av *av, unsigned branch, fi_addr_t addr)
{
    uint32_t up = addr < av->branch[branch].up_count ? av->branch[branch].up[addr] : LNX_NO_ADDR;

    return up != LNX_NO_ADDR ? up : FI_ADDR_UNSPEC;
}

#endif

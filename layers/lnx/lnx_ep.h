/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint: one of each branch's below. An operation is one look-up of its peer's path and the
 * branch's own post; the branch completes it where the application reads.
 */
#ifndef WEFT_LAYERS_LNX_LNX_EP_H
#define WEFT_LAYERS_LNX_LNX_EP_H

#include "core/ep/endpoint.h"
#include "layers/lnx/lnx_av.h"
#include "layers/lnx/lnx_mr.h"
#include "layers/lnx/lnx_queue.h"
#include "layers/lnx/lnx_rx.h"

struct lnx_branch_ep {
    struct op_target target; /* ep */
    struct fid_ep *ep;
    struct fi_info *info;
    struct lnx_rx rx;
};

/* Of the short ways (lnx_quick.c), from fi_enable on. */
struct lnx_short {
    /* Without a lock: calls until one looks at what changes rarely, and drives a branch that has no
     * room. */
    uint32_t unseen;
    bool locked;   /* the progress domain has a lock */
    bool straight; /* the only branch takes calls as they are */
    bool matches;  /* receives go to the engine */
    size_t below;  /* they are for less than so many bytes */
    /* Of the address vector, as they were when a call looked last; it tells of others. */
    size_t path_count;
    const struct lnx_path *paths;
    struct fid_ep *branch[LNX_BRANCHES + 1]; /* of LNX_NO_BRANCH NULL */
    struct list link;                        /* in lnx_domain.unlocked, or in itself */
};

struct lnx_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct lnx_domain *domain;
    struct lnx_av *av;   /* once it is enabled */
    struct lnx_sep *sep; /* whose context it is, or NULL */
    unsigned index;      /* of the context */
    struct fi_info *info;
    bool top;              /* no upper sees what happens before the application does */
    bool alone;            /* one branch, which matches by itself */
    bool no_local;         /* FI_OPT_SHARED_MEMORY_PERMITTED is false */
    int sign;              /* lnx_face.h; -1: there is none */
    unsigned context_bits; /* of addresses, which name a receive context */
    struct lnx_short quick;
    size_t count;
    struct lnx_branch_ep branch[LNX_BRANCHES];
    struct fid_peer_cq dropped; /* where nothing but counters is bound: sink of own */
    struct lnx_drives own;
    struct lnx_descs descs;
    struct lnx_remote remote; /* keys of an operation */
    unsigned turn;            /* of the next operation, with domain->per_msg */
    uint32_t name;            /* in questions for keys; 0: not drawn yet */
};

struct lnx_sep;
struct sep;
struct sep_opening;

/* Of the table of a scalable endpoint (core/ep/sep.h). */
int lnx_ep_open_context(struct sep *sep, const struct sep_opening *opening, struct endpoint **ep);

/* After -FI_EAGAIN: a poster that does nothing but try again makes progress, too. Progress domain
 * locked. */
void lnx_ep_drive(struct lnx_ep *ep);

int lnx_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

#endif

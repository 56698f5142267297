/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues and counters. Each has one of every branch's below, into which nothing is
 * written: the branches write to the application's, or to that of an upper.
 */
#ifndef WEFT_LAYERS_LNX_LNX_QUEUE_H
#define WEFT_LAYERS_LNX_LNX_QUEUE_H

#include "core/layer/peer_cq.h"
#include "core/layer/silence.h"
#include "layers/lnx/lnx_domain.h"
#include "layers/lnx/lnx_relay.h"

struct lnx_drives;

/* Polls one branch. */
struct lnx_drive {
    struct lnx_domain *domain;
    struct lower_source below;
    struct lnx_relay relay;
    struct cq *top; /* where completions show that the branch has traffic, or NULL */
    struct silence silence;
    bool counts; /* by itself what it takes (progress_takes), being within the node; or is alone */
    struct lnx_drives *drives; /* of its queue */
};

/* A queue of each branch, written to sink. */
struct lnx_drives {
    struct lnx_drive branch[LNX_BRANCHES];
    struct lnx_drive *busy;  /* the one that found something last, or NULL */
    struct lnx_drive *plain; /* that, where the others are silent and it needs but to be driven */
    unsigned skips;          /* until those have a turn */
    size_t count;
};

struct lnx_cq {
    struct peer_cq base;
    struct lnx_domain *domain; /* once it is open */
    struct lnx_drives drives;
};

struct lnx_cntr {
    struct peer_cntr base;
    struct fid_cntr *branch[LNX_BRANCHES]; /* NULL until they are used */
    struct fid_peer_cntr own;              /* between them and base, where the join sends, too */
    unsigned
        uncounted; /* of what completes next, which the join has sent. Progress domain locked */
};

int lnx_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                void *context);
int lnx_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                  void *context);

/* Queues of the branches for an endpoint with counters only, for which the application has opened
 * no CQ: the endpoint makes progress by reading these. sink outlives them. Progress domain
 * unlocked. */
int lnx_drives_open(struct lnx_drives *drives, struct lnx_domain *domain, size_t size,
                    struct fid_peer_cq *sink, struct cq *top);
int lnx_drives_close(struct lnx_drives *drives, struct progress *progress);
/* An endpoint of the branch has both queues: one is driven for both. Progress domain locked. */
void lnx_drives_fold(struct lnx_drives *keep, struct lnx_drives *fold, size_t branch);

/* The branch's counter that counts for it. Progress domain locked. */
int lnx_cntr_below(struct lnx_domain *domain, struct cntr *cntr, size_t branch,
                   struct fid_cntr **below);

static inline struct lnx_cntr *lnx_cntr_of(struct cntr *cntr)
{
    return object_of(cntr, struct lnx_cntr, base.cntr);
}

static inline struct lnx_cq *lnx_cq_of(struct cq *cq)
{
    return object_of(cq, struct lnx_cq, base.cq);
}

#endif

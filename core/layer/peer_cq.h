/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues and counters of a layer over a lower that speaks FI_PEER: the lower writes into
 * the ring, or raises the counter, by itself. The lower's endpoints bind to a queue and a counter
 * of the lower, which are opened with the first endpoint that needs them. Source: fi_peer(3).
 */
#ifndef WEFT_CORE_LAYER_PEER_CQ_H
#define WEFT_CORE_LAYER_PEER_CQ_H

#include "core/layer/lower_source.h"
#include "core/queue/cntr.h"
#include "core/queue/cq.h"

struct peer_cq {
    struct cq cq; /* of core/queue/cq.h, in every respect */
    struct lower_source lower;
    /* Of a layer with several lowers, NULL or closes what it opened there; its error refuses
     * fi_close, which may come again. */
    int (*close_lowers)(struct peer_cq *cq);
};

struct peer_cntr {
    struct cntr cntr;
    struct fid_cntr *lower;                      /* NULL: not open */
    int (*close_lowers)(struct peer_cntr *cntr); /* as of a queue; progress domain locked */
};

/* Of zeroed memory of malloc, which fi_close frees: as cq_init and cntr_init, with tables that
 * close the lower's, too. */
int peer_cq_init(struct peer_cq *cq, struct domain *domain, const struct fi_cq_attr *attr,
                 void *context);
int peer_cntr_init(struct peer_cntr *cntr, struct domain *domain, const struct fi_cntr_attr *attr,
                   void *context);

/* fi_close of such a counter, for a layer that replaces its table. */
int peer_cntr_close(struct fid *fid);

/* A queue of an upper's that discards its completions: for endpoints that only count. */
void peer_cq_drop(struct fid_peer_cq *peer, void *context);

/* Entries of a domain's table. */
int peer_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                 void *context);
int peer_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                   void *context);

/* The counter of the lower's domain, opened if need be, that raises sink: the counter's own, or
 * one of the layer that hands on what it chooses. The lower's error. */
int peer_cntr_lower(struct peer_cntr *cntr, struct fid_domain *domain, struct fid_peer_cntr *sink,
                    struct fid_cntr **lower);

/* The same for one of several lowers, into *lower unless that is one. */
int peer_cntr_lower_at(struct fid_cntr **lower, struct fid_domain *domain,
                       struct fid_peer_cntr *sink);

static inline struct peer_cq *peer_cq_of(struct cq *cq)
{
    return object_of(cq, struct peer_cq, cq);
}

static inline struct peer_cntr *peer_cntr_of(struct cntr *cntr)
{
    return object_of(cntr, struct peer_cntr, cntr);
}

#endif

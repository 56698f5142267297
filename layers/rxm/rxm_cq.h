/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. Completions are written by the lower, straight into the ring (or the upper's
 * queue); what rxm adds is the lower's queue, which connections complete their sends to and by
 * which the lower is driven. It is opened with the first endpoint that needs it.
 */
#ifndef WEFT_LAYERS_RXM_CQ_H
#define WEFT_LAYERS_RXM_CQ_H

#include "core/cq.h"
#include "core/lower.h"
#include "layers/rxm/rxm_domain.h"

/* A queue of the lower as a source of a unit. */
struct rxm_lower_cq {
    struct unit_source source;
    struct lower *lower;
    struct lower_cq *cq; /* NULL: not open */
};

struct rxm_cq {
    struct cq cq;
    struct rxm_lower_cq lower;
};

int rxm_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                void *context);

static inline struct rxm_cq *rxm_cq_of(struct cq *cq)
{
    return object_of(cq, struct rxm_cq, cq);
}

/* Opens the lower's queue into sink if it is not open, and lets unit drive it. Unit unlocked. */
int rxm_lower_cq_open(struct rxm_lower_cq *lower_cq, struct rxm_domain *domain, size_t size,
                      struct fid_peer_cq *sink, struct unit *unit);
/* Unit unlocked; may be one never opened. */
int rxm_lower_cq_close(struct rxm_lower_cq *lower_cq, struct unit *unit);

#endif

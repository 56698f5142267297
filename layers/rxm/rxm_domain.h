/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabric and domain objects. Each has one of the lower's, and memory regions are the lower's.
 */
#ifndef WEFT_LAYERS_RXM_RXM_DOMAIN_H
#define WEFT_LAYERS_RXM_RXM_DOMAIN_H

#include <stdatomic.h>

#include "core/layer/lower_domain.h"
#include "core/part/part.h"
#include "layers/rxm/msgproto/rxm_region.h"

struct rxm_domain {
    struct lower_domain over;
    atomic_int delivers; /* the lower has FI_DELIVERY_COMPLETE: 1; -1: not; 0: not asked yet */
    struct rxm_regions regions;
};

/* Of the part table. */
int rxm_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

/* fi_mr_reg and its kind (rxm_mr.c). */
extern struct fi_ops_mr rxm_mr_ops;
/* A peer has read or written a region (struct rxm_region.owner): counts it. Progress domains
 * locked. */
void rxm_mr_accessed(void *mr, uint64_t access);

static inline struct rxm_regions *rxm_regions_of(struct lower_domain *domain)
{
    return &object_of(domain, struct rxm_domain, over)->regions;
}

bool rxm_domain_delivers(struct lower_domain *domain);

#endif

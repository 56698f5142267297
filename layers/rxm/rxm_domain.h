/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabric and domain objects. Each has one of the lower's, and memory regions are the lower's.
 */
#ifndef WEFT_LAYERS_RXM_DOMAIN_H
#define WEFT_LAYERS_RXM_DOMAIN_H

#include "core/fid.h"
#include "core/part.h"
#include "layers/rxm/rxm_region.h"

struct unit;

struct rxm_fabric {
    struct fabric base;
    struct lower *lower;
    struct params *params;
    struct unit *control; /* of the EQs that the application opens */
};

struct rxm_domain {
    struct domain base;
    struct rxm_fabric *fabric;
    struct fid_domain *lower;
    struct rxm_regions regions;
};

/* Of the part table. */
int rxm_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

/* fi_mr_reg and its kind (rxm_mr.c). */
extern struct fi_ops_mr rxm_mr_ops;
/* A peer has read or written a region (struct rxm_region.owner): counts it. Units locked. */
void rxm_mr_accessed(void *mr, bool read);

static inline struct rxm_domain *rxm_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct rxm_domain, base.fid);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters: counted by the lower, through a peer counter of it that is opened with the first use.
 */
#ifndef WEFT_LAYERS_RXM_CNTR_H
#define WEFT_LAYERS_RXM_CNTR_H

#include "core/cntr.h"
#include "layers/rxm/rxm_domain.h"

struct rxm_cntr {
    struct cntr cntr;
    struct fid_cntr *lower; /* NULL: not open */
};

int rxm_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                  void *context);

/* The lower's counter of a counter of ours, opened if need be. */
int rxm_cntr_lower(struct cntr *cntr, struct fid_cntr **lower);

#endif

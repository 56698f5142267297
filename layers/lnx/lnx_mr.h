/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. Memory that peers may access is registered in every branch, under one key: the
 * join's choice, or that of the branch that insists on its own. Memory for local use only is
 * registered in a branch that wants descriptors with its first use there.
 */
#ifndef WEFT_LAYERS_LNX_LNX_MR_H
#define WEFT_LAYERS_LNX_LNX_MR_H

#include "core/op/op.h"
#include "layers/lnx/lnx_domain.h"

enum {
    LNX_DESCS = 64 /* of one operation: no endpoint takes more segments */
};

/* fi_mr_reg and its kind. */
extern struct fi_ops_mr lnx_mr_ops;

/* Room for the descriptors of one operation as its branch has them. */
struct lnx_descs {
    void *local[LNX_DESCS], *result[LNX_DESCS], *compare[LNX_DESCS];
};

/* Points op's descriptors, which are ours, to the branch's. Progress domain locked. -FI_EINVAL, or
 * why a region cannot be registered there. */
int lnx_mr_translate(struct lnx_domain *domain, unsigned branch, struct op *op,
                     struct lnx_descs *room);

#endif

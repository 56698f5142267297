/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scalable endpoints: one of each branch's below. A context is an endpoint of lnx_ep.h whose
 * branches are the contexts of that index of theirs.
 */
#ifndef WEFT_LAYERS_LNX_LNX_SEP_H
#define WEFT_LAYERS_LNX_LNX_SEP_H

#include "core/ep/sep.h"
#include "layers/lnx/lnx_domain.h"

struct lnx_sep {
    struct sep base;
    struct {
        struct fid_ep *ep;
        struct fi_info *info;
    } branch[LNX_BRANCHES];
    size_t count; /* opened */
    bool bound;   /* the branches have their AVs: from the first context that is enabled on */
};

int lnx_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                 void *context);

/* A context is being enabled, which has the endpoint's AV then. Progress domain unlocked. */
int lnx_sep_join(struct lnx_sep *sep, size_t class, unsigned index, struct binding *binding,
                 struct av **av);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The name of an endpoint: of the names of its branches' endpoints. Progress domain unlocked. */
#ifndef WEFT_LAYERS_LNX_LNX_NAME_H
#define WEFT_LAYERS_LNX_LNX_NAME_H

#include "layers/lnx/lnx_domain.h"

/* In the order of the domain's branches. */
struct lnx_names {
    const struct lnx_domain *domain;
    size_t count;
    bool no_local; /* branches that do not leave the node are not in it */
    struct fid_ep *ep[LNX_BRANCHES];
    const struct fi_info *info[LNX_BRANCHES]; /* for the form of their addresses */
};

/* As fi_getname. */
int lnx_name_give(const struct lnx_names *names, void *addr, size_t *len);
/* As fi_setname: each branch's endpoint gets the part of the name for its kind. */
int lnx_name_set(const struct lnx_names *names, const void *addr, size_t len);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stx.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/no.h"

static int stx_close(struct fid *fid)
{
    struct stx *stx = object_of(fid, struct stx, fid.fid);

    if (children_any(&stx->children))
        return -FI_EBUSY;
    children_release(&stx->domain->children);
    free(stx);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = stx_close,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

int stx_open(struct domain *domain, struct fid_stx **ret_stx, void *context)
{
    struct stx *stx = calloc(1, sizeof(*stx));

    if (!stx)
        return -FI_ENOMEM;
    stx->domain = domain;
    fid_init(&stx->fid.fid, FI_CLASS_STX_CTX, context, &fid_ops);
    stx->fid.ops = &no_ep_ops;
    children_hold(&domain->children);
    *ret_stx = &stx->fid;
    return 0;
}

int stx_bind(struct domain *domain, struct fid *fid, struct stx **slot)
{
    struct stx *stx = object_of(fid, struct stx, fid.fid);

    if (*slot || stx->domain != domain)
        return -FI_EINVAL;
    children_hold(&stx->children);
    *slot = stx;
    return 0;
}

void stx_release(struct stx *stx)
{
    if (stx)
        children_release(&stx->children);
}

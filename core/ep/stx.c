/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/stx.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"

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
    FID_CLOSES_ONLY,
};

int stx_open(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **ret_stx,
             void *context)
{
    struct domain *domain = object_of(fid, struct domain, fid);
    struct stx *stx = calloc(1, sizeof(*stx));

    if (!stx)
        return -FI_ENOMEM;
    stx->domain = domain;
    fid_init(&stx->fid.fid, FI_CLASS_STX_CTX, context, &fid_ops);
    stx->fid.ops = &enosys_ep_ops;
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

int stx_accept(const struct domain *domain, const struct fid *fid)
{
    return object_of(fid, const struct stx, fid.fid)->domain == domain ? 0 : -FI_EINVAL;
}

void stx_release(struct stx *stx)
{
    if (stx)
        children_release(&stx->children);
}

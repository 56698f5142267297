/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_srx.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/no.h"

static int srx_close(struct fid *fid)
{
    struct shm_srx *srx = object_of(fid, struct shm_srx, fid.fid);

    if (children_any(&srx->children))
        return -FI_EBUSY;
    children_release(&srx->domain->base.children);
    free(srx);
    return 0;
}

static int srx_control(struct fid *fid, int command, void *arg)
{
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = srx_close,
    .bind = no_bind,
    .control = srx_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

int shm_srx_open(struct fid_domain *domain_fid, struct fi_rx_attr *attr, struct fid_ep **ret_srx,
                 void *context)
{
    const struct fi_peer_srx_context *upper = context;
    struct shm_srx *srx;

    if (!attr || !(attr->op_flags & FI_PEER))
        return -FI_ENOSYS;
    if (!upper || upper->size < sizeof(*upper) || !upper->srx)
        return -FI_EINVAL;
    srx = calloc(1, sizeof(*srx));
    if (!srx)
        return -FI_ENOMEM;
    srx->domain = object_of(domain_fid, struct shm_domain, base.fid);
    srx->peer = upper->srx;
    srx->peer->peer_ops = &shm_srx_peer_ops;
    fid_init(&srx->fid.fid, FI_CLASS_SRX_CTX, NULL, &fid_ops);
    srx->fid.ops = &no_ep_ops;
    srx->fid.cm = &no_cm_ops;
    srx->fid.msg = &no_msg_ops;
    srx->fid.tagged = &no_tagged_ops;
    srx->fid.rma = &no_rma_ops;
    srx->fid.atomic = &no_atomic_ops;
    srx->fid.collective = &no_collective_ops;
    children_hold(&srx->domain->base.children);
    *ret_srx = &srx->fid;
    return 0;
}

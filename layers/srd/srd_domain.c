/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and domain. Regions, queues, counters and address vectors are core's: accesses are done by
 * the CPU of their target. */
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/domain.h"
#include "core/op/atomic.h"
#include "layers/srd/srd.h"

/* ---- Domain ---- */

static int domain_control(struct fid *fid, int command, void *arg)
{
    struct lower_domain *domain = object_of(fid, struct lower_domain, base.fid.fid);

    /* Whom it reaches is the lower's affair. */
    if (command == CONTROL_REACH || command == CONTROL_REACHES)
        return fi_control(&domain->lower->fid, command, arg);
    return domain_fid_ops.control(fid, command, arg);
}

static int domain_srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                          void *context)
{
    return srx_open_usual(fid, SRD_MIN_MULTI_RECV, &match_forward_peer_ops, attr, srx, context);
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    return atomic_query(datatype, op, attr, flags,
                        srd_operand_size(lower_domain_of(fid)->lower_info->ep_attr->max_msg_size));
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = lower_domain_close,
    .bind = enosys_bind,
    .control = domain_control,
    .ops_open = enosys_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = domain_av_open,
    .cq_open = domain_cq_open,
    .endpoint = srd_ep_open,
    .scalable_ep = enosys_domain_scalable_ep,
    .cntr_open = domain_cntr_open,
    .poll_open = domain_poll_open,
    .stx_ctx = stx_open,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
    .query_collective = enosys_domain_query_collective,
    .endpoint2 = domain_endpoint2,
};

static const struct lower_domain_type type = {
    .size = sizeof(struct lower_domain),
    .fid_ops = &fid_ops,
    .ops = &domain_ops,
    .lower_info = srd_lower_info,
};

int srd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return lower_fabric_open(args, &type, fabric, context);
}

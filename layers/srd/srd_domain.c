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

/* ---- Address vectors ---- */

/* Of addresses of EFA. */
struct srd_domain {
    struct lower_domain base;
    struct av_kind kind;
};

static bool usable(const struct av *av, const void *raw)
{
    struct srd_name name;

    return !srd_name_import(FI_ADDR_EFA, raw, SRD_ADDR_SIZE, &name);
}

static int av_kind_inserted(struct av *av, fi_addr_t index, const void *addr)
{
    return 0;
}

static void av_kind_changed(struct av *av, fi_addr_t index)
{
}

static void av_kind_closed(struct av *av)
{
}

static int srd_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
                       void *context)
{
    struct lower_domain *lower = lower_domain_of(fid);
    struct srd_domain *domain = object_of(lower, struct srd_domain, base);

    if (lower->base.info->addr_format != FI_ADDR_EFA)
        return domain_av_open(fid, attr, av, context);
    domain->kind = (struct av_kind){
        .size = SRD_ADDR_SIZE,
        .object_size = sizeof(struct av),
        .usable = usable,
        .inserted = av_kind_inserted,
        .removed = av_kind_changed,
        .identified = av_kind_changed,
        .closed = av_kind_closed,
    };
    return av_open_kind(&lower->base, attr, &domain->kind, av, context);
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
    .av_open = srd_av_open,
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
    .size = sizeof(struct srd_domain),
    .fid_ops = &fid_ops,
    .ops = &domain_ops,
    .lower_info = srd_lower_info,
};

int srd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return lower_fabric_open(args, &type, fabric, context);
}

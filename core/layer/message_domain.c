/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/message_domain.h"

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/domain.h"
#include "core/layer/message_ep.h"
#include "core/layer/message_sep.h"
#include "core/layer/message_wire.h"
#include "core/op/atomic.h"

/* ---- Domain ---- */

static int domain_control(struct fid *fid, int command, void *arg)
{
    struct lower_domain *domain = object_of(fid, struct lower_domain, base.fid.fid);

    /* The peers that it reaches are the lower's affair. */
    if (command == CONTROL_REACH || command == CONTROL_REACHES)
        return fi_control(&domain->lower->fid, command, arg);
    if (command == CONTROL_OWN)
        return lower_domain_own(fid, arg);
    return domain_fid_ops.control(fid, command, arg);
}

static int domain_srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                          void *context)
{
    return srx_open_usual(fid, MESSAGE_MIN_MULTI_RECV, &match_forward_peer_ops, attr, srx, context);
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    struct lower_domain *domain = lower_domain_of(fid);
    const struct message_wire *wire = message_wire_of(domain);

    if (wire->common_atomics && !atomic_is_common(datatype, op))
        return -FI_EOPNOTSUPP;
    return atomic_query(datatype, op, attr, flags, wire->operand_size(domain->lower_info));
}

/* ---- Address vectors ---- */

static bool usable(const struct av *av, const void *raw)
{
    const struct message_domain *domain = object_of(av->domain, struct message_domain, base.base);

    return message_wire_of(&domain->base)->usable(&domain->base, raw);
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

static int av_open_own(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
                       void *context)
{
    struct message_domain *domain = object_of(lower_domain_of(fid), struct message_domain, base);
    size_t size = message_wire_of(&domain->base)->own_size(domain->base.lower_info);

    if (!size)
        return domain_av_open(fid, attr, av, context);
    domain->kind = (struct av_kind){
        .size = size,
        .object_size = sizeof(struct av),
        .usable = usable,
        .inserted = av_kind_inserted,
        .removed = av_kind_changed,
        .identified = av_kind_changed,
        .closed = av_kind_closed,
    };
    return av_open_kind(&domain->base.base, attr, &domain->kind, av, context);
}

struct fi_ops message_domain_fid_ops = {
    .size = sizeof(message_domain_fid_ops),
    .close = lower_domain_close,
    .bind = enosys_bind,
    .control = domain_control,
    .ops_open = lower_domain_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

struct fi_ops_domain message_domain_ops = {
    .size = sizeof(message_domain_ops),
    .av_open = av_open_own,
    .endpoint = message_ep_open,
    .scalable_ep = message_sep_open,
    .stx_ctx = stx_open,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
};

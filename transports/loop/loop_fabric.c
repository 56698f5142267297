/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and domain. */
#include <string.h>

#include "core/base/reach.h"
#include "core/domain/domain.h"
#include "core/op/atomic.h"
#include "transports/loop/conn/loop_cm.h"
#include "transports/loop/device/loop_device.h"

/* ---- Domain ---- */

static int domain_srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                          void *context)
{
    static const struct match_attr own = {
        .size = LOOP_SIZE,
        .iov_limit = LOOP_IOV_LIMIT,
        .min_multi_recv = LOOP_MIN_MULTI_RECV,
    };

    loop_count(LOOP_CALL_OPEN);
    return srx_open(object_of(fid, struct domain, fid), &own, &loop_srx_peer_ops, attr, srx,
                    context);
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    loop_count(LOOP_CALL_OTHER);
    return atomic_query(datatype, op, attr, flags, LOOP_ATOMIC);
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .endpoint = loop_ep_open,
    .stx_ctx = stx_open,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
};

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info,
                         struct fid_domain **ret_domain, void *context)
{
    struct loop_domain *domain;
    struct domain *base;
    int rc;

    loop_count(LOOP_CALL_OPEN);
    rc = domain_create_mapped(sizeof(*domain), fid, info, &domain_fid_ops, &domain_ops, &base,
                              context);
    if (rc)
        return rc;
    domain = object_of(base, struct loop_domain, base);
    domain->fabric = object_of(fid, struct loop_fabric, base.fid);
    list_init(&domain->regions);
    if (loop_is_device(domain->fabric))
        domain->base.fid.mr = &loop_rdma_mr_ops;
    reach_of_process(&domain->base.reach);
    *ret_domain = &domain->base.fid;
    return 0;
}

/* ---- Fabric ---- */

static int fabric_close(struct plain_fabric *plain)
{
    struct loop_fabric *fabric = object_of(plain, struct loop_fabric, plain);

    loop_cm_detach(fabric);
    return 0;
}

int loop_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context)
{
    struct loop_fabric *fabric;
    struct plain_fabric *plain;
    int rc;

    loop_count(LOOP_CALL_OPEN);
    rc = plain_fabric_create(sizeof(*fabric), args, fabric_domain, &plain, context);
    if (rc)
        return rc;
    fabric = object_of(plain, struct loop_fabric, plain);
    plain->ops.passive_ep = loop_pep_open;
    plain->close_own = fabric_close;
    fabric->shape = loop_shape_of(args->params);
    fabric->seed = args->params ? (uint64_t)params_int(args->params, "seed") : 1;
    fabric->bursts = args->params && params_bool(args->params, "bursts");
    fabric->direct = args->params && fabric->shape != LOOP_SRD &&
                     !strcmp(params_string(args->params, "deliver"), "post");
    rc = loop_cm_attach(fabric);
    if (rc) {
        plain_fabric_discard(plain);
        return rc;
    }
    *ret_fabric = &fabric->base.fid;
    return 0;
}

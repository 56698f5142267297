/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and domain. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/atomic.h"
#include "core/domain.h"
#include "core/no.h"
#include "core/wait_set.h"
#include "transports/loop/loop.h"

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

static int domain_stx_ctx(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx,
                          void *context)
{
    loop_count(LOOP_CALL_OPEN);
    return stx_open(object_of(fid, struct domain, fid), stx, context);
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    loop_count(LOOP_CALL_OTHER);
    return atomic_query(datatype, op, attr, flags, LOOP_ATOMIC);
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = domain_av_open,
    .cq_open = domain_cq_open,
    .endpoint = loop_ep_open,
    .scalable_ep = no_domain_scalable_ep,
    .cntr_open = domain_cntr_open,
    .poll_open = domain_poll_open,
    .stx_ctx = domain_stx_ctx,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
    .query_collective = no_domain_query_collective,
    .endpoint2 = domain_endpoint2,
};

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info,
                         struct fid_domain **ret_domain, void *context)
{
    struct loop_fabric *fabric = object_of(fid, struct loop_fabric, base.fid);
    struct loop_domain *domain = calloc(1, sizeof(*domain));
    int rc;

    loop_count(LOOP_CALL_OPEN);
    if (!domain)
        return -FI_ENOMEM;
    domain->fabric = fabric;
    rc = domain_init_mapped(&domain->base, &fabric->base, info, &domain_fid_ops, &domain_ops,
                            context);
    if (rc) {
        free(domain);
        return rc;
    }
    *ret_domain = &domain->base.fid;
    return 0;
}

/* ---- Fabric ---- */

static int fabric_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq,
                          void *context)
{
    struct loop_fabric *fabric = object_of(fid, struct loop_fabric, base.fid);

    loop_count(LOOP_CALL_OPEN);
    return eq_open(&fabric->base, fabric->unit, attr, eq, context);
}

static int fabric_close(struct fid *fid)
{
    struct loop_fabric *fabric = object_of(fid, struct loop_fabric, base.fid.fid);

    if (children_any(&fabric->base.children))
        return -FI_EBUSY;
    unit_lock(fabric->unit);
    unit_detach(fabric->unit, &fabric->source);
    unit_unlock(fabric->unit);
    unit_release(fabric->unit);
    close(fabric->source.fd);
    params_destroy(fabric->params);
    free(fabric);
    return 0;
}

static struct fi_ops fabric_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = fabric_domain,
    .passive_ep = loop_pep_open,
    .eq_open = fabric_eq_open,
    .wait_open = wait_set_open,
    .trywait = fabric_trywait,
    .domain2 = fabric_domain2,
};

int loop_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context)
{
    struct loop_fabric *fabric = calloc(1, sizeof(*fabric));
    int rc;

    loop_count(LOOP_CALL_OPEN);
    if (!fabric)
        return -FI_ENOMEM;
    fabric_init(&fabric->base, args, &fabric_fid_ops, &fabric_ops, context);
    fabric->rdma = args->params && !strcmp(params_string(args->params, "shape"), "rdma");
    fabric->direct = args->params && !strcmp(params_string(args->params, "deliver"), "post");
    list_init(&fabric->ended);
    list_init(&fabric->source.link);
    fabric->source.progress = loop_cm_progress;
    fabric->source.trywait = loop_cm_trywait;
    fabric->source.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rc = unit_create_control(fabric->base.part, &fabric->unit);
    if (rc)
        goto free_fabric;
    unit_lock(fabric->unit);
    rc = unit_attach(fabric->unit, &fabric->source);
    unit_unlock(fabric->unit);
    if (rc)
        goto release_unit;
    fabric->params = args->params;
    *ret_fabric = &fabric->base.fid;
    return 0;

release_unit:
    unit_release(fabric->unit);
free_fabric:
    close(fabric->source.fd);
    free(fabric);
    return rc;
}

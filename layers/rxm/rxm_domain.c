/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_domain.h"

#include <stdlib.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "core/av.h"
#include "core/eq.h"
#include "core/info.h"
#include "core/no.h"
#include "core/poll_set.h"
#include "core/srx.h"
#include "core/stx.h"
#include "core/wait_set.h"
#include "core/unit.h"
#include "layers/rxm/rxm_cntr.h"
#include "layers/rxm/rxm_cq.h"
#include "layers/rxm/rxm_emu.h"
#include "layers/rxm/rxm_ep.h"
#include "layers/rxm/rxm_forward.h"
#include "layers/rxm/rxm_info.h"
#include "layers/rxm/rxm_sep.h"

/* ---- Domain ---- */

static int domain_close(struct fid *fid)
{
    struct rxm_domain *domain = object_of(fid, struct rxm_domain, base.fid.fid);
    int rc;

    if (children_any(&domain->base.children))
        return -FI_EBUSY;
    rc = fi_close(&domain->lower->fid);
    if (rc)
        return rc;
    domain_finish(&domain->base);
    rxm_regions_finish(&domain->regions);
    free(domain);
    return 0;
}

static int domain_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
                          void *context)
{
    return av_open(&rxm_domain_of(fid)->base, attr, av, context);
}

static int domain_endpoint2(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep,
                            uint64_t flags, void *context)
{
    return flags ? -FI_EINVAL : rxm_ep_open(fid, info, ep, context);
}

static int domain_stx_ctx(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx,
                          void *context)
{
    return stx_open(&rxm_domain_of(fid)->base, stx, context);
}

/* The upper's (FI_PEER), or one of our own: it decides by source, as that of an endpoint does. */
static int domain_srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                          void *context)
{
    struct domain *domain = &rxm_domain_of(fid)->base;
    const struct fi_rx_attr *usual = domain->info->rx_attr;
    struct match_attr own = {
        .size = usual->size,
        .iov_limit = usual->iov_limit,
        .op_flags = usual->op_flags,
        .min_multi_recv = RXM_MIN_MULTI_RECV,
        .directed = true,
    };

    return srx_open(domain, &own, &rxm_forward_peer_ops, attr, srx, context);
}

static struct fi_ops domain_fid_ops = {
    .size = sizeof(domain_fid_ops),
    .close = domain_close,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

/* Those in packets of ours, for a domain of endpoints that speak them. */
static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    struct rxm_domain *domain = rxm_domain_of(fid);

    if (rxm_emulates(domain->fabric->params, domain->base.info))
        return rxm_emu_query_atomic(domain->fabric->params, datatype, op, attr, flags);
    return fi_query_atomic(domain->lower, datatype, op, attr, flags);
}

static int domain_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr,
                            struct fid_poll **set)
{
    return poll_set_open(&rxm_domain_of(fid)->base, attr, set);
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = domain_av_open,
    .cq_open = rxm_cq_open,
    .endpoint = rxm_ep_open,
    .scalable_ep = rxm_sep_open,
    .cntr_open = rxm_cntr_open,
    .poll_open = domain_poll_open,
    .stx_ctx = domain_stx_ctx,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
    .query_collective = no_domain_query_collective,
    .endpoint2 = domain_endpoint2,
};

static int open_lower(struct rxm_domain *domain)
{
    struct rxm_fabric *fabric = domain->fabric;
    struct fi_info *info;
    int rc = rxm_lower_info(fabric->lower, fabric->base.api_version, fabric->params,
                            domain->base.info, &info);

    if (rc)
        return rc;
    rc = fi_domain(fabric->lower->fabric, info, &domain->lower, domain);
    info_free(info);
    return rc;
}

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **ret,
                         void *context)
{
    struct rxm_fabric *fabric = object_of(fid, struct rxm_fabric, base.fid);
    struct rxm_domain *domain = calloc(1, sizeof(*domain));
    int rc;

    if (!domain)
        return -FI_ENOMEM;
    domain->fabric = fabric;
    rxm_regions_init(&domain->regions);
    rc = domain_init(&domain->base, &fabric->base, info, &domain_fid_ops, &domain_ops, &rxm_mr_ops,
                     context);
    if (rc)
        goto free_domain;
    rc = open_lower(domain);
    if (rc)
        goto finish_base;
    *ret = &domain->base.fid;
    return 0;

finish_base:
    domain_finish(&domain->base);
free_domain:
    rxm_regions_finish(&domain->regions);
    free(domain);
    return rc;
}

static int fabric_domain2(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                          uint64_t flags, void *context)
{
    return flags ? -FI_EINVAL : fabric_domain(fid, info, domain, context);
}

/* ---- Fabric ---- */

static int fabric_close(struct fid *fid)
{
    struct rxm_fabric *fabric = object_of(fid, struct rxm_fabric, base.fid.fid);
    int rc;

    if (children_any(&fabric->base.children))
        return -FI_EBUSY;
    rc = fabric->lower->close(fabric->lower);
    if (rc)
        return rc;
    unit_release(fabric->control);
    params_destroy(fabric->params);
    free(fabric);
    return 0;
}

/* Connections report to queues of our own: those of the application get nothing of the lower. */
static int fabric_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq,
                          void *context)
{
    struct rxm_fabric *fabric = object_of(fid, struct rxm_fabric, base.fid);

    return eq_open(&fabric->base, fabric->control, attr, eq, context);
}

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    return fids_trywait(fids, count);
}

static struct fi_ops fabric_fid_ops = {
    .size = sizeof(fabric_fid_ops),
    .close = fabric_close,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(fabric_ops),
    .domain = fabric_domain,
    .passive_ep = no_fabric_passive_ep,
    .eq_open = fabric_eq_open,
    .wait_open = wait_set_open,
    .trywait = fabric_trywait,
    .domain2 = fabric_domain2,
};

int rxm_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context)
{
    struct rxm_fabric *fabric = calloc(1, sizeof(*fabric));
    int rc;

    if (!fabric)
        return -FI_ENOMEM;
    rc = unit_create_control("rxm", &fabric->control);
    if (rc) {
        free(fabric);
        return rc;
    }
    fabric_init(&fabric->base, args, &fabric_fid_ops, &fabric_ops, context);
    fabric->lower = args->lowers[0];
    fabric->params = args->params;
    *ret_fabric = &fabric->base.fid;
    return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_domain.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/atomic.h"
#include "core/domain.h"
#include "core/eq.h"
#include "core/no.h"
#include "core/srx.h"
#include "core/stx.h"
#include "core/wait_set.h"
#include "transports/shm/shm_op.h"
#include "transports/shm/shm_sep.h"

/* ---- Domain ---- */

static int domain_srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                          void *context)
{
    struct domain *domain = object_of(fid, struct domain, fid);
    const struct match_attr own = {
        .size = SHM_SIZE,
        .iov_limit = SHM_IOV_LIMIT,
        .min_multi_recv = SHM_MIN_MULTI_RECV,
        .directed = domain->info->caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV),
    };

    return srx_open(domain, &own, &shm_srx_peer_ops, attr, srx, context);
}

static int domain_stx_ctx(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx,
                          void *context)
{
    return stx_open(object_of(fid, struct domain, fid), stx, context);
}

static int domain_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    return atomic_query(datatype, op, attr, flags, SHM_ATOMIC_MAX);
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = domain_av_open,
    .cq_open = domain_cq_open,
    .endpoint = shm_ep_open,
    .scalable_ep = shm_sep_open,
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
    struct shm_fabric *fabric = object_of(fid, struct shm_fabric, base.fid);
    struct shm_domain *domain = calloc(1, sizeof(*domain));
    int rc;

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
    struct shm_fabric *fabric = object_of(fid, struct shm_fabric, base.fid);

    return eq_open(&fabric->base, fabric->unit, attr, eq, context);
}

static int fabric_close(struct fid *fid)
{
    struct shm_fabric *fabric = object_of(fid, struct shm_fabric, base.fid.fid);

    if (children_any(&fabric->base.children))
        return -FI_EBUSY;
    unit_release(fabric->unit);
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
    .passive_ep = no_fabric_passive_ep,
    .eq_open = fabric_eq_open,
    .wait_open = wait_set_open,
    .trywait = fabric_trywait,
    .domain2 = fabric_domain2,
};

static enum shm_use read_use(const struct params *params, const char *key)
{
    const char *text = params_string(params, key);

    if (!strcmp(text, "on"))
        return SHM_ON;
    return strcmp(text, "off") ? SHM_AUTO : SHM_OFF;
}

int shm_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context)
{
    struct shm_fabric *fabric = calloc(1, sizeof(*fabric));
    int rc;

    if (!fabric)
        return -FI_ENOMEM;
    fabric_init(&fabric->base, args, &fabric_fid_ops, &fabric_ops, context);
    fabric->cma = read_use(args->params, "cma");
    fabric->xpmem = read_use(args->params, "xpmem");
    fabric->connect_ms = params_time_ms(args->params, "connect_timeout");
    fabric->max_saved = params_size(args->params, "max_saved_size");
    rc = unit_create_control(fabric->base.part, &fabric->unit);
    if (rc) {
        free(fabric);
        return rc;
    }
    fabric->params = args->params;
    *ret_fabric = &fabric->base.fid;
    return 0;
}

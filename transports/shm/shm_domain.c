/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_domain.h"

#include <string.h>

#include "core/base/reach.h"
#include "core/domain/domain.h"
#include "core/ep/srx.h"
#include "core/ep/stx.h"
#include "core/op/atomic.h"
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

static int domain_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    return atomic_query(datatype, op, attr, flags, SHM_ATOMIC_MAX);
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .endpoint = shm_ep_open,
    .scalable_ep = shm_sep_open,
    .stx_ctx = stx_open,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
};

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info,
                         struct fid_domain **ret_domain, void *context)
{
    struct domain *domain;
    int rc = domain_create_mapped(sizeof(struct shm_domain), fid, info, &domain_fid_ops,
                                  &domain_ops, &domain, context);

    if (rc)
        return rc;
    object_of(domain, struct shm_domain, base)->fabric =
        object_of(fid, struct shm_fabric, base.fid);
    reach_of_node(&domain->reach);
    *ret_domain = &domain->fid;
    return 0;
}

/* ---- Fabric ---- */

static enum shm_use read_use(const struct params *params, const char *key)
{
    const char *text = params_string(params, key);

    if (!strcmp(text, "on"))
        return SHM_ON;
    return strcmp(text, "off") ? SHM_AUTO : SHM_OFF;
}

int shm_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context)
{
    struct shm_fabric *fabric;
    struct plain_fabric *plain;
    int rc = plain_fabric_create(sizeof(*fabric), args, fabric_domain, &plain, context);

    if (rc)
        return rc;
    fabric = object_of(plain, struct shm_fabric, plain);
    fabric->cma = read_use(args->params, "cma");
    fabric->xpmem = read_use(args->params, "xpmem");
    fabric->connect_ms = params_time_ms(args->params, "connect_timeout");
    fabric->max_saved = params_size(args->params, "max_saved_size");
    *ret_fabric = &fabric->base.fid;
    return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_domain.h"

#include <rdma/fi_atomic.h>

#include "core/domain/domain.h"
#include "core/ep/srx.h"
#include "core/ep/stx.h"
#include "core/layer/peer_cq.h"
#include "core/match/match_forward.h"
#include "layers/rxm/conn/rxm_sep.h"
#include "layers/rxm/msgproto/msgproto.h"
#include "layers/rxm/rxm_ep.h"
#include "layers/rxm/rxm_info.h"

/* ---- Domain ---- */

/* The upper's (FI_PEER), or one of our own: it decides by source, as that of an endpoint does. */
static int domain_srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                          void *context)
{
    return srx_open_usual(fid, RXM_MIN_MULTI_RECV, &match_forward_peer_ops, attr, srx, context);
}

/* Atomics in packets of ours, for a domain of endpoints that speak them. */
static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    struct lower_domain *domain = lower_domain_of(fid);

    if (rxm_emulates(domain->fabric->plain.params, domain->base.info))
        return msgproto_query_atomic(domain->fabric->plain.params, datatype, op, attr, flags);
    return fi_query_atomic(domain->lower, datatype, op, attr, flags);
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .cq_open = peer_cq_open,
    .endpoint = rxm_ep_open,
    .scalable_ep = rxm_sep_open,
    .cntr_open = peer_cntr_open,
    .stx_ctx = stx_open,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
};

static void init(struct lower_domain *domain)
{
    rxm_regions_init(rxm_regions_of(domain));
}

static void finish(struct lower_domain *domain)
{
    rxm_regions_finish(rxm_regions_of(domain));
}

bool rxm_domain_delivers(struct lower_domain *domain)
{
    atomic_int *delivers = &object_of(domain, struct rxm_domain, over)->delivers;

    if (!atomic_load(delivers))
        atomic_store(delivers, rxm_lower_delivers(domain->fabric, domain->lower_info) ? 1 : -1);
    return atomic_load(delivers) > 0;
}

static const struct lower_domain_type type = {
    .size = sizeof(struct rxm_domain),
    .ops = &domain_ops,
    .regions = &rxm_mr_ops,
    .lower_info = rxm_lower_info,
    .init = init,
    .finish = finish,
};

/* Connections report to queues of our own: those of the application get nothing of the lower. */
int rxm_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return lower_fabric_open(args, &type, fabric, context);
}

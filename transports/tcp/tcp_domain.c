/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_domain.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/domain.h"
#include "core/domain/mr.h"
#include "core/ep/stx.h"
#include "core/op/atomic.h"
#include "transports/tcp/tcp_ep.h"
#include "transports/tcp/tcp_message.h"

static int domain_close(struct fid *fid)
{
    struct tcp_domain *domain = object_of(fid, struct tcp_domain, base.fid.fid);

    if (children_any(&domain->base.children))
        return -FI_EBUSY;
    domain_finish(&domain->base);
    pthread_mutex_destroy(&domain->mutex);
    free(domain);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = enosys_bind,
    .control = mr_domain_control,
    NO_FID_TABLES,
};

static int domain_srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                          void *context)
{
    static const struct match_attr own = {
        .size = TCP_SHARED_SIZE,
        .iov_limit = TCP_IOV_LIMIT,
        .min_multi_recv = TCP_MIN_MULTI_RECV,
    };

    return srx_open(object_of(fid, struct domain, fid), &own, &tcp_srx_peer_ops, attr, srx,
                    context);
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    if (!(object_of(fid, struct domain, fid)->info->caps & FI_ATOMIC))
        return -FI_EOPNOTSUPP;
    return atomic_query(datatype, op, attr, flags, TCP_ATOMIC_MAX);
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .endpoint = tcp_ep_open,
    .stx_ctx = stx_open,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
};

/* A domain that progresses by itself needs its connections to be opened by themselves, too. */
static int start_control(struct tcp_domain *domain)
{
    if (domain->base.info->domain_attr->control_progress != FI_PROGRESS_AUTO)
        return 0;
    return tcp_fabric_start_control(domain->fabric);
}

int tcp_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **result,
                    void *context)
{
    struct tcp_fabric *fabric = object_of(fid, struct tcp_fabric, base.fid);
    struct tcp_domain *domain = calloc(1, sizeof(*domain));

    if (!domain)
        return -FI_ENOMEM;
    domain->fabric = fabric;
    list_init(&domain->sets);
    int rc = domain_init_mapped(&domain->base, &fabric->base, info, &fid_ops, &domain_ops, context);
    if (rc)
        goto free_domain;
    rc = start_control(domain);
    if (rc)
        goto finish_domain;
    pthread_mutex_init(&domain->mutex, NULL);
    *result = &domain->base.fid;
    return 0;

finish_domain:
    domain_finish(&domain->base);
free_domain:
    free(domain);
    return rc;
}

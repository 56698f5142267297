/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/domain.h"

#include <stdlib.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/av.h"
#include "core/cntr.h"
#include "core/cq.h"
#include "core/eq.h"
#include "core/mr.h"
#include "core/no.h"
#include "core/poll_set.h"

static struct domain *base_of(struct fid_domain *fid)
{
    return object_of(fid, struct domain, fid);
}

int domain_init_mapped(struct domain *domain, struct fabric *fabric, const struct fi_info *info,
                       struct fi_ops *fid_ops, struct fi_ops_domain *ops, void *context)
{
    int rc = domain_init(domain, fabric, info, fid_ops, ops, &mr_ops, context);

    if (rc)
        return rc;
    rc = mr_map_create(domain, &domain->mrs);
    if (rc)
        domain_finish(domain);
    return rc;
}

static int domain_close(struct fid *fid)
{
    struct domain *domain = object_of(fid, struct domain, fid.fid);

    if (children_any(&domain->children))
        return -FI_EBUSY;
    domain_finish(domain);
    free(domain);
    return 0;
}

struct fi_ops domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = no_bind,
    .control = mr_domain_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

int domain_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
                   void *context)
{
    return av_open(base_of(fid), attr, av, context);
}

int domain_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    return cq_open(base_of(fid), attr, cq, context);
}

int domain_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                     void *context)
{
    return cntr_open(base_of(fid), attr, cntr, context);
}

int domain_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **set)
{
    return poll_set_open(base_of(fid), attr, set);
}

int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return fids_trywait(fids, count);
}

int domain_endpoint2(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep,
                     uint64_t flags, void *context)
{
    return flags ? -FI_EBADFLAGS : fid->ops->endpoint(fid, info, ep, context);
}

int fabric_domain2(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                   uint64_t flags, void *context)
{
    return flags ? -FI_EBADFLAGS : fid->ops->domain(fid, info, domain, context);
}

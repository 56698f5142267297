/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/domain/domain.h"

#include <stdlib.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/av/av.h"
#include "core/base/enosys.h"
#include "core/base/reach.h"
#include "core/base/table.h"
#include "core/domain/mr.h"
#include "core/queue/cntr.h"
#include "core/queue/cq.h"
#include "core/queue/eq.h"
#include "core/queue/poll_set.h"

static struct domain *base_of(struct fid_domain *fid)
{
    return object_of(fid, struct domain, fid);
}

static const struct fi_ops_domain usual_ops = {
    .size = sizeof(usual_ops),
    .av_open = domain_av_open,
    .cq_open = domain_cq_open,
    .scalable_ep = enosys_domain_scalable_ep,
    .cntr_open = domain_cntr_open,
    .poll_open = domain_poll_open,
    .stx_ctx = enosys_domain_stx_ctx,
    .srx_ctx = enosys_domain_srx_ctx,
    .query_atomic = enosys_domain_query_atomic,
    .query_collective = enosys_domain_query_collective,
    .endpoint2 = domain_endpoint2,
};

struct fi_ops_domain *domain_table(struct fi_ops_domain *ops)
{
    return table_inherit(ops, &usual_ops);
}

int domain_init_mapped(struct domain *domain, struct fabric *fabric, const struct fi_info *info,
                       struct fi_ops *fid_ops, struct fi_ops_domain *ops, void *context)
{
    int rc = domain_init(domain, fabric, info, fid_ops, domain_table(ops), &mr_ops, context);

    if (rc)
        return rc;
    rc = mr_map_create(domain, &domain->mrs);
    if (rc)
        domain_finish(domain);
    return rc;
}

int domain_create(size_t size, struct fid_fabric *fid, const struct fi_info *info,
                  struct fi_ops *fid_ops, struct fi_ops_domain *ops, struct fi_ops_mr *regions,
                  struct domain **ret, void *context)
{
    struct fabric *fabric = object_of(fid, struct fabric, fid);
    struct domain *domain = calloc(1, size);
    int rc;

    if (!domain)
        return -FI_ENOMEM;
    rc = regions ? domain_init(domain, fabric, info, fid_ops, domain_table(ops), regions, context)
                 : domain_init_mapped(domain, fabric, info, fid_ops, ops, context);
    if (rc)
        free(domain);
    else
        *ret = domain;
    return rc;
}

int domain_create_mapped(size_t size, struct fid_fabric *fabric, const struct fi_info *info,
                         struct fi_ops *fid_ops, struct fi_ops_domain *ops, struct domain **ret,
                         void *context)
{
    return domain_create(size, fabric, info, fid_ops, ops, NULL, ret, context);
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

static int domain_control(struct fid *fid, int command, void *arg)
{
    struct domain *domain = object_of(fid, struct domain, fid.fid);
    int rc = mr_domain_control(fid, command, arg);

    return rc == -FI_ENOSYS && domain->reach.len ? reach_control(&domain->reach, command, arg) : rc;
}

struct fi_ops domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = enosys_bind,
    .control = domain_control,
    NO_FID_TABLES,
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

int domain_cq_open_read(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq,
                        void *context, struct fi_ops_cq *reads)
{
    bool plain = !attr || !(attr->flags & FI_PEER);
    int rc = domain_cq_open(fid, attr, cq, context);

    if (!rc && plain && (!attr || attr->format <= FI_CQ_FORMAT_CONTEXT))
        (*cq)->ops = table_inherit(reads, cq_ops);
    return rc;
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

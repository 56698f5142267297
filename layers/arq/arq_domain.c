/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/arq/arq_domain.h"

#include <rdma/fi_errno.h>

#include "core/domain/domain.h"
#include "layers/arq/arq_ep.h"
#include "layers/arq/arq_info.h"

/* ---- Domain ---- */

static int query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                        struct fi_atomic_attr *attr, uint64_t flags)
{
    return -FI_EOPNOTSUPP;
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .endpoint = arq_ep_open,
    .query_atomic = query_atomic,
};

/* ---- Regions: peers reach none, so the lower's serve as they are ---- */

static struct fid_domain *lower_of(struct fid *fid)
{
    return object_of(fid, struct lower_domain, base.fid.fid)->lower;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    return fi_mr_reg(lower_of(fid), buf, len, access, offset, key, flags, mr, context);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                   uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    return fi_mr_regv(lower_of(fid), iov, count, access, offset, key, flags, mr, context);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr)
{
    return fi_mr_regattr(lower_of(fid), attr, flags, mr);
}

static struct fi_ops_mr mr_table = {
    .size = sizeof(mr_table),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};

static const struct lower_domain_type type = {
    .size = sizeof(struct lower_domain),
    .ops = &domain_ops,
    .regions = &mr_table,
    .lower_info = arq_lower_info,
};

/* Queues of our own: those of the application get nothing of the lower. */
int arq_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return lower_fabric_open(args, &type, fabric, context);
}

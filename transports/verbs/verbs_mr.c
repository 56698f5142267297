/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: the device's. One of no bytes is of a byte of ours, since devices need one. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/mr.h"
#include "core/info/abi.h"
#include "transports/verbs/verbs_atomic.h"
#include "transports/verbs/verbs_domain.h"

struct verbs_mr {
    struct fid_mr fid;
    struct verbs_domain *domain;
    struct ibv_mr *ibv;
};

static char nothing;

static int mr_close(struct fid *fid)
{
    struct verbs_mr *mr = object_of(fid, struct verbs_mr, fid.fid);
    int rc = verbs_domain_forked(mr->domain) ? 0 : verbs_lib.dereg_mr(mr->ibv);

    if (rc)
        return verbs_error(rc);
    children_release(&mr->domain->base.children);
    free(mr);
    return 0;
}

/* Regions serve every endpoint of the domain, so an endpoint adds nothing. */
static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    return other->fclass == FI_CLASS_EP ? 0 : -FI_ENOSYS;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = mr_close,
    .bind = mr_bind,
    .control = mr_control,
    NO_FID_TABLES,
};

/* The device writes into what is received or read, and what peers write or change. */
static int access_of(uint64_t access, bool iwarp, bool atomics)
{
    int flags = 0;

    if (access & (FI_RECV | FI_READ))
        flags |= IBV_ACCESS_LOCAL_WRITE;
    if (access & FI_READ && iwarp)
        flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    if (access & FI_REMOTE_READ)
        flags |= IBV_ACCESS_REMOTE_READ;
    if (access & FI_REMOTE_WRITE)
        flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                 (atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
    return flags;
}

static int check(const struct verbs_domain *domain, const struct fi_mr_attr *attr, uint64_t flags)
{
    if (flags & ~MR_UNCOUNTED) {
        LOG_WARN("verbs", FI_LOG_MR, "memory registration: flags %#llx are not supported",
                 (unsigned long long)(flags & ~MR_UNCOUNTED));
        return -FI_EBADFLAGS;
    }
    if (attr->iov_count != 1 || !attr->mr_iov) {
        LOG_WARN("verbs", FI_LOG_MR, "memory registration: %zu pieces; a device knows one",
                 attr->iov_count);
        return -FI_EINVAL;
    }
    if (FI_VERSION_GE(domain->base.fabric->api_version, FI_VERSION(1, 9)) &&
        attr->iface != FI_HMEM_SYSTEM) {
        LOG_WARN("verbs", FI_LOG_MR,
                 "memory registration: device memory (iface %d) is not "
                 "supported, only FI_HMEM_SYSTEM",
                 (int)attr->iface);
        return -FI_ENOSYS;
    }
    return 0;
}

/* attr is in the current layout. */
static int register_region(struct verbs_domain *domain, const struct fi_mr_attr *attr,
                           uint64_t flags, struct fid_mr **ret_mr)
{
    bool iwarp = domain->device->context->device->transport_type == IBV_TRANSPORT_IWARP;
    struct verbs_mr *mr;
    int rc = check(domain, attr, flags);

    if (rc)
        return rc;
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return -FI_ENOMEM;
    mr->ibv = verbs_lib.reg_mr(
        domain->pd, attr->mr_iov->iov_len ? attr->mr_iov->iov_base : &nothing,
        attr->mr_iov->iov_len ? attr->mr_iov->iov_len : 1,
        attr->mr_iov->iov_len ? access_of(attr->access, iwarp, verbs_has_atomics(domain->device))
                              : 0);
    if (!mr->ibv) {
        rc = verbs_error(-1);
        LOG_WARN("verbs", FI_LOG_MR, "%s cannot register %zu bytes: %s%s", domain->device->name,
                 attr->mr_iov->iov_len, fi_strerror(-rc),
                 rc == -FI_ENOMEM ? " (see `ulimit -l`)" : "");
        free(mr);
        return rc;
    }
    mr->domain = domain;
    fid_init(&mr->fid.fid, FI_CLASS_MR, attr->context, &mr_fid_ops);
    mr->fid.mem_desc = mr->ibv;
    mr->fid.key = mr->ibv->rkey;
    children_hold(&domain->base.children);
    *ret_mr = &mr->fid;
    return 0;
}

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **mr)
{
    struct verbs_domain *domain = object_of(fid, struct verbs_domain, base.fid.fid);
    struct fi_mr_attr current;

    abi_mr_attr_import(attr, (enum abi_level)domain->base.fabric->abi, &current);
    return register_region(domain, &current, flags, mr);
}

struct fi_ops_mr verbs_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = regattr,
};

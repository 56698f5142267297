/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of a domain with the device's keys: one of the lower's and one of core's for the same
 * memory, under one key. The device and the CPU find it by that.
 */
#include <rdma/fi_errno.h>

#include "core/info/abi.h"
#include "core/info/info.h"
#include "layers/srd/srd.h"

/* The lower does more with the memory: it sends from it, peers read there what is sent, and it
 * brings what is received. */
static uint64_t access_below(const struct lower_domain *domain, uint64_t access)
{
    const uint64_t out = FI_SEND | FI_WRITE, in = FI_RECV | FI_READ;
    bool reads = domain->lower_info->caps & FI_RMA;

    if (access & out)
        access |= out | (reads ? FI_REMOTE_READ : 0);
    if (access & in)
        access |= in;
    return reads ? access : access & ~(uint64_t)(FI_REMOTE_READ | FI_REMOTE_WRITE);
}

/* Memory that no peer accesses can do without the lower: it is copied then. */
static int register_below(struct lower_domain *domain, const struct fi_mr_attr *attr,
                          struct fid_mr **mr)
{
    const uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;
    struct fi_mr_attr below = {
        .mr_iov = attr->mr_iov,
        .iov_count = attr->iov_count,
        .access = access_below(domain, attr->access),
        .requested_key = attr->requested_key,
    };
    int rc = fi_mr_regattr(domain->lower, &below, 0, mr);

    if (!rc)
        return 0;
    *mr = NULL;
    return attr->access & remote ? rc : 0;
}

/* Memory that the CPU does not reach: peers access it by the lower alone, so core's region grants
 * no access, and has its place only. */
static int register_device(struct lower_domain *domain, const struct fi_mr_attr *attr,
                           uint64_t flags, struct fid_mr **ret_mr)
{
    const struct fi_mr_dmabuf *dmabuf = flags & FI_MR_DMABUF ? attr->dmabuf : NULL;
    struct fi_mr_attr below_attr = *attr, own = {.iov_count = 1, .context = attr->context};
    struct iovec iov;
    struct fid_mr *below;
    int rc;

    if (dmabuf)
        iov = (struct iovec){(char *)dmabuf->base_addr + dmabuf->offset, dmabuf->len};
    else if (attr->mr_iov && attr->iov_count == 1)
        iov = attr->mr_iov[0];
    else
        return -FI_EINVAL;
    below_attr.access = access_below(domain, attr->access);
    rc = fi_mr_regattr(domain->lower, &below_attr, flags & FI_MR_DMABUF, &below);
    if (rc)
        return rc;
    own.mr_iov = &iov;
    rc = mr_ops.regattr(&domain->base.fid.fid, &own, flags & ~FI_MR_DMABUF, ret_mr);
    if (rc) {
        fi_close(&below->fid);
        return rc;
    }
    object_of(*ret_mr, struct mr, fid)->below = below;
    object_of(*ret_mr, struct mr, fid)->device = true;
    (*ret_mr)->key = fi_mr_key(below);
    return 0;
}

static bool has_devices(const struct lower_domain *domain)
{
    return domain->base.info->domain_attr->mr_mode & FI_MR_HMEM;
}

static int regattr(struct fid *fid, const struct fi_mr_attr *theirs, uint64_t flags,
                   struct fid_mr **ret_mr)
{
    struct lower_domain *domain = object_of(fid, struct lower_domain, base.fid.fid);
    struct fi_mr_attr attr;
    struct fid_mr *below;
    int rc;

    if (!srd_has_device_keys(domain->base.info) || (flags & FI_MR_DMABUF && !has_devices(domain)))
        return mr_ops.regattr(fid, theirs, flags, ret_mr);
    abi_mr_attr_import(theirs, (enum abi_level)domain->base.fabric->abi, &attr);
    if (has_devices(domain) && (flags & FI_MR_DMABUF || attr.iface != FI_HMEM_SYSTEM))
        return register_device(domain, &attr, flags, ret_mr);
    if (attr.iov_count > domain->base.info->domain_attr->mr_iov_limit || !attr.mr_iov)
        return -FI_EINVAL;
    rc = register_below(domain, &attr, &below);
    if (rc)
        return rc;
    attr.offset = 0; /* a device has none */
    if (below)
        attr.requested_key = fi_mr_key(below);
    rc = mr_ops.regattr(fid, &attr, flags | MR_KEY_GIVEN, ret_mr);
    if (!rc)
        object_of(*ret_mr, struct mr, fid)->below = below;
    else if (below)
        fi_close(&below->fid);
    return rc;
}

static struct fi_ops_mr regions = {
    .size = sizeof(regions),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = regattr,
};

void srd_domain_init(struct lower_domain *domain)
{
    domain->base.fid.mr = &regions;
    domain->base.error_text = srd_error_text;
}

struct fid_mr *srd_region_below(const struct message_ep *ep, void *desc, const struct iovec *iov)
{
    const struct domain *domain = &ep->domain->base;
    const struct mr *mr = desc;
    uintptr_t at = (uintptr_t)iov->iov_base, start;

    if (!mr || !(info_mr_bits(domain->info) & (FI_MR_LOCAL | FI_MR_HMEM)) || mr->domain != domain ||
        !mr->below)
        return NULL;
    start = (uintptr_t)mr->iov[0].iov_base;
    if (at < start || at - start > mr->len || iov->iov_len > mr->len - (at - start))
        return NULL;
    return mr->below;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions are the device's. Memory of other devices (FI_HMEM) is registered as a dmabuf, or by its
 * address, which takes a kernel module of the other device's vendor; the CPU never touches it.
 */
#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/domain.h"
#include "core/domain/mr.h"
#include "core/info/abi.h"
#include "transports/efa/efa.h"

static char nothing; /* what a region of no bytes is of */

static int mr_close(struct fid *fid)
{
    struct efa_mr *mr = object_of(fid, struct efa_mr, fid.fid);
    int rc = verbs_lib.dereg_mr(mr->ibv);

    if (rc)
        return verbs_error(rc);
    children_release(&mr->domain->base.children);
    free(mr);
    return 0;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = mr_close,
    .bind = enosys_bind,
    .control = efa_ops_own,
    .ops_open = enosys_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static unsigned access_of(uint64_t access)
{
    unsigned flags = 0;

    if (access & (FI_RECV | FI_READ | FI_REMOTE_WRITE))
        flags |= IBV_ACCESS_LOCAL_WRITE;
    if (access & FI_REMOTE_READ)
        flags |= IBV_ACCESS_REMOTE_READ;
    if (access & FI_REMOTE_WRITE)
        flags |= IBV_ACCESS_REMOTE_WRITE;
    return flags;
}

/* NULL, and errno. */
static struct ibv_mr *register_dmabuf(struct efa_domain *domain, const struct fi_mr_attr *attr)
{
    const struct fi_mr_dmabuf *dmabuf = attr->dmabuf;
    uint64_t start = (uintptr_t)dmabuf->base_addr + dmabuf->offset;

    if (!verbs_lib.reg_dmabuf_mr) {
        errno = ENOSYS;
        return NULL;
    }
    return verbs_lib.reg_dmabuf_mr(domain->pd, dmabuf->offset, dmabuf->len, start, dmabuf->fd,
                                   (int)access_of(attr->access));
}

static struct ibv_mr *register_memory(struct efa_domain *domain, const struct fi_mr_attr *attr)
{
    size_t len = attr->mr_iov->iov_len;

    return verbs_lib.reg_mr(domain->pd, len ? attr->mr_iov->iov_base : &nothing, len ? len : 1,
                            (int)access_of(attr->access));
}

static void log_refused(const struct efa_domain *domain, const struct efa_mr *mr, size_t len,
                        int err)
{
    const char *help = "";

    if (err == -FI_ENOMEM)
        help = " (see `ulimit -l`)";
    else if (mr->is_device_memory && err == -FI_EFAULT)
        help = " (memory of another device: register its dmabuf, or load its vendor's module)";
    else if (mr->is_device_memory && (err == -FI_ENOSYS || err == -FI_EOPNOTSUPP))
        help = " (dmabufs: the kernel, its driver or libibverbs.so.1 has none)";
    LOG_WARN("efa", FI_LOG_MR, "%s cannot register %zu bytes: %s%s", domain->device->name, len,
             fi_strerror(-err), help);
}

static int register_region(struct efa_domain *domain, const struct fi_mr_attr *attr, bool is_dmabuf,
                           struct fid_mr **ret_mr)
{
    struct efa_mr *mr = calloc(1, sizeof(*mr));
    int rc;

    if (!mr)
        return -FI_ENOMEM;
    mr->is_device_memory = is_dmabuf || attr->iface != FI_HMEM_SYSTEM;
    mr->ibv = is_dmabuf ? register_dmabuf(domain, attr) : register_memory(domain, attr);
    if (!mr->ibv) {
        rc = verbs_error(-1);
        log_refused(domain, mr, is_dmabuf ? attr->dmabuf->len : attr->mr_iov->iov_len, rc);
        free(mr);
        return rc;
    }
    mr->domain = domain;
    mr->lkey = mr->ibv->lkey;
    fid_init(&mr->fid.fid, FI_CLASS_MR, attr->context, &mr_fid_ops);
    mr->fid.mem_desc = mr;
    mr->fid.key = mr->ibv->rkey;
    children_hold(&domain->base.children);
    *ret_mr = &mr->fid;
    return 0;
}

static int check(const struct efa_domain *domain, const struct fi_mr_attr *attr, uint64_t flags)
{
    const uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;
    const bool takes_devices = domain->base.info->domain_attr->mr_mode & FI_MR_HMEM;

    if (flags & ~(MR_UNCOUNTED | FI_MR_DMABUF))
        return -FI_EBADFLAGS;
    if (flags & FI_MR_DMABUF ? !attr->dmabuf || !attr->dmabuf->len
                             : attr->iov_count != 1 || !attr->mr_iov)
        return -FI_EINVAL;
    if (!takes_devices && (attr->iface != FI_HMEM_SYSTEM || flags & FI_MR_DMABUF)) {
        LOG_WARN("efa", FI_LOG_MR,
                 "memory registration: memory of other devices takes a domain with FI_HMEM and "
                 "FI_MR_HMEM, which the hints have to ask for");
        return -FI_ENOSYS;
    }
    if (attr->access & remote && !efa_device_accesses(domain->device)) {
        LOG_WARN("efa", FI_LOG_MR,
                 "memory registration: %s reads and writes no remote memory, so there is nothing "
                 "that peers could access",
                 domain->device->name);
        return -FI_ENOSYS;
    }
    return 0;
}

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **mr)
{
    struct efa_domain *domain = object_of(fid, struct efa_domain, base.fid.fid);
    struct fi_mr_attr current;
    int rc;

    abi_mr_attr_import(attr, (enum abi_level)domain->base.fabric->abi, &current);
    rc = check(domain, &current, flags);
    return rc ? rc : register_region(domain, &current, flags & FI_MR_DMABUF, mr);
}

struct fi_ops_mr efa_mr_table = {
    .size = sizeof(efa_mr_table),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = regattr,
};

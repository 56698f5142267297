/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: the lower's, whose key and descriptor the application uses. Each is wrapped only
 * because fi_mr_bind names objects of ours.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/mr.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/progress/progress.h"
#include "core/queue/binding.h"
#include "core/layer/peer_cq.h"
#include "layers/rxm/rxm_domain.h"

struct rxm_mr {
    struct fid_mr fid;
    struct domain *domain;
    struct fid_mr *lower;
    struct {
        struct cntr *cntr;
        uint64_t flags; /* the accesses that it counts */
    } bound[2];
    size_t bound_count;
    struct rxm_region region; /* for atomics that we do */
};

static struct lower_domain *domain_of(const struct rxm_mr *mr)
{
    return object_of(mr->domain, struct lower_domain, base);
}

/* Peers reach it from now on, if they may at all. */
static int add_region(struct rxm_mr *mr, const struct fi_mr_attr *attr)
{
    bool virt = info_mr_bits(mr->domain->info) & FI_MR_VIRT_ADDR;
    struct rxm_region *region = &mr->region;

    if (!(attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) || !attr->iov_count)
        return 0;
    region->iov = malloc(attr->iov_count * sizeof(*region->iov));
    if (!region->iov)
        return -FI_ENOMEM;
    memcpy(region->iov, attr->mr_iov, attr->iov_count * sizeof(*region->iov));
    region->iov_count = attr->iov_count;
    for (size_t i = 0; i < attr->iov_count; i++)
        region->len += attr->mr_iov[i].iov_len;
    region->addr = attr->offset + (virt ? (uintptr_t)attr->mr_iov[0].iov_base : 0);
    region->access = attr->access;
    region->key = fi_mr_key(mr->lower);
    region->owner = mr;
    return rxm_regions_add(rxm_regions_of(domain_of(mr)), region);
}

/* None reaches it any more, and those who do now, as the lower under our lock, have gone. */
static void remove_region(struct rxm_mr *mr)
{
    if (!mr->region.iov)
        return;
    rxm_regions_remove(rxm_regions_of(domain_of(mr)), &mr->region);
    progress_group_sync(mr->domain->progress_group);
    free(mr->region.iov);
}

void rxm_mr_accessed(void *owner, uint64_t access)
{
    struct rxm_mr *mr = owner;

    for (size_t i = 0; i < mr->bound_count; i++)
        if (mr->bound[i].flags & access)
            cntr_add_one(mr->bound[i].cntr);
}

static int mr_close(struct fid *fid)
{
    struct rxm_mr *mr = object_of(fid, struct rxm_mr, fid.fid);
    int rc = fi_close(&mr->lower->fid);

    if (rc)
        return rc;
    remove_region(mr);
    for (size_t i = 0; i < mr->bound_count; i++)
        children_release(&mr->bound[i].cntr->children);
    children_release(&mr->domain->children);
    free(mr);
    return 0;
}

/* Regions serve all connections of the domain, so an endpoint adds nothing. */
static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct rxm_mr *mr = object_of(fid, struct rxm_mr, fid.fid);
    struct cntr *cntr = cntr_of(other);
    struct fid_cntr *lower;
    int rc;

    if (other->fclass == FI_CLASS_EP)
        return flags ? -FI_EINVAL : 0;
    if (!cntr || cntr->domain != mr->domain ||
        mr->bound_count == sizeof(mr->bound) / sizeof(mr->bound[0]))
        return -FI_EINVAL;
    rc = binding_share(mr->domain, cntr->progress);
    if (!rc)
        rc = peer_cntr_lower(peer_cntr_of(cntr), domain_of(mr)->lower, cntr->sink, &lower);
    if (!rc)
        rc = fi_mr_bind(mr->lower, &lower->fid, flags);
    if (rc)
        return rc;
    mr->bound[mr->bound_count].cntr = cntr;
    mr->bound[mr->bound_count++].flags = flags;
    children_hold(&cntr->children);
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    struct rxm_mr *mr = object_of(fid, struct rxm_mr, fid.fid);
    int rc = fi_control(&mr->lower->fid, command, arg);

    if (command == FI_ENABLE && rc == -FI_ENOSYS)
        rc = 0; /* usable from the start */
    mr->fid.key = fi_mr_key(mr->lower);
    return rc;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(mr_fid_ops),
    .close = mr_close,
    .bind = mr_bind,
    .control = mr_control,
    NO_FID_TABLES,
};

static int regattr(struct fid *fid, const struct fi_mr_attr *theirs, uint64_t flags,
                   struct fid_mr **ret_mr)
{
    struct lower_domain *domain = object_of(fid, struct lower_domain, base.fid.fid);
    struct rxm_mr *mr = calloc(1, sizeof(*mr));
    struct fi_mr_attr attr;
    int rc;

    if (!mr)
        return -FI_ENOMEM;
    abi_mr_attr_import(theirs, domain->base.fabric->abi, &attr);
    fid_init(&mr->fid.fid, FI_CLASS_MR, attr.context, &mr_fid_ops);
    rc = fi_mr_regattr(domain->lower, &attr, flags, &mr->lower);
    if (rc) {
        free(mr);
        return rc;
    }
    mr->domain = &domain->base;
    rc = add_region(mr, &attr);
    if (rc) {
        free(mr->region.iov);
        fi_close(&mr->lower->fid);
        free(mr);
        return rc;
    }
    mr->fid.mem_desc = fi_mr_desc(mr->lower);
    mr->fid.key = fi_mr_key(mr->lower);
    children_hold(&domain->base.children);
    *ret_mr = &mr->fid;
    return 0;
}

struct fi_ops_mr rxm_mr_ops = {
    .size = sizeof(rxm_mr_ops),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = regattr,
};

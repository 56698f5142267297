/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_ep.h"
#include "layers/mrail/mrail_keys.h"

#include <stdlib.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/mr.h"
#include "core/info/abi.h"
#include "core/info/info.h"

struct mrail_region {
    struct fid_mr fid;
    struct list link; /* of ep->regions */
    struct mrail_domain *domain;
    struct mrail_ep *ep; /* that it is bound to, or NULL */
    struct iovec iov;
    struct fid_mr *rail[MRAIL_RAILS]; /* NULL: not registered there */
};

static const uint64_t accesses = FI_REMOTE_READ | FI_SEND | FI_RECV | FI_READ | FI_WRITE;

static struct mrail_region *region_of(struct fid *fid)
{
    return object_of(fid, struct mrail_region, fid.fid);
}

/* ---- On the rails ---- */

/* A rail that refuses it reads nothing of it; the others do. */
static void enter(struct mrail_region *region, unsigned rail)
{
    struct mrail_way *way = &region->ep->way[rail];
    const struct fi_info *info = region->domain->rail[rail].info;
    bool virtual = info_mr_bits(info) & FI_MR_VIRT_ADDR;
    size_t size = info->domain_attr->mr_key_size;
    struct fi_mr_attr attr = {
        .mr_iov = &region->iov,
        .iov_count = 1,
        .access = FI_REMOTE_READ,
        .offset = virtual ? 0 : (uint64_t)(uintptr_t)region->iov.iov_base,
        .requested_key = region->fid.key,
    };

    if (size && size < sizeof(attr.requested_key))
        attr.requested_key &= (UINT64_C(1) << 8 * size) - 1;
    if (fi_mr_regattr(way->domain, &attr, 0, &region->rail[rail]))
        region->rail[rail] = NULL;
    else
        fi_mr_bind(region->rail[rail], &way->fid->fid, 0); /* one that is a join like us */
}

static void leave(struct mrail_region *region)
{
    for (unsigned i = 0; i < MRAIL_RAILS; i++) {
        if (region->rail[i])
            fi_close(&region->rail[i]->fid);
        region->rail[i] = NULL;
    }
    if (region->ep)
        list_detach(&region->link);
    region->ep = NULL;
}

void mrail_region_keys(const struct mrail_ep *ep, uint64_t key, struct mrail_keys *keys)
{
    keys->count = 0;
    list_for_each (pos, &ep->regions) {
        const struct mrail_region *region = list_item(pos, struct mrail_region, link);

        if (region->fid.key != key)
            continue;
        keys->count = ep->count;
        for (unsigned i = 0; i < ep->count; i++)
            keys->key[i] = region->rail[i] ? fi_mr_key(region->rail[i]) : FI_KEY_NOTAVAIL;
        return;
    }
}

void mrail_regions_leave(struct mrail_ep *ep)
{
    while (!list_empty(&ep->regions))
        leave(list_item(ep->regions.next, struct mrail_region, link));
}

/* ---- The object ---- */

static int region_close(struct fid *fid)
{
    struct mrail_region *region = region_of(fid);

    leave(region);
    children_release(&region->domain->base.children);
    free(region);
    return 0;
}

static int region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct mrail_region *region = region_of(fid);
    struct mrail_ep *ep;

    if (other->fclass != FI_CLASS_EP || flags)
        return other->fclass == FI_CLASS_EP ? -FI_EBADFLAGS : -FI_EINVAL;
    ep = object_of(other, struct mrail_ep, up.fid.fid);
    if (ep->domain != region->domain || region->ep)
        return -FI_EINVAL;
    region->ep = ep;
    list_attach(&region->link, &ep->regions);
    for (unsigned i = 0; i < ep->count; i++)
        enter(region, i);
    return 0;
}

static struct fi_ops region_ops = {
    .size = sizeof(region_ops),
    .close = region_close,
    .bind = region_bind,
    .control = enosys_control,
    .ops_open = enosys_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static int check(const struct fi_mr_attr *attr, uint64_t flags)
{
    if (flags & FI_MR_DMABUF || attr->iface != FI_HMEM_SYSTEM || attr->auth_key_size)
        return -FI_ENOSYS;
    if (flags)
        return -FI_EBADFLAGS;
    if (attr->access & ~accesses)
        return -FI_EOPNOTSUPP; /* writes of peers: the upper's packets carry them */
    return attr->iov_count == 1 && attr->mr_iov ? 0 : -FI_EINVAL;
}

static int regattr(struct fid *fid, const struct fi_mr_attr *theirs, uint64_t flags,
                   struct fid_mr **ret_mr)
{
    struct mrail_domain *domain = object_of(fid, struct mrail_domain, base.fid.fid);
    struct mrail_region *region;
    struct fi_mr_attr attr;
    int rc;

    abi_mr_attr_import(theirs, domain->base.fabric->abi, &attr);
    rc = check(&attr, flags);
    if (rc)
        return rc;
    region = calloc(1, sizeof(*region));
    if (!region)
        return -FI_ENOMEM;
    fid_init(&region->fid.fid, FI_CLASS_MR, attr.context, &region_ops);
    region->domain = domain;
    region->iov = attr.mr_iov[0];
    if (getrandom(&region->fid.key, sizeof(region->fid.key), 0) != sizeof(region->fid.key)) {
        free(region);
        return -FI_EAGAIN;
    }
    if (region->fid.key == FI_KEY_NOTAVAIL)
        region->fid.key = 1;
    children_hold(&domain->base.children);
    *ret_mr = &region->fid;
    return 0;
}

struct fi_ops_mr mrail_mr_ops = {
    .size = sizeof(mrail_mr_ops),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = regattr,
};

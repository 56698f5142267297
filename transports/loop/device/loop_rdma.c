/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shapes of devices: their demands on an operation. Each region has a number that is its
 * descriptor, as a device has local keys; an operation names, for each of its segments, a region
 * that holds it and was registered for such a use.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/op/atomic.h"
#include "transports/loop/device/loop_device.h"

/* A region and its number. */
struct loop_region {
    struct list link;
    struct mr *mr;
    struct fi_ops ops; /* mr's own, but for close */
    const struct fi_ops *theirs;
    uintptr_t number;
};

/* Of the regions of all domains. Order: before a domain's map of regions. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- Numbers ---- */

static int region_close(struct fid *fid)
{
    struct loop_region *region = object_of(fid->ops, struct loop_region, ops);
    int rc;

    pthread_mutex_lock(&mutex);
    rc = region->theirs->close(fid);
    if (!rc)
        list_detach(&region->link);
    pthread_mutex_unlock(&mutex);
    if (!rc)
        free(region);
    return rc;
}

static int number(struct loop_domain *domain, struct fid_mr *fid)
{
    struct loop_region *region = calloc(1, sizeof(*region));

    if (!region) {
        fi_close(&fid->fid);
        return -FI_ENOMEM;
    }
    region->mr = object_of(fid, struct mr, fid);
    region->theirs = fid->fid.ops;
    region->ops = *fid->fid.ops;
    region->ops.close = region_close;
    pthread_mutex_lock(&mutex);
    region->number = ++domain->last_number;
    fid->mem_desc = (void *)region->number;
    fid->fid.ops = &region->ops;
    list_attach(&region->link, &domain->regions);
    pthread_mutex_unlock(&mutex);
    return 0;
}

static int rdma_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                        struct fid_mr **mr)
{
    int rc = mr_ops.regattr(fid, attr, flags, mr);

    return rc ? rc : number(object_of(fid, struct loop_domain, base.fid.fid), *mr);
}

struct fi_ops_mr loop_rdma_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = rdma_regattr,
};

/* ---- Checks ---- */

static bool holds(const struct mr *mr, const void *buf, size_t len)
{
    for (size_t i = 0; i < mr->iov_count; i++) {
        uintptr_t start = (uintptr_t)mr->iov[i].iov_base, at = (uintptr_t)buf;

        if (at >= start && at - start <= mr->iov[i].iov_len &&
            len <= mr->iov[i].iov_len - (at - start))
            return true;
    }
    return false;
}

static const char *fault_of(struct loop_domain *domain, const void *desc, const void *buf,
                            size_t len, uint64_t access)
{
    list_for_each (item, &domain->regions) {
        const struct loop_region *region = list_item(item, struct loop_region, link);

        if (region->number != (uintptr_t)desc)
            continue;
        if (!holds(region->mr, buf, len))
            return "is outside of the region of its descriptor";
        return region->mr->access & access ? NULL : "is registered without the right for this use";
    }
    return desc ? "has a descriptor of no open region" : "has no descriptor";
}

static int check_segment(struct loop_domain *domain, void *const *desc, size_t i, const void *buf,
                         size_t len, uint64_t access)
{
    const char *fault;

    if (!len)
        return 0;
    pthread_mutex_lock(&mutex);
    fault = fault_of(domain, desc ? desc[i] : NULL, buf, len, access);
    pthread_mutex_unlock(&mutex);
    if (!fault)
        return 0;
    LOG_WARN("loop", FI_LOG_EP_DATA,
             "FI_MR_LOCAL: segment %zu of an operation (%zu bytes at %p) %s", i, len, buf, fault);
    return -FI_EINVAL;
}

static int check_elements(struct loop_domain *domain, void *const *desc, const struct fi_ioc *ioc,
                          size_t count, size_t size, uint64_t access)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < count; i++)
        rc = check_segment(domain, desc, i, ioc[i].addr, ioc[i].count * size, access);
    return rc;
}

static int check_atomic(struct loop_domain *domain, const struct op *op)
{
    size_t size = atomic_size(op->datatype);
    bool copied = op->flags & FI_INJECT;
    int rc = copied ? 0 : check_elements(domain, op->desc, op->ioc, op->count, size, FI_WRITE);

    if (!rc && !copied)
        rc = check_elements(domain, op->compare.desc, op->compare.ioc, op->compare.count, size,
                            FI_WRITE);
    if (!rc)
        rc = check_elements(domain, op->result.desc, op->result.ioc, op->result.count, size,
                            FI_READ);
    return rc;
}

static uint64_t access_of(const struct op *op)
{
    switch (op->group) {
    case OP_GROUP_RMA: return op->kind & FI_READ ? FI_READ : FI_WRITE;
    case OP_GROUP_RECV: return FI_RECV;
    default: return FI_SEND;
    }
}

int loop_rdma_check(struct loop_domain *domain, const struct op *op)
{
    uint64_t access = access_of(op);
    int rc = 0;

    if (op->group == OP_GROUP_ATOMIC)
        return check_atomic(domain, op);
    if (op->count > LOOP_DEVICE_IOV || (op->group == OP_GROUP_RMA && op->rma_count > 1))
        return -FI_EINVAL;
    if (op->group != OP_GROUP_RECV && op->len > LOOP_DEVICE_MAX)
        return -FI_EMSGSIZE;
    if (op->flags & FI_INJECT)
        return 0;
    for (size_t i = 0; !rc && i < op->count; i++)
        rc = check_segment(domain, op->desc, i, op->iov[i].iov_base, op->iov[i].iov_len, access);
    return rc;
}

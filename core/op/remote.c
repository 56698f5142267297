/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/op/remote.h"

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/op/atomic.h"

static uint64_t access_of(const struct op *op)
{
    if (op->group == OP_GROUP_ATOMIC)
        return atomic_access(op->op, op->function);
    return op->kind & FI_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
}

static struct fi_rma_iov segment_of(const struct op *op, size_t i, size_t unit)
{
    if (op->group == OP_GROUP_RMA)
        return op->rma[i];
    return (struct fi_rma_iov){
        .addr = op->rma_ioc[i].addr, .len = op->rma_ioc[i].count * unit, .key = op->rma_ioc[i].key};
}

int remote_resolve(struct mr_map *map, const struct op *op, struct remote *remote)
{
    bool atomic = op->group == OP_GROUP_ATOMIC;
    size_t unit = atomic ? atomic_size(op->datatype) : 1;
    int rc = 0;

    remote->count = remote->mr_count = 0;
    remote->access = access_of(op);
    for (size_t i = 0; !rc && i < op->rma_count; i++) {
        struct fi_rma_iov rma = segment_of(op, i, unit);
        struct iovec *pieces = remote->iov + remote->count;
        size_t count = REMOTE_PIECES;

        rc = mr_resolve(map, rma.key, rma.addr, rma.len, remote->access, pieces, &count,
                        &remote->mrs[i]);
        if (rc)
            break;
        remote->mr_count++;
        remote->count += count;
        if (atomic && !atomic_is_whole(op->datatype, pieces, count))
            rc = -FI_EINVAL;
    }
    if (rc)
        remote_release(remote);
    return rc;
}

void remote_release(struct remote *remote)
{
    while (remote->mr_count)
        mr_release(remote->mrs[--remote->mr_count]);
}

/* ---- Atomics ---- */

/* Between segments of elements and one buffer. */
static void copy_elements(const struct fi_ioc *ioc, size_t count, size_t unit, char *buffer,
                          bool gather)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        size_t len = ioc[i].count * unit;

        if (len && gather)
            memcpy(buffer + at, ioc[i].addr, len);
        else if (len)
            memcpy(ioc[i].addr, buffer + at, len);
        at += len;
    }
}

/* The results take the place of the operands. */
static void compute(const struct op *op, const struct remote *remote)
{
    size_t unit = atomic_size(op->datatype);
    char operand[REMOTE_OPERAND], compare[REMOTE_OPERAND];

    copy_elements(op->ioc, op->count, unit, operand, true);
    copy_elements(op->compare.ioc, op->compare.count, unit, compare, true);
    atomic_apply_pieces(op->op, op->datatype, remote->iov, remote->count,
                        op->op == FI_ATOMIC_READ ? NULL : operand,
                        op->compare.count ? compare : NULL, op->function ? operand : NULL);
    copy_elements(op->result.ioc, op->result.count, unit, operand, false);
}

void remote_access(const struct op *op, const struct remote *remote)
{
    if (op->group == OP_GROUP_ATOMIC)
        compute(op, remote);
    else if (op->kind & FI_READ)
        iov_copy(op->iov, op->count, remote->iov, remote->count);
    else
        iov_copy(remote->iov, remote->count, op->iov, op->count);
}

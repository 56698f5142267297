/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_atomic, fi_fetch_atomic, fi_compare_atomic: done where the receiver takes them. */
#include <rdma/fi_errno.h>

#include "core/atomic.h"
#include "core/iov.h"
#include "core/post.h"
#include "transports/loop/loop.h"

/* ---- At the target ---- */

struct target {
    struct mr *mrs[LOOP_IOV_LIMIT];
    size_t mr_count;
    struct iovec iov[LOOP_IOV_LIMIT * LOOP_IOV_LIMIT];
    size_t count;
};

static uint64_t access_of(const struct loop_atomic *atomic)
{
    if (atomic->op == FI_ATOMIC_READ)
        return FI_REMOTE_READ;
    return atomic->function ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_REMOTE_WRITE;
}

static int resolve(const struct loop_ep *ep, const struct loop_op *op, struct target *target)
{
    size_t size = atomic_size(op->atomic->datatype);

    for (size_t i = 0; i < op->rma_count; i++) {
        struct iovec *pieces = target->iov + target->count;
        size_t count = LOOP_IOV_LIMIT;
        int rc = mr_resolve(ep->domain->base.mrs, op->rma[i].key, op->rma[i].addr, op->rma[i].len,
                            access_of(op->atomic), pieces, &count, &target->mrs[i]);

        if (rc)
            return rc;
        target->mr_count++;
        target->count += count;
        for (size_t piece = 0; piece < count; piece++) {
            if (pieces[piece].iov_len % size)
                return -FI_EINVAL; /* an element in two pieces of a region */
        }
    }
    return 0;
}

/* The results take the place of the operands. */
static void apply(const struct loop_op *op, const struct target *target)
{
    const struct loop_atomic *atomic = op->atomic;
    bool compares = atomic->compare_count, reads = atomic->op == FI_ATOMIC_READ;
    char operand[LOOP_ATOMIC], compare[LOOP_ATOMIC];
    struct iovec operands = {.iov_base = operand, .iov_len = sizeof(operand)};
    struct iovec compared = {.iov_base = compare, .iov_len = sizeof(compare)};
    size_t size = atomic_size(atomic->datatype), at = 0;

    iov_copy(&operands, 1, op->iov, op->count);
    iov_copy(&compared, 1, atomic->compare, atomic->compare_count);
    for (size_t i = 0; i < target->count; i++) {
        atomic_apply(atomic->op, atomic->datatype, target->iov[i].iov_base,
                     reads ? NULL : operand + at, compares ? compare + at : NULL,
                     atomic->function ? operand + at : NULL, target->iov[i].iov_len / size);
        at += target->iov[i].iov_len;
    }
    operands.iov_len = at;
    iov_copy(atomic->result, atomic->result_count, &operands, 1);
}

static void count_access(struct loop_ep *ep, const struct loop_op *op, const struct target *target)
{
    bool fetches = op->atomic->function;

    mr_count_access(target->mrs, target->mr_count, !fetches);
    if (ep->rdm || atomic_load(&ep->state) == LOOP_CONNECTED)
        report_done(&ep->report, fetches ? REPORT_REMOTE_READ : REPORT_REMOTE_WRITE, false, NULL, 0,
                    0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

int loop_apply(struct loop_ep *ep, const struct loop_op *op)
{
    struct target target = {.count = 0};
    int rc = resolve(ep, op, &target);

    if (!rc) {
        apply(op, &target);
        count_access(ep, op, &target);
    }
    for (size_t i = 0; i < target.mr_count; i++)
        mr_release(target.mrs[i]);
    return -rc;
}

/* ---- At the initiator ---- */

static uint64_t tx_flags(struct fid_ep *fid)
{
    return loop_ep_of(fid)->tx_op_flags;
}

static int count_atomic(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                        size_t *count)
{
    return atomic_count(datatype, op, kind, LOOP_ATOMIC, count);
}

static size_t copy_segments(struct iovec *to, const struct fi_ioc *from, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (struct iovec){.iov_base = from[i].addr, .iov_len = from[i].count * size};
    return count;
}

static ssize_t post_atomic(struct fid_ep *fid, const struct post_atomic *post)
{
    struct loop_atomic atomic = {
        .datatype = post->datatype, .op = post->op, .function = post->function};
    struct loop_op op = {.kind = post->function ? LOOP_ATOMIC_FETCH : LOOP_ATOMIC_WRITE,
                         .atomic = &atomic,
                         .context = post->context};
    size_t elements, size = atomic_size(post->datatype);
    int rc = atomic_check(post, LOOP_ATOMIC, LOOP_IOV_LIMIT, &elements);

    loop_count(LOOP_CALL_ATOMIC);
    if (rc)
        return rc;
    op.count = copy_segments(op.iov, post->iov, post->count, size);
    atomic.compare_count = copy_segments(atomic.compare, post->compare, post->compare_count, size);
    atomic.result_count = copy_segments(atomic.result, post->result, post->result_count, size);
    op.rma_count = post->rma_count;
    for (size_t i = 0; i < op.rma_count; i++)
        op.rma[i] = (struct fi_rma_iov){
            .addr = post->rma[i].addr, .len = post->rma[i].count * size, .key = post->rma[i].key};
    return loop_send(loop_ep_of(fid), &op, post->peer, post->flags, post->silent);
}

#include "core/post_atomic.inc"

struct fi_ops_atomic loop_atomic_ops = {.size = sizeof(struct fi_ops_atomic), POST_ATOMIC};

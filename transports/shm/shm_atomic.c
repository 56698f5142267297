/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_atomic, fi_fetch_atomic, fi_compare_atomic: elements become bytes. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "core/atomic.h"
#include "core/post.h"
#include "transports/shm/shm_op.h"

/* Appends segments in elements as bytes; the sums are checked already. */
static void append(const struct fi_ioc *from, size_t from_count, size_t size, struct iovec *iov,
                   size_t *count)
{
    for (size_t i = 0; i < from_count; i++)
        iov[(*count)++] = (struct iovec){from[i].addr, from[i].count * size};
}

static ssize_t post_atomic(struct fid_ep *fid, const struct post_atomic *asked)
{
    struct iovec out[2 * SHM_IOV_LIMIT], in[SHM_IOV_LIMIT];
    struct fi_rma_iov rma[SHM_IOV_LIMIT];
    struct shm_atomic atomic = {
        .post = {.kind = asked->kind,
                 .iov = out,
                 .rma = rma,
                 .rma_count = asked->rma_count,
                 .peer = asked->peer,
                 /* Operands are copied anyway. */
                 .flags = asked->flags & ~FI_INJECT,
                 .context = asked->context,
                 .silent = asked->silent},
        .op = asked->op,
        .datatype = asked->datatype,
        .function = asked->function,
        .result = in,
    };
    size_t size = atomic_size(asked->datatype), count;
    int rc = atomic_check(asked, SHM_ATOMIC_MAX, SHM_IOV_LIMIT, &count);

    if (rc)
        return rc;
    atomic.bytes = count * size;
    if (asked->flags & FI_INJECT && asked->op != FI_ATOMIC_READ && atomic.bytes > SHM_INJECT)
        return -FI_EMSGSIZE;
    append(asked->iov, asked->count, size, out, &atomic.post.count);
    append(asked->compare, asked->compare_count, size, out, &atomic.post.count);
    append(asked->result, asked->result_count, size, in, &atomic.result_count);
    for (size_t i = 0; i < asked->rma_count; i++)
        rma[i] = (struct fi_rma_iov){.addr = asked->rma[i].addr,
                                     .len = asked->rma[i].count * size,
                                     .key = asked->rma[i].key};
    return shm_post_atomic(shm_ep_of(fid), &atomic);
}

static int count_atomic(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
                        uint64_t function, size_t *count)
{
    return atomic_count(datatype, op, function, SHM_ATOMIC_MAX, count);
}

static uint64_t tx_flags(struct fid_ep *fid)
{
    return shm_ep_of(fid)->tx_op_flags;
}

#include "core/post_atomic.inc"

struct fi_ops_atomic shm_atomic_ops = {.size = sizeof(struct fi_ops_atomic), POST_ATOMIC};

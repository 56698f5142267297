/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic operations: elements become bytes. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "transports/shm/shm_op.h"

/* Appends segments in elements as bytes; the sums are checked already. */
static void append(const struct fi_ioc *from, size_t from_count, size_t size, struct iovec *iov,
                   size_t *count)
{
    for (size_t i = 0; i < from_count; i++)
        iov[(*count)++] = (struct iovec){from[i].addr, from[i].count * size};
}

ssize_t shm_post_elements(struct shm_ep *ep, const struct op *asked)
{
    struct iovec out[2 * SHM_IOV_LIMIT], in[SHM_IOV_LIMIT];
    struct fi_rma_iov rma[SHM_IOV_LIMIT];
    struct shm_atomic atomic = {.post = *asked, .result = in};
    size_t size = atomic_size(asked->datatype), count;
    int rc = atomic_check_op(asked, SHM_ATOMIC_MAX, SHM_IOV_LIMIT, &count);

    if (rc)
        return rc;
    atomic.bytes = count * size;
    if (asked->flags & FI_INJECT && asked->op != FI_ATOMIC_READ && atomic.bytes > SHM_INJECT)
        return -FI_EMSGSIZE;
    atomic.post.flags &= ~FI_INJECT; /* operands are copied anyway */
    atomic.post.iov = out;
    atomic.post.rma = rma;
    atomic.post.count = 0;
    append(asked->ioc, asked->count, size, out, &atomic.post.count);
    append(asked->compare.ioc, asked->compare.count, size, out, &atomic.post.count);
    append(asked->result.ioc, asked->result.count, size, in, &atomic.result_count);
    for (size_t i = 0; i < asked->rma_count; i++)
        rma[i] = (struct fi_rma_iov){.addr = asked->rma_ioc[i].addr,
                                     .len = asked->rma_ioc[i].count * size,
                                     .key = asked->rma_ioc[i].key};
    return shm_post_atomic(ep, &atomic);
}

int shm_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count)
{
    return atomic_count(datatype, op, function, SHM_ATOMIC_MAX, count);
}

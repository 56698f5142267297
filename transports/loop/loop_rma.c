/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_read, fi_write. */
#include <rdma/fi_errno.h>

#include "core/post.h"
#include "transports/loop/loop.h"

static uint64_t tx_flags(struct fid_ep *fid)
{
    return loop_ep_of(fid)->tx_op_flags;
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    bool read = post->kind & FI_READ;
    struct loop_op op;

    loop_count(read ? LOOP_CALL_READ : LOOP_CALL_WRITE);
    if (post->count > LOOP_IOV_LIMIT || post->rma_count > LOOP_IOV_LIMIT || !post->rma_count)
        return -FI_EINVAL;
    op.kind = read ? LOOP_READ : LOOP_WRITE;
    op.data = post->data;
    op.tag = 0;
    op.atomic = NULL;
    op.context = post->context;
    op.count = post->count;
    op.rma_count = post->rma_count;
    for (size_t i = 0; i < op.count; i++)
        op.iov[i] = post->iov[i];
    for (size_t i = 0; i < op.rma_count; i++)
        op.rma[i] = post->rma[i];
    return loop_send(loop_ep_of(fid), &op, post->peer, post->flags, post->silent);
}

#include "core/post_rma.inc"

struct fi_ops_rma loop_rma_ops = {.size = sizeof(struct fi_ops_rma), POST_RMA};

/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_read and fi_write. */
#include <rdma/fi_errno.h>

#include "core/op/op.h"
#include "transports/tcp/tcp_post.h"

/* Local and remote segments must describe the same number of bytes. */
static bool lengths_match(const struct op *post)
{
    uint64_t local = 0, remote = 0;

    for (size_t i = 0; i < post->count; i++)
        local += post->iov[i].iov_len;
    for (size_t i = 0; i < post->rma_count; i++)
        remote += post->rma[i].len;
    return local == remote;
}

ssize_t tcp_post_rma(struct tcp_ep *ep, const struct op *post)
{
    struct tcp_wire wire = {.op = post->kind & FI_READ ? TCP_OP_READ_REQ : TCP_OP_WRITE,
                            .iov_count = (uint8_t)post->rma_count};

    if (post->rma_count > TCP_WIRE_IOV_MAX || post->count > TCP_IOV_LIMIT || !lengths_match(post))
        return -FI_EINVAL;
    for (size_t i = 0; i < post->rma_count; i++)
        wire.iov[i] = (struct tcp_wire_iov){post->rma[i].addr, post->rma[i].len, post->rma[i].key};
    return tcp_post(ep, post, &wire);
}

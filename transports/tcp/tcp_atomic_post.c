/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_atomic, fi_fetch_atomic, fi_compare_atomic. */
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/op/atomic.h"
#include "core/op/op.h"
#include "core/part/part.h"
#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_order.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_post.h"
#include "transports/tcp/tcp_send.h"

static uint8_t function_of(const struct op *post)
{
    switch (post->function) {
    case FI_FETCH_ATOMIC: return TCP_ATOMIC_FETCH;
    case FI_COMPARE_ATOMIC: return TCP_ATOMIC_COMPARE;
    default: return TCP_ATOMIC_WRITE;
    }
}

/* Header and operands; these in a buffer of their own when they are long. */
static int build(struct tcp_ep *ep, struct tcp_op *op, const struct op *post, size_t len)
{
    size_t size = atomic_size(post->datatype);
    size_t operands = (post->count ? 1u : 0u) + (post->compare.count ? 1u : 0u);
    struct tcp_wire wire = {.op = TCP_OP_ATOMIC,
                            .op_data = function_of(post),
                            .iov_count = (uint8_t)post->rma_count,
                            .payload = len * operands,
                            .atomic = {.datatype = (uint8_t)post->datatype,
                                       .operation = (uint8_t)post->op,
                                       .size = (uint8_t)size,
                                       .precision = tcp_atomic_precision(post->datatype)}};
    uint8_t *at;

    for (size_t i = 0; i < post->rma_count; i++)
        wire.iov[i] = (struct tcp_wire_iov){post->rma_ioc[i].addr, post->rma_ioc[i].count,
                                            post->rma_ioc[i].key};
    op->head = (uint16_t)tcp_wire_encode(&wire, ep->conn.network, op->bytes);
    at = op->bytes + op->head;
    if (wire.payload > ep->conn.settings->max_inject) {
        op->atomic = tcp_atomic_get(ep->conn.poller);
        if (!op->atomic)
            return -FI_EAGAIN;
        at = op->atomic->data;
        op->atomic->bytes = (struct iovec){.iov_base = at, .iov_len = (size_t)wire.payload};
    } else {
        op->head = (uint16_t)(op->head + wire.payload);
    }
    at = atomic_gather(at, post->ioc, post->count, size);
    atomic_gather(at, post->compare.ioc, post->compare.count, size);
    return 0;
}

static ssize_t queue_locked(struct tcp_ep *ep, const struct op *post, size_t len)
{
    struct tcp_op *op = tcp_op_get(&ep->tx);

    if (!op) {
        tcp_send_flush(&ep->tx);
        return -FI_EAGAIN;
    }
    int rc = build(ep, op, post, len);
    if (rc) {
        tcp_op_put(&ep->tx, op);
        return rc;
    }
    for (size_t i = 0; i < post->result.count; i++)
        op->iov[i] =
            (struct iovec){.iov_base = post->result.ioc[i].addr,
                           .iov_len = post->result.ioc[i].count * atomic_size(post->datatype)};
    op->iov_count = (uint8_t)post->result.count;
    op->kind = TCP_KIND_ATOMIC;
    op->context = post->context;
    op->flags = post->kind;
    op->len = len;
    op->tag = 0;
    op->wire_flags = 0;
    op->fence = tcp_order_fence(&ep->tx, op, post->flags);
    op->wanted =
        !op_is_inject(post) && completion_wanted(ep->base.binding.tx_selective, post->flags);
    tcp_send_post(&ep->tx, op, post->flags & FI_MORE);
    return 0;
}

/* Sends nothing: a peer without these records would end the connection. */
static ssize_t refuse(struct tcp_ep *ep, const struct op *post)
{
    struct fi_cq_err_entry entry = {.op_context = post->context,
                                    .flags = post->kind,
                                    .err = FI_EOPNOTSUPP,
                                    .prov_errno = FI_EOPNOTSUPP,
                                    .src_addr = FI_ADDR_NOTAVAIL};

    if (op_is_inject(post))
        return -FI_EOPNOTSUPP;
    complete_error(&ep->base.binding, post->function ? BIND_READ : BIND_WRITE, &entry);
    return 0;
}

ssize_t tcp_post_atomic(struct tcp_ep *ep, const struct op *post)
{
    size_t count;
    ssize_t rc = atomic_check_op(post, TCP_ATOMIC_MAX, TCP_IOV_LIMIT, &count);

    if (rc)
        return rc;
    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    size_t len = count * atomic_size(post->datatype);
    progress_lock(ep->base.binding.progress);
    rc = tcp_post_check(ep, post->count ? post->flags : 0, len);
    if (!rc)
        rc = ep->peer_features & OPT_FEATURE_ATOMICS && !ep->conn.network
                 ? queue_locked(ep, post, len)
                 : refuse(ep, post);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_post.h"

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "transports/tcp/tcp_acks.h"
#include "transports/tcp/tcp_order.h"
#include "transports/tcp/tcp_send.h"

/* Asks for the target's answer if the completion level needs it. An inject counts as transmitted
 * once the kernel has its bytes. */
static uint16_t wire_flags(const struct op *post, uint8_t op)
{
    const uint64_t answered =
        OP_DELIVERED | (op_is_inject(post) ? 0 : (uint64_t)FI_TRANSMIT_COMPLETE);
    uint16_t flags = post->flags & FI_REMOTE_CQ_DATA ? TCP_FLAG_CQ_DATA : 0;

    if (op == TCP_OP_READ_REQ)
        return flags;
    if (post->flags & FI_COMMIT_COMPLETE && op == TCP_OP_WRITE)
        flags |= TCP_FLAG_COMMIT;
    else if (post->flags & answered)
        flags |= TCP_FLAG_DELIVERY;
    return flags;
}

static enum tcp_op_kind kind_of(uint8_t op)
{
    switch (op) {
    case TCP_OP_READ_REQ: return TCP_KIND_READ;
    case TCP_OP_WRITE: return TCP_KIND_WRITE;
    case TCP_OP_RTS: return TCP_KIND_RTS;
    default: return TCP_KIND_SEND;
    }
}

int tcp_post_check(const struct tcp_ep *ep, uint64_t flags, size_t len)
{
    if (ep->state != TCP_CONNECTED || ep->conn.error)
        return ep->state < TCP_ENABLED ? -FI_EOPBADSTATE : -FI_ENOTCONN;
    if (progress_forked(ep->conn.poller->progress))
        return -FI_EOPBADSTATE;
    if (flags & FI_INJECT && len > ep->conn.settings->max_inject)
        return -FI_EMSGSIZE;
    return 0;
}

/* A large tagged message asks first, when the peer is known to understand the question. */
static bool wants_rndv(const struct tcp_ep *ep, const struct op *post, uint8_t op, size_t len)
{
    return op == TCP_OP_TAG && ep->peer_version >= 1 && !ep->conn.network &&
           len > ep->conn.settings->rndv_size && !(post->flags & FI_INJECT);
}

static ssize_t queue_locked(struct tcp_ep *ep, const struct op *post, struct tcp_wire *wire,
                            size_t len)
{
    struct tcp_op *op = tcp_op_get(&ep->tx);

    if (!op)
        goto again;
    wire->flags = wire_flags(post, wire->op);
    wire->cq_data = post->data;
    wire->payload = wire->op == TCP_OP_READ_REQ ? 0 : len;
    if (wants_rndv(ep, post, wire->op, len)) {
        wire->op_data = tcp_acks_open(&ep->tx, op);
        if (!wire->op_data) {
            tcp_op_put(&ep->tx, op);
            goto again;
        }
        wire->op = TCP_OP_RTS;
        wire->msg_size = len;
        wire->payload = 0;
    }
    op->kind = (uint8_t)kind_of(wire->op);
    op->context = post->context;
    op->flags = post->kind;
    op->len = len;
    op->tag = wire->tag;
    op->wire_flags = wire->flags;
    op->ack = wire->flags & (TCP_FLAG_DELIVERY | TCP_FLAG_COMMIT);
    op->fence = tcp_order_fence(&ep->tx, op, post->flags);
    ep->tx.reading += op->kind == TCP_KIND_READ;
    op->wanted =
        !op_is_inject(post) && completion_wanted(ep->base.binding.tx_selective, post->flags);
    tcp_op_build(&ep->conn, op, wire, post->iov, post->count);
    tcp_send_post(&ep->tx, op, post->flags & FI_MORE);
    return 0;

again:
    /* Operations held back by FI_MORE may be filling the queue. */
    tcp_send_flush(&ep->tx);
    return -FI_EAGAIN;
}

ssize_t tcp_post_locked(struct tcp_ep *ep, const struct op *post, struct tcp_wire *wire)
{
    size_t len;

    if (post->count > TCP_IOV_LIMIT || !iov_total(post->iov, post->count, &len))
        return -FI_EINVAL;
    int rc = tcp_post_check(ep, post->flags, len);
    return rc ? rc : queue_locked(ep, post, wire, len);
}

ssize_t tcp_post(struct tcp_ep *ep, const struct op *post, struct tcp_wire *wire)
{
    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    progress_lock(ep->base.binding.progress);
    ssize_t rc = tcp_post_locked(ep, post, wire);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

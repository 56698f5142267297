/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_op.h"

#include <string.h>

#include "core/domain/mr_watch.h"
#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_tx.h"

struct tcp_op *tcp_op_make(struct tcp_poller *poller, enum tcp_op_kind kind)
{
    struct tcp_op *op = pool_get(&poller->ops);

    if (!op)
        return NULL;
    op->kind = (uint8_t)kind;
    op->target = NULL;
    op->atomic = NULL;
    op->wanted = false;
    op->ack = false;
    op->fence = TCP_FENCE_NONE;
    op->waiting = false;
    op->answered = false;
    op->error = 0;
    op->rndv = 0;
    op->iov_count = 0;
    return op;
}

struct tcp_op *tcp_op_get(struct tcp_tx *tx)
{
    if (tx->posted >= tx->limit)
        return NULL;
    struct tcp_op *op = tcp_op_make(tx->conn->poller, TCP_KIND_SEND);
    if (op)
        tx->posted++;
    return op;
}

void tcp_op_put(struct tcp_tx *tx, struct tcp_op *op)
{
    if (tcp_op_is_application(op)) {
        tx->posted--;
        tx->reading -= op->kind == TCP_KIND_READ;
    }
    if (op->target) {
        tx->from_regions -= op->target->iov_count > 0;
        tcp_target_release(tx->conn->poller, op->target);
    }
    tcp_atomic_put(tx->conn->poller, op->atomic);
    pool_put(&tx->conn->poller->ops, op);
}

void tcp_target_release(struct tcp_poller *poller, struct tcp_target *target)
{
    for (unsigned i = 0; i < target->mr_count; i++) {
        mr_watch_close(target->watch[i]);
        mr_release(target->mr[i]);
    }
    pool_put(&poller->targets, target);
}

static size_t copy_from_iov(uint8_t *to, const struct iovec *iov, size_t count)
{
    size_t done = 0;

    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len)
            memcpy(to + done, iov[i].iov_base, iov[i].iov_len);
        done += iov[i].iov_len;
    }
    return done;
}

void tcp_op_build(const struct tcp_conn *conn, struct tcp_op *op, const struct tcp_wire *wire,
                  const struct iovec *iov, size_t count)
{
    size_t head = tcp_wire_encode(wire, conn->network, op->bytes);

    op->iov_count = 0;
    if (wire->payload && wire->payload <= conn->settings->max_inject) {
        head += copy_from_iov(op->bytes + head, iov, count);
    } else {
        for (size_t i = 0; i < count; i++) {
            if (iov[i].iov_len)
                op->iov[op->iov_count++] = iov[i];
        }
    }
    op->head = (uint16_t)head;
}

static enum binding_kind binding_of(const struct tcp_op *op)
{
    if (op->kind == TCP_KIND_ATOMIC)
        return op->flags & FI_READ ? BIND_READ : BIND_WRITE;
    if (op->kind == TCP_KIND_WRITE)
        return BIND_WRITE;
    return op->kind == TCP_KIND_READ ? BIND_READ : BIND_SEND;
}

void tcp_op_complete(struct tcp_tx *tx, struct tcp_op *op)
{
    enum binding_kind kind = binding_of(op);
    void *context = op->context;
    uint64_t flags = op->flags;
    bool wanted = op->wanted;

    tcp_op_put(tx, op);
    complete(&tx->conn->base->binding, kind, wanted, context, flags, 0, NULL, 0, 0,
             FI_ADDR_NOTAVAIL);
}

void tcp_op_end(struct tcp_tx *tx, struct tcp_op *op, int err)
{
    struct fi_cq_err_entry entry = {
        .op_context = op->context,
        .flags = op->flags,
        .tag = op->tag,
        .err = err,
        .prov_errno = err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };
    enum binding_kind kind = binding_of(op);
    bool application = tcp_op_is_application(op);

    tcp_op_put(tx, op);
    if (err && application)
        complete_error(&tx->conn->base->binding, kind, &entry);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_gather.h"

#include <assert.h>
#include <sys/socket.h>

static void gather_part(struct tcp_gather *gather, void *base, size_t len, size_t *skip)
{
    if (*skip >= len) {
        *skip -= len;
        return;
    }
    struct iovec *iov = &gather->iov[gather->iov_count++];
    iov->iov_base = (char *)base + *skip;
    iov->iov_len = len - *skip;
    gather->bytes += iov->iov_len;
    *skip = 0;
}

/* False when there is no room for all of op. */
static bool gather_op(struct tcp_gather *gather, struct tcp_op *op, size_t skip)
{
    size_t count;
    const struct iovec *iov = tcp_op_iov(op, &count);

    if (gather->op_count == TCP_GATHER_OPS || gather->iov_count + count + 1 > TCP_GATHER_IOV)
        return false;
    gather->ops[gather->op_count++] = op;
    gather_part(gather, op->bytes, op->head, &skip);
    for (size_t i = 0; i < count; i++)
        gather_part(gather, iov[i].iov_base, iov[i].iov_len, &skip);
    return true;
}

static bool gather_new(struct tcp_gather *gather, struct tcp_op *op, uint8_t *id)
{
    op->bytes[TCP_WIRE_ID] = *id;
    if (!gather_op(gather, op, 0))
        return false;
    ++*id;
    return true;
}

/* op is next, and what precedes it is gathered or has left. */
static bool must_wait(const struct tcp_tx *tx, const struct tcp_gather *gather,
                      const struct tcp_op *op)
{
    if (tx->reads.count)
        return true;
    if (op->fence == TCP_FENCE_ALL && (gather->op_count || tx->acks.count || tx->rndv_waiting))
        return true;
    for (size_t i = 0; i < gather->op_count; i++) {
        if (gather->ops[i]->kind == TCP_KIND_READ)
            return true;
    }
    return false;
}

void tcp_gather_all(const struct tcp_tx *tx, struct tcp_gather *gather, size_t enough)
{
    uint8_t id = tx->id;

    gather->iov_count = gather->op_count = gather->bytes = 0;
    if (tx->current)
        gather_op(gather, tx->current, tx->sent);
    for (struct tcp_op *op = tx->urgent.first; op; op = op->next) {
        if (!gather_new(gather, op, &id))
            return;
    }
    for (struct tcp_op *op = tx->normal.first; op; op = op->next) {
        if (__builtin_expect(op->fence, 0) && must_wait(tx, gather, op))
            return;
        if (gather->bytes >= enough || !gather_new(gather, op, &id))
            return;
    }
}

ssize_t tcp_gather_send(const struct tcp_gather *gather, int fd)
{
    if (gather->iov_count == 1)
        return send(fd, gather->iov[0].iov_base, gather->iov[0].iov_len,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    const struct msghdr message = {.msg_iov = (struct iovec *)gather->iov,
                                   .msg_iovlen = gather->iov_count};
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void tcp_gather_left(struct tcp_tx *tx, const struct tcp_gather *gather, size_t sent,
                     struct tcp_queue *done)
{
    tcp_queue_init(done);
    for (size_t i = 0; i < gather->op_count && sent; i++) {
        struct tcp_op *op = gather->ops[i];

        assert(op);
        size_t already = op == tx->current ? tx->sent : 0;
        size_t rest = tcp_op_size(op) - already;

        if (op != tx->current) {
            tcp_queue_pop(op == tx->urgent.first ? &tx->urgent : &tx->normal);
            tx->id++;
        }
        if (sent < rest) {
            tx->current = op;
            tx->sent = already + sent;
            return;
        }
        sent -= rest;
        tx->current = NULL;
        tcp_queue_push(done, op);
    }
}

size_t tcp_gather_rest(const struct tcp_tx *tx, const struct tcp_op *op)
{
    return tcp_op_size(op) - (op == tx->current ? tx->sent : 0);
}

void tcp_gather_cut(const struct tcp_tx *tx, struct tcp_gather *gather, size_t count)
{
    size_t before = gather->op_count;

    assert(count <= before);
    gather->iov_count = gather->op_count = gather->bytes = 0;
    for (size_t i = 0; i < count; i++)
        gather_op(gather, gather->ops[i], gather->ops[i] == tx->current ? tx->sent : 0);
}

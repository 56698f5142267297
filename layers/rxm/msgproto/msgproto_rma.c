/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory is the lower's: its addresses, keys and flags, without a packet of ours.
 *
 *   what the lower takes as it is      one access, of the application's memory
 *   small, but of memory that the      one access, of a copy (a read is copied back)
 *   lower does not know, or in more
 *   segments than it takes
 *   anything else                      several accesses, of memory that is registered meanwhile
 *
 * FI_DELIVERY_COMPLETE of a write, over a lower that does not have it: a device acknowledges before
 * the bytes are in memory. A packet that arrives behind them finds them there (msgproto_flush).
 *
 * Atomics are packets, and so take the peer's library, which a device does not wait for. Where an
 * access may not overtake them, it waits until they have been answered.
 */

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/ep/ep_post.h"
#include "layers/rxm/msgproto/msgproto.h"

/* The flags of a post that mean something to the lower. */
#define NOT_LOWER_FLAGS (FI_INJECT | FI_FENCE | FI_COMPLETION)

/* Nothing is reported, and the lower copies: no operation is needed. */
static ssize_t inject(struct rxm_conn *conn, const struct op *post)
{
    struct op op = *post;
    ssize_t rc;

    op.peer = FI_ADDR_UNSPEC;
    rc = op_post(&conn->target, &op);
    if (!rc && conn->owner->base.binding.cntr[BIND_WRITE])
        cntr_add_one(conn->owner->base.binding.cntr[BIND_WRITE]);
    return rc;
}

/* ---- One access ---- */

/* The lower counts its outstanding operations from here on. */
static ssize_t post_one(struct rxm_op *op, const struct op *post, const struct iovec *iov,
                        void **desc, size_t count)
{
    struct rxm_conn *conn = op->conn;
    uint64_t flags = msgproto_lower_flags(conn->owner->msgproto, post->flags & ~NOT_LOWER_FLAGS);
    struct fi_msg_rma msg = {
        .msg_iov = iov,
        .desc = desc,
        .iov_count = count,
        .addr = FI_ADDR_UNSPEC,
        .rma_iov = post->rma,
        .rma_iov_count = post->rma_count,
        .context = &op->context,
        .data = post->data,
    };
    ssize_t rc;

    op->posted = true;
    op->pending++;
    conn->msgproto.outstanding++;
    rc = op_post_rma(&conn->target, post->kind & FI_READ ? OP_READMSG : OP_WRITEMSG, &msg, flags);
    if (rc)
        conn->msgproto.outstanding--;
    return rc;
}

/* Moves the bytes that were read into a copy to where they belong. */
static void copy_back(struct rxm_op *op, int err)
{
    struct mr_buffer *bounce = op->bounce;
    struct iovec from = {.iov_base = bounce + 1, .iov_len = op->len};

    if (!err)
        iov_copy(op->iov, op->iov_count, &from, 1);
    rxm_op_report(op, err);
}

static ssize_t post_copy(struct rxm_op *op, const struct op *post)
{
    bool read = post->kind & FI_READ, fits = op->len <= MSGPROTO_INJECT && !read;
    struct mr_buffer *bounce;
    struct iovec copy = {.iov_base = op->bytes, .iov_len = op->len};
    void *desc = op->buffer.desc;

    if (!fits) {
        bounce = mr_pool_get(&op->conn->owner->msgproto->bounces);
        if (!bounce)
            return -FI_ENOMEM;
        op->bounce = bounce;
        copy.iov_base = bounce + 1;
        desc = bounce->desc;
    }
    if (read) {
        rxm_op_set_memory(op, post->iov, NULL, post->count);
        op->end = copy_back;
    } else {
        iov_copy(&copy, 1, post->iov, post->count);
    }
    return post_one(op, post, &copy, &desc, 1);
}

/* ---- Several accesses ---- */

static int step_split(struct rxm_op *op)
{
    int rc = msgproto_move(op, op->kind == BIND_READ);

    if (!rc || !rxm_ep_passes(rc))
        op->conn->msgproto.splitting--;
    return rc;
}

static int set_places(struct rxm_op *op, const struct op *post)
{
    size_t left = op->len;

    if (post->rma_count > RXM_PLACES)
        return -FI_EINVAL;
    for (size_t i = 0; i < post->rma_count; i++) {
        if (post->rma[i].len > left)
            return -FI_EINVAL;
        op->places[i] = (struct rxm_place){post->rma[i].addr, post->rma[i].len, post->rma[i].key};
        left -= post->rma[i].len;
    }
    op->place_count = (unsigned)post->rma_count;
    op->place = 0;
    op->place_at = 0;
    return left ? -FI_EINVAL : 0;
}

static ssize_t post_split(struct rxm_op *op, const struct op *post)
{
    struct rxm_conn *conn = op->conn;
    int rc = set_places(op, post);

    if (rc)
        return rc;
    rxm_op_set_memory(op, post->iov, post->desc, post->count);
    if (conn->owner->msgproto->registers)
        rc = msgproto_register_local(op, op->kind == BIND_READ ? FI_READ : FI_WRITE);
    if (rc)
        return rc;
    op->packet.data = post->data;
    op->lower_flags = msgproto_lower_flags(conn->owner->msgproto, post->flags & ~NOT_LOWER_FLAGS);
    op->step = step_split;
    conn->msgproto.splitting++;
    rxm_op_start(op);
    return 0;
}

/* ---- Which way ---- */

static bool lower_takes(const struct msgproto *msgproto, const struct op *post, size_t len)
{
    return len <= msgproto->lower_max && post->rma_count <= msgproto->lower_rma_iov &&
           post->count <= msgproto->lower_iov &&
           (!msgproto->local_mr || !len || (post->desc && !msgproto->registers));
}

static ssize_t start(struct rxm_op *op, const struct op *post)
{
    const struct msgproto *msgproto = op->conn->owner->msgproto;
    bool single = post->rma_count <= msgproto->lower_rma_iov && op->len <= msgproto->eager_limit;

    if (!(post->flags & FI_INJECT) && lower_takes(msgproto, post, op->len))
        return post_one(op, post, post->iov, post->desc, post->count);
    return single ? post_copy(op, post) : post_split(op, post);
}

static bool must_flush(const struct rxm_op *op, const struct op *post)
{
    return msgproto_flushes(op->conn->owner->msgproto, post->flags) && op->len &&
           post->kind & FI_WRITE && post->rma_count;
}

static void fill(struct rxm_op *op, const struct op *post, size_t len)
{
    rxm_op_fill(op, post, post->kind & FI_READ ? BIND_READ : BIND_WRITE, len);
    if (post->kind & FI_READ) {
        op->reads = true;
        op->conn->msgproto.reads++;
    }
    if (must_flush(op, post)) {
        op->places[0] = (struct rxm_place){post->rma->addr, post->rma->len, post->rma->key};
        op->end = msgproto_flush;
    }
}

/* A write with CQ data takes a receive of the target, on lowers that count them. */
static bool takes_receive(const struct rxm_conn *conn, const struct op *post)
{
    return conn->owner->msgproto->data_takes_receive && post->flags & FI_REMOTE_CQ_DATA &&
           post->kind & FI_WRITE;
}

static ssize_t post_credited(struct rxm_conn *conn, const struct op *post, size_t len)
{
    const struct msgproto *msgproto = conn->owner->msgproto;
    struct rxm_op *op;
    ssize_t rc;

    if (op_is_inject(post) && !(post->flags & OP_DELIVERED) && len <= msgproto->lower_inject)
        return inject(conn, post);
    op = rxm_op_get_counted(conn);
    if (!op)
        return -FI_EAGAIN;
    fill(op, post, len);
    rc = start(op, post);
    if (rc)
        rxm_op_put(op);
    return rc;
}

/* May the access overtake the atomics before it? */
static bool behind_atomics(const struct rxm_conn *conn, const struct op *post)
{
    uint64_t orders =
        post->kind & FI_READ ? FI_ORDER_RAR | FI_ORDER_RAW : FI_ORDER_WAR | FI_ORDER_WAW;

    return conn->msgproto.atomics && !conn->owner->msgproto->in_turn &&
           conn->owner->info->tx_attr->msg_order & orders;
}

ssize_t msgproto_rma(struct rxm_conn *conn, const struct op *post)
{
    size_t len;
    ssize_t rc;

    if (post->count > MSGPROTO_IOV || !iov_total(post->iov, post->count, &len))
        return -FI_EINVAL;
    if (post->flags & FI_INJECT && len > conn->owner->msgproto->inject)
        return -FI_EMSGSIZE;
    if ((post->flags & FI_FENCE && !list_empty(&conn->msgproto.ops)) || behind_atomics(conn, post))
        return -FI_EAGAIN;
    if (conn->msgproto.splitting) {
        rxm_op_resume(conn);
        return -FI_EAGAIN;
    }
    if (!takes_receive(conn, post))
        return post_credited(conn, post, len);
    if (!rxm_credit_take(&conn->msgproto.credit, false))
        return -FI_EAGAIN;
    rc = post_credited(conn, post, len);
    if (rc)
        rxm_credit_untake(&conn->msgproto.credit);
    return rc;
}

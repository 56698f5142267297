/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages out. Up to the eager limit a message is one packet; up to the segment limit several,
 * sent without waiting; above, only its head goes (msgproto_rndv.c). A payload that the lower
 * cannot gather behind the header (too many segments, or memory that it does not know) is copied.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/ep/ep_post.h"
#include "layers/rxm/msgproto/msgproto.h"
#include "layers/rxm/msgproto/msgproto_short.h"

/* The flags of a post that mean something to the lower. */
#define LOWER_FLAGS                                                                                \
    (FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |                  \
     FI_COMMIT_COMPLETE)

static void fill_packet(struct rxm_packet *packet, const struct rxm_conn *conn,
                        const struct op *post, uint8_t type, size_t len)
{
    bool has_data = post->flags & FI_REMOTE_CQ_DATA;

    *packet = (struct rxm_packet){
        .type = type,
        .op = post->kind & FI_TAGGED ? RXM_OP_TAGGED : RXM_OP_MSG,
        .has_data = has_data,
        .conn_id = conn->cm.other.id,
        .size = len,
        .data = has_data ? post->data : 0,
        .tag = post->kind & FI_TAGGED ? post->tag : 0,
    };
}

static void fill_op(struct rxm_op *op, const struct op *post, size_t len)
{
    rxm_op_fill(op, post, BIND_SEND, len);
    op->lower_flags = msgproto_lower_flags(op->conn->owner->msgproto, post->flags & LOWER_FLAGS);
    if (msgproto_flushes(op->conn->owner->msgproto, post->flags)) {
        op->places[0] = (struct rxm_place){0};
        op->end = msgproto_flush;
    }
}

static void gather(uint8_t *to, const struct iovec *iov, size_t count, size_t len)
{
    struct iovec out = {.iov_base = to, .iov_len = len};

    if (__builtin_expect(count == 1, 1))
        memcpy(to, iov->iov_base, len);
    else
        iov_copy(&out, 1, iov, count);
}

/* The descriptors of the application's, where they are what the lower wants. */
static void *const *known(const struct msgproto *msgproto, const struct op *post)
{
    return msgproto->registers ? NULL : post->desc;
}

/*
 * Posts a packet: the header in op->bytes, and len bytes of payload from iov. Copies when the lower
 * cannot take it as it is, or the caller may change it (FI_INJECT). Returns as fi_sendmsg.
 */
static ssize_t send_gathered(struct rxm_op *op, const struct iovec *iov, void *const *desc,
                             size_t count, size_t len, bool inject)
{
    struct rxm_conn *conn = op->conn;
    struct msgproto *msgproto = conn->owner->msgproto;
    struct iovec parts[MSGPROTO_IOV + 1];
    void *descs[MSGPROTO_IOV + 1];
    struct mr_buffer *bounce;
    struct fi_msg msg = {
        .msg_iov = parts, .desc = descs, .addr = FI_ADDR_UNSPEC, .context = &op->context};
    ssize_t rc;

    if (!rxm_credit_take(&conn->msgproto.credit, false))
        return -FI_EAGAIN;
    parts[0] = (struct iovec){.iov_base = op->bytes, .iov_len = RXM_PACKET_SIZE};
    descs[0] = op->buffer.desc;
    msg.iov_count = count + 1;
    if (count < msgproto->lower_iov && (desc || !msgproto->local_mr) && !inject) {
        memcpy(parts + 1, iov, count * sizeof(*iov));
        for (size_t i = 0; i < count; i++)
            descs[i + 1] = desc ? desc[i] : NULL;
    } else {
        bounce = mr_pool_get(&msgproto->bounces);
        if (!bounce) {
            rxm_credit_untake(&conn->msgproto.credit);
            return -FI_ENOMEM;
        }
        op->bounce = bounce;
        gather((uint8_t *)(bounce + 1), iov, count, len);
        parts[1] = (struct iovec){.iov_base = bounce + 1, .iov_len = len};
        descs[1] = bounce->desc;
        msg.iov_count = 2;
    }
    op->pending++;
    conn->msgproto.outstanding++;
    rc = op_post_msg(&conn->target, OP_SENDMSG, &msg, op->lower_flags);
    if (__builtin_expect(rc != 0, 0)) {
        op->pending--;
        conn->msgproto.outstanding--;
        rxm_credit_untake(&conn->msgproto.credit);
    }
    return rc;
}

/* ---- Eager ---- */

/* Nothing is reported, and the lower copies: no operation is needed. */
static ssize_t inject(struct rxm_conn *conn, const struct op *post, size_t len)
{
    uint8_t bytes[RXM_PACKET_SIZE + MSGPROTO_INJECT];
    struct rxm_packet packet;
    ssize_t rc;

    if (!rxm_credit_take(&conn->msgproto.credit, false))
        return -FI_EAGAIN;
    fill_packet(&packet, conn, post, RXM_EAGER, len);
    rxm_packet_put(&packet, bytes);
    if (len)
        gather(bytes + RXM_PACKET_SIZE, post->iov, post->count, len);
    rc = msgproto_short_inject(conn, bytes, RXM_PACKET_SIZE + len);
    if (__builtin_expect(rc != 0, 0))
        rxm_credit_untake(&conn->msgproto.credit);
    if (!rc && conn->owner->base.binding.cntr[BIND_SEND])
        cntr_add_one(conn->owner->base.binding.cntr[BIND_SEND]);
    return rc;
}

static ssize_t post_eager(struct rxm_op *op, const struct op *post, size_t len)
{
    bool inject = post->flags & FI_INJECT;

    if (len <= MSGPROTO_SMALL || (inject && len <= MSGPROTO_INJECT)) {
        if (len)
            gather(op->bytes + RXM_PACKET_SIZE, post->iov, post->count, len);
        op->byte_count = RXM_PACKET_SIZE + len;
        return rxm_op_send_bytes(op);
    }
    return send_gathered(op, post->iov, known(op->conn->owner->msgproto, post), post->count, len,
                         inject);
}

static ssize_t send_eager(struct rxm_conn *conn, const struct op *post, size_t len)
{
    struct rxm_op *op = rxm_op_get_counted(conn);
    ssize_t rc;

    if (__builtin_expect(!op, 0))
        return -FI_EAGAIN;
    fill_op(op, post, len);
    op->posted = true;
    op->packet.type = RXM_EAGER;
    fill_packet(&op->packet, conn, post, RXM_EAGER, len);
    rxm_packet_put(&op->packet, op->bytes);
    rc = post_eager(op, post, len);
    if (__builtin_expect(rc != 0, 0))
        rxm_op_put(op);
    return rc;
}

/* ---- Segments ---- */

static void put_segment(struct rxm_op *op, const struct rxm_op *message, size_t len)
{
    op->packet = message->packet;
    op->packet.seg_size = (uint16_t)len;
    op->packet.seg_no = (uint32_t)message->place;
    op->packet.segment = message->at == 0                    ? RXM_SEGMENT_FIRST
                         : message->at + len == message->len ? RXM_SEGMENT_LAST
                                                             : RXM_SEGMENT_MIDDLE;
    rxm_packet_put(&op->packet, op->bytes);
}

static ssize_t send_segment(struct rxm_op *message)
{
    struct msgproto *msgproto = message->conn->owner->msgproto;
    size_t left = message->len - message->at;
    size_t len = left < msgproto->eager_limit ? left : msgproto->eager_limit, taken = len, count;
    struct rxm_op *op = rxm_op_child(message);
    struct iovec iov[MSGPROTO_IOV];
    void *desc[MSGPROTO_IOV];
    ssize_t rc;

    if (!op)
        return -FI_ENOMEM;
    put_segment(op, message, len);
    op->lower_flags = message->lower_flags;
    if (message->at + len < message->len && !message->conn->msgproto.credit.on)
        op->lower_flags |= FI_MORE; /* the next follows at once, or the lower is full */
    count = rxm_iov_slice(message->iov, message->desc, message->iov_count, message->at, &taken, iov,
                          desc, MSGPROTO_IOV);
    rc = send_gathered(op, iov, message->has_desc ? desc : NULL, count, len, false);
    if (rc) {
        rxm_op_put(op);
        message->pending--;
        return rc;
    }
    message->at += len;
    message->place++;
    return 0;
}

static int step_segments(struct rxm_op *message)
{
    ssize_t rc = 0;

    while (!rc && message->at < message->len)
        rc = send_segment(message);
    return (int)rc;
}

static ssize_t send_segments(struct rxm_conn *conn, const struct op *post, size_t len)
{
    struct rxm_op *op = rxm_op_get_counted(conn);
    ssize_t rc;

    if (!op)
        return -FI_EAGAIN;
    fill_op(op, post, len);
    fill_packet(&op->packet, conn, post, RXM_SEGMENT, len);
    op->packet.msg_id = conn->owner->msgproto->next_message++;
    op->place = 0;
    op->step = step_segments;
    rxm_op_set_memory(op, post->iov, known(conn->owner->msgproto, post), post->count);
    rc = send_segment(op);
    if (rc) {
        rxm_op_put(op);
        return rc;
    }
    rxm_op_start(op);
    return 0;
}

/* ---- One message ---- */

/* A fence: operations under way to the peer end first. */
static bool fenced(const struct rxm_conn *conn, const struct op *post)
{
    return post->flags & FI_FENCE && !list_empty(&conn->msgproto.ops);
}

ssize_t msgproto_send(struct rxm_conn *conn, const struct op *post)
{
    struct msgproto *msgproto = conn->owner->msgproto;
    size_t len;

    if (__builtin_expect(post->count > MSGPROTO_IOV || !iov_total(post->iov, post->count, &len), 0))
        return -FI_EINVAL;
    if (__builtin_expect(post->flags & FI_INJECT && len > msgproto->inject, 0))
        return -FI_EMSGSIZE;
    if (__builtin_expect(!list_empty(&conn->msgproto.waiting), 0) || fenced(conn, post)) {
        rxm_op_resume(conn);
        return -FI_EAGAIN;
    }
    if (op_is_inject(post) && !(post->flags & OP_DELIVERED) &&
        RXM_PACKET_SIZE + len <= msgproto->lower_inject && len <= MSGPROTO_INJECT)
        return inject(conn, post, len);
    if (len <= msgproto->eager_limit)
        return send_eager(conn, post, len);
    return len <= msgproto->segment_limit ? send_segments(conn, post, len)
                                          : rxm_rndv_send(conn, post, len);
}

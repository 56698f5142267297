/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/ep/ep_post.h"
#include "layers/rxm/msgproto/msgproto.h"
#include "layers/rxm/msgproto/msgproto_short.h"

/* ---- Their life ---- */

void rxm_op_done(struct rxm_context *context, size_t len, const struct fi_cq_err_entry *error)
{
    struct rxm_op *op = object_of(context, struct rxm_op, context);

    op->conn->msgproto.outstanding--;
    op->pending--;
    if (__builtin_expect(error != NULL, 0)) {
        op->err = error->err;
        if (!op->parent && op->posted && !op->pending && !op->state && op->counted) {
            rxm_op_report_error(op, error);
            return;
        }
    }
    rxm_op_settle(op);
}

struct rxm_op *rxm_op_get(struct rxm_conn *conn)
{
    struct rxm_op *op = mr_pool_get(&conn->owner->msgproto->ops);

    if (__builtin_expect(!op, 0))
        return NULL;
    rxm_op_init(op);
    op->context.done = rxm_op_done;
    op->conn = conn;
    list_attach(&op->link, &conn->msgproto.ops);
    return op;
}

struct rxm_op *rxm_op_get_answer(struct rxm_conn *conn)
{
    struct rxm_op *op = rxm_op_get(conn);

    if (op) {
        op->answer = true;
        conn->msgproto.answers++;
    }
    return op;
}

struct rxm_op *rxm_op_get_counted(struct rxm_conn *conn)
{
    struct msgproto *msgproto = conn->owner->msgproto;
    struct rxm_op *op;

    if (__builtin_expect(msgproto->used >= msgproto->limit, 0))
        return NULL;
    op = rxm_op_get(conn);
    if (op) {
        op->counted = true;
        msgproto->used++;
    }
    return op;
}

void rxm_op_put(struct rxm_op *op)
{
    struct msgproto *msgproto = op->conn->owner->msgproto;

    if (op->counted)
        msgproto->used--;
    if (op->answer && --op->conn->msgproto.answers == MSGPROTO_ANSWERS)
        msgproto_set_refill(msgproto);
    if (op->reads)
        op->conn->msgproto.reads--;
    if (op->bounce)
        mr_pool_put(&msgproto->bounces, op->bounce);
    if (op->id != IDS_NONE)
        ids_remove(&msgproto->ids, op->id);
    if (op->mrs[0])
        msgproto_unregister(op->mrs, op->iov_count);
    list_detach(&op->stalled);
    if (list_empty(&op->conn->msgproto.waiting))
        list_detach(&op->conn->msgproto.stalled);
    list_detach(&op->link);
    mr_pool_put(&msgproto->ops, op);
}

struct rxm_op *rxm_op_child(struct rxm_op *parent)
{
    struct rxm_op *op = rxm_op_get(parent->conn);

    if (op) {
        op->parent = parent;
        op->posted = true;
        parent->pending++;
    }
    return op;
}

/* The end of a child counts in its parent; that of any other is its own business. */
void rxm_op_settle(struct rxm_op *op)
{
    struct rxm_op *parent = op->parent;

    if (!op->posted || op->pending)
        return;
    if (!parent) {
        op->end(op, op->err);
        return;
    }
    if (op->err && !parent->err)
        parent->err = op->err;
    rxm_op_put(op);
    parent->pending--;
    rxm_op_settle(parent);
}

/* ---- Reports ---- */

void rxm_op_report(struct rxm_op *op, int err)
{
    struct rxm_ep *ep = op->conn->owner;
    bool wanted = op->wanted, counted = op->counted;
    uint64_t flags = op->flags;
    uint8_t kind = op->kind;
    void *user = op->user;

    if (__builtin_expect(err, 0)) {
        rxm_op_report_error(op, &(struct fi_cq_err_entry){.err = err, .prov_errno = err});
        return;
    }
    rxm_op_put(op);
    if (counted)
        complete(&ep->base.binding, kind, wanted, user, flags, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

void rxm_op_report_error(struct rxm_op *op, const struct fi_cq_err_entry *error)
{
    struct rxm_ep *ep = op->conn->owner;
    struct fi_cq_err_entry mine = *error;
    bool tell = op->counted && !op->is_inject && !op->conn->msgproto.mute;
    uint8_t kind = op->kind;

    mine.op_context = op->user;
    mine.flags = op->flags;
    mine.src_addr = FI_ADDR_NOTAVAIL;
    rxm_op_put(op);
    if (tell)
        complete_error(&ep->base.binding, kind, &mine);
}

/* ---- Steps ---- */

/* Does the packet say what the peer waits for? Nothing that waits for credits itself may be before
 * it, or both ends wait for ever. */
static bool goes_first(const struct rxm_op *op)
{
    return op->packet.type == RXM_CREDIT;
}

static void stall(struct rxm_op *op)
{
    struct rxm_conn *conn = op->conn;
    struct list *place = goes_first(op) ? conn->msgproto.waiting.next : &conn->msgproto.waiting;

    if (list_empty(&op->stalled))
        list_attach(&op->stalled, place);
    if (list_empty(&conn->msgproto.stalled))
        list_attach(&conn->msgproto.stalled, &conn->owner->msgproto->stalled);
    conn->owner->attend = true;
}

/* False when the operation has to wait. */
static bool take_step(struct rxm_op *op)
{
    struct rxm_conn *conn = op->conn;
    int rc = op->step(op);

    if (rc && rxm_ep_passes(rc))
        return false;
    if (rc) {
        op->err = -rc;
        msgproto_conn_break(conn, fi_strerror(-rc));
    }
    op->posted = true;
    list_detach(&op->stalled);
    if (list_empty(&conn->msgproto.waiting))
        list_detach(&conn->msgproto.stalled);
    rxm_op_settle(op);
    return true;
}

void rxm_op_start(struct rxm_op *op)
{
    struct rxm_conn *conn = op->conn;

    /* A packet that a step posts may complete before the step returns; it must not end the op
     * then. */
    if (!conn->msgproto.up || (!list_empty(&conn->msgproto.waiting) && !goes_first(op)) ||
        !take_step(op))
        stall(op);
}

void rxm_op_resume(struct rxm_conn *conn)
{
    if (!conn->msgproto.up || conn->msgproto.dead || conn->msgproto.resuming)
        return;
    conn->msgproto.resuming = true;
    while (!list_empty(&conn->msgproto.waiting)) {
        if (!take_step(list_item(conn->msgproto.waiting.next, struct rxm_op, stalled)))
            break;
    }
    conn->msgproto.resuming = false;
}

/* ---- Packets ---- */

/* Its header and its payload have memory of their own. */
static ssize_t send_parts(struct rxm_op *op, const struct mr_buffer *bounce)
{
    struct iovec iov[2] = {
        {.iov_base = op->bytes, .iov_len = RXM_PACKET_SIZE},
        {.iov_base = (void *)(uintptr_t)(bounce + 1), .iov_len = op->byte_count - RXM_PACKET_SIZE}};
    void *desc[2] = {op->buffer.desc, bounce->desc};
    struct fi_msg msg = {
        .msg_iov = iov,
        .desc = desc,
        .iov_count = 2,
        .addr = FI_ADDR_UNSPEC,
        .context = &op->context,
    };

    return op_post_msg(&op->conn->target, OP_SENDMSG, &msg, op->lower_flags);
}

/* The short way, where the lower endpoint's own flags are those that are wanted. */
static inline ssize_t send_whole(struct rxm_op *op)
{
    struct rxm_conn *conn = op->conn;
    struct iovec iov = {.iov_base = op->bytes, .iov_len = op->byte_count};
    struct fi_msg msg = {
        .msg_iov = &iov,
        .desc = &op->buffer.desc,
        .iov_count = 1,
        .addr = FI_ADDR_UNSPEC,
        .context = &op->context,
    };

    if (__builtin_expect(op->lower_flags == conn->owner->lower_info->tx_attr->op_flags, 1))
        return msgproto_short_send(conn, op->bytes, op->byte_count, op->buffer.desc, &op->context);
    return op_post_msg(&conn->target, OP_SENDMSG, &msg, op->lower_flags);
}

ssize_t rxm_op_send_bytes(struct rxm_op *op)
{
    struct rxm_conn *conn = op->conn;
    struct mr_buffer *bounce = op->bounce;
    ssize_t rc;

    if (!rxm_credit_take(&conn->msgproto.credit, op->packet.type == RXM_CREDIT))
        return -FI_EAGAIN;
    op->pending++;
    conn->msgproto.outstanding++;
    rc = __builtin_expect(bounce != NULL, 0) ? send_parts(op, bounce) : send_whole(op);
    if (__builtin_expect(rc != 0, 0)) {
        op->pending--;
        conn->msgproto.outstanding--;
        rxm_credit_untake(&conn->msgproto.credit);
    }
    return rc;
}

int rxm_op_step_bytes(struct rxm_op *op)
{
    return (int)rxm_op_send_bytes(op);
}

int rxm_op_step_answer(struct rxm_op *op)
{
    op->packet.conn_id = op->conn->cm.other.id;
    rxm_packet_put(&op->packet, op->bytes);
    return rxm_op_step_bytes(op);
}

void rxm_send_control(struct rxm_conn *conn, const struct rxm_packet *packet, const void *payload,
                      size_t len)
{
    struct rxm_op *op;

    if (conn->msgproto.dead)
        return;
    op = rxm_op_get_answer(conn);
    if (!op) {
        msgproto_conn_break(conn, "no memory for an answer");
        return;
    }
    op->packet = *packet;
    if (len)
        memcpy(op->bytes + RXM_PACKET_SIZE, payload, len);
    op->byte_count = RXM_PACKET_SIZE + len;
    op->step = rxm_op_step_answer;
    rxm_op_start(op);
}

/* ---- Memory ---- */

void msgproto_unregister(struct fid_mr **mrs, size_t count)
{
    for (size_t i = 0; i < count && mrs[i]; i++) {
        fi_close(&mrs[i]->fid);
        mrs[i] = NULL;
    }
}

/* Keys are random where we choose them: none that the application has or will have, and none that
 * another peer could guess. */
static uint64_t next_key(struct msgproto *msgproto)
{
    do {
        msgproto->key ^= msgproto->key << 13;
        msgproto->key ^= msgproto->key >> 7;
        msgproto->key ^= msgproto->key << 17;
    } while ((msgproto->key & msgproto->key_mask) == msgproto->key_mask);
    return msgproto->key & msgproto->key_mask;
}

/* Peers that access it take part in our protocol: the application's counters must not see that. */
static int register_one(struct msgproto *msgproto, const struct iovec *iov, uint64_t access,
                        struct fid_mr **mr)
{
    struct fid_domain *domain = msgproto->ep->domain->lower;
    bool again;
    int rc;

    do {
        rc = fi_mr_reg(domain, iov->iov_base, iov->iov_len, access, 0,
                       msgproto->prov_key ? 0 : next_key(msgproto), msgproto->mr_flags, mr, NULL);
        again = (rc == -FI_EBADFLAGS || rc == -FI_EINVAL) && msgproto->mr_flags;
        if (again)
            msgproto->mr_flags = 0;
    } while (again || (rc == -FI_ENOKEY && !msgproto->prov_key));
    return rc;
}

int msgproto_register(struct msgproto *msgproto, const struct iovec *iov, size_t count,
                      uint64_t access, struct fid_mr **mrs, struct rxm_place *places)
{
    memset(mrs, 0, MSGPROTO_IOV * sizeof(struct fid_mr *));
    for (size_t i = 0; i < count; i++) {
        int rc = register_one(msgproto, &iov[i], access, &mrs[i]);

        if (rc) {
            mrs[i] = NULL;
            msgproto_unregister(mrs, i);
            return rc;
        }
        if (!places)
            continue;
        places[i] = (struct rxm_place){
            .addr = msgproto->virt_addr ? (uintptr_t)iov[i].iov_base : 0,
            .len = iov[i].iov_len,
            .key = fi_mr_key(mrs[i]),
        };
    }
    return 0;
}

size_t rxm_iov_slice(const struct iovec *iov, void *const *desc, size_t count, size_t at,
                     size_t *len, struct iovec *out, void **out_desc, size_t limit)
{
    size_t used = 0, left = *len, taken = 0;

    for (size_t i = 0; i < count && left && used < limit; i++) {
        size_t part = iov[i].iov_len;

        if (at >= part) {
            at -= part;
            continue;
        }
        part -= at;
        if (part > left)
            part = left;
        out[used].iov_base = (char *)iov[i].iov_base + at;
        out[used].iov_len = part;
        out_desc[used++] = desc ? desc[i] : NULL;
        at = 0;
        left -= part;
        taken += part;
    }
    *len = taken;
    return used;
}

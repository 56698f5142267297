/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/msgproto/msgproto_plain.h"

/* It never stalled, and has nothing but its own memory. */
static void plain_done(struct rxm_context *context, size_t len, const struct fi_cq_err_entry *error)
{
    struct rxm_op *op = object_of(context, struct rxm_op, context);
    struct rxm_conn *conn = op->conn;
    uint64_t flags = op->flags;
    bool wanted = op->wanted;
    void *user = op->user;

    if (__builtin_expect(error != NULL, 0)) {
        rxm_op_done(context, len, error);
        return;
    }
    msgproto_plain_end(conn->owner->msgproto, op, conn);
    complete(&conn->owner->base.binding, BIND_SEND, wanted, user, flags, 0, NULL, 0, 0,
             FI_ADDR_NOTAVAIL);
}

void msgproto_plain_undo(struct rxm_op *op)
{
    struct rxm_conn *conn = op->conn;

    msgproto_plain_end(conn->owner->msgproto, op, conn);
    rxm_credit_untake(&conn->msgproto.credit);
}

/* As rxm_op_get leaves it, with what every plain message has. */
__attribute__((noinline)) struct rxm_op *msgproto_plain_make(struct msgproto *msgproto)
{
    struct rxm_op *op = mr_pool_get(&msgproto->ops);

    if (!op)
        return NULL;
    rxm_op_init(op);
    op->context.done = plain_done;
    op->counted = true;
    op->is_inject = false;
    op->posted = true;
    op->pending = 1;
    op->kind = BIND_SEND;
    rxm_packet_put_plain(op->bytes, 0, 0, false, 0);
    op->buffer.next = NULL;
    return op;
}

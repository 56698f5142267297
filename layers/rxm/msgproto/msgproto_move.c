/* SPDX-License-Identifier: BSD-2-Clause */
/* Between memory here and places at the peer: one access of the lower after the other. */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/ep/ep_post.h"
#include "layers/rxm/msgproto/msgproto.h"

void rxm_op_set_memory(struct rxm_op *op, const struct iovec *iov, void *const *desc, size_t count)
{
    op->iov_count = 0;
    op->has_desc = desc != NULL;
    for (size_t i = 0; i < count; i++) {
        if (!iov[i].iov_len)
            continue;
        op->iov[op->iov_count] = iov[i];
        op->desc[op->iov_count++] = desc ? desc[i] : NULL;
    }
}

int msgproto_register_local(struct rxm_op *op, uint64_t access)
{
    struct msgproto *msgproto = op->conn->owner->msgproto;
    int rc = msgproto_register(msgproto, op->iov, op->iov_count, access, op->mrs, NULL);

    for (unsigned i = 0; !rc && i < op->iov_count; i++)
        op->desc[i] = fi_mr_desc(op->mrs[i]);
    return rc;
}

/*
 * Posts the next piece between op's memory and its places. Pieces end where a place does, where the
 * lower takes no more segments, and at its largest access.
 */
static ssize_t move_piece(struct rxm_op *op, bool read)
{
    struct msgproto *msgproto = op->conn->owner->msgproto;
    const struct rxm_place *place = &op->places[op->place];
    size_t len = op->len - op->at, count;
    struct iovec iov[MSGPROTO_IOV];
    void *desc[MSGPROTO_IOV];
    struct rxm_op *piece;
    struct fi_rma_iov remote;
    uint64_t flags = op->lower_flags;
    struct fi_msg_rma msg = {.msg_iov = iov,
                             .desc = desc,
                             .addr = FI_ADDR_UNSPEC,
                             .rma_iov = &remote,
                             .rma_iov_count = 1};
    ssize_t rc;

    if (len > place->len - op->place_at)
        len = place->len - op->place_at;
    if (len > msgproto->lower_max)
        len = msgproto->lower_max;
    count = rxm_iov_slice(op->iov, op->desc, op->iov_count, op->at, &len, iov, desc,
                          msgproto->lower_iov < MSGPROTO_IOV ? msgproto->lower_iov : MSGPROTO_IOV);
    remote = (struct fi_rma_iov){.addr = place->addr + op->place_at, .len = len, .key = place->key};
    piece = rxm_op_child(op);
    if (!piece)
        return -FI_ENOMEM;
    if (op->at + len < op->len)
        flags &= ~FI_REMOTE_CQ_DATA; /* reported when all bytes are there */
    msg.data = op->packet.data;
    msg.iov_count = count;
    msg.context = &piece->context;
    piece->pending++;
    op->conn->msgproto.outstanding++;
    rc = op_post_rma(&op->conn->target, read ? OP_READMSG : OP_WRITEMSG, &msg, flags);
    if (rc) {
        op->conn->msgproto.outstanding--;
        rxm_op_put(piece);
        op->pending--;
        return rc;
    }
    op->at += len;
    op->place_at += len;
    return 0;
}

int msgproto_move(struct rxm_op *op, bool read)
{
    ssize_t rc = 0;

    while (!rc && op->at < op->len) {
        while (op->place < op->place_count && op->place_at == op->places[op->place].len) {
            op->place++;
            op->place_at = 0;
        }
        if (op->place == op->place_count)
            return -FI_EPROTO;
        rc = move_piece(op, read);
    }
    return (int)rc;
}

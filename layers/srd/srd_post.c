/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations become packets that have left or will. Small payloads go with the request; the rest of
 * a large one stays where it is until the peer asks.
 */
#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/srd/srd.h"

bool srd_op_is_over(const struct message_op *op)
{
    return !op->move.pending && (op->err || op->move.at == op->move.total);
}

/* ---- Requests ---- */

/* answered: no packet of the peer's is waited for but those that ask for its bytes. */
static struct message_op *op_get(struct srd_peer *peer, const struct message_posting *posting,
                                 enum message_kind kind, bool answered)
{
    struct message_op *op = message_op_get(&peer->base, posting, kind, true);

    if (op)
        op->answered = answered;
    return op;
}

static void set_data(struct srd_header *header, const struct op *post)
{
    if (!(post->flags & FI_REMOTE_CQ_DATA))
        return;
    header->flags |= SRD_CQ_DATA;
    header->cq_data = post->data;
}

/* Its first bytes: len of them, from move.at on. */
static bool put_bytes(struct message_op *op, const struct op *post, struct srd_header *header,
                      size_t len)
{
    struct srd_header copy = *header;
    uint8_t *payload;

    copy.offset = op->move.at;
    copy.len = len;
    payload = srd_out(op->handle.peer, &copy, &op->move);
    if (!payload)
        return false;
    iov_gather(post->iov, post->count, op->move.at, payload, len);
    op->move.at += len;
    return true;
}

/* ---- Messages ---- */

/* By size: the type without a tag, which that with one follows. */
static uint8_t message_type(const struct srd_peer *peer, const struct srd_header *eager, size_t len,
                            bool dc)
{
    if (len <= srd_out_room(peer, eager))
        return dc ? SRD_DC_EAGER_MSG : SRD_EAGER_MSG;
    if (len <= srd_ep_of(peer->base.ep)->medium)
        return dc ? SRD_DC_MEDIUM_MSG : SRD_MEDIUM_MSG;
    return dc ? SRD_DC_LONGCTS_MSG : SRD_LONGCTS_MSG;
}

/* Pieces of one size, a multiple of 8, and what is left. */
static bool put_medium(struct message_op *op, const struct op *post, struct srd_header *header)
{
    size_t room = srd_out_room(srd_peer_of(op->handle.peer), header);
    size_t count = (post->len + room - 1) / room, size = (post->len + count - 1) / count;

    size = (size + 7) & ~(size_t)7;
    if (size > room)
        size = room;
    while (op->move.at < post->len) {
        size_t left = post->len - op->move.at;

        if (!put_bytes(op, post, header, left < size ? left : size))
            return false;
    }
    return true;
}

static ssize_t start_message(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    bool dc = post->flags & OP_DELIVERED, tagged = post->group == OP_GROUP_TSEND;
    struct srd_header header = {.type = dc ? SRD_DC_EAGER_TAG : SRD_EAGER_TAG, .total = post->len};
    struct message_op *op;
    size_t room;
    bool put;

    set_data(&header, post);
    header.type = (uint8_t)(message_type(peer, &header, post->len, dc) + tagged);
    header.tag = tagged ? post->tag : 0;
    header.credits = (uint32_t)srd_ep_of(peer->base.ep)->credits;
    header.msg_id = peer->next_msg;
    op = op_get(peer, posting, MESSAGE_SEND, !dc);
    if (!op)
        return -FI_ENOMEM;
    header.send_id = message_handle_id(&op->handle);
    op->move.total = post->len;
    room = srd_out_room(peer, &header);
    if (header.type == SRD_MEDIUM_MSG + tagged || header.type == SRD_DC_MEDIUM_MSG + tagged) {
        put = put_medium(op, post, &header);
    } else {
        put = put_bytes(op, post, &header, post->len < room ? post->len : room);
        message_op_copy_segments(op, post);
    }
    op->move.limit = op->move.at;
    if (!put && !op->move.at)
        return message_op_give_up(op);
    peer->next_msg++;
    if (!put)
        message_peer_break(&peer->base, FI_ENOMEM, "no memory for the rest of a message");
    return 0;
}

/* ---- Remote memory ---- */

static void set_places(struct srd_header *header, const struct op *post)
{
    header->place_count = (uint8_t)post->rma_count;
    for (size_t i = 0; i < post->rma_count; i++)
        header->places[i] = post->rma[i];
}

/* Where the peer tells of failures a write has an id that it can name. */
static bool wants_receipt(const struct srd_peer *peer, const struct op *post)
{
    return post->flags & OP_DELIVERED || peer->features & SRD_CAN_ERROR;
}

static ssize_t start_write(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    bool dc = wants_receipt(peer, post);
    struct srd_header header = {.type = dc ? SRD_DC_EAGER_RTW : SRD_EAGER_RTW,
                                .total = post->len,
                                .credits = (uint32_t)srd_ep_of(peer->base.ep)->credits};
    size_t room;
    struct message_op *op;

    set_places(&header, post);
    set_data(&header, post);
    if (post->len > srd_out_room(peer, &header))
        header.type = dc ? SRD_DC_LONGCTS_RTW : SRD_LONGCTS_RTW;
    room = srd_out_room(peer, &header);
    op = op_get(peer, posting, MESSAGE_WRITE, !dc);
    if (!op)
        return -FI_ENOMEM;
    header.send_id = message_handle_id(&op->handle);
    op->move.total = post->len;
    message_op_copy_segments(op, post);
    if (!put_bytes(op, post, &header, post->len < room ? post->len : room))
        return message_op_give_up(op);
    op->move.limit = op->move.at;
    return 0;
}

static ssize_t start_read(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    size_t most = srd_ep_of(peer->base.ep)->window;
    bool is_short = post->len < peer->base.ep->result_room;
    size_t window = post->len < most || is_short ? post->len : most;
    struct srd_header header = {
        .type = is_short ? SRD_SHORT_RTR : SRD_LONGCTS_RTR, .total = post->len, .window = window};
    struct message_op *op;

    set_places(&header, post);
    op = op_get(peer, posting, MESSAGE_READ, false);
    if (!op)
        return -FI_ENOMEM;
    message_op_copy_segments(op, post);
    header.recv_id = message_handle_id(&op->handle);
    if (!srd_out(&peer->base, &header, &op->move))
        return message_op_give_up(op);
    message_take(&op->taker, &op->handle, 0, 0, window, post->len);
    return 0;
}

/* ---- Atomics ---- */

static uint8_t atomic_type(const struct srd_peer *peer, const struct op *post)
{
    if (post->function)
        return post->function == FI_COMPARE_ATOMIC ? SRD_COMPARE_RTA : SRD_FETCH_RTA;
    return wants_receipt(peer, post) ? SRD_DC_WRITE_RTA : SRD_WRITE_RTA;
}

static void set_targets(struct srd_header *header, const struct op *post)
{
    size_t unit = atomic_size(post->datatype);

    header->place_count = (uint8_t)post->rma_count;
    header->datatype = (uint32_t)post->datatype;
    header->op = (uint32_t)post->op;
    for (size_t i = 0; i < post->rma_count; i++)
        header->places[i] = (struct fi_rma_iov){
            post->rma_ioc[i].addr, post->rma_ioc[i].count * unit, post->rma_ioc[i].key};
}

static ssize_t start_atomic(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    struct srd_header header = {.type = atomic_type(peer, post), .msg_id = peer->next_msg};
    struct message_op *op = op_get(peer, posting, MESSAGE_ATOMIC, header.type == SRD_WRITE_RTA);
    uint8_t *payload;

    if (!op)
        return -FI_ENOMEM;
    set_targets(&header, post);
    header.send_id = header.recv_id = message_handle_id(&op->handle);
    header.total = message_op_set_result(op, post);
    header.len = header.total * ((post->count ? 1u : 0u) + (post->compare.count ? 1u : 0u));
    payload = srd_out(&peer->base, &header, &op->move);
    if (!payload)
        return message_op_give_up(op);
    peer->next_msg++;
    message_op_put_operands(post, payload);
    return 0;
}

/* ---- The call ---- */

/* Which packets an access may have, and whether it is told when something is delivered, a peer says
 * in its HANDSHAKE. -FI_EAGAIN until then. */
static ssize_t await_features(struct srd_peer *peer, const struct op *op)
{
    bool access = op->group & (OP_GROUP_RMA | OP_GROUP_ATOMIC);

    if (!access && !(op->flags & OP_DELIVERED))
        return 0;
    if (!peer->introduced) {
        if (!peer->forced)
            srd_out_force(&peer->base);
        srd_flush(&peer->base, false);
        return -FI_EAGAIN;
    }
    if (op->flags & OP_DELIVERED && !(peer->features & SRD_CAN_DC))
        return -FI_EOPNOTSUPP;
    return 0;
}

ssize_t srd_start(struct message_peer *base, const struct message_posting *posting)
{
    const struct op *op = posting->op;
    struct srd_peer *peer = srd_peer_of(base);
    ssize_t rc = peer->dead ? -FI_ECONNABORTED : await_features(peer, op);

    if (rc)
        return rc;
    if (op->group == OP_GROUP_ATOMIC)
        rc = start_atomic(peer, posting);
    else if (op->group != OP_GROUP_RMA)
        rc = start_message(peer, posting);
    else
        rc = op->kind & FI_READ ? start_read(peer, posting) : start_write(peer, posting);
    if (!rc && op->flags & FI_MORE)
        message_peer_attend(base);
    else if (!rc)
        srd_flush(base, false);
    return rc;
}

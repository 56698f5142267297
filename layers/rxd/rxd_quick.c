/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The usual message, in few instructions, both ways: in one packet, and all its end needs is that.
 * rxd_post and rxd_message take all others, and could take this. Its bytes are those of any other
 * record (rxd_wire).
 */
#include <rdma/fi_errno.h>

#include "layers/rxd/rxd.h"

enum {
    FIELDS_MOST = 8 + 8 + 4 /* tag, data, context */
};

/* ---- Out ---- */

bool rxd_is_quick(const struct rxd_peer *peer, const struct op *op)
{
    return rxd_ends_early(peer, op) && !(op->flags & FI_FENCE) &&
           op->len <= rxd_ep_of(peer->base.ep)->room - RXD_RECORD_SIZE - FIELDS_MOST;
}

static unsigned flags_of(const struct message_posting *posting)
{
    const struct op *op = posting->op;

    return (op->group == OP_GROUP_TSEND ? (unsigned)RXD_TAGGED : 0U) |
           (op->flags & FI_REMOTE_CQ_DATA ? (unsigned)RXD_HAS_DATA : 0U) |
           (posting->context ? (unsigned)RXD_TO_CONTEXT : 0U);
}

/* Behind the records of a packet that has room. */
static void put(struct rxd_packet *packet, const struct message_posting *posting, unsigned flags)
{
    const struct op *op = posting->op;
    const struct rxd_fields fields = {
        .tag = op->tag, .data = op->data, .context = posting->context};
    uint8_t *raw = packet->records + packet->base.len;
    uint8_t *payload = rxd_message_put(raw, flags, op->len, &fields);

    iov_gather(op->iov, op->count, 0, payload, op->len);
    packet->base.len += (size_t)(payload - raw) + op->len;
}

/* Nothing is before it, and it need not wait for others. */
static bool may_go_alone(const struct rxd_peer *peer, const struct op *op)
{
    return list_empty(&peer->ordered) && list_empty(&peer->base.out) && peer->theirs &&
           peer->in_flight < RXD_CORK && peer->next_out - peer->acked < RXD_WINDOW &&
           !(op->flags & FI_MORE);
}

/* Nothing is to be remembered of it. */
static bool send_alone(struct rxd_peer *peer, const struct message_posting *posting, unsigned flags)
{
    const struct op *op = posting->op;
    struct message_context *from = posting->from;
    struct rxd_packet *packet = rxd_out_lone(peer);

    if (!packet)
        return false;
    put(packet, posting, flags);
    if (!rxd_out_send_lone(packet))
        return false;
    if (!from->closing)
        complete(&from->endpoint.binding, BIND_SEND,
                 !op_is_inject(op) &&
                     completion_wanted(from->endpoint.binding.tx_selective, op->flags),
                 op->context, op->kind, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    return true;
}

ssize_t rxd_start_quick(struct rxd_peer *peer, const struct message_posting *posting)
{
    unsigned flags = flags_of(posting);
    struct rxd_packet *packet;
    struct rxd_op *op;

    if (may_go_alone(peer, posting->op) && send_alone(peer, posting, flags))
        return 0;
    op = rxd_op_get(peer, posting, MESSAGE_SEND, true, true);
    if (!op)
        return -FI_ENOMEM;
    packet =
        rxd_out_ordered(peer, RXD_RECORD_SIZE + rxd_flags_size[flags] + posting->op->len, false);
    if (!packet)
        return message_op_give_up(&op->base);
    put(packet, posting, flags);
    list_attach(&op->in_packet, &packet->early);
    return 0;
}

/* ---- In ---- */

bool rxd_take_quick(struct rxd_peer *peer, struct rxd_records *records)
{
    const uint8_t *raw = records->bytes + records->at, *payload;
    uint64_t tag;
    bool tagged;
    size_t len;

    payload = rxd_message_get(raw, records->len - records->at, &tagged, &tag, &len);
    if (!payload || peer->following ||
        !message_deliver_brief(&peer->base, tagged, tag, payload, len))
        return false;
    records->at += (size_t)(payload - raw) + len;
    return true;
}

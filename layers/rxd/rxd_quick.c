/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The usual message, in few instructions, both ways: in one packet, and all its end needs is that.
 * rxd_post and rxd_message take all others, and could take this. Its bytes are those of any other
 * record (rxd_wire).
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/rxd/rxd.h"

/* ---- Out ---- */

bool rxd_is_quick(const struct rxd_peer *peer, const struct op *op)
{
    return rxd_ends_early(peer, op) && !(op->flags & FI_FENCE) &&
           op->len <= rxd_quick_room(rxd_ep_of(peer->base.ep));
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
static inline bool may_go_alone(const struct rxd_peer *peer)
{
    return list_empty(&peer->ordered) && list_empty(&peer->base.out) && peer->theirs &&
           peer->in_flight < RXD_CORK && peer->next_out - peer->acked < RXD_WINDOW;
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

bool rxd_send_short(struct rxd_peer *peer, const void *buf, size_t len, bool tagged, uint64_t tag,
                    void *context)
{
    struct message_context *own = &peer->base.ep->own;
    const struct rxd_fields fields = {.tag = tag};
    struct rxd_packet *packet;
    uint8_t *payload;

    if (__builtin_expect(peer->known != RXD_KNOWS_US || !list_empty(&peer->base.broken) ||
                             !may_go_alone(peer) || own->used >= own->endpoint.tx_size ||
                             own->closing,
                         0))
        return false;
    packet = rxd_out_lone(peer);
    if (!packet)
        return false;
    payload = rxd_message_put(packet->records, tagged ? RXD_TAGGED : 0, len, &fields);
    if (__builtin_expect(len == sizeof(uint64_t), 1))
        memcpy(payload, buf, sizeof(uint64_t));
    else if (len)
        memcpy(payload, buf, len);
    packet->base.len = (size_t)(payload - packet->records) + len;
    if (!rxd_out_send_lone(packet))
        return false;
    complete(&own->endpoint.binding, BIND_SEND,
             completion_wanted(own->endpoint.binding.tx_selective, own->endpoint.tx_op_flags),
             context, tagged ? FI_TAGGED | FI_SEND : FI_MSG | FI_SEND, 0, NULL, 0, 0,
             FI_ADDR_NOTAVAIL);
    return true;
}

ssize_t rxd_start_quick(struct rxd_peer *peer, const struct message_posting *posting)
{
    unsigned flags = flags_of(posting);
    struct rxd_packet *packet;
    struct rxd_op *op;

    if (!(posting->op->flags & FI_MORE) && may_go_alone(peer) && send_alone(peer, posting, flags))
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

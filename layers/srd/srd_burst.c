/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of one message that go out behind one another, in few instructions each: their headers
 * differ in the place and number of their bytes alone, which lie in a segment of the application's
 * memory. Where that is not so srd_out.c makes the packet.
 */
#include <string.h>

#include "core/base/little_endian.h"
#include "layers/srd/srd.h"
#include "layers/srd/srd_layout.h"

enum {
    HEAD_MOST = 96 /* bytes of the largest header: DC_MEDIUM with an address and data */
};

struct burst {
    struct srd_op *op;
    struct message_move *move;
    uint8_t head[HEAD_MOST]; /* with the first packet's place and number of bytes */
    size_t len;
    uint8_t offset_at, length_at; /* where the header has them; 0: nowhere */
    size_t made;                  /* packets that are not sent yet */
    struct ep_send sends[SRD_BURST];
};

static bool may_begin(const struct message_move *move)
{
    return !move->held && list_empty(&move->peer->out) &&
           srd_op_of(object_of(move, struct message_op, move))->gathers;
}

/* False: the header is too long. */
static bool make_head(struct burst *burst, struct srd_header *header)
{
    const struct srd_layout *at = srd_layout_of(header->type);

    srd_out_sender(srd_peer_of(burst->move->peer), header);
    if (srd_header_size(header) > sizeof(burst->head))
        return false;
    burst->len = (size_t)(srd_header_put(header, burst->head) - burst->head);
    burst->offset_at = at->offset;
    burst->length_at = at->length;
    return true;
}

/* A packet, which send_made sends. False: there is no memory. */
static inline bool make_one(struct burst *burst, const struct iovec *slice, void *desc)
{
    struct message_move *move = burst->move;
    size_t prefix = move->peer->ep->prefix;
    struct message_packet *base = message_packet_get(move->peer);
    struct srd_packet *packet;
    uint8_t *raw;

    if (__builtin_expect(!base, 0))
        return false;
    packet = srd_packet_of(base);
    raw = packet->bytes + prefix;
    if (burst->len <= SRD_DATA_HEAD) /* of sizes that are constant, and so in few instructions */
        memcpy(raw, burst->head, SRD_DATA_HEAD);
    else
        memcpy(raw, burst->head, sizeof(burst->head));
    put64(raw + burst->offset_at, move->at);
    if (burst->length_at)
        put64(raw + burst->length_at, slice->iov_len);
    base->len = prefix + burst->len;
    base->move = move;
    packet->slice = *slice;
    packet->slice_desc = desc;
    burst->sends[burst->made++] = (struct ep_send){.buf = packet->bytes,
                                                   .desc = base->buffer.desc,
                                                   .context = base,
                                                   .len = base->len,
                                                   .slice = *slice,
                                                   .slice_desc = desc};
    move->pending++;
    move->at += slice->iov_len;
    return true;
}

/* Packets that the lower does not take in one call go each by itself, or wait. False: some wait.
 * more: others follow at once. */
static bool send_made(struct burst *burst, bool more)
{
    struct message_peer *peer = burst->move->peer;
    size_t made = burst->made, taken = 0;

    burst->made = 0;
    if (message_sends_several(peer->ep))
        taken = message_packets_send(peer, burst->sends, made);
    if (__builtin_expect(taken == made, 1))
        return true;
    for (size_t i = taken; i < made; i++)
        list_attach(&((struct message_packet *)burst->sends[i].context)->link, &peer->out);
    srd_flush(peer, more);
    return list_empty(&peer->out);
}

/* Up to byte `end`, as far as packets' bytes lie in one segment each. */
static void send_all(struct burst *burst, size_t size, size_t end)
{
    struct message_move *move = burst->move;
    bool registers = srd_ep_of(move->peer->ep)->registers, goes_on = true;
    const struct iovec *iov = move->iov;
    size_t i = 0, begin = 0; /* of the segment */

    for (size_t at = move->at, left = end - at; goes_on && left; left = end - at) {
        struct iovec slice = {.iov_len = left < size ? left : size};

        while (at - begin >= iov[i].iov_len)
            begin += iov[i++].iov_len;
        if (__builtin_expect(burst->op->device, 0) && slice.iov_len > iov[i].iov_len - (at - begin))
            slice.iov_len = iov[i].iov_len - (at - begin); /* srd_out_most */
        if (slice.iov_len > iov[i].iov_len - (at - begin) || (registers && !burst->op->desc[i]))
            break;
        slice.iov_base = (char *)iov[i].iov_base + (at - begin);
        at += slice.iov_len;
        goes_on = make_one(burst, &slice, burst->op->desc[i]);
        if (burst->made == SRD_BURST)
            goes_on = send_made(burst, left > size);
    }
    if (burst->made)
        send_made(burst, false);
}

void srd_burst(struct message_move *move, struct srd_header *header, size_t size, size_t end)
{
    struct burst burst; /* too large to be cleared each time */

    burst.op = srd_op_of(object_of(move, struct message_op, move));
    burst.move = move;
    burst.made = 0;
    if (!may_begin(move) || !make_head(&burst, header))
        return;
    move->direct = true;
    send_all(&burst, size, end);
}

bool srd_burst_data(struct message_move *move)
{
    struct message_peer *peer = move->peer;
    struct srd_header header = {.type = SRD_CTSDATA, .recv_id = move->taker};
    size_t from = move->at, size = srd_piece_room(move);
    size_t most = (peer->ep->ahead - move->pending) * size, left = move->limit - from;

    if (may_begin(move))
        srd_burst(move, &header, size, from + (left < most ? left : most));
    return move->at != from;
}

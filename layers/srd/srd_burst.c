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

/* False: there is no memory, or the lower does not take it: then it waits. */
static bool send_one(const struct burst *burst, const struct iovec *slice, void *desc, bool more)
{
    struct message_move *move = burst->move;
    struct message_peer *peer = move->peer;
    struct message_packet *base = message_packet_get(peer);
    struct srd_packet *packet;
    struct message_slices slices;
    uint8_t *raw;

    if (__builtin_expect(!base, 0))
        return false;
    packet = srd_packet_of(base);
    raw = packet->bytes + peer->ep->prefix;
    memcpy(raw, burst->head, sizeof(burst->head)); /* of one size, and so in few instructions */
    put64(raw + burst->offset_at, move->at);
    if (burst->length_at)
        put64(raw + burst->length_at, slice->iov_len);
    base->len = peer->ep->prefix + burst->len;
    base->move = move;
    packet->slice = *slice;
    packet->slice_desc = desc;
    slices = (struct message_slices){&packet->slice, &packet->slice_desc, 1};
    move->pending++;
    move->at += slice->iov_len;
    return message_packet_send(base, &peer->out, packet->bytes, base->len, &slices, more);
}

/* Up to byte `end`, as far as packets' bytes lie in one segment each. */
static void send_all(const struct burst *burst, size_t size, size_t end)
{
    struct message_move *move = burst->move;
    bool registers = srd_ep_of(move->peer->ep)->registers, goes_on = true;
    const struct iovec *iov = move->iov;
    size_t i = 0, begin = 0; /* of the segment */

    while (goes_on && move->at < end) {
        size_t left = end - move->at;
        struct iovec slice = {.iov_len = left < size ? left : size};

        while (move->at - begin >= iov[i].iov_len)
            begin += iov[i++].iov_len;
        if (slice.iov_len > iov[i].iov_len - (move->at - begin) ||
            (registers && !burst->op->desc[i]))
            return;
        slice.iov_base = (char *)iov[i].iov_base + (move->at - begin);
        goes_on = send_one(burst, &slice, burst->op->desc[i], left > size);
    }
}

void srd_burst(struct message_move *move, struct srd_header *header, size_t size, size_t end)
{
    struct burst burst = {.op = srd_op_of(object_of(move, struct message_op, move)), .move = move};

    if (!may_begin(move) || !make_head(&burst, header))
        return;
    move->direct = true;
    send_all(&burst, size, end);
}

bool srd_burst_data(struct message_move *move)
{
    struct message_peer *peer = move->peer;
    struct srd_header header = {.type = SRD_CTSDATA, .recv_id = move->taker};
    size_t from = move->at, size = srd_piece_room(peer);
    size_t most = (peer->ep->ahead - move->pending) * size, left = move->limit - from;

    if (may_begin(move))
        srd_burst(move, &header, size, from + (left < most ? left : most));
    return move->at != from;
}

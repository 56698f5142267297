/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The usual message, in few instructions: small, in one packet, without data for the completion
 * queue, and without a receipt. srd_post sends all others, and could send this.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/little_endian.h"
#include "layers/srd/srd.h"
#include "layers/srd/srd_layout.h"

enum {
    AT_MSG_ID = 4,
    AT_TAG = 8,
    MSG_HEAD = 8,
    TAG_HEAD = 16,
};

bool srd_is_quick(const struct srd_peer *peer, const struct op *op)
{
    return op->len < SRD_GATHER && !(op->flags & (OP_DELIVERED | FI_REMOTE_CQ_DATA)) &&
           srd_life_is_sure(peer) && !(peer->features & SRD_WANTS_CONSTANT);
}

static uint8_t *put_head(uint8_t *raw, const struct srd_peer *peer, const struct op *op)
{
    bool tagged = op->group == OP_GROUP_TSEND;
    unsigned flags = SRD_MSG | SRD_CONNID | (tagged ? SRD_TAGGED : 0U);

    raw[0] = tagged ? SRD_EAGER_TAG : SRD_EAGER_MSG;
    raw[SRD_AT_VERSION] = SRD_VERSION;
    put16(raw + SRD_AT_FLAGS, (uint16_t)flags);
    put32(raw + AT_MSG_ID, peer->next_msg);
    if (tagged)
        put64(raw + AT_TAG, op->tag);
    raw += tagged ? TAG_HEAD : MSG_HEAD;
    put32(raw, peer->mine);
    return raw + SRD_CONNID_SIZE;
}

/* False: it was not taken, and is in no queue. */
static bool send_now(struct message_packet *packet, void *bytes)
{
    const struct ep_send send = {
        .buf = bytes, .desc = packet->buffer.desc, .context = packet, .len = packet->len};

    return message_sends_several(packet->ep) && message_packets_send(packet->peer, &send, 1);
}

ssize_t srd_start_quick(struct srd_peer *peer, const struct message_posting *posting)
{
    const struct op *post = posting->op;
    struct message_packet *packet = message_packet_get(&peer->base);
    uint8_t *bytes, *payload;

    if (!packet)
        return message_op_refuse(peer->base.ep);
    message_packet_is_op(packet, posting);
    bytes = srd_packet_of(packet)->bytes;
    payload = put_head(bytes + peer->base.ep->prefix, peer, post);
    iov_gather(post->iov, post->count, 0, payload, post->len);
    packet->len = (size_t)(payload - bytes) + post->len;
    srd_packet_of(packet)->slice.iov_len = 0;
    peer->next_msg++;
    if (__builtin_expect(!list_empty(&peer->base.out) || post->flags & FI_MORE, 0) ||
        !send_now(packet, bytes))
        list_attach(&packet->link, &peer->base.out);
    return 0;
}

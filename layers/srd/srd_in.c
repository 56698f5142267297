/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in. The lower's source tells the sender, or the address in the packet does; the connid
 * tells one life of an endpoint from another. Where the application asked for an order, messages
 * and atomics that come early are held back; all else is taken as it comes.
 */
#include <rdma/fi_errno.h>

#include "core/base/little_endian.h"
#include "layers/srd/srd.h"

/* ---- Who sends ---- */

/* The peer that the packet's address names. again: there is no memory for it now. */
static struct srd_peer *introduced(struct srd_ep *ep, const struct srd_header *header,
                                   struct srd_peer *peer, struct srd_lives *lives, bool *again)
{
    struct srd_name name;
    const char *wrong = srd_name_get(ep->base.lower_info, header, &name, lives);
    bool differs = !wrong && peer && !srd_peer_is_named(&peer->base, &name);

    if (differs && ep->efa)
        peer = NULL; /* numbers of queue pairs are used again: what the lower knows may be old */
    else if (differs && !srd_name_own_size(ep->base.lower_info)) /* else another of its addresses */
        wrong = "a packet in the name of another peer";
    if (wrong) {
        message_say_wrong(&ep->base, wrong);
        return NULL;
    }
    if (!peer) {
        struct message_peer *base = message_peer_of(&ep->base, &name);

        peer = base ? srd_peer_of(base) : NULL;
    }
    *again = !peer;
    return peer;
}

/* The peer, whatever its life. */
static struct srd_peer *find(struct srd_ep *ep, const struct srd_header *header, fi_addr_t src,
                             struct srd_lives *lives, bool *again)
{
    struct srd_peer *peer = srd_peer_by_lower(ep, src);

    if (__builtin_expect(!peer, 0))
        peer = srd_implicit_return(ep, src, again);
    if (__builtin_expect(*again, 0))
        return NULL;
    if (srd_is_request(header->type) && header->flags & SRD_RAW_ADDR)
        return introduced(ep, header, peer, lives, again);
    if (!peer)
        message_say_wrong(&ep->base, "a packet of no peer");
    return peer;
}

/* Is there more to be said of its life than that it is the peer's present one? Packets of
 * libfabric's efa may tell none. */
static inline bool tells_life(const struct srd_ep *ep, const struct srd_peer *peer,
                              const struct srd_header *header, uint32_t connid)
{
    bool introduces = header->flags & SRD_RAW_ADDR || header->type == SRD_HANDSHAKE;

    if (__builtin_expect(peer->known && peer->connid == connid, 1))
        return introduces && !ep->efa;
    return header->flags & (SRD_CONNID | SRD_RAW_ADDR) || !ep->efa;
}

/* The peer, in the life that the packet is of; NULL, and what becomes of the packet. */
static struct srd_peer *sender(struct srd_ep *ep, const struct srd_header *header,
                               struct message_packet *packet, fi_addr_t src,
                               enum message_fate *fate)
{
    struct srd_lives lives = {header->connid, header->view};
    enum srd_hearing hearing = SRD_HEARD;
    bool again = false;
    struct srd_peer *peer = find(ep, header, src, &lives, &again);

    *fate = __builtin_expect(again, 0) ? MESSAGE_LATER : MESSAGE_OVER;
    if (!peer)
        return NULL;
    if (__builtin_expect(!list_empty(&peer->implicit), 0))
        srd_implicit_heard(peer);
    if (__builtin_expect(tells_life(ep, peer, header, lives.connid), 0))
        hearing = srd_life_hear(peer, header, &lives, packet);
    if (__builtin_expect(hearing == SRD_HELD, 0)) {
        packet->src = src;
        *fate = MESSAGE_KEPT;
    } else if (__builtin_expect(hearing == SRD_AGAIN, 0)) {
        *fate = MESSAGE_LATER;
    }
    if (hearing != SRD_HEARD)
        return NULL;
    peer->base.heard = true;
    peer->base.gone = false;
    peer->heard_in = ep->base.seconds;
    return peer;
}

/* ---- What it says ---- */

static void take_handshake(struct srd_peer *peer, const struct srd_header *header)
{
    peer->features = header->features;
    peer->introduced = true;
    peer->doubted = peer->doubted && !peer->forced;
    srd_out_refusals(peer, true);
    if (!list_empty(&peer->base.out))
        message_peer_attend(&peer->base);
    progress_wake(peer->base.ep->progress); /* operations may have been refused until now */
}

/* Does it wait for what was there before? */
static bool wants_result(const struct message_op *op)
{
    return op->handle.kind == MESSAGE_ATOMIC && op->iov_count;
}

static const char *take_receipt(struct srd_peer *peer, const struct srd_header *header)
{
    const unsigned kinds = 1U << MESSAGE_SEND | 1U << MESSAGE_WRITE | 1U << MESSAGE_ATOMIC;
    struct message_op *op = message_op_find(&peer->base, header->send_id, kinds);

    if (op && !op->answered && !srd_op_of(op)->lent && !wants_result(op))
        message_op_answered(op, 0, 0);
    return NULL;
}

static const char *take_result(struct srd_peer *peer, const struct srd_header *header)
{
    struct message_op *op = message_op_find(&peer->base, header->recv_id, 1U << MESSAGE_ATOMIC);

    if (!op || op->answered || !wants_result(op))
        return NULL;
    if (header->len != iov_bytes(op->iov, op->iov_count))
        return "a result of another size than its atomic";
    iov_scatter(op->iov, op->iov_count, 0, header->payload, header->len);
    message_op_answered(op, 0, 0);
    return NULL;
}

static int errno_of(uint32_t prov_errno)
{
    switch (prov_errno) {
    case SRD_ERR_NO_MEMORY: return FI_ENOMEM;
    case SRD_ERR_ADDRESS: return FI_EACCES;
    case SRD_ERR_SIZE: return FI_EINVAL;
    case SRD_ERR_DATATYPE: return FI_EOPNOTSUPP;
    case SRD_ERR_ABORTED: return FI_ECONNABORTED;
    default: return FI_EOTHER;
    }
}

static const char *take_error(struct srd_peer *peer, const struct srd_header *header)
{
    struct message_op *op;

    if (header->ref_kind != SRD_REF_OP)
        return "an error of a kind that no peer sends yet";
    op = message_op_find(&peer->base, header->send_id, MESSAGE_OPS);
    if (op)
        message_op_answered(op, errno_of(header->error), (int)(header->error & INT32_MAX));
    return NULL;
}

/* Of packets that are not requests. */
static const char *take_answer(struct srd_peer *peer, const struct srd_header *header)
{
    switch (header->type) {
    case SRD_CTS: return srd_move_cts(&peer->base, header);
    case SRD_CTSDATA: return srd_take_data(&peer->base, header);
    case SRD_READRSP: return srd_take_response(&peer->base, header);
    case SRD_ATOMRSP: return take_result(peer, header);
    case SRD_RECEIPT: return take_receipt(peer, header);
    case SRD_PEER_ERROR: return take_error(peer, header);
    case SRD_EOR: return srd_take_eor(&peer->base, header);
    case SRD_READ_NACK: return srd_take_nack(&peer->base, header);
    default: take_handshake(peer, header); return NULL;
    }
}

static const char *take_request(struct srd_peer *peer, const struct srd_header *header)
{
    return srd_is_message(header->type) ? srd_message(peer, header)
                                        : srd_remote(&peer->base, header);
}

/* ---- Order ---- */

const char *srd_in_header(const struct message_packet *packet, struct srd_header *header)
{
    size_t prefix = packet->ep->prefix;

    return srd_header_get(srd_packet_of(packet)->bytes + prefix, packet->len - prefix, header);
}

/* Takes packets that have waited for their turn; all of one number go before those of the next. */
static const char *take_early(struct srd_peer *peer)
{
    const char *wrong = NULL;

    while (!wrong && list_empty(&peer->base.broken) && reorder_ready(&peer->early)) {
        struct message_packet *packet =
            list_item(reorder_take(&peer->early), struct message_packet, link);
        struct srd_header header;

        wrong = srd_in_header(packet, &header);
        peer->early_bytes -= packet->len;
        packet->ep->saved -= packet->len;
        if (!wrong)
            wrong = take_request(peer, &header);
        message_packet_put(packet);
        if (!reorder_ready(&peer->early))
            peer->early.next++;
    }
    return wrong;
}

/* *keep: the packet is held back. */
static const char *take_in_turn(struct srd_peer *peer, const struct srd_header *header,
                                struct message_packet *packet, bool *keep)
{
    struct message_ep *ep = packet->ep;
    int32_t ahead = reorder_ahead(&peer->early, header->msg_id);
    const char *wrong;

    if (ahead < 0)
        return "a message twice";
    if (!ahead) {
        wrong = take_request(peer, header);
        peer->early.next++;
        return wrong || !peer->early.count ? wrong : take_early(peer);
    }
    if (peer->early_bytes + packet->len > ep->saved_limit)
        return "more packets behind a missing one than are kept";
    if (reorder_keep(&peer->early, header->msg_id, &packet->link))
        return "a packet for which there is no memory";
    peer->early_bytes += packet->len;
    ep->saved += packet->len;
    *keep = true;
    return NULL;
}

/* ---- A packet ---- */

void srd_refuse(struct srd_peer *peer, const struct srd_header *header)
{
    if (srd_is_request(header->type) && header->send_id)
        srd_out_error(peer, header->send_id, SRD_ERR_ABORTED);
    else if (srd_is_request(header->type) && header->recv_id)
        srd_out_error(peer, header->recv_id, SRD_ERR_ABORTED);
    else if (header->type == SRD_HANDSHAKE)
        take_handshake(peer, header);
}

static enum message_fate take_from(struct srd_peer *peer, const struct srd_header *header,
                                   struct message_packet *packet)
{
    const char *wrong;
    bool keep = false;

    if (!peer->greeted)
        srd_out_handshake(peer);
    if (peer->dead) {
        srd_refuse(peer, header);
        return MESSAGE_OVER;
    }
    if (!srd_is_request(header->type))
        wrong = take_answer(peer, header);
    else if (!srd_ep_of(packet->ep)->ordered || !srd_has_msg_id(header->type) ||
             header->flags & SRD_AFTER_NACK || srd_message_goes_on(peer, header))
        wrong = take_request(peer, header);
    else
        wrong = take_in_turn(peer, header, packet, &keep);
    if (wrong) {
        message_peer_break(&peer->base, FI_EPROTO, wrong);
        srd_refuse(peer, header);
    }
    return keep ? MESSAGE_KEPT : MESSAGE_OVER;
}

static enum message_fate take_any(struct srd_ep *ep, struct message_packet *packet, fi_addr_t src)
{
    struct srd_header header;
    enum message_fate fate;
    const char *wrong = srd_in_header(packet, &header);
    struct srd_peer *peer;

    if (wrong) {
        message_say_wrong(packet->ep, wrong);
        return MESSAGE_OVER;
    }
    peer = sender(ep, &header, packet, src, &fate);
    if (!peer)
        return fate;
    if (list_empty(&peer->base.broken))
        return take_from(peer, &header, packet);
    srd_refuse(peer, &header);
    return MESSAGE_OVER;
}

/* Is it in order with that peer, so that nothing is to be done before its packets are looked at? */
static bool is_in_order(const struct srd_peer *peer, uint32_t connid)
{
    return peer && peer->connid == connid && peer->known && peer->greeted && !peer->dead &&
           list_empty(&peer->base.broken);
}

/* Takes a packet of bytes that were asked for in few instructions. False: it is not one that is as
 * usual, and nothing was done; it may be wrong. */
static inline bool take_usual(struct srd_ep *ep, const struct message_packet *packet, fi_addr_t src)
{
    const uint8_t *raw = srd_packet_of(packet)->bytes + ep->base.prefix;
    size_t len = packet->len - ep->base.prefix - SRD_DATA_HEAD;
    struct message_handle *handle;
    struct message_taker *taker;
    struct srd_peer *peer;
    const char *wrong;
    size_t offset;

    if (packet->len <= ep->base.prefix + SRD_DATA_HEAD || !srd_is_usual_data(raw) ||
        get64(raw + SRD_DATA_LENGTH) != len)
        return false;
    peer = srd_peer_by_lower(ep, src);
    if (!is_in_order(peer, get32(raw + SRD_DATA_CONNID)))
        return false;
    handle = message_handle_find(&peer->base, get32(raw + SRD_DATA_ID), SRD_TAKING);
    if (!handle)
        return false;
    peer->base.heard = true;
    peer->base.gone = false;
    peer->heard_in = ep->base.seconds;
    taker = message_taker_of(handle);
    offset = get64(raw + SRD_DATA_OFFSET);
    if (message_take_more(taker, offset, raw + SRD_DATA_HEAD, len))
        return true;
    wrong = message_take_bytes(taker, offset, raw + SRD_DATA_HEAD, len);
    if (wrong)
        message_peer_break(&peer->base, FI_EPROTO, wrong);
    return true;
}

enum message_fate srd_in_packet(struct message_packet *packet, fi_addr_t src)
{
    struct srd_ep *ep = srd_ep_of(packet->ep);

    return take_usual(ep, packet, src) ? MESSAGE_OVER : take_any(ep, packet, src);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets out: a header, and bytes that are copied behind it. They leave in the order in which they
 * are queued, as far as the lower takes them. */
#include <assert.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "layers/srd/srd.h"

/* ---- Who sends ---- */

/* A peer that has not sent its HANDSHAKE may not know us: requests say who we are. */
static bool says_address(const struct srd_peer *peer)
{
    return !srd_life_is_sure(peer) || peer->features & SRD_WANTS_CONSTANT;
}

/* Our address, which all peers' packets are made from, as one peer is told it. */
static void say_address(struct srd_ep *ep, struct srd_header *header, const struct srd_lives *lives)
{
    header->flags |= SRD_RAW_ADDR;
    header->raw_addr = ep->name;
    header->raw_len = ep->name_len;
    if (!ep->efa)
        srd_name_put_lives(ep->base.lower_info->addr_format, lives, ep->name, ep->name_len);
}

void srd_out_sender(const struct srd_peer *peer, struct srd_header *header)
{
    const struct srd_lives lives = {peer->mine, srd_life_view(peer)};

    header->connid = peer->mine;
    if (srd_is_request(header->type) &&
        (header->flags & SRD_RAW_ADDR || (!(header->flags & SRD_CONNID) && says_address(peer))))
        say_address(srd_ep_of(peer->base.ep), header, &lives);
    else
        header->flags |= SRD_CONNID;
}

size_t srd_out_room(const struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_header with = *header;

    srd_out_sender(peer, &with);
    return peer->base.ep->packet_size - srd_header_size(&with);
}

static struct srd_packet *put_header(struct srd_peer *peer, struct message_packet *base,
                                     const struct srd_header *header, struct message_move *move)
{
    struct srd_packet *packet = srd_packet_of(base);

    base->len =
        (size_t)(srd_header_put(header, packet->bytes + peer->base.ep->prefix) - packet->bytes);
    base->move = move;
    packet->slice.iov_len = 0;
    if (move)
        move->pending++;
    list_attach(&base->link, &peer->base.out);
    return packet;
}

/* Its header alone. any: it may be one that waits for memory of the lower's. */
static struct srd_packet *put_packet(struct message_peer *peer, struct srd_header *header,
                                     struct message_move *move, bool any)
{
    struct message_packet *base = any ? message_packet_get_any(peer) : message_packet_get(peer);

    if (!base)
        return NULL;
    srd_out_sender(srd_peer_of(peer), header);
    return put_header(srd_peer_of(peer), base, header, move);
}

static uint8_t *put(struct message_peer *peer, struct srd_header *header, struct message_move *move,
                    bool any)
{
    struct srd_packet *packet = put_packet(peer, header, move, any);
    uint8_t *payload;

    if (!packet)
        return NULL;
    payload = packet->bytes + packet->base.len;
    packet->base.len += header->len;
    return payload;
}

uint8_t *srd_out(struct message_peer *peer, struct srd_header *header, struct message_move *move)
{
    return put(peer, header, move, false);
}

uint8_t *srd_out_answer(struct message_peer *peer, struct srd_header *header,
                        struct message_move *move)
{
    return put(peer, header, move, true);
}

/* Of a move of an operation. */
static const struct srd_op *op_of(const struct message_move *move)
{
    return srd_op_of(object_of(move, struct message_op, move));
}

/* The number of the segment that the next byte is in. *rest: its bytes from that on. */
static size_t segment_at(const struct message_move *move, struct iovec *rest)
{
    size_t at = move->at, i = 0;

    while (at >= move->iov[i].iov_len)
        at -= move->iov[i++].iov_len;
    *rest = (struct iovec){(char *)move->iov[i].iov_base + at, move->iov[i].iov_len - at};
    return i;
}

size_t srd_out_most(const struct message_move *move, size_t len)
{
    struct iovec rest;

    if (__builtin_expect(move->held || !len || !op_of(move)->device, 1))
        return len;
    segment_at(move, &rest);
    return len < rest.iov_len ? len : rest.iov_len;
}

/* The bytes of an operation lie in one segment, which the lower takes. */
static bool set_slice(struct srd_packet *packet, struct message_move *move, size_t len)
{
    const struct srd_op *op = op_of(move);
    struct iovec rest;
    size_t i;

    if (!op->gathers)
        return false;
    i = segment_at(move, &rest);
    if (len > rest.iov_len || (!op->desc[i] && srd_ep_of(move->peer->ep)->registers)) {
        assert(!(op->device >> i & 1)); /* srd_device_admit, srd_out_most */
        return false;
    }
    packet->slice = (struct iovec){rest.iov_base, len};
    packet->slice_desc = op->desc[i];
    move->direct = true;
    return true;
}

bool srd_out_bytes(struct message_peer *peer, struct srd_header *header, struct message_move *move,
                   bool any)
{
    struct srd_packet *packet = put_packet(peer, header, move, any);

    if (!packet)
        return false;
    if (header->len && !move->held && (header->len >= SRD_GATHER || op_of(move)->device) &&
        set_slice(packet, move, header->len))
        return true;
    iov_gather(move->iov, move->iov_count, move->at, packet->bytes + packet->base.len, header->len);
    packet->base.len += header->len;
    return true;
}

void srd_out_control(struct message_peer *peer, struct srd_header *header)
{
    if (srd_out_answer(peer, header, NULL))
        message_peer_attend(peer);
    else
        message_peer_break(peer, FI_ENOMEM, "no memory for an answer");
}

void srd_out_handshake(struct srd_peer *peer)
{
    struct srd_header header = {
        .type = SRD_HANDSHAKE,
        .features = SRD_CAN_DC | SRD_WANTS_CONNID | SRD_CAN_RUNT | SRD_CAN_NACK | SRD_CAN_ERROR,
    };
    const struct srd_ep *ep = srd_ep_of(peer->base.ep);

    header.features |= (ep->reads ? SRD_CAN_READ : 0U) | (ep->writes ? SRD_CAN_WRITE : 0U);
    header.view = srd_life_view(peer);
    peer->greeted = true;
    srd_out_control(&peer->base, &header);
}

void srd_out_force(struct message_peer *peer)
{
    struct srd_header header = {.type = SRD_EAGER_RTW, .flags = SRD_RAW_ADDR};

    srd_peer_of(peer)->forced = true;
    srd_out_control(peer, &header);
}

/* A packet of its own kind: its connid is not that of the others. */
void srd_out_proposal(struct srd_peer *peer, const struct srd_lives *lives)
{
    struct srd_header header = {.type = SRD_EAGER_RTW};
    struct message_packet *base = message_packet_get_any(&peer->base);

    if (!base) {
        message_peer_break(&peer->base, FI_ENOMEM, "no memory for an answer");
        return;
    }
    say_address(srd_ep_of(peer->base.ep), &header, lives);
    put_header(peer, base, &header, NULL);
    message_peer_attend(&peer->base);
}

void srd_out_bye(struct srd_peer *peer)
{
    struct srd_header header = {.type = SRD_HANDSHAKE, .view = srd_life_view(peer) | SRD_LEAVES};

    if (srd_out(&peer->base, &header, NULL))
        srd_flush(&peer->base, false);
}

void srd_out_receipt(struct message_peer *peer, uint32_t send_id, uint32_t msg_id)
{
    struct srd_header header = {.type = SRD_RECEIPT, .send_id = send_id, .msg_id = msg_id};

    srd_out_control(peer, &header);
}

static void keep_refusal(struct srd_peer *peer, uint32_t id, int prov_errno)
{
    struct srd_refusal *refusal = malloc(sizeof(*refusal));

    if (!refusal) {
        message_peer_break(&peer->base, FI_ENOMEM, "no memory for an answer");
        return;
    }
    *refusal = (struct srd_refusal){peer->refusals, id, prov_errno};
    peer->refusals = refusal;
}

void srd_out_error(struct srd_peer *peer, uint32_t id, int prov_errno)
{
    struct srd_header header = {.type = SRD_PEER_ERROR,
                                .send_id = id,
                                .ref_kind = SRD_REF_OP,
                                .error = (uint32_t)prov_errno};

    if (!peer->introduced || !list_empty(&peer->base.broken))
        keep_refusal(peer, id, prov_errno);
    else if (peer->features & SRD_CAN_ERROR)
        srd_out_control(&peer->base, &header);
}

void srd_out_refusals(struct srd_peer *peer, bool told)
{
    struct srd_refusal *all = peer->refusals;

    peer->refusals = NULL; /* some may have to wait again */
    while (all) {
        struct srd_refusal *refusal = all;

        all = refusal->next;
        if (told)
            srd_out_error(peer, refusal->id, refusal->error);
        free(refusal);
    }
}

/* ---- To the lower ---- */

/* Packets from the first on, in one call. False: the lower does not take the first so. */
static bool flush_several(struct message_peer *peer)
{
    struct list *item = peer->out.next;
    struct ep_send sends[SRD_BURST];
    size_t count = 0, taken;

    do {
        struct message_packet *base = list_item(item, struct message_packet, link);
        struct srd_packet *packet = srd_packet_of(base);

        sends[count++] = (struct ep_send){.buf = packet->bytes,
                                          .desc = base->buffer.desc,
                                          .context = base,
                                          .len = base->len,
                                          .slice = packet->slice,
                                          .slice_desc = packet->slice_desc};
        item = item->next;
    } while (count < SRD_BURST && item != &peer->out);
    taken = message_packets_send(peer, sends, count);
    for (size_t i = count; i-- > taken;)
        list_attach_before(&((struct message_packet *)sends[i].context)->link, peer->out.next);
    return taken;
}

void srd_flush(struct message_peer *peer, bool more)
{
    bool all = !srd_rests(srd_peer_of(peer));
    struct list rest;

    list_init(&rest);
    if (__builtin_expect(peer->ep->bare, 0) && all)
        message_packets_equip(peer, &rest);
    while (all && message_sends_several(peer->ep) && !list_empty(&peer->out) &&
           list_empty(&peer->broken) && flush_several(peer))
        ;
    while (all && !list_empty(&peer->out) && list_empty(&peer->broken)) {
        struct message_packet *base = list_item(peer->out.next, struct message_packet, link);
        struct srd_packet *packet = srd_packet_of(base);
        const struct message_slices slices = {&packet->slice, &packet->slice_desc,
                                              packet->slice.iov_len != 0};

        all = message_packet_send(base, &peer->out, packet->bytes, base->len, &slices,
                                  more || base->link.next != &peer->out);
    }
    if (__builtin_expect(!list_empty(&rest), 0)) {
        list_join(&rest, &peer->out);
        all = false;
    }
    if (!all && list_empty(&peer->broken))
        message_peer_stall(peer);
}

void srd_run(struct message_peer *peer)
{
    if (__builtin_expect(srd_peer_of(peer)->leaving, 0) && srd_life_is_over(srd_peer_of(peer)))
        return;
    srd_flush(peer, false);
    if (__builtin_expect(!list_empty(&srd_ep_of(peer->ep)->transfers), 0))
        srd_transfers_run(peer);
}

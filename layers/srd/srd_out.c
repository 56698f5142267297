/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets out: a header, and bytes that are copied behind it. They leave in the order in which they
 * are queued, as far as the lower takes them. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "layers/srd/srd.h"

/* ---- Who sends ---- */

/* A peer that has not sent its HANDSHAKE may not know us: requests say who we are. */
static bool says_address(const struct srd_peer *peer)
{
    return !peer->introduced || peer->features & SRD_WANTS_CONSTANT;
}

static void add_sender(const struct srd_peer *peer, struct srd_header *header)
{
    const unsigned both = SRD_RAW_ADDR | SRD_CONNID;

    header->connid = srd_ep_of(peer->base.ep)->connid;
    if (srd_is_request(header->type) && !(header->flags & both) && says_address(peer)) {
        header->flags |= SRD_RAW_ADDR;
        header->raw_addr = srd_ep_of(peer->base.ep)->name;
    } else if (!(header->flags & SRD_RAW_ADDR)) {
        header->flags |= SRD_CONNID;
    }
}

size_t srd_out_room(const struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_header with = *header;

    add_sender(peer, &with);
    return peer->base.ep->packet_size - srd_header_size(&with);
}

uint8_t *srd_out(struct message_peer *peer, struct srd_header *header, struct message_move *move)
{
    struct message_packet *packet = message_packet_get(peer);
    uint8_t *bytes, *payload;

    if (!packet)
        return NULL;
    add_sender(srd_peer_of(peer), header);
    bytes = srd_packet_of(packet)->bytes;
    payload = srd_header_put(header, bytes + peer->ep->prefix);
    packet->len = (size_t)(payload - bytes) + header->len;
    packet->move = move;
    if (move)
        move->pending++;
    list_attach(&packet->link, &peer->out);
    return payload;
}

void srd_out_control(struct message_peer *peer, struct srd_header *header)
{
    if (srd_out(peer, header, NULL))
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

    peer->greeted = true;
    srd_out_control(&peer->base, &header);
}

void srd_out_force(struct message_peer *peer)
{
    struct srd_header header = {
        .type = SRD_EAGER_RTW, .flags = SRD_RAW_ADDR, .raw_addr = srd_ep_of(peer->ep)->name};

    srd_peer_of(peer)->forced = true;
    srd_out_control(peer, &header);
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
    while (peer->refusals) {
        struct srd_refusal *refusal = peer->refusals;

        peer->refusals = refusal->next;
        if (told)
            srd_out_error(peer, refusal->id, refusal->error);
        free(refusal);
    }
}

/* ---- To the lower ---- */

void srd_flush(struct message_peer *peer, bool more)
{
    const struct message_slices none = {.count = 0};
    bool all = true;

    while (all && !list_empty(&peer->out) && list_empty(&peer->broken)) {
        struct message_packet *packet = list_item(peer->out.next, struct message_packet, link);

        all = message_packet_send(packet, &peer->out, srd_packet_of(packet)->bytes, packet->len,
                                  &none, more || packet->link.next != &peer->out);
    }
    if (!all && list_empty(&peer->broken))
        message_peer_stall(peer);
}

void srd_run(struct message_peer *peer)
{
    srd_flush(peer, false);
}

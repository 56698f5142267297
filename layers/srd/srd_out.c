/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets out: a header, and bytes that are copied behind it. They leave in the order in which they
 * are queued, as far as the lower takes them. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/srd/srd.h"

static struct srd_packet *packet_get(struct srd_peer *peer)
{
    struct srd_ep *ep = peer->ep;
    struct srd_packet *packet = mr_pool_get(&ep->packets);

    if (!packet)
        return NULL;
    ep->outgoing++;
    packet->ep = ep;
    packet->peer = peer;
    packet->move = NULL;
    packet->in = false;
    list_init(&packet->link);
    return packet;
}

void srd_packet_put(struct srd_packet *packet)
{
    if (!packet->in)
        packet->ep->outgoing--;
    list_detach(&packet->link);
    mr_pool_put(&packet->ep->packets, packet);
}

/* ---- Who sends ---- */

/* A peer that has not sent its HANDSHAKE may not know us: requests say who we are. */
static bool says_address(const struct srd_peer *peer)
{
    return !peer->introduced || peer->features & SRD_WANTS_CONSTANT;
}

static void add_sender(const struct srd_peer *peer, struct srd_header *header)
{
    const unsigned both = SRD_RAW_ADDR | SRD_CONNID;

    header->connid = peer->ep->connid;
    if (srd_is_request(header->type) && !(header->flags & both) && says_address(peer)) {
        header->flags |= SRD_RAW_ADDR;
        header->raw_addr = peer->ep->name;
    } else if (!(header->flags & SRD_RAW_ADDR)) {
        header->flags |= SRD_CONNID;
    }
}

size_t srd_out_room(const struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_header with = *header;

    add_sender(peer, &with);
    return peer->ep->mtu - srd_header_size(&with);
}

uint8_t *srd_out(struct srd_peer *peer, struct srd_header *header, struct srd_move *move)
{
    struct srd_packet *packet = packet_get(peer);
    uint8_t *start, *payload;

    if (!packet)
        return NULL;
    add_sender(peer, header);
    start = packet->bytes + peer->ep->prefix;
    payload = srd_header_put(header, start);
    packet->len = (size_t)(payload - packet->bytes) + header->len;
    packet->move = move;
    if (move)
        move->pending++;
    list_attach(&packet->link, &peer->out);
    return payload;
}

void srd_out_control(struct srd_peer *peer, struct srd_header *header)
{
    if (srd_out(peer, header, NULL))
        srd_peer_attend(peer);
    else
        srd_peer_break(peer, FI_ENOMEM, "no memory for an answer");
}

void srd_out_handshake(struct srd_peer *peer)
{
    struct srd_header header = {
        .type = SRD_HANDSHAKE,
        .features = SRD_CAN_DC | SRD_WANTS_CONNID | SRD_CAN_RUNT | SRD_CAN_NACK | SRD_CAN_ERROR,
    };

    peer->greeted = true;
    srd_out_control(peer, &header);
}

void srd_out_force(struct srd_peer *peer)
{
    struct srd_header header = {
        .type = SRD_EAGER_RTW, .flags = SRD_RAW_ADDR, .raw_addr = peer->ep->name};

    peer->forced = true;
    srd_out_control(peer, &header);
}

static void keep_refusal(struct srd_peer *peer, uint32_t id, int prov_errno)
{
    struct srd_refusal *refusal = malloc(sizeof(*refusal));

    if (!refusal) {
        srd_peer_break(peer, FI_ENOMEM, "no memory for an answer");
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

    if (!peer->introduced)
        keep_refusal(peer, id, prov_errno);
    else if (peer->features & SRD_CAN_ERROR)
        srd_out_control(peer, &header);
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

static ssize_t post(struct srd_packet *packet, bool more)
{
    struct iovec iov = {.iov_base = packet->bytes, .iov_len = packet->len};
    void *desc = packet->buffer.desc;
    struct op op = {
        .call = OP_SENDMSG,
        .group = OP_GROUP_SEND,
        .kind = FI_MSG | FI_SEND,
        .flags = FI_COMPLETION | (more ? FI_MORE : 0),
        .peer = packet->peer->lower,
        .context = packet,
        .iov = &iov,
        .desc = &desc,
        .count = 1,
        .len = packet->len,
    };

    return op_post(&packet->ep->target, &op);
}

/* more: another packet follows at once. False when the lower takes no more for now, or the peer has
 * broken. */
static bool send_packet(struct srd_packet *packet, bool more)
{
    struct srd_peer *peer = packet->peer;
    struct srd_ep *ep = peer->ep;
    ssize_t rc;

    list_detach(&packet->link);
    list_attach(&packet->link, &peer->flying);
    ep->flying++;
    rc = post(packet, more);
    if (!rc) /* the packet may have been sent, and gone, already */
        return true;
    ep->flying--;
    list_detach(&packet->link);
    list_attach_before(&packet->link, peer->out.next);
    if (rc != -FI_EAGAIN && rc != -FI_ENOMEM)
        srd_peer_break(peer, (int)-rc, NULL);
    return false;
}

void srd_out_flush(struct srd_peer *peer, bool more)
{
    bool all = true;

    while (all && !list_empty(&peer->out) && list_empty(&peer->broken)) {
        struct srd_packet *packet = list_item(peer->out.next, struct srd_packet, link);

        all = send_packet(packet, more || packet->link.next != &peer->out);
    }
    if (all || !list_empty(&peer->broken))
        return;
    list_detach(&peer->attended);
    list_attach(&peer->attended, &peer->ep->stalled);
}

void srd_out_sent(struct srd_packet *packet, int err)
{
    struct srd_ep *ep = packet->ep;
    struct srd_peer *peer = packet->peer;
    struct srd_move *move = packet->move;

    ep->flying--;
    list_join(&ep->stalled, &ep->attention);
    srd_packet_put(packet);
    if (!peer)
        return;
    if (err) /* what it is about ends with the peer: it stays pending until then */
        srd_peer_break(peer, err, NULL);
    else if (move)
        srd_move_sent(move);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in. Who sends is known by the lower's source, or by the address in the packet; the connid
 * tells one life of an endpoint from another. Where the application asked for an order, messages
 * and atomics that come early are held back; all else is taken as it comes.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "layers/srd/srd.h"

enum {
    TRIES = 1000,    /* to make a peer for a packet: memory may come back */
    QUIET_MS = 60000 /* between two lines about packets that cannot be */
};

/* ---- Receives of the lower ---- */

/* Unmatched messages are kept: no more packets are taken until some are received, and senders wait
 * at the lower. */
static bool is_full(struct srd_ep *ep)
{
    if (__builtin_expect(ep->saved <= ep->saved_limit, 1)) {
        ep->saved_said = false;
        return false;
    }
    if (!ep->saved_said)
        LOG_WARN("srd", FI_LOG_EP_DATA,
                 ": %zu bytes of unexpected messages are kept; no more are taken until some are "
                 "received (saved_size is %zu)",
                 ep->saved, ep->saved_limit);
    ep->saved_said = true;
    return true;
}

int srd_in_fill(struct srd_ep *ep)
{
    while (ep->posted < ep->receives && !is_full(ep)) {
        struct srd_packet *packet = mr_pool_get(&ep->packets);
        ssize_t rc;

        if (!packet)
            return -FI_ENOMEM;
        packet->ep = ep;
        packet->peer = NULL;
        packet->in = true;
        list_init(&packet->link);
        ep->posted++;
        rc = fi_recv(ep->lower, packet->bytes, ep->prefix + ep->mtu, packet->buffer.desc,
                     FI_ADDR_UNSPEC, packet);
        if (!rc)
            continue;
        ep->posted--;
        srd_packet_put(packet);
        return rc == -FI_EAGAIN ? 0 : (int)rc; /* the next drive goes on */
    }
    return 0;
}

/* ---- Who sends ---- */

static void say_wrong(struct srd_ep *ep, const char *wrong)
{
    long long now = clock_ms();

    if (ep->told_ms && now - ep->told_ms < QUIET_MS)
        return;
    ep->told_ms = now;
    LOG_WARN("srd", FI_LOG_EP_DATA,
             ": %s came, and is dropped; further ones within a minute are not told", wrong);
}

static bool was_forgotten(const struct srd_peer *peer, uint32_t connid)
{
    unsigned count = peer->forgotten_count < SRD_FORGOTTEN ? peer->forgotten_count : SRD_FORGOTTEN;

    for (unsigned i = 0; i < count; i++) {
        if (peer->forgotten[i] == connid)
            return true;
    }
    return false;
}

/* Is the packet of the life of the peer that we know, or of one that begins with it? Packets that
 * introduce their sender may begin one. */
static bool is_of_this_life(struct srd_peer *peer, const struct srd_header *header, uint32_t connid)
{
    bool begins = header->flags & SRD_RAW_ADDR || header->type == SRD_HANDSHAKE;

    if (peer->known && peer->connid == connid)
        return true;
    if (peer->ep->efa || was_forgotten(peer, connid) || (peer->known && !begins))
        return false;
    if (peer->known)
        srd_peer_reset(peer, FI_ECONNRESET);
    peer->known = true;
    peer->connid = connid;
    peer->dead = 0;
    return true;
}

/* The peer that the packet's address names. again: there is no memory for it now. */
static struct srd_peer *introduced(struct srd_ep *ep, const struct srd_header *header,
                                   struct srd_peer *peer, uint32_t *connid, bool *again)
{
    struct srd_name name;
    const char *wrong = srd_name_get(ep->lower_info->addr_format, header->raw_addr, &name, connid);
    bool differs = !wrong && peer && memcmp(&peer->name, &name, sizeof(name));

    if (differs && ep->efa)
        peer = NULL; /* numbers of queue pairs are used again: what the lower knows may be old */
    else if (differs)
        wrong = "a packet in the name of another peer";
    if (wrong) {
        say_wrong(ep, wrong);
        return NULL;
    }
    if (!peer)
        peer = srd_peer_of(ep, &name);
    *again = !peer;
    return peer;
}

static struct srd_peer *sender(struct srd_ep *ep, const struct srd_header *header, fi_addr_t src,
                               bool *again)
{
    struct srd_peer *peer = src == FI_ADDR_NOTAVAIL ? NULL : peer_map_at(&ep->by_lower, src);
    uint32_t connid = header->connid;

    if (srd_is_request(header->type) && header->flags & SRD_RAW_ADDR)
        peer = introduced(ep, header, peer, &connid, again);
    else if (!peer)
        say_wrong(ep, "a packet of nobody");
    if (!peer)
        return NULL;
    if (header->flags & (SRD_CONNID | SRD_RAW_ADDR) && !is_of_this_life(peer, header, connid))
        return NULL;
    peer->heard = true;
    peer->gone = false;
    return peer;
}

/* ---- What it says ---- */

static void take_handshake(struct srd_peer *peer, const struct srd_header *header)
{
    peer->features = header->features;
    peer->introduced = true;
    srd_out_refusals(peer, true);
    if (!list_empty(&peer->out))
        srd_peer_attend(peer);
    progress_wake(peer->ep->progress); /* operations may have been refused until now */
}

static struct srd_op *op_of(const struct srd_peer *peer, uint32_t id, unsigned kinds)
{
    struct srd_handle *handle = srd_handle_find(peer, id, kinds);

    return handle ? object_of(handle, struct srd_op, handle) : NULL;
}

static const char *take_receipt(struct srd_peer *peer, const struct srd_header *header)
{
    const unsigned kinds = 1U << SRD_OF_MESSAGE | 1U << SRD_OF_WRITE | 1U << SRD_OF_ATOMIC;
    struct srd_op *op = op_of(peer, header->send_id, kinds);

    if (op && !op->answered)
        srd_op_answered(op, 0, 0);
    return NULL;
}

static const char *take_result(struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_op *op = op_of(peer, header->recv_id, 1U << SRD_OF_ATOMIC);

    if (!op || op->answered)
        return NULL;
    if (header->len != iov_bytes(op->iov, op->iov_count))
        return "a result of another size than its atomic";
    iov_scatter(op->iov, op->iov_count, 0, header->payload, header->len);
    srd_op_answered(op, 0, 0);
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
    const unsigned kinds =
        1U << SRD_OF_MESSAGE | 1U << SRD_OF_WRITE | 1U << SRD_OF_READ | 1U << SRD_OF_ATOMIC;
    struct srd_op *op;

    if (header->ref_kind != SRD_REF_OP)
        return "an error of a kind that nobody sends yet";
    op = op_of(peer, header->send_id, kinds);
    if (op)
        srd_op_answered(op, errno_of(header->error), (int)(header->error & INT32_MAX));
    return NULL;
}

/* Of packets that are not requests. */
static const char *take_answer(struct srd_peer *peer, const struct srd_header *header)
{
    switch (header->type) {
    case SRD_CTS: return srd_move_cts(peer, header);
    case SRD_CTSDATA: return srd_take_data(peer, header);
    case SRD_READRSP: return srd_take_response(peer, header);
    case SRD_ATOMRSP: return take_result(peer, header);
    case SRD_RECEIPT: return take_receipt(peer, header);
    case SRD_PEER_ERROR: return take_error(peer, header);
    case SRD_HANDSHAKE: take_handshake(peer, header); return NULL;
    default: return "an answer to a question that was not asked"; /* EOR, READ_NACK */
    }
}

static const char *take_request(struct srd_peer *peer, const struct srd_header *header)
{
    return srd_is_message(header->type) ? srd_message(peer, header) : srd_remote(peer, header);
}

/* ---- Order ---- */

/* Takes what has waited for its turn; all packets of one number go before those of the next. */
static const char *take_early(struct srd_peer *peer)
{
    struct srd_ep *ep = peer->ep;
    const char *wrong = NULL;

    while (!wrong && list_empty(&peer->broken) && reorder_ready(&peer->early)) {
        struct srd_packet *packet = list_item(reorder_take(&peer->early), struct srd_packet, link);
        struct srd_header header;

        wrong = srd_header_get(packet->bytes + ep->prefix, packet->len - ep->prefix, &header);
        peer->early_bytes -= packet->len;
        ep->saved -= packet->len;
        if (!wrong)
            wrong = take_request(peer, &header);
        srd_packet_put(packet);
        if (!reorder_ready(&peer->early))
            peer->early.next++;
    }
    return wrong;
}

/* *keep: the packet is held back. */
static const char *take_in_turn(struct srd_peer *peer, const struct srd_header *header,
                                struct srd_packet *packet, bool *keep)
{
    struct srd_ep *ep = peer->ep;
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

/* The lower has told its sender that the packet has come. */
static void defer(struct srd_packet *packet, fi_addr_t src)
{
    packet->src = src;
    list_attach(&packet->link, &packet->ep->deferred);
}

/* Of a peer whose order of packets is lost: those that wait for an answer get one. */
static void refuse(struct srd_peer *peer, const struct srd_header *header)
{
    if (srd_is_request(header->type) && header->send_id)
        srd_out_error(peer, header->send_id, SRD_ERR_ABORTED);
    else if (srd_is_request(header->type) && header->recv_id)
        srd_out_error(peer, header->recv_id, SRD_ERR_ABORTED);
    else if (header->type == SRD_HANDSHAKE)
        take_handshake(peer, header);
}

/* True when the packet is kept. */
static bool take_from(struct srd_peer *peer, const struct srd_header *header,
                      struct srd_packet *packet)
{
    const char *wrong;
    bool keep = false;

    if (!peer->greeted)
        srd_out_handshake(peer);
    if (peer->dead) {
        refuse(peer, header);
        return false;
    }
    if (!srd_is_request(header->type))
        wrong = take_answer(peer, header);
    else if (!peer->ep->ordered || !srd_has_msg_id(header->type) ||
             header->flags & SRD_AFTER_NACK || srd_message_goes_on(peer, header))
        wrong = take_request(peer, header);
    else
        wrong = take_in_turn(peer, header, packet, &keep);
    if (wrong)
        srd_peer_break(peer, FI_EPROTO, wrong);
    return keep;
}

static bool take_packet(struct srd_packet *packet, fi_addr_t src)
{
    struct srd_ep *ep = packet->ep;
    struct srd_header header;
    bool again = false;
    const char *wrong =
        packet->len < ep->prefix
            ? "a packet shorter than its prefix"
            : srd_header_get(packet->bytes + ep->prefix, packet->len - ep->prefix, &header);
    struct srd_peer *peer;

    if (wrong) {
        say_wrong(ep, wrong);
        return false;
    }
    peer = sender(ep, &header, src, &again);
    if (__builtin_expect(again, 0)) {
        defer(packet, src);
        return true;
    }
    if (!peer || !list_empty(&peer->broken))
        return false;
    return take_from(peer, &header, packet);
}

void srd_in_deferred(struct srd_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->deferred, &all);
    while (!list_empty(&all)) {
        struct srd_packet *packet = list_item(all.next, struct srd_packet, link);

        list_detach(&packet->link);
        if (!packet->tries-- || !take_packet(packet, packet->src))
            srd_packet_put(packet);
    }
}

void srd_in_packet(struct srd_packet *packet, size_t len, fi_addr_t src)
{
    packet->len = len;
    packet->tries = TRIES;
    if (!take_packet(packet, src))
        srd_packet_put(packet);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of one packet, of several, and those whose rest is asked for. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/match/match_entry.h"
#include "layers/srd/srd.h"

enum {
    OVERHEAD = 320 /* the cost of a kept message besides its bytes */
};

static const char *const no_memory = "a message for which there is no memory";

static struct message_told told_of(const struct srd_header *header)
{
    return (struct message_told){
        .tagged = srd_is_tagged(header->type),
        .has_data = header->flags & SRD_CQ_DATA,
        .tag = header->tag,
        .data = header->cq_data,
        .size = header->total,
    };
}

/* ---- Messages that are kept ---- */

static struct srd_inbound *partial_of(struct srd_peer *peer, uint32_t msg_id)
{
    struct srd_inbound *inbound = peer->recent;

    if (inbound && inbound->msg_id == msg_id)
        return inbound;
    HASH_FIND(hh, peer->partial, &msg_id, sizeof(msg_id), inbound);
    if (inbound)
        peer->recent = inbound;
    return inbound;
}

static void end_partial(struct srd_inbound *inbound)
{
    struct srd_peer *peer = srd_peer_of(inbound->base.handle.peer);

    if (inbound->partial)
        HASH_DEL(peer->partial, inbound);
    if (peer->recent == inbound)
        peer->recent = NULL;
    inbound->partial = false;
}

static bool is_asked_for(uint8_t type)
{
    return type == SRD_LONGCTS_MSG || type == SRD_LONGCTS_TAG || type == SRD_DC_LONGCTS_MSG ||
           type == SRD_DC_LONGCTS_TAG;
}

/* Bytes of the message that come without being asked for. */
static size_t runt_of(const struct srd_header *header)
{
    if (header->read_count)
        return header->runt;
    return is_asked_for(header->type) ? header->len : header->total;
}

/* More of it will come, or may: it is found by its msg_id until then. */
static bool make_partial(struct srd_inbound *inbound)
{
    HASH_ADD(hh, srd_peer_of(inbound->base.handle.peer)->partial, msg_id, sizeof(inbound->msg_id),
             inbound);
    inbound->partial = hash_has(inbound);
    return inbound->partial;
}

static void free_pieces(struct srd_inbound *inbound)
{
    while (inbound->pieces) {
        struct srd_piece *piece = inbound->pieces;

        inbound->pieces = piece->next;
        free(piece);
    }
}

static void end_source(struct srd_inbound *inbound)
{
    free(inbound->source);
    inbound->source = NULL;
}

void srd_message_put(struct message_inbound *base)
{
    struct srd_inbound *inbound = srd_inbound_of(base);

    if (inbound->transfer)
        inbound->transfer->owner = NULL;
    free_pieces(inbound);
    end_source(inbound);
    end_partial(inbound);
    srd_bounce_close(inbound->bounce);
}

static bool make_source(struct srd_inbound *inbound, const struct srd_header *header)
{
    inbound->source = malloc(sizeof(*inbound->source));
    if (!inbound->source)
        return false;
    inbound->source->count = header->read_count;
    for (unsigned i = 0; i < header->read_count; i++)
        inbound->source->places[i] = header->reads[i];
    return true;
}

static struct srd_inbound *inbound_get(struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_inbound *inbound = calloc(1, sizeof(*inbound));

    if (!inbound)
        return NULL;
    inbound->base.told = told_of(header);
    inbound->base.receipt = srd_is_dc(header->type);
    inbound->type = header->type;
    inbound->msg_id = header->msg_id;
    inbound->send_id = header->send_id;
    inbound->runt = runt_of(header);
    message_inbound_add(&inbound->base, &peer->base, OVERHEAD);
    if (message_handle_open(&inbound->base.handle) ||
        (header->read_count && !make_source(inbound, header)) ||
        ((inbound->runt > header->len || header->read_count) && !make_partial(inbound))) {
        message_inbound_put(&inbound->base);
        return NULL;
    }
    return inbound;
}

void srd_message_answer(struct message_inbound *base)
{
    const struct srd_inbound *inbound = srd_inbound_of(base);

    if (base->receipt)
        srd_out_receipt(base->handle.peer, inbound->send_id, inbound->msg_id);
    else if (inbound->source)
        srd_out_eor(base->handle.peer, inbound->send_id, message_handle_id(&base->handle));
}

static void taken(struct message_taker *taker)
{
    struct message_inbound *base = object_of(taker, struct message_inbound, taker);

    if (srd_inbound_of(base)->bounce)
        srd_bounce_copy(srd_inbound_of(base));
    else
        message_inbound_end(base, 0);
}

/* Where bytes that come in packets are put. */
static const struct iovec *place_of(const struct srd_inbound *inbound, size_t *count)
{
    const struct fi_peer_rx_entry *entry = inbound->base.entry;

    if (__builtin_expect(inbound->to_device, 0))
        return srd_bounce_iov(inbound->bounce, count);
    *count = entry ? entry->count : 0;
    return entry ? entry->iov : NULL;
}

/* It has met its receive. False: that is memory that the CPU does not reach, and there is no other
 * for it. */
static bool meet(struct srd_inbound *inbound)
{
    const struct fi_peer_rx_entry *entry = inbound->base.entry;

    inbound->to_device =
        srd_is_device(srd_ep_of(inbound->base.handle.peer->ep), entry->desc, entry->count);
    return !inbound->to_device ||
           srd_bounce_open(inbound, 0, inbound->source ? inbound->runt : inbound->base.told.size);
}

/* ---- The bytes that come of it ---- */

/* By a READ_NACK, upon which it comes as if it were sent anew. */
void srd_message_ask(struct srd_inbound *inbound)
{
    struct message_inbound *base = &inbound->base;

    if (!srd_out_nack(base->handle.peer, inbound->send_id, message_handle_id(&base->handle)))
        message_inbound_end(base, FI_EIO);
}

/* The rest is asked for, or read. */
static void fetch_rest(struct srd_inbound *inbound)
{
    struct message_inbound *base = &inbound->base;
    size_t got = base->taker.got;

    if (is_asked_for(inbound->type))
        message_take(&base->taker, &base->handle, inbound->send_id, got, got, base->told.size);
    else if (!srd_read_message(inbound))
        srd_message_ask(inbound);
}

/* It is matched, and so much of it is there. Without an entry, its sender still waits for the rest
 * to be taken. */
void srd_message_go_on(struct message_inbound *base)
{
    struct srd_inbound *inbound = srd_inbound_of(base);
    bool whole = base->taker.got == base->told.size;

    if (__builtin_expect(inbound->stuck, 0))
        return;
    if (__builtin_expect(inbound->bounce != NULL, 0) &&
        (whole || (inbound->source && base->taker.got == inbound->runt))) {
        srd_bounce_copy(inbound);
        return;
    }
    if (whole) {
        message_inbound_end(base, 0);
        return;
    }
    base->taker.iov = place_of(inbound, &base->taker.iov_count);
    base->taker.ended = taken;
    if (base->taker.got == inbound->runt)
        fetch_rest(inbound);
}

static bool add_piece(struct srd_inbound *inbound, const struct srd_header *header)
{
    struct srd_piece *piece = malloc(sizeof(*piece) + header->len);

    if (!piece)
        return false;
    piece->offset = header->offset;
    piece->len = header->len;
    if (header->len)
        memcpy(piece->bytes, header->payload, header->len);
    piece->next = inbound->pieces;
    inbound->pieces = piece;
    inbound->base.saved += header->len;
    inbound->base.handle.peer->ep->saved += header->len;
    return true;
}

/* Bytes of one of its packets: into the receive, or kept. They lie within the size that the packet
 * says (srd_header_get), which is the message's. */
static const char *add_bytes(struct srd_inbound *inbound, const struct srd_header *header)
{
    struct message_inbound *base = &inbound->base;
    const struct iovec *iov;
    size_t count;

    if (header->len > inbound->runt - base->taker.got)
        return "more bytes than a message has";
    if (!base->matched && header->len && !add_piece(inbound, header))
        return no_memory;
    iov = place_of(inbound, &count);
    if (base->entry)
        iov_scatter(iov, count, header->offset, header->payload, header->len);
    base->taker.got += header->len;
    return NULL;
}

void srd_message_place(struct message_inbound *base)
{
    struct srd_inbound *inbound = srd_inbound_of(base);
    const struct iovec *iov;
    size_t count;

    if (!meet(inbound)) {
        inbound->stuck = true;
        message_peer_break(base->handle.peer, FI_ENOMEM, no_memory);
        return;
    }
    iov = place_of(inbound, &count);
    for (const struct srd_piece *piece = inbound->pieces; piece; piece = piece->next)
        iov_scatter(iov, count, piece->offset, piece->bytes, piece->len);
}

void srd_messages_refuse(struct srd_peer *peer)
{
    list_for_each (item, &peer->base.inbounds) {
        const struct srd_inbound *inbound = list_item(item, struct srd_inbound, base.link);

        if (inbound->base.receipt || is_asked_for(inbound->type) || inbound->partial)
            srd_out_error(peer, inbound->send_id, SRD_ERR_ABORTED);
    }
}

/* One that is being read ends when the lower writes to its receive no more. */
bool srd_message_failing(struct message_inbound *base)
{
    struct srd_inbound *inbound = srd_inbound_of(base);

    end_partial(inbound);
    message_take_stop(&base->taker);
    return !inbound->transfer || base->handle.peer->ep->closing;
}

/* ---- From the peer ---- */

static const char *keep(struct srd_peer *peer, const struct srd_header *header,
                        struct fi_peer_rx_entry *entry)
{
    struct srd_inbound *inbound = inbound_get(peer, header);
    const char *wrong = inbound ? add_bytes(inbound, header) : NULL;

    if (!wrong)
        return message_keep(inbound ? &inbound->base : NULL, entry);
    match_entry_free(entry);
    message_inbound_put(&inbound->base);
    return wrong;
}

static const char *begin(struct srd_peer *peer, const struct srd_header *header,
                         struct fi_peer_rx_entry *entry, const struct message_told *told)
{
    struct srd_inbound *inbound;
    const char *wrong;

    if (__builtin_expect(header->len == header->total && !header->read_count &&
                             !srd_is_device(srd_ep_of(peer->base.ep), entry->desc, entry->count),
                         1)) {
        iov_scatter(entry->iov, entry->count, 0, header->payload, header->len);
        if (srd_is_dc(header->type))
            srd_out_receipt(&peer->base, header->send_id, header->msg_id);
        message_deliver(&peer->base, entry, told, 0);
        return NULL;
    }
    inbound = inbound_get(peer, header);
    if (!inbound) {
        message_deliver(&peer->base, entry, told, FI_ENOMEM);
        return no_memory;
    }
    inbound->base.entry = entry;
    inbound->base.matched = true;
    wrong = meet(inbound) ? add_bytes(inbound, header) : no_memory;
    if (!wrong)
        srd_message_go_on(&inbound->base);
    return wrong; /* then it ends with the peer */
}

bool srd_message_goes_on(struct srd_peer *peer, const struct srd_header *header)
{
    return peer->partial && srd_is_message(header->type) && partial_of(peer, header->msg_id);
}

/* After a READ_NACK: the bytes that we could not read are sent. A partial message whose beginning
 * is there is being read, or was asked for so. */
static const char *sent_anew(struct srd_inbound *inbound, const struct srd_header *header)
{
    struct message_inbound *base = inbound ? &inbound->base : NULL;

    if (!base || !base->matched || inbound->transfer || base->taker.got != inbound->runt ||
        header->total != base->told.size || header->len)
        return "a message anew that was not asked for so";
    if (inbound->to_device && !srd_bounce_open(inbound, base->taker.got, base->told.size))
        return no_memory;
    end_partial(inbound);
    end_source(inbound);
    inbound->type = header->type;
    base->receipt = srd_is_dc(header->type);
    inbound->send_id = header->send_id;
    srd_message_go_on(base);
    return NULL;
}

static const char *goes_on(struct srd_inbound *inbound, const struct srd_header *header)
{
    struct message_inbound *base = &inbound->base;
    const char *wrong;

    if (header->type != inbound->type || header->total != base->told.size)
        return "a piece of another message than the one before";
    if (base->taker.got == inbound->runt) /* the rest is not sent, or is being read */
        return "a piece of a message that has all of them";
    wrong = add_bytes(inbound, header);
    if (wrong)
        return wrong;
    if (base->taker.got == inbound->runt && !header->read_count)
        end_partial(inbound);
    if (base->matched)
        srd_message_go_on(base);
    return NULL;
}

const char *srd_message(struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_inbound *inbound = peer->partial ? partial_of(peer, header->msg_id) : NULL;
    struct message_told told = told_of(header);
    struct fi_peer_rx_entry *entry;
    int rc;

    if (header->flags & SRD_AFTER_NACK)
        return is_asked_for(header->type) ? sent_anew(inbound, header)
                                          : "a message anew of another type";
    if (inbound)
        return goes_on(inbound, header);
    rc = message_match(&peer->base, &told, &entry);
    if (rc == -FI_ENOENT)
        return keep(peer, header, entry);
    return rc ? no_memory : begin(peer, header, entry, &told);
}

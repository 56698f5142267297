/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages meet their receives. One that has no receive yet is kept with the bytes that came; the
 * rest of a large one waits at its sender, and is asked for when it is matched.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/match/match_entry.h"
#include "layers/srd/srd.h"

enum {
    OVERHEAD = 320 /* what a kept message costs besides its bytes */
};

static const char *const no_memory = "a message for which there is no memory";

/* ---- Delivery ---- */

/* What of a message its completion tells. */
struct told {
    uint8_t type;
    uint16_t flags;
    uint64_t tag, data;
    size_t size;
};

static void report_error(struct srd_peer *peer, struct fi_peer_rx_entry *entry,
                         const struct told *told, uint64_t flags, int err)
{
    bool whole = err == FI_EADDRNOTAVAIL;
    size_t room = match_entry_room(entry);
    size_t copied = whole ? told->size : err == FI_ETRUNC ? room : 0;
    size_t len = whole || err == FI_ETRUNC ? told->size : 0;
    struct fi_cq_err_entry error = match_entry_error(entry, flags, copied, len, err);
    union addr addr;

    error.data = told->data;
    error.tag = told->tag;
    error.src_addr = srd_peer_source(peer);
    if (whole) {
        srd_name_addr(&peer->name, &addr);
        error.err_data = peer->ep->efa ? (void *)peer->name.bytes : &addr;
        error.err_data_size = peer->ep->efa ? SRD_ADDR_SIZE : addr_size(&addr.sa);
    }
    complete_error(&peer->ep->base.binding, BIND_RECV, &error);
}

/* Ends a message, and gives the entry back. */
static void deliver(struct srd_peer *peer, struct fi_peer_rx_entry *entry, const struct told *told,
                    int err)
{
    struct srd_ep *ep = peer->ep;
    uint64_t flags = (entry->flags & ~FI_COMPLETION) | FI_RECV |
                     (srd_is_tagged(told->type) ? FI_TAGGED : FI_MSG) |
                     (told->flags & SRD_CQ_DATA ? FI_REMOTE_CQ_DATA : 0);
    void *buf = entry->count ? entry->iov[0].iov_base : NULL;

    if (!err && __builtin_expect(told->size > match_entry_room(entry), 0))
        err = FI_ETRUNC;
    if (!err && __builtin_expect(ep->source_err && peer->source.addr == FI_ADDR_UNSPEC, 0))
        err = FI_EADDRNOTAVAIL;
    if (ep->closing)
        ;
    else if (__builtin_expect(!err, 1))
        complete(&ep->base.binding, BIND_RECV, entry->flags & FI_COMPLETION, entry->context, flags,
                 told->size, buf, told->data, told->tag, srd_peer_source(peer));
    else
        report_error(peer, entry, told, flags, err);
    match_entry_free(entry);
}

static void send_receipt(struct srd_peer *peer, uint32_t send_id, uint32_t msg_id)
{
    struct srd_header header = {.type = SRD_RECEIPT, .send_id = send_id, .msg_id = msg_id};

    srd_out_control(peer, &header);
}

/* ---- Messages that are kept ---- */

static struct srd_inbound *partial_of(const struct srd_peer *peer, uint32_t msg_id)
{
    struct srd_inbound *inbound;

    HASH_FIND(hh, peer->partial, &msg_id, sizeof(msg_id), inbound);
    return inbound;
}

static void end_partial(struct srd_inbound *inbound)
{
    if (inbound->partial)
        HASH_DEL(inbound->handle.peer->partial, inbound);
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
    HASH_ADD(hh, inbound->handle.peer->partial, msg_id, sizeof(inbound->msg_id), inbound);
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

static void inbound_put(struct srd_inbound *inbound)
{
    struct srd_peer *peer = inbound->handle.peer;

    peer->ep->saved -= inbound->saved;
    free_pieces(inbound);
    end_partial(inbound);
    srd_take_stop(&inbound->taker);
    srd_handle_close(&inbound->handle);
    list_detach(&inbound->link);
    free(inbound);
}

static struct srd_inbound *inbound_get(struct srd_peer *peer, const struct srd_header *header)
{
    struct srd_inbound *inbound = calloc(1, sizeof(*inbound));

    if (!inbound)
        return NULL;
    *inbound = (struct srd_inbound){
        .type = header->type,
        .flags = header->flags,
        .msg_id = header->msg_id,
        .send_id = header->send_id,
        .tag = header->tag,
        .data = header->cq_data,
        .size = header->total,
        .runt = runt_of(header),
        .receipt = srd_is_dc(header->type),
        .saved = OVERHEAD,
    };
    list_init(&inbound->link);
    if (srd_handle_open(&inbound->handle, SRD_OF_INBOUND, peer)) {
        free(inbound);
        return NULL;
    }
    list_attach(&inbound->link, &peer->inbounds);
    peer->ep->saved += inbound->saved;
    if ((inbound->runt > header->len || header->read_count) && !make_partial(inbound)) {
        inbound_put(inbound);
        return NULL;
    }
    return inbound;
}

static struct told told_of(const struct srd_inbound *inbound)
{
    return (struct told){inbound->type, inbound->flags, inbound->tag, inbound->data, inbound->size};
}

/* It is whole, or lost. */
static void end_inbound(struct srd_inbound *inbound, int err)
{
    struct srd_peer *peer = inbound->handle.peer;
    struct fi_peer_rx_entry *entry = inbound->entry;
    struct told told = told_of(inbound);

    if (inbound->receipt && !inbound->lost)
        send_receipt(peer, inbound->send_id, inbound->msg_id);
    inbound_put(inbound);
    if (entry)
        deliver(peer, entry, &told, err);
}

static void taken(struct srd_taker *taker)
{
    end_inbound(object_of(taker, struct srd_inbound, taker), 0);
}

/* ---- What comes of it ---- */

/* The rest is asked for: of its sender, or, where that would have us read it, by a READ_NACK, upon
 * which it comes as if it were sent anew. */
static void ask_rest(struct srd_inbound *inbound)
{
    struct srd_header header = {.type = SRD_READ_NACK,
                                .send_id = inbound->send_id,
                                .recv_id = srd_handle_id(&inbound->handle)};

    if (is_asked_for(inbound->type))
        srd_take(&inbound->taker, &inbound->handle, inbound->send_id, inbound->taker.got, 0,
                 inbound->size);
    else
        srd_out_control(inbound->handle.peer, &header);
}

/* It is matched, and so much of it is there. */
static void go_on(struct srd_inbound *inbound)
{
    if (inbound->taker.got == inbound->size) {
        end_inbound(inbound, 0);
        return;
    }
    inbound->taker.iov = inbound->entry ? inbound->entry->iov : NULL;
    inbound->taker.iov_count = inbound->entry ? inbound->entry->count : 0;
    inbound->taker.ended = taken;
    if (inbound->taker.got == inbound->runt)
        ask_rest(inbound);
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
    inbound->saved += header->len;
    inbound->handle.peer->ep->saved += header->len;
    return true;
}

/* Bytes of one of its packets: into the receive, or kept. */
static const char *add_bytes(struct srd_inbound *inbound, const struct srd_header *header)
{
    if (header->len > inbound->runt - inbound->taker.got || header->offset > inbound->size ||
        header->len > inbound->size - header->offset)
        return "more bytes than a message has";
    if (!inbound->matched && header->len && !add_piece(inbound, header))
        return no_memory;
    if (inbound->entry)
        iov_scatter(inbound->entry->iov, inbound->entry->count, header->offset, header->payload,
                    header->len);
    inbound->taker.got += header->len;
    return NULL;
}

/* ---- From the owner of the receives ---- */

static struct srd_inbound *message_of(const struct fi_peer_rx_entry *entry)
{
    return entry->peer_context;
}

/* The endpoint of a message that waits with an upper's context was closed. */
static void drop_orphan(struct srd_inbound *inbound, struct fi_peer_rx_entry *entry)
{
    free(inbound);
    match_entry_free(entry);
}

static void place_pieces(const struct srd_inbound *inbound)
{
    for (const struct srd_piece *piece = inbound->pieces; piece; piece = piece->next)
        iov_scatter(inbound->entry->iov, inbound->entry->count, piece->offset, piece->bytes,
                    piece->len);
}

static int start(struct fi_peer_rx_entry *entry)
{
    struct srd_inbound *inbound = message_of(entry);

    if (!inbound->handle.peer) {
        drop_orphan(inbound, entry);
        return -FI_ENOTCONN;
    }
    inbound->entry = entry;
    inbound->matched = true;
    place_pieces(inbound);
    if (inbound->lost)
        end_inbound(inbound, FI_ECONNRESET);
    else
        go_on(inbound);
    return 0;
}

/* What is left of it has to come all the same: its sender waits for that. */
static int discard(struct fi_peer_rx_entry *entry)
{
    struct srd_inbound *inbound = message_of(entry);

    if (!inbound->handle.peer) {
        drop_orphan(inbound, entry);
        return 0;
    }
    match_entry_free(entry);
    inbound->entry = NULL;
    inbound->matched = true;
    if (inbound->handle.peer->ep->closing)
        inbound_put(inbound);
    else if (inbound->lost)
        end_inbound(inbound, 0);
    else
        go_on(inbound);
    return 0;
}

struct fi_ops_srx_peer srd_source_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

/* ---- From the peer ---- */

static const char *keep(struct srd_peer *peer, const struct srd_header *header,
                        struct fi_peer_rx_entry *entry)
{
    struct srd_inbound *inbound = inbound_get(peer, header);
    const char *wrong = inbound ? add_bytes(inbound, header) : no_memory;

    if (!wrong && !match_entry_queue(entry, srd_is_tagged(header->type), inbound,
                                     header->flags & SRD_CQ_DATA, header->cq_data))
        return NULL;
    match_entry_free(entry);
    if (inbound)
        inbound_put(inbound);
    return wrong ? wrong : no_memory;
}

static const char *begin(struct srd_peer *peer, const struct srd_header *header,
                         struct fi_peer_rx_entry *entry)
{
    struct told told = {header->type, header->flags, header->tag, header->cq_data, header->total};
    struct srd_inbound *inbound;
    const char *wrong;

    if (__builtin_expect(header->len == header->total && !header->read_count, 1)) {
        iov_scatter(entry->iov, entry->count, 0, header->payload, header->len);
        if (srd_is_dc(header->type))
            send_receipt(peer, header->send_id, header->msg_id);
        deliver(peer, entry, &told, 0);
        return NULL;
    }
    inbound = inbound_get(peer, header);
    if (!inbound) {
        deliver(peer, entry, &told, FI_ENOMEM);
        return no_memory;
    }
    inbound->entry = entry;
    inbound->matched = true;
    wrong = add_bytes(inbound, header);
    if (!wrong)
        go_on(inbound);
    return wrong; /* then it ends with the peer */
}

bool srd_message_goes_on(struct srd_peer *peer, const struct srd_header *header)
{
    return peer->partial && srd_is_message(header->type) && partial_of(peer, header->msg_id);
}

/* After a READ_NACK: what we could not read is sent. */
static const char *sent_anew(struct srd_inbound *inbound, const struct srd_header *header)
{
    if (!inbound || !inbound->matched || inbound->taker.handle || is_asked_for(inbound->type) ||
        inbound->taker.got != inbound->runt || header->total != inbound->size || header->len)
        return "a message anew that was not asked for so";
    end_partial(inbound);
    inbound->type = header->type;
    inbound->receipt = srd_is_dc(header->type);
    inbound->send_id = header->send_id;
    go_on(inbound);
    return NULL;
}

static const char *goes_on(struct srd_inbound *inbound, const struct srd_header *header)
{
    const char *wrong;

    if (header->type != inbound->type || header->total != inbound->size)
        return "a piece of another message than the one before";
    wrong = add_bytes(inbound, header);
    if (wrong)
        return wrong;
    if (inbound->taker.got == inbound->runt && !header->read_count)
        end_partial(inbound);
    if (inbound->matched)
        go_on(inbound);
    return NULL;
}

const char *srd_message(struct srd_peer *peer, const struct srd_header *header)
{
    struct fi_peer_match_attr attr = {
        .addr = FI_ADDR_UNSPEC, .msg_size = header->total, .tag = header->tag};
    struct srd_inbound *inbound = peer->partial ? partial_of(peer, header->msg_id) : NULL;
    struct fi_peer_rx_entry *entry;
    int rc;

    if (header->flags & SRD_AFTER_NACK)
        return is_asked_for(header->type) ? sent_anew(inbound, header)
                                          : "a message anew of another type";
    if (inbound)
        return goes_on(inbound, header);
    rc = match_entry_get(&peer->source.srx, srd_is_tagged(header->type), &attr, &entry);
    if (rc == -FI_ENOENT)
        return keep(peer, header, entry);
    return rc ? no_memory : begin(peer, header, entry);
}

/* Its bytes are gone with the endpoint; a record of it stays with the upper's context. */
static void orphan(struct srd_inbound *inbound)
{
    struct srd_peer *peer = inbound->handle.peer;

    peer->ep->saved -= inbound->saved;
    free_pieces(inbound);
    srd_handle_close(&inbound->handle);
    inbound->handle.peer = NULL;
}

void srd_messages_fail(struct srd_peer *peer, int err)
{
    struct list all;

    /* What a report calls may end any of them. */
    list_init(&all);
    list_join(&peer->inbounds, &all);
    while (!list_empty(&all)) {
        struct srd_inbound *inbound = list_item(all.next, struct srd_inbound, link);

        list_detach(&inbound->link);
        list_attach(&inbound->link, &peer->inbounds);
        end_partial(inbound);
        srd_take_stop(&inbound->taker);
        inbound->receipt = false; /* nobody waits for it */
        if (inbound->size > inbound->taker.got)
            inbound->lost = true;
        if (inbound->matched) {
            end_inbound(inbound, err);
        } else if (peer->ep->closing) { /* it stays with the upper's context */
            list_detach(&inbound->link);
            orphan(inbound);
        }
    }
}

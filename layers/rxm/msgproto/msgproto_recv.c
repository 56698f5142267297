/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in. A message meets its receive with its first packet, so that messages match in the
 * order of their sending, whichever way their payloads take. Unmatched ones are kept:
 * small ones in memory, up to a bound for the endpoint, beyond which packets are left with the
 * lower; large ones at their sender.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/match/match_entry.h"
#include "layers/rxm/msgproto/msgproto.h"

enum {
    OVERHEAD = 256,       /* memory of a kept message besides its payload */
    PIECEMEAL_MAX = 4096, /* messages of one connection of which pieces are still to come */
};

/* ---- Delivery ---- */

static inline void copy_in(const struct fi_peer_rx_entry *entry, size_t at, const uint8_t *from,
                           size_t len)
{
    iov_scatter(entry->iov, entry->count, at, from, len);
}

static void count_received(struct rxm_ep *ep, bool failed)
{
    struct cntr *cntr = ep->base.binding.cntr[BIND_RECV];

    if (!cntr)
        return;
    if (failed)
        cntr_add_error(cntr);
    else
        cntr_add_one(cntr);
}

static void report_error(struct rxm_conn *conn, struct fi_peer_rx_entry *entry,
                         const struct rxm_packet *head, uint64_t flags, size_t room, int err)
{
    size_t copied = err == FI_ETRUNC ? room : 0, len = err == FI_ETRUNC ? head->size : 0;
    struct fi_cq_err_entry error = match_entry_error(entry, flags, copied, len, err);

    error.data = head->data;
    error.tag = head->tag;
    rxm_conn_receive_failed(conn, &error);
    count_received(conn->owner, true);
}

/* Ends a message: reports it, and gives the entry back. */
static void deliver(struct rxm_conn *conn, struct fi_peer_rx_entry *entry,
                    const struct rxm_packet *head, int err)
{
    uint64_t flags = (entry->flags & ~FI_COMPLETION) | FI_RECV |
                     (head->op == RXM_OP_TAGGED ? FI_TAGGED : FI_MSG) |
                     (head->has_data ? FI_REMOTE_CQ_DATA : 0);
    void *buf = entry->count ? entry->iov[0].iov_base : NULL;
    size_t room = match_entry_room(entry);

    if (!err && __builtin_expect(head->size > room, 0))
        err = FI_ETRUNC;
    if (__builtin_expect(err, 0)) {
        if (!conn->msgproto.mute)
            report_error(conn, entry, head, flags, room, err);
    } else {
        if (entry->flags & FI_COMPLETION)
            rxm_conn_received(conn, entry->context, flags, head->size, buf, head->data, head->tag);
        count_received(conn->owner, false);
    }
    match_entry_free(entry);
}

/* ---- Messages that are kept, or come in pieces ---- */

static struct rxm_inbound *inbound_get(struct rxm_conn *conn, const struct rxm_packet *head,
                                       uint8_t kind, bool matched)
{
    struct msgproto *msgproto = conn->owner->msgproto;
    struct rxm_inbound *inbound;

    inbound = matched ? pool_get(&msgproto->inbounds) : malloc(sizeof(*inbound));
    if (!inbound)
        return NULL;
    *inbound = (struct rxm_inbound){
        .conn = conn,
        .head = *head,
        .kind = kind,
        .pooled = matched,
        .matched = matched,
        .cost = OVERHEAD,
    };
    inbound->pieces_end = &inbound->pieces;
    msgproto->saved += inbound->cost;
    list_attach(&inbound->link, &conn->msgproto.inbounds);
    return inbound;
}

static void drop_pieces(struct rxm_inbound *inbound)
{
    while (inbound->pieces) {
        struct rxm_piece *piece = inbound->pieces;

        inbound->pieces = piece->next;
        free(piece);
    }
    inbound->pieces_end = &inbound->pieces;
}

static void put_inbound(struct rxm_inbound *inbound)
{
    struct rxm_conn *conn = inbound->conn;
    struct msgproto *msgproto = conn->owner->msgproto;

    drop_pieces(inbound);
    if (inbound->mr_count)
        msgproto_unregister(inbound->mrs, inbound->mr_count);
    msgproto->saved -= inbound->cost;
    conn->msgproto.piecemeal -= inbound->kind == RXM_IN_SEGMENTS;
    list_detach(&inbound->link);
    if (inbound->pooled)
        pool_put(&msgproto->inbounds, inbound);
    else
        free(inbound);
    if (__builtin_expect(msgproto->saved_said, 0))
        msgproto_set_refill(msgproto);
}

static bool keep_piece(struct rxm_inbound *inbound, const uint8_t *payload, size_t len)
{
    struct msgproto *msgproto = inbound->conn->owner->msgproto;
    struct rxm_piece *piece = malloc(sizeof(*piece) + len);

    if (!piece)
        return false;
    piece->next = NULL;
    piece->len = len;
    memcpy(piece->bytes, payload, len);
    *inbound->pieces_end = piece;
    inbound->pieces_end = &piece->next;
    inbound->cost += len;
    msgproto->saved += len;
    return true;
}

static void place_pieces(struct rxm_inbound *inbound)
{
    size_t at = 0;

    for (struct rxm_piece *piece = inbound->pieces; piece; piece = piece->next) {
        copy_in(inbound->entry, at, piece->bytes, piece->len);
        at += piece->len;
    }
    drop_pieces(inbound);
}

void rxm_inbound_end(struct rxm_inbound *inbound, int err)
{
    struct fi_peer_rx_entry *entry = inbound->discarded ? NULL : inbound->entry;
    struct rxm_conn *conn = inbound->conn;
    struct rxm_packet head = inbound->head;

    put_inbound(inbound);
    if (entry)
        deliver(conn, entry, &head, err);
}

/* Gives an unmatched message to the engine; another receive may have been posted meanwhile. */
static const char *queue(struct rxm_inbound *inbound, struct fi_peer_rx_entry *entry)
{
    const struct rxm_packet *head = &inbound->head;

    inbound->entry = entry;
    if (match_entry_queue(entry, head->op == RXM_OP_TAGGED, inbound, head->has_data, head->data))
        return "no memory for a message";
    return NULL;
}

/* 0: matched; -FI_ENOENT: not; another error. */
static int match_message(struct rxm_conn *conn, const struct rxm_packet *packet,
                         struct fi_peer_rx_entry **entry)
{
    struct fid_peer_srx *srx = &conn->source.srx;
    struct fi_peer_match_attr attr = {
        .addr = FI_ADDR_UNSPEC, .msg_size = packet->size, .tag = packet->tag};

    return match_entry_get(srx, packet->op == RXM_OP_TAGGED, &attr, entry);
}

static const char *no_memory(struct fi_peer_rx_entry *entry)
{
    match_entry_free(entry);
    return "no memory for a message";
}

static void say_limit(struct msgproto *msgproto)
{
    if (msgproto->saved_said)
        return;
    msgproto->saved_said = true;
    LOG_WARN("rxm", FI_LOG_EP_DATA,
             ": %zu bytes of unexpected messages are kept; no more are taken until some are "
             "received (saved_size is %zu)",
             msgproto->saved, msgproto->saved_limit);
}

/* The first packet of a message that will not be delivered with it. */
static const char *begin(struct rxm_conn *conn, const struct rxm_packet *packet, uint8_t kind,
                         struct rxm_inbound **ret_inbound, struct fi_peer_rx_entry **unmatched)
{
    struct fi_peer_rx_entry *entry;
    struct rxm_inbound *inbound;
    int rc = match_message(conn, packet, &entry);

    if (rc && rc != -FI_ENOENT)
        return "no memory for a message";
    inbound = inbound_get(conn, packet, kind, !rc);
    if (!inbound && rc)
        return no_memory(entry);
    if (!inbound) {
        deliver(conn, entry, packet, FI_ENOMEM);
        return "no memory for a message";
    }
    inbound->entry = rc ? NULL : entry;
    inbound->room = rc ? 0 : match_entry_room(entry);
    *unmatched = rc ? entry : NULL;
    *ret_inbound = inbound;
    if (conn->owner->msgproto->saved > conn->owner->msgproto->saved_limit)
        say_limit(conn->owner->msgproto);
    return NULL;
}

/* ---- Eager ---- */

static const char *keep_eager(struct rxm_conn *conn, const struct rxm_packet *packet,
                              const uint8_t *payload, struct fi_peer_rx_entry *entry)
{
    struct rxm_inbound *inbound = inbound_get(conn, packet, RXM_IN_SAVED, false);

    if (!inbound)
        return no_memory(entry);
    if (packet->size && !keep_piece(inbound, payload, packet->size)) {
        put_inbound(inbound);
        return no_memory(entry);
    }
    inbound->got = packet->size;
    if (conn->owner->msgproto->saved > conn->owner->msgproto->saved_limit)
        say_limit(conn->owner->msgproto);
    return queue(inbound, entry);
}

static inline const char *take_eager(struct rxm_conn *conn, const struct rxm_packet *packet,
                                     const uint8_t *payload)
{
    struct fi_peer_rx_entry *entry;
    int rc = match_message(conn, packet, &entry);

    if (rc == -FI_ENOENT)
        return keep_eager(conn, packet, payload, entry);
    if (rc)
        return "no memory for a message";
    if (packet->size)
        copy_in(entry, 0, payload, packet->size);
    deliver(conn, entry, packet, 0);
    return NULL;
}

/* ---- Segments ---- */

static struct rxm_inbound *find_segmented(struct rxm_conn *conn, uint64_t msg_id)
{
    list_for_each (item, &conn->msgproto.moving) {
        struct rxm_inbound *inbound = list_item(item, struct rxm_inbound, link);

        if (inbound->kind == RXM_IN_SEGMENTS && inbound->head.msg_id == msg_id)
            return inbound;
    }
    return NULL;
}

static const char *add_segment(struct rxm_inbound *inbound, const struct rxm_packet *packet,
                               const uint8_t *payload)
{
    bool last = packet->segment == RXM_SEGMENT_LAST;
    size_t len = packet->seg_size;

    if (packet->seg_no != inbound->next_segment || packet->size != inbound->head.size ||
        packet->op != inbound->head.op || len > inbound->head.size - inbound->got ||
        last != (len == inbound->head.size - inbound->got))
        return "a segment that does not fit its message";
    if (inbound->matched)
        copy_in(inbound->entry, inbound->got, payload, len);
    else if (!inbound->discarded && !keep_piece(inbound, payload, len))
        return "no memory for a message";
    inbound->got += len;
    inbound->next_segment++;
    if (!last)
        return NULL;
    if (inbound->matched || inbound->discarded) {
        rxm_inbound_end(inbound, 0);
        return NULL;
    }
    inbound->conn->msgproto.piecemeal--;
    inbound->kind = RXM_IN_SAVED;
    list_detach(&inbound->link);
    list_attach(&inbound->link, &inbound->conn->msgproto.inbounds);
    return NULL;
}

static const char *take_segment(struct rxm_conn *conn, const struct rxm_packet *packet,
                                const uint8_t *payload)
{
    struct rxm_inbound *inbound = find_segmented(conn, packet->msg_id);
    struct fi_peer_rx_entry *unmatched = NULL;
    bool first = packet->segment == RXM_SEGMENT_FIRST;
    const char *wrong;

    if (first != !inbound)
        return first ? "a message that begins twice" : "a segment of no message";
    if (!first)
        return add_segment(inbound, packet, payload);
    if (conn->msgproto.piecemeal >= PIECEMEAL_MAX)
        return "too many messages in pieces";
    wrong = begin(conn, packet, RXM_IN_SEGMENTS, &inbound, &unmatched);
    if (wrong)
        return wrong;
    conn->msgproto.piecemeal++;
    list_detach(&inbound->link);
    list_attach(&inbound->link, &conn->msgproto.moving);
    wrong = add_segment(inbound, packet, payload);
    /* Its receive may come with queue, and take the first piece. */
    if (unmatched && wrong) {
        match_entry_free(unmatched);
        put_inbound(inbound);
    }
    return wrong || !unmatched ? wrong : queue(inbound, unmatched);
}

/* ---- Rendezvous ---- */

static const char *take_request(struct rxm_conn *conn, const struct rxm_packet *packet,
                                const uint8_t *payload)
{
    struct msgproto *msgproto = conn->owner->msgproto;
    struct rxm_place places[RXM_PLACES];
    unsigned count = rxm_places_get(payload, places);
    struct fi_peer_rx_entry *unmatched = NULL;
    struct rxm_inbound *inbound;
    bool write;
    const char *wrong;

    if (!count || rxm_places_len(places, count) < packet->size)
        return "a rendezvous without all of its memory";
    write = (places[0].key & msgproto->key_mask) == (RXM_NO_KEY & msgproto->key_mask);
    wrong = begin(conn, packet, write ? RXM_IN_WRITE : RXM_IN_READ, &inbound, &unmatched);
    if (wrong)
        return wrong;
    inbound->place_count = count;
    memcpy(inbound->places, places, sizeof(places));
    if (unmatched)
        return queue(inbound, unmatched);
    rxm_rndv_start(inbound);
    return NULL;
}

/* ---- From the engine ---- */

/* The connection of a message that waits with an upper's receive context was closed. */
static void drop_orphan(struct rxm_inbound *inbound, struct fi_peer_rx_entry *entry)
{
    drop_pieces(inbound);
    free(inbound);
    match_entry_free(entry);
}

static int start(struct fi_peer_rx_entry *entry)
{
    struct rxm_inbound *inbound = entry->peer_context;

    if (!inbound->conn) {
        drop_orphan(inbound, entry);
        return -FI_ENOTCONN;
    }
    inbound->entry = entry;
    inbound->matched = true;
    inbound->room = match_entry_room(entry);
    if (inbound->lost) {
        rxm_inbound_end(inbound, inbound->conn->msgproto.err);
        return 0;
    }
    if (inbound->kind == RXM_IN_READ || inbound->kind == RXM_IN_WRITE) {
        rxm_rndv_start(inbound);
        return 0;
    }
    place_pieces(inbound);
    if (inbound->kind == RXM_IN_SAVED)
        rxm_inbound_end(inbound, 0);
    return 0;
}

static int discard(struct fi_peer_rx_entry *entry)
{
    struct rxm_inbound *inbound = entry->peer_context;

    if (!inbound->conn) {
        drop_orphan(inbound, entry);
        return 0;
    }
    match_entry_free(entry);
    inbound->entry = NULL;
    inbound->discarded = true;
    if (inbound->lost || inbound->conn->msgproto.dead || inbound->kind == RXM_IN_SAVED)
        put_inbound(inbound);
    else if (inbound->kind == RXM_IN_SEGMENTS)
        drop_pieces(inbound);
    else
        rxm_rndv_start(inbound);
    return 0;
}

struct fi_ops_srx_peer msgproto_source_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

void msgproto_recv_orphan(struct rxm_conn *conn)
{
    list_for_each_safe (item, after, &conn->msgproto.inbounds) {
        struct rxm_inbound *inbound = list_item(item, struct rxm_inbound, link);

        list_detach(&inbound->link);
        conn->owner->msgproto->saved -= inbound->cost;
        inbound->conn = NULL;
    }
}

void msgproto_recv_fail(struct rxm_conn *conn, int err)
{
    struct list all;

    list_init(&all);
    list_join(&conn->msgproto.inbounds, &all);
    list_join(&conn->msgproto.moving, &all);
    while (!list_empty(&all)) {
        struct rxm_inbound *inbound = list_item(all.next, struct rxm_inbound, link);

        list_detach(&inbound->link);
        list_attach(&inbound->link, &conn->msgproto.inbounds);
        if (inbound->matched || inbound->discarded)
            rxm_inbound_end(inbound, err);
        else if (inbound->kind != RXM_IN_SAVED)
            inbound->lost = true;
    }
}

/* ---- Packets ---- */

static const char *dispatch(struct rxm_conn *conn, const struct rxm_packet *packet,
                            const uint8_t *payload)
{
    if (packet->conn_id != conn->cm.id && packet->type != RXM_CREDIT)
        return "a packet of another connection";
    switch (packet->type) {
    case RXM_EAGER: return take_eager(conn, packet, payload);
    case RXM_SEGMENT: return take_segment(conn, packet, payload);
    case RXM_RNDV_REQUEST: return take_request(conn, packet, payload);
    case RXM_RNDV_READ: return rxm_rndv_read(conn, packet);
    case RXM_RNDV_PLACE: return rxm_rndv_place(conn, packet, payload);
    case RXM_RNDV_WRITTEN: return rxm_rndv_written(conn, packet);
    case RXM_ATOMIC: return msgproto_atomic_request(conn, packet, payload);
    case RXM_ATOMIC_DONE: return msgproto_atomic_done(conn, packet, payload);
    case RXM_CREDIT:
        return rxm_credit_granted(&conn->msgproto.credit, packet->credits) ? NULL
                                                                           : "too many credits";
    default: return "a packet of an unknown type";
    }
}

void msgproto_packet(struct rxm_conn *conn, const uint8_t *raw, size_t len)
{
    struct rxm_packet packet;
    const char *wrong;

    if (__builtin_expect(conn->msgproto.dead || !list_empty(&conn->msgproto.broken), 0))
        return;
    wrong = rxm_packet_get(raw, len, conn->owner->msgproto->eager_limit, &packet);
    if (!wrong)
        wrong = dispatch(conn, &packet, raw + RXM_PACKET_SIZE);
    if (__builtin_expect(wrong != NULL, 0))
        msgproto_conn_break(conn, wrong);
}

void msgproto_bare(struct rxm_conn *conn, const uint8_t *payload, size_t len, uint64_t tag,
                   const uint64_t *data)
{
    struct rxm_packet packet = {
        .type = RXM_EAGER,
        .op = RXM_OP_TAGGED,
        .has_data = data,
        .size = len,
        .data = data ? *data : 0,
        .tag = tag,
    };
    const char *wrong;

    if (conn->msgproto.dead || !list_empty(&conn->msgproto.broken))
        return;
    wrong = take_eager(conn, &packet, payload);
    if (wrong)
        msgproto_conn_break(conn, wrong);
}

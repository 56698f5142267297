/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous. The request tells the receiver where the message is (the reading flavour), or that it
 * will be written (its key says "none"). The receiver, once it has matched it, reads it and says
 * so, or answers with its memory, into which the sender writes and says so. Nothing is copied.
 *
 *   sender: REQUESTED --read--> end            receiver: reads ... says READ ... delivers
 *           REQUESTED --place--> WRITING              or PLACE ... WRITTEN ... delivers
 *           WRITING --written, says so--> end
 */
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "layers/rxm/rxm_emu.h"

/* rxm_op.state of a sender. */
enum {
    REQUESTED = 2,
    WRITING,
};

/* ---- Moving: one access of the lower after the other ---- */

/*
 * Posts the next piece between op's memory and its places. Pieces end where a place does, where the
 * lower takes no more segments, and at its largest access.
 */
static ssize_t move_piece(struct rxm_op *op, bool read)
{
    struct rxm_emu *emu = op->conn->owner->emu;
    const struct rxm_place *place = &op->places[op->place];
    size_t len = op->len - op->at, count;
    struct iovec iov[RXM_EMU_IOV];
    void *desc[RXM_EMU_IOV];
    struct rxm_op *piece;
    struct fi_rma_iov remote;
    struct fi_msg_rma msg = {.msg_iov = iov,
                             .desc = desc,
                             .addr = FI_ADDR_UNSPEC,
                             .rma_iov = &remote,
                             .rma_iov_count = 1};
    ssize_t rc;

    if (len > place->len - op->place_at)
        len = place->len - op->place_at;
    if (len > emu->lower_max)
        len = emu->lower_max;
    count = rxm_iov_slice(op->iov, op->desc, op->iov_count, op->at, &len, iov, desc,
                          emu->lower_iov < RXM_EMU_IOV ? emu->lower_iov : RXM_EMU_IOV);
    remote = (struct fi_rma_iov){.addr = place->addr + op->place_at, .len = len, .key = place->key};
    piece = rxm_op_child(op);
    if (!piece)
        return -FI_ENOMEM;
    msg.iov_count = count;
    msg.context = &piece->context;
    piece->pending++;
    op->conn->emu.outstanding++;
    rc =
        read ? fi_readmsg(op->conn->ep, &msg, 0) : fi_writemsg(op->conn->ep, &msg, op->lower_flags);
    if (rc) {
        op->conn->emu.outstanding--;
        rxm_op_put(piece);
        op->pending--;
        return rc;
    }
    op->at += len;
    op->place_at += len;
    return 0;
}

static int move(struct rxm_op *op, bool read)
{
    ssize_t rc = 0;

    while (!rc && op->at < op->len) {
        while (op->place < op->place_count && op->place_at == op->places[op->place].len) {
            op->place++;
            op->place_at = 0;
        }
        if (op->place == op->place_count)
            return -FI_EPROTO;
        rc = move_piece(op, read);
    }
    return (int)rc;
}

/* ---- The sender ---- */

static int step_request(struct rxm_op *op)
{
    return (int)rxm_op_send_bytes(op);
}

static int register_message(struct rxm_emu *emu, struct rxm_op *op)
{
    if (emu->write_rndv) {
        for (unsigned i = 0; i < op->iov_count; i++)
            op->places[i] = (struct rxm_place){
                .addr = emu->virt_addr ? (uintptr_t)op->iov[i].iov_base : 0,
                .len = op->iov[i].iov_len,
                .key = RXM_NO_KEY & emu->key_mask,
            };
        return 0;
    }
    return rxm_emu_register(emu, op->iov, op->iov_count, FI_SEND | FI_REMOTE_READ, op->mrs,
                            op->places);
}

static void fill_request(struct rxm_op *op, const struct post *post, size_t len)
{
    struct rxm_link *link = op->conn;

    op->user = post->context;
    op->flags = post->kind;
    op->silent = post->silent;
    op->wanted = !post->silent && report_wanted(link->owner->report.tx_selective, post->flags);
    op->kind = REPORT_SEND;
    op->state = REQUESTED;
    op->len = len;
    op->lower_flags = 0;
    op->packet = (struct rxm_packet){
        .type = RXM_RNDV_REQUEST,
        .op = post->kind & FI_TAGGED ? RXM_OP_TAGGED : RXM_OP_MSG,
        .has_data = post->flags & FI_REMOTE_CQ_DATA,
        .conn_id = link->cm.other.id,
        .msg_id = op->id,
        .size = len,
        .data = post->flags & FI_REMOTE_CQ_DATA ? post->data : 0,
        .tag = post->tag,
    };
    rxm_packet_put(&op->packet, op->bytes);
    rxm_places_put(op->places, op->iov_count, op->bytes + RXM_PACKET_SIZE);
    op->byte_count = RXM_PACKET_SIZE + RXM_PLACES_SIZE;
    op->step = step_request;
}

ssize_t rxm_rndv_send(struct rxm_link *link, const struct post *post, size_t len)
{
    struct rxm_emu *emu = link->owner->emu;
    struct rxm_op *op = rxm_op_get_counted(link);
    ssize_t rc;

    if (!op)
        return -FI_EAGAIN;
    op->iov_count = 0;
    for (size_t i = 0; i < post->count; i++) {
        if (!post->iov[i].iov_len)
            continue;
        op->iov[op->iov_count] = post->iov[i];
        op->desc[op->iov_count++] = post->desc ? post->desc[i] : NULL;
    }
    op->id = rxm_ids_add(&emu->ids, op);
    rc = op->id == UINT64_MAX ? -FI_ENOMEM : register_message(emu, op);
    if (rc) {
        rxm_op_put(op);
        return rc;
    }
    fill_request(op, post, len);
    op->pending++; /* until the answer */
    rc = rxm_op_send_bytes(op);
    if (rc) {
        rxm_op_put(op);
        return rc;
    }
    op->posted = true;
    op->lower_flags =
        post->flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE);
    return 0;
}

/* The rendezvous that a peer's packet is about, or NULL. */
static struct rxm_op *find(struct rxm_link *link, const struct rxm_packet *packet, bool write)
{
    struct rxm_op *op = rxm_ids_find(&link->owner->emu->ids, packet->msg_id);

    if (!op || op->conn != link || op->state != REQUESTED ||
        link->owner->emu->write_rndv != write || op->packet.type != RXM_RNDV_REQUEST)
        return NULL;
    return op;
}

const char *rxm_rndv_read(struct rxm_link *link, const struct rxm_packet *packet)
{
    struct rxm_op *op = find(link, packet, false);

    if (!op)
        return "the end of a rendezvous that there is not";
    op->state = WRITING;
    op->pending--;
    rxm_op_settle(op);
    return NULL;
}

static int step_say_written(struct rxm_op *op)
{
    op->packet = (struct rxm_packet){
        .type = RXM_RNDV_WRITTEN,
        .op = op->packet.op,
        .conn_id = op->conn->cm.other.id,
        .msg_id = op->id,
        .size = op->packet.size,
    };
    rxm_packet_put(&op->packet, op->bytes);
    op->byte_count = RXM_PACKET_SIZE;
    return (int)rxm_op_send_bytes(op);
}

/* All writes have ended. */
static void written(struct rxm_op *op, int err)
{
    op->end = rxm_op_report;
    if (err || op->conn->emu.dead) {
        rxm_op_report(op, err ? err : op->conn->emu.err);
        return;
    }
    op->posted = false;
    op->step = step_say_written;
    rxm_op_start(op);
}

static int step_write(struct rxm_op *op)
{
    return move(op, false);
}

const char *rxm_rndv_place(struct rxm_link *link, const struct rxm_packet *packet,
                           const uint8_t *payload)
{
    struct rxm_op *op = find(link, packet, true);
    uint64_t room;

    if (!op)
        return "memory for a rendezvous that there is not";
    op->place_count = rxm_places_get(payload, op->places);
    if (!op->place_count)
        return "memory for a rendezvous in a wrong number of pieces";
    room = rxm_places_len(op->places, op->place_count);
    if (op->len > room)
        op->len = (size_t)room;
    op->state = WRITING;
    op->at = 0;
    op->place = 0;
    op->place_at = 0;
    op->end = written;
    op->step = step_write;
    op->posted = false;
    op->pending--;
    rxm_op_start(op);
    return NULL;
}

/* ---- The receiver ---- */

static void say_read(struct rxm_inbound *inbound)
{
    struct rxm_packet packet = {
        .type = RXM_RNDV_READ,
        .op = inbound->head.op,
        .msg_id = inbound->head.msg_id,
        .size = inbound->head.size,
    };

    rxm_send_control(inbound->conn, &packet, NULL, 0);
}

/* The payload is where it belongs, or never will be. */
static void finish(struct rxm_inbound *inbound, int err)
{
    struct fi_peer_rx_entry *entry = inbound->discarded ? NULL : inbound->entry;
    struct rxm_link *link = inbound->conn;
    struct rxm_packet head = inbound->head;

    rxm_inbound_put(inbound);
    if (entry)
        rxm_emu_deliver(link, entry, &head, err);
}

static void read_ended(struct rxm_op *op, int err)
{
    struct rxm_inbound *inbound = op->inbound;

    rxm_op_put(op);
    if (!err)
        say_read(inbound);
    finish(inbound, err);
}

static int step_read(struct rxm_op *op)
{
    return move(op, true);
}

static void start_reading(struct rxm_inbound *inbound)
{
    struct rxm_link *link = inbound->conn;
    struct fi_peer_rx_entry *entry = inbound->entry;
    struct rxm_op *op = rxm_op_get(link);

    if (!op || entry->count > RXM_EMU_IOV) {
        if (op)
            rxm_op_put(op);
        rxm_emu_link_break(link, "no memory for a rendezvous");
        finish(inbound, FI_ENOMEM);
        return;
    }
    op->inbound = inbound;
    op->end = read_ended;
    op->step = step_read;
    op->len = inbound->head.size < inbound->room ? inbound->head.size : inbound->room;
    op->iov_count = (unsigned)entry->count;
    memcpy(op->iov, entry->iov, entry->count * sizeof(*entry->iov));
    for (size_t i = 0; i < entry->count; i++)
        op->desc[i] = entry->desc ? entry->desc[i] : NULL;
    op->place_count = inbound->place_count;
    op->place = 0;
    op->place_at = 0;
    memcpy(op->places, inbound->places, sizeof(op->places));
    rxm_op_start(op);
}

/* For a message that nobody wants any more: the sender must have somewhere to write. */
static char nowhere[64];

static void offer_memory(struct rxm_inbound *inbound)
{
    struct rxm_link *link = inbound->conn;
    struct rxm_emu *emu = link->owner->emu;
    struct iovec spare = {.iov_base = nowhere, .iov_len = sizeof(nowhere)};
    const struct fi_peer_rx_entry *entry = inbound->entry;
    bool none = inbound->discarded || !inbound->room;
    struct rxm_place places[RXM_PLACES];
    uint8_t raw[RXM_PLACES_SIZE];
    struct rxm_packet packet = {
        .type = RXM_RNDV_PLACE,
        .op = inbound->head.op,
        .msg_id = inbound->head.msg_id,
        .size = inbound->head.size,
    };
    size_t count = none ? 1 : entry->count;
    int rc = rxm_emu_register(emu, none ? &spare : entry->iov, count, FI_RECV | FI_REMOTE_WRITE,
                              inbound->mrs, places);

    if (rc) {
        rxm_emu_link_break(link, "no memory for a rendezvous");
        finish(inbound, -rc);
        return;
    }
    inbound->mr_count = (unsigned)count;
    list_detach(&inbound->link);
    list_attach(&inbound->link, &link->emu.moving);
    rxm_places_put(places, (unsigned)count, raw);
    rxm_send_control(link, &packet, raw, sizeof(raw));
}

void rxm_rndv_start(struct rxm_inbound *inbound)
{
    if (inbound->conn->emu.dead)
        finish(inbound, inbound->conn->emu.err);
    else if (inbound->kind == RXM_IN_WRITE)
        offer_memory(inbound);
    else if (inbound->discarded) {
        say_read(inbound);
        finish(inbound, 0);
    } else
        start_reading(inbound);
}

const char *rxm_rndv_written(struct rxm_link *link, const struct rxm_packet *packet)
{
    list_for_each (item, &link->emu.moving) {
        struct rxm_inbound *inbound = list_item(item, struct rxm_inbound, link);

        if (inbound->kind != RXM_IN_WRITE || !inbound->mr_count ||
            inbound->head.msg_id != packet->msg_id)
            continue;
        finish(inbound, 0);
        return NULL;
    }
    return "the end of a rendezvous that there is not";
}

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

#include "layers/rxm/msgproto/msgproto.h"

/* rxm_op.state of a sender. */
enum {
    REQUESTED = 2,
    WRITING,
};

/* ---- The sender ---- */

static int register_message(struct msgproto *msgproto, struct rxm_op *op)
{
    if (msgproto->write_rndv) {
        int rc = msgproto->registers ? msgproto_register_local(op, FI_SEND | FI_WRITE) : 0;

        for (unsigned i = 0; !rc && i < op->iov_count; i++)
            op->places[i] = (struct rxm_place){
                .addr = msgproto->virt_addr ? (uintptr_t)op->iov[i].iov_base : 0,
                .len = op->iov[i].iov_len,
                .key = RXM_NO_KEY & msgproto->key_mask,
            };
        return rc;
    }
    return msgproto_register(msgproto, op->iov, op->iov_count, FI_SEND | FI_REMOTE_READ, op->mrs,
                             op->places);
}

static void fill_request(struct rxm_op *op, const struct op *post, size_t len)
{
    struct rxm_conn *conn = op->conn;

    op->user = post->context;
    op->flags = post->kind;
    op->is_inject = op_is_inject(post);
    op->wanted = !op_is_inject(post) &&
                 completion_wanted(conn->owner->base.binding.tx_selective, post->flags);
    op->kind = BIND_SEND;
    op->state = REQUESTED;
    op->len = len;
    op->lower_flags = 0;
    op->packet = (struct rxm_packet){
        .type = RXM_RNDV_REQUEST,
        .op = post->kind & FI_TAGGED ? RXM_OP_TAGGED : RXM_OP_MSG,
        .has_data = post->flags & FI_REMOTE_CQ_DATA,
        .conn_id = conn->cm.other.id,
        .msg_id = op->id,
        .size = len,
        .data = post->flags & FI_REMOTE_CQ_DATA ? post->data : 0,
        .tag = post->kind & FI_TAGGED ? post->tag : 0,
    };
    rxm_packet_put(&op->packet, op->bytes);
    rxm_places_put(op->places, op->iov_count, op->bytes + RXM_PACKET_SIZE);
    op->byte_count = RXM_PACKET_SIZE + RXM_PLACES_SIZE;
    op->step = rxm_op_step_bytes;
}

ssize_t rxm_rndv_send(struct rxm_conn *conn, const struct op *post, size_t len)
{
    struct msgproto *msgproto = conn->owner->msgproto;
    struct rxm_op *op = rxm_op_get_counted(conn);
    ssize_t rc;

    if (!op)
        return -FI_EAGAIN;
    rxm_op_set_memory(op, post->iov, post->desc, post->count);
    op->id = ids_add(&msgproto->ids, op);
    rc = op->id == IDS_NONE ? -FI_ENOMEM : register_message(msgproto, op);
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
    op->flush = msgproto_flushes(msgproto, post->flags);
    op->lower_flags = msgproto_lower_flags(
        msgproto, post->flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE));
    return 0;
}

/* The rendezvous that a peer's packet is about, or NULL. */
static struct rxm_op *find(struct rxm_conn *conn, const struct rxm_packet *packet, bool write)
{
    struct rxm_op *op = ids_find(&conn->owner->msgproto->ids, packet->msg_id);

    if (!op || op->conn != conn || op->state != REQUESTED ||
        conn->owner->msgproto->write_rndv != write || op->packet.type != RXM_RNDV_REQUEST)
        return NULL;
    return op;
}

const char *rxm_rndv_read(struct rxm_conn *conn, const struct rxm_packet *packet)
{
    struct rxm_op *op = find(conn, packet, false);

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
    op->end = op->flush ? msgproto_flush : rxm_op_report;
    if (err || op->conn->msgproto.dead) {
        rxm_op_report(op, err ? err : op->conn->msgproto.err);
        return;
    }
    op->posted = false;
    op->step = step_say_written;
    rxm_op_start(op);
}

static int step_write(struct rxm_op *op)
{
    return msgproto_move(op, false);
}

const char *rxm_rndv_place(struct rxm_conn *conn, const struct rxm_packet *packet,
                           const uint8_t *payload)
{
    struct rxm_op *op = find(conn, packet, true);
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

static void read_ended(struct rxm_op *op, int err)
{
    struct rxm_inbound *inbound = op->inbound;

    rxm_op_put(op);
    if (!err)
        say_read(inbound);
    rxm_inbound_end(inbound, err);
}

static int step_read(struct rxm_op *op)
{
    return msgproto_move(op, true);
}

static int set_target(struct rxm_op *op, const struct fi_peer_rx_entry *entry)
{
    rxm_op_set_memory(op, entry->iov, entry->desc, entry->count);
    return op->conn->owner->msgproto->registers ? msgproto_register_local(op, FI_RECV | FI_READ)
                                                : 0;
}

static void start_reading(struct rxm_inbound *inbound)
{
    struct rxm_conn *conn = inbound->conn;
    struct fi_peer_rx_entry *entry = inbound->entry;
    struct rxm_op *op = entry->count > MSGPROTO_IOV ? NULL : rxm_op_get(conn);
    int rc = op ? set_target(op, entry) : -FI_ENOMEM;

    if (rc) {
        if (op)
            rxm_op_put(op);
        msgproto_conn_break(conn, "no memory for a rendezvous");
        rxm_inbound_end(inbound, -rc);
        return;
    }
    op->inbound = inbound;
    op->end = read_ended;
    op->step = step_read;
    op->len = inbound->head.size < inbound->room ? inbound->head.size : inbound->room;
    op->place_count = inbound->place_count;
    op->place = 0;
    op->place_at = 0;
    memcpy(op->places, inbound->places, sizeof(op->places));
    rxm_op_start(op);
}

/* Target of the write of a discarded message: the sender's protocol needs an address. */
static char nowhere[64];

static void offer_memory(struct rxm_inbound *inbound)
{
    struct rxm_conn *conn = inbound->conn;
    struct msgproto *msgproto = conn->owner->msgproto;
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
    int rc = msgproto_register(msgproto, none ? &spare : entry->iov, count,
                               FI_RECV | FI_REMOTE_WRITE, inbound->mrs, places);

    if (rc) {
        msgproto_conn_break(conn, "no memory for a rendezvous");
        rxm_inbound_end(inbound, -rc);
        return;
    }
    inbound->mr_count = (unsigned)count;
    list_detach(&inbound->link);
    list_attach(&inbound->link, &conn->msgproto.moving);
    rxm_places_put(places, (unsigned)count, raw);
    rxm_send_control(conn, &packet, raw, sizeof(raw));
}

void rxm_rndv_start(struct rxm_inbound *inbound)
{
    if (inbound->conn->msgproto.dead)
        rxm_inbound_end(inbound, inbound->conn->msgproto.err);
    else if (inbound->kind == RXM_IN_WRITE)
        offer_memory(inbound);
    else if (inbound->discarded) {
        say_read(inbound);
        rxm_inbound_end(inbound, 0);
    } else
        start_reading(inbound);
}

const char *rxm_rndv_written(struct rxm_conn *conn, const struct rxm_packet *packet)
{
    list_for_each (item, &conn->msgproto.moving) {
        struct rxm_inbound *inbound = list_item(item, struct rxm_inbound, link);

        if (inbound->kind != RXM_IN_WRITE || !inbound->mr_count ||
            inbound->head.msg_id != packet->msg_id)
            continue;
        rxm_inbound_end(inbound, 0);
        return NULL;
    }
    return "the end of a rendezvous that there is not";
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving half of a reliable connection: executes requests in order, in the process whose
 * memory they reach. Reads, atomics and failures are answered from a queue, so that the data of an
 * earlier read comes before them.
 */
#include <string.h>

#include "context.h"
#include "fault.h"
#include "memory.h"
#include "rc.h"
#include "report.h"

void rc_answer(struct qp *qp, enum wire_kind kind, uint32_t message, uint8_t status)
{
    struct wire_packet packet = qp_packet(qp, &qp->route, qp->attr.dest_qp_num);
    struct link *link = node_link(qp->attr.dest_qp_num >> WIRE_PLACE_BITS);

    packet.kind = (uint8_t)kind;
    packet.message = message;
    packet.status = status;
    if (link)
        link_send(link, &packet, NULL, 0);
}

static void add_response(struct qp *qp, const struct response *response)
{
    struct responder *responder = &qp->responder;

    responder->ring[(responder->head + responder->count++) % RESPONSES] = *response;
}

/* The request is wrong: the peer is told, and this queue pair fails too. */
static void refuse(struct qp *qp, const struct wire_packet *packet, enum wire_nak code)
{
    struct response response = {
        .kind = WIRE_NAK, .message = packet->message, .status = (uint8_t)code};
    enum ibv_event_type event =
        code == WIRE_NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;

    report_why("queue pair %#x: request of kind %d refused with NAK %d", qp->ex.qp_base.qp_num,
               packet->kind, (int)code);
    add_response(qp, &response);
    if (code != WIRE_NAK_OPERATION)
        context_report(qp->ex.qp_base.context, event, qp, 0);
    qp_fail(qp);
}

static void not_through(struct qp *qp, const struct wire_packet *packet)
{
    if (qp->responder.refused)
        return;
    qp->responder.refused = true;
    rc_answer(qp, WIRE_LOST, packet->message, 0);
}

static void not_ready(struct qp *qp, const struct wire_packet *packet)
{
    qp->responder.refused = true;
    qp->responder.offset = 0;
    rc_answer(qp, WIRE_RNR, packet->message, qp->attr.min_rnr_timer);
}

/* True if a receive is there for the message; otherwise the peer has been told to come again. */
static bool have_receive(struct qp *qp, const struct wire_packet *packet)
{
    if (qp->responder.taken)
        return true;
    if (!fault_not_ready(qp->device) && qp_take_receive(qp))
        return true;
    not_ready(qp, packet);
    return false;
}

static void finish_message(struct qp *qp)
{
    qp->responder.expected++;
    qp->responder.offset = 0;
}

static void complete_receive(struct qp *qp, const struct wire_packet *packet,
                             enum ibv_wc_status status)
{
    struct ibv_wc wc = {
        .status = status,
        .opcode = packet->kind == WIRE_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
        .byte_len = packet->total,
        .src_qp = packet->source_qpn,
    };

    if (packet->flags & WIRE_IMMEDIATE) {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        wc.imm_data = packet->immediate;
    }
    qp_complete_receive(qp, &wc, packet->flags & WIRE_SOLICITED);
}

static uint64_t receive_room(const struct responder *responder)
{
    uint64_t room = 0;

    for (int i = 0; i < responder->wr.num_sge; i++)
        room += responder->wr.sges[i].length;
    return room;
}

static void execute_send(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    struct responder *responder = &qp->responder;

    if ((packet->flags & WIRE_FIRST) && !have_receive(qp, packet))
        return;
    if (!responder->taken || packet->offset != responder->offset) {
        not_through(qp, packet);
        return;
    }
    if (packet->total > receive_room(responder)) {
        complete_receive(qp, packet, IBV_WC_LOC_LEN_ERR);
        refuse(qp, packet, WIRE_NAK_REQUEST);
        return;
    }
    if (!qp_scatter(qp, responder->wr.sges, responder->wr.num_sge, packet->offset, payload,
                    packet->length)) {
        complete_receive(qp, packet, IBV_WC_LOC_PROT_ERR);
        refuse(qp, packet, WIRE_NAK_OPERATION);
        return;
    }
    responder->offset += packet->length;
    if (packet->flags & WIRE_LAST) {
        complete_receive(qp, packet, IBV_WC_SUCCESS);
        finish_message(qp);
        rc_answer(qp, WIRE_ACK, packet->message, 0);
    }
}

static bool allowed(const struct qp *qp, unsigned access)
{
    return qp->attr.qp_access_flags & access;
}

static void execute_write(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    struct responder *responder = &qp->responder;
    struct ibv_pd *pd = qp->ex.qp_base.pd;

    if (packet->offset != responder->offset) {
        not_through(qp, packet);
        return;
    }
    if (!allowed(qp, IBV_ACCESS_REMOTE_WRITE)) {
        refuse(qp, packet, WIRE_NAK_REQUEST);
        return;
    }
    /* A write of nothing has no key. */
    if (packet->total > 0) {
        char *at = memory_remote(pd, packet->rkey, packet->remote_address, packet->total,
                                 IBV_ACCESS_REMOTE_WRITE);
        if (!at) {
            refuse(qp, packet, WIRE_NAK_ACCESS);
            return;
        }
        if ((packet->flags & WIRE_LAST) && (packet->flags & WIRE_IMMEDIATE) &&
            !have_receive(qp, packet))
            return;
        memcpy(at + packet->offset, payload, packet->length);
    } else if ((packet->flags & WIRE_IMMEDIATE) && !have_receive(qp, packet)) {
        return;
    }
    responder->offset += packet->length;
    if (packet->flags & WIRE_LAST) {
        if (packet->flags & WIRE_IMMEDIATE)
            complete_receive(qp, packet, IBV_WC_SUCCESS);
        finish_message(qp);
        rc_answer(qp, WIRE_ACK, packet->message, 0);
    }
}

static bool has_place(const struct qp *qp)
{
    unsigned most = qp->attr.max_dest_rd_atomic;

    return qp->responder.count < most && qp->responder.count < RESPONSES - 1;
}

static void execute_read(struct qp *qp, const struct wire_packet *packet)
{
    struct response response = {
        .kind = WIRE_READ_DATA,
        .message = packet->message,
        .rkey = packet->rkey,
        .total = packet->total,
        .address = packet->remote_address,
    };

    if (!allowed(qp, IBV_ACCESS_REMOTE_READ) || !has_place(qp)) {
        refuse(qp, packet, WIRE_NAK_REQUEST);
        return;
    }
    if (packet->total > 0 && !memory_remote(qp->ex.qp_base.pd, packet->rkey, packet->remote_address,
                                            packet->total, IBV_ACCESS_REMOTE_READ)) {
        refuse(qp, packet, WIRE_NAK_ACCESS);
        return;
    }
    add_response(qp, &response);
}

static uint64_t do_atomic(const struct wire_packet *packet, uint64_t *at)
{
    uint64_t before = packet->operand[0];

    if (packet->kind == WIRE_ADD)
        return __atomic_fetch_add(at, packet->operand[0], __ATOMIC_SEQ_CST);
    __atomic_compare_exchange_n(at, &before, packet->operand[1], false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return before;
}

static void execute_atomic(struct qp *qp, const struct wire_packet *packet)
{
    struct responder *responder = &qp->responder;
    struct response response = {.kind = WIRE_ATOMIC_VALUE, .message = packet->message};

    if (!allowed(qp, IBV_ACCESS_REMOTE_ATOMIC) || packet->remote_address % 8 || !has_place(qp)) {
        refuse(qp, packet, WIRE_NAK_REQUEST);
        return;
    }
    uint64_t *at = memory_remote(qp->ex.qp_base.pd, packet->rkey, packet->remote_address, 8,
                                 IBV_ACCESS_REMOTE_ATOMIC);
    if (!at || (uintptr_t)at % 8) {
        refuse(qp, packet, WIRE_NAK_ACCESS);
        return;
    }
    response.value = do_atomic(packet, at);
    unsigned place = responder->atomic_count++ % RESPONSES;
    responder->atomics[place] = packet->message;
    responder->values[place] = response.value;
    add_response(qp, &response);
}

/* Answers an executed request again: a read is done again, an atomic's value is remembered. */
static void repeat(struct qp *qp, const struct wire_packet *packet)
{
    struct responder *responder = &qp->responder;
    struct response response = {.kind = WIRE_ATOMIC_VALUE, .message = packet->message};

    if (packet->kind == WIRE_READ) {
        execute_read(qp, packet);
        return;
    }
    if (packet->kind == WIRE_SEND || packet->kind == WIRE_WRITE) {
        if (packet->flags & WIRE_LAST)
            rc_answer(qp, WIRE_ACK, packet->message, 0);
        return;
    }
    for (unsigned i = 0; i < RESPONSES && i < responder->atomic_count; i++) {
        if (responder->atomics[i] != packet->message || !has_place(qp))
            continue;
        response.value = responder->values[i];
        add_response(qp, &response);
        return;
    }
}

static void report_met(struct qp *qp)
{
    if (qp->responder.met || qp->ex.qp_base.state != IBV_QPS_RTR)
        return;
    qp->responder.met = true;
    context_report(qp->ex.qp_base.context, IBV_EVENT_COMM_EST, qp, 0);
}

void responder_receive(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    struct responder *responder = &qp->responder;
    int32_t ahead = (int32_t)(packet->message - responder->expected);

    if (ahead > 0) {
        not_through(qp, packet);
        return;
    }
    report_met(qp);
    if (ahead < 0) {
        repeat(qp, packet);
    } else {
        if (packet->kind != WIRE_SEND && packet->kind != WIRE_WRITE)
            responder->refused = false;
        else if (packet->flags & WIRE_FIRST) {
            responder->refused = false;
            responder->offset = 0;
        }
        switch (packet->kind) {
        case WIRE_SEND: execute_send(qp, packet, payload); break;
        case WIRE_WRITE: execute_write(qp, packet, payload); break;
        case WIRE_READ: execute_read(qp, packet); break;
        default: execute_atomic(qp, packet); break;
        }
        if (packet->kind != WIRE_SEND && packet->kind != WIRE_WRITE)
            finish_message(qp);
    }
    responder_pump(qp);
}

/* The memory of a read can go away before its data has left. */
static bool fill_read(struct qp *qp, struct response *response, struct wire_packet *packet,
                      struct iovec *piece)
{
    uint32_t left = response->total - response->offset;

    packet->total = response->total;
    packet->offset = response->offset;
    packet->length = left < WIRE_PAYLOAD ? left : WIRE_PAYLOAD;
    if (packet->length == 0)
        return true;
    piece->iov_base =
        memory_remote(qp->ex.qp_base.pd, response->rkey, response->address + response->offset,
                      packet->length, IBV_ACCESS_REMOTE_READ);
    piece->iov_len = packet->length;
    if (piece->iov_base)
        return true;
    packet->total = packet->offset = packet->length = 0;
    response->kind = WIRE_NAK;
    response->status = WIRE_NAK_ACCESS;
    return false;
}

static void send_response(struct qp *qp, struct link *link, struct response *response)
{
    struct wire_packet packet = qp_packet(qp, &qp->route, qp->attr.dest_qp_num);
    struct iovec piece;

    packet.message = response->message;
    packet.operand[0] = response->value;
    if (response->kind == WIRE_READ_DATA && fill_read(qp, response, &packet, &piece))
        response->offset += packet.length;
    packet.kind = (uint8_t)response->kind;
    packet.status = response->status;
    link_send(link, &packet, &piece, packet.length > 0);
    if (response->kind != WIRE_READ_DATA || response->offset == response->total) {
        qp->responder.head = (qp->responder.head + 1) % RESPONSES;
        qp->responder.count--;
    }
}

void responder_pump(struct qp *qp)
{
    struct responder *responder = &qp->responder;

    while (responder->count > 0) {
        struct link *link = node_link(qp->attr.dest_qp_num >> WIRE_PLACE_BITS);
        if (!link) {
            responder->count = 0;
            return;
        }
        if (!link_ready(link)) {
            link_wait(link, &qp->waiter);
            return;
        }
        send_response(qp, link, &responder->ring[responder->head]);
    }
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams in any order. A request leaves when the link takes it, and completes when the
 * receiver answers: in the order of answers, not of posts. One that finds no receive is sent again
 * after a pause, as often as rnr_retry says (7: without end). Packets that have come may be held
 * back until others have overtaken them (WEFT_EMULATOR_MISORDER).
 */
#include <stdlib.h>
#include <string.h>

#include "ah.h"
#include "capture.h"
#include "context.h"
#include "efa.h"
#include "fault.h"
#include "loop.h"
#include "qp.h"
#include "report.h"
#include "settings.h"

enum {
    RNR_PAUSE_NS = 20000,
    LINK_PAUSE_NS = 1000000,
    HELD_NS = 100000, /* that a packet waits to be overtaken, at most */
    PIECES = 64,
    RNR_ENDLESS = 7,
};

/* States of a request: send_wr.srd. */
enum {
    NEW,
    FLYING,
    RESTING, /* for the receiver to be ready */
};

/* ---- Out ---- */

static const struct {
    enum efa_status code;
    enum ibv_wc_status status;
} codes[] = {
    {EFA_OK, IBV_WC_SUCCESS},
    {EFA_FLUSHED, IBV_WC_WR_FLUSH_ERR},
    {EFA_BAD_OPERATION, IBV_WC_LOC_QP_OP_ERR},
    {EFA_BAD_LKEY, IBV_WC_LOC_PROT_ERR},
    {EFA_LOCAL_LENGTH, IBV_WC_LOC_LEN_ERR},
    {EFA_BAD_ADDRESS, IBV_WC_REM_ACCESS_ERR},
    {EFA_ABORTED, IBV_WC_REM_ABORT_ERR},
    {EFA_BAD_QPN, IBV_WC_REM_INV_RD_REQ_ERR},
    {EFA_RNR, IBV_WC_RNR_RETRY_EXC_ERR},
    {EFA_BAD_LENGTH, IBV_WC_REM_INV_REQ_ERR},
    {EFA_MISMATCH, IBV_WC_REM_INV_REQ_ERR},
    {EFA_BAD_STATUS, IBV_WC_BAD_RESP_ERR},
    {EFA_UNRESPONSIVE, IBV_WC_RESP_TIMEOUT_ERR},
    {EFA_UNREACHABLE, IBV_WC_RESP_TIMEOUT_ERR},
    {EFA_UNKNOWN_PEER, IBV_WC_REM_OP_ERR},
};

enum {
    CODES = sizeof(codes) / sizeof(*codes)
};

static enum ibv_wc_status wc_status(unsigned code)
{
    for (size_t i = 0; i < CODES; i++)
        if (codes[i].code == code)
            return codes[i].status;
    return IBV_WC_BAD_RESP_ERR; /* another process sent it */
}

/* The first code that becomes that status. */
static unsigned code_of(enum ibv_wc_status status)
{
    for (size_t i = 0; i < CODES; i++)
        if (codes[i].status == status)
            return codes[i].code;
    return EFA_BAD_OPERATION;
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
    if (!srd_is_rdma(opcode) || !settings()->limits.rdma_opcodes)
        return IBV_WC_SEND;
    return opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
}

static enum counter_op counter_of(enum ibv_wr_opcode opcode)
{
    if (!srd_is_rdma(opcode))
        return COUNTER_SEND;
    return opcode == IBV_WR_RDMA_READ ? COUNTER_READ : COUNTER_WRITE;
}

static void complete(struct qp *qp, struct send_wr *wr, enum ibv_wc_status status, unsigned vendor)
{
    struct requester *requester = &qp->requester;
    struct completion completion = {
        .wc = {.wr_id = wr->wr_id,
               .status = status,
               .vendor_err = vendor,
               .opcode = wc_opcode(wr->opcode),
               .byte_len = wr->length,
               .qp_num = qp->ex.qp_base.qp_num},
        .owner = qp,
        .room = &requester->used,
        .freed = 1,
    };

    if (status != IBV_WC_SUCCESS)
        report_why("queue pair %#x: request %#llx failed with code %u", qp->ex.qp_base.qp_num,
                   (unsigned long long)wr->wr_id, vendor);
    wr->done = true;
    while (requester->head != requester->tail && qp_request(qp, requester->head)->done)
        requester->head++;
    if ((int32_t)(requester->next - requester->head) < 0)
        requester->next = requester->head;
    counter_count(qp, counter_of(wr->opcode), status == IBV_WC_SUCCESS);
    cq_push(cq_of(qp->ex.qp_base.send_cq), &completion, false);
}

static enum ibv_wc_status check(struct qp *qp, const struct send_wr *wr)
{
    struct iovec pieces[PIECES];
    enum ibv_wc_status fault = fault_request(qp->device, wr->opcode);
    unsigned access = 0;

    if (fault != IBV_WC_SUCCESS)
        return fault;
    if (wr->length > (srd_is_rdma(wr->opcode) ? EFA_RDMA : EFA_MTU))
        return IBV_WC_LOC_LEN_ERR;
    if (wr->opcode == IBV_WR_RDMA_READ)
        access = IBV_ACCESS_LOCAL_WRITE;
    return qp_gather(qp, wr, 0, wr->length, access, pieces) < 0 ? IBV_WC_LOC_PROT_ERR
                                                                : IBV_WC_SUCCESS;
}

static void wake(struct timer *timer);

/* The queue pair goes on within that time, or earlier. */
static void wake_within(struct qp *qp, uint64_t pause)
{
    struct timer *timer = &qp->requester.timer;
    uint64_t at = loop_now() + pause;

    timer->fire = wake;
    if (!timer->link.next || list_empty(&timer->link) || timer->at > at)
        loop_set_timer(timer, at);
}

void srd_await_link(struct qp *qp, struct link *link)
{
    link_wait(link, &qp->waiter);
    wake_within(qp, LINK_PAUSE_NS); /* one link alone has the waiter */
}

/* False if the peer's link is full. */
static bool send_request(struct qp *qp, struct send_wr *wr, uint32_t mark)
{
    struct link *link = node_link(wr->remote_qpn >> WIRE_PLACE_BITS);
    struct wire_packet packet = qp_packet(qp, &wr->route, wr->remote_qpn);
    struct iovec pieces[PIECES];
    int count;

    if (!link || qp->device->ports[qp->attr.port_num - 1].down) {
        complete(qp, wr, IBV_WC_RESP_TIMEOUT_ERR, EFA_UNRESPONSIVE);
        return true;
    }
    if (!link_ready(link)) {
        srd_await_link(qp, link);
        return false;
    }
    if (srd_is_rdma(wr->opcode)) {
        wr->srd = FLYING;
        if (srd_rdma_send(qp, wr, mark, link))
            return true;
        wr->srd = NEW;
        return false;
    }
    packet.kind = WIRE_SRD;
    packet.message = mark;
    packet.total = packet.length = wr->length;
    packet.qkey = wr->remote_qkey;
    if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
        packet.flags |= WIRE_IMMEDIATE;
        packet.immediate = wr->immediate;
    }
    count = qp_gather(qp, wr, 0, wr->length, 0, pieces);
    if (*settings()->capture && !wr->rnr_count)
        capture_datagram(wr->route.source_gid, wr->route.target_gid,
                         (uint16_t)efa_number(qp->number), (uint16_t)efa_number(wr->remote_qpn),
                         pieces, count);
    wr->srd = FLYING; /* the answer may be there before the call ends */
    link_send(link, &packet, pieces, count);
    return true;
}

/* False: it waits. */
static bool start(struct qp *qp, struct send_wr *wr, uint32_t mark)
{
    if (!wr->checked)
        wr->failed = check(qp, wr);
    wr->checked = true;
    if (!wr->failed)
        return send_request(qp, wr, mark);
    complete(qp, wr, wr->failed, code_of(wr->failed));
    return true;
}

/* A peer whose link is full, since it does not run, holds up no other one. */
void srd_pump(struct qp *qp)
{
    struct requester *requester = &qp->requester;
    uint32_t first = requester->tail;

    if (qp_public(qp)->state != IBV_QPS_RTS)
        return;
    for (uint32_t mark = requester->next; mark != requester->tail; mark++) {
        struct send_wr *wr = qp_request(qp, mark);

        if (!wr->done && wr->srd == NEW && !start(qp, wr, mark) && first == requester->tail)
            first = mark;
    }
    requester->next = first;
}

static void wake(struct timer *timer)
{
    struct qp *qp = list_item(timer, struct qp, requester.timer);
    struct requester *requester = &qp->requester;

    for (uint32_t mark = requester->head; mark != requester->tail; mark++)
        if (qp_request(qp, mark)->srd == RESTING)
            qp_request(qp, mark)->srd = NEW;
    requester->next = requester->head;
    srd_pump(qp);
}

static void rest(struct qp *qp, struct send_wr *wr)
{
    wr->srd = RESTING;
    wr->rnr_count++;
    wake_within(qp, RNR_PAUSE_NS);
}

static void send_again(struct qp *qp, struct send_wr *wr)
{
    wr->srd = NEW;
    qp->requester.next = qp->requester.head;
    srd_pump(qp);
}

void srd_answered(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    struct requester *requester = &qp->requester;
    enum srd_end end = SRD_ENDS;
    struct send_wr *wr;

    if (packet->message - requester->head >= requester->tail - requester->head)
        return;
    wr = qp_request(qp, packet->message);
    if (wr->done || wr->remote_qpn != packet->source_qpn ||
        (wr->srd != FLYING && !(wr->srd == NEW && wr->begun)))
        return;
    if (srd_is_rdma(wr->opcode))
        end = srd_rdma_answered(qp, wr, packet, payload);
    if (packet->status == EFA_RNR &&
        (qp->attr.rnr_retry == RNR_ENDLESS || wr->rnr_count < qp->attr.rnr_retry))
        rest(qp, wr);
    else if (packet->status || end == SRD_ENDS)
        complete(qp, wr, wc_status(packet->status), packet->status);
    else if (end == SRD_SENDS_AGAIN)
        send_again(qp, wr);
}

void srd_peer_gone(struct qp *qp, unsigned node)
{
    for (uint32_t mark = qp->requester.head; mark != qp->requester.tail; mark++) {
        struct send_wr *wr = qp_request(qp, mark);

        if (!wr->done && wr->srd == FLYING && wr->remote_qpn >> WIRE_PLACE_BITS == node)
            complete(qp, wr, IBV_WC_RESP_TIMEOUT_ERR, EFA_UNRESPONSIVE);
    }
}

/* ---- In ---- */

static void answer_with(const struct wire_packet *packet, struct wire_packet *answer,
                        struct iovec *piece)
{
    struct link *link = node_link(packet->source_qpn >> WIRE_PLACE_BITS);

    answer->message = packet->message;
    answer->source_qpn = packet->target_qpn;
    answer->target_qpn = packet->source_qpn;
    answer->gid_type = packet->gid_type;
    memcpy(answer->source_gid, packet->target_gid, 16);
    memcpy(answer->target_gid, packet->source_gid, 16);
    if (link)
        link_send(link, answer, piece, answer->length > 0);
}

void srd_answer(const struct wire_packet *packet, enum efa_status status)
{
    struct wire_packet answer = {.kind = WIRE_SRD_ANSWER, .status = (uint8_t)status};

    answer_with(packet, &answer, NULL);
}

void srd_answer_data(const struct wire_packet *packet, struct iovec *piece)
{
    struct wire_packet answer = {
        .kind = WIRE_SRD_DATA,
        .total = packet->total,
        .offset = packet->offset,
        .length = (uint32_t)piece->iov_len,
    };

    answer_with(packet, &answer, piece);
}

static uint64_t receive_room(const struct recv_wr *wr)
{
    uint64_t room = 0;

    for (int i = 0; i < wr->num_sge; i++)
        room += wr->sges[i].length;
    return room;
}

/* unsolicited: no receive was taken. */
static void complete_receive(struct qp *qp, const struct wire_packet *packet,
                             enum ibv_wc_status status, bool unsolicited)
{
    bool is_write = packet->kind == WIRE_SRD_WRITE;
    struct completion completion = {
        .owner = qp, .room = &qp->receives.used, .freed = !unsolicited, .unsolicited = unsolicited};
    unsigned ahn = efa_ah_find(qp->ex.qp_base.pd, packet->source_gid);

    completion.wc = (struct ibv_wc){
        .wr_id = unsolicited ? 0 : qp->responder.wr.wr_id,
        .status = status,
        .opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
        .byte_len = is_write ? (uint32_t)packet->operand[0] : packet->length,
        .qp_num = qp->ex.qp_base.qp_num,
        .src_qp = efa_number(packet->source_qpn),
        .slid = (uint16_t)ahn,
    };
    if (packet->flags & WIRE_IMMEDIATE) {
        completion.wc.wc_flags |= IBV_WC_WITH_IMM;
        completion.wc.imm_data = packet->immediate;
    }
    completion.has_gid = ahn == EFA_NO_AHN;
    memcpy(completion.gid, packet->source_gid, sizeof(completion.gid));
    qp->responder.taken = false;
    if (!is_write)
        counter_count(qp, COUNTER_RECV, status == IBV_WC_SUCCESS);
    cq_push(cq_of(qp->ex.qp_base.recv_cq), &completion, false);
}

static void deliver(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    struct responder *responder = &qp->responder;
    enum ibv_wc_status status = IBV_WC_SUCCESS;

    if (qp_public(qp)->state < IBV_QPS_RTR || qp_public(qp)->state == IBV_QPS_ERR ||
        packet->qkey != qp->attr.qkey) {
        srd_answer(packet, EFA_UNRESPONSIVE);
        return;
    }
    if (packet->kind != WIRE_SRD && !(packet->flags & WIRE_IMMEDIATE)) {
        srd_rdma_receive(qp, packet, payload);
        return;
    }
    if (packet->kind == WIRE_SRD_WRITE && !packet->operand[1] == qp->unsolicited) {
        srd_answer(packet, EFA_MISMATCH);
        return;
    }
    if (packet->kind == WIRE_SRD_WRITE && qp->unsolicited) {
        srd_answer(packet, EFA_OK);
        complete_receive(qp, packet, IBV_WC_SUCCESS, true);
        return;
    }
    if (fault_not_ready(qp->device) || !qp_take_receive(qp)) {
        srd_answer(packet, EFA_RNR);
        return;
    }
    if (receive_room(&responder->wr) < packet->length)
        status = IBV_WC_LOC_LEN_ERR;
    else if (!qp_scatter(qp, responder->wr.sges, responder->wr.num_sge, 0, payload, packet->length))
        status = IBV_WC_LOC_PROT_ERR;
    srd_answer(packet, status ? EFA_BAD_LENGTH : EFA_OK);
    complete_receive(qp, packet, status, false);
}

/* ---- Packets that others overtake ---- */

struct held {
    struct list link;
    struct wire_packet packet;
    char payload[];
};

static void deliver_one_of(struct qp *qp)
{
    unsigned skip = settings_random() % qp->held_count;
    struct list *link = qp->held.next;
    struct held *held;

    while (skip--)
        link = link->next;
    held = list_item(link, struct held, link);
    list_detach(link);
    qp->held_count--;
    deliver(qp, &held->packet, held->payload);
    free(held);
}

static void deliver_rest(struct timer *timer)
{
    struct qp *qp = list_item(timer, struct qp, held_timer);

    while (qp->held_count)
        deliver_one_of(qp);
}

void srd_drop_held(struct qp *qp)
{
    loop_unset_timer(&qp->held_timer);
    while (qp->held_count) {
        struct list *link = qp->held.next;
        struct held *held = list_item(link, struct held, link);

        list_detach(link);
        qp->held_count--;
        srd_answer(&held->packet, EFA_BAD_QPN);
        free(held);
    }
}

void srd_receive(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    struct held *held = settings()->misorder > 1 ? malloc(sizeof(*held) + packet->length) : NULL;

    if (!held) {
        deliver(qp, packet, payload);
        return;
    }
    held->packet = *packet;
    if (packet->length)
        memcpy(held->payload, payload, packet->length);
    list_attach(&held->link, &qp->held);
    qp->held_timer.fire = deliver_rest;
    if (!qp->held_count++)
        loop_set_timer(&qp->held_timer, loop_now() + HELD_NS);
    while (qp->held_count >= settings()->misorder)
        deliver_one_of(qp);
    if (!qp->held_count)
        loop_unset_timer(&qp->held_timer);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending half of a reliable connection. Answers acknowledge all requests up to one; a read or
 * an atomic is complete with its own answer. A real device repeats after a silence. Here a silence
 * only means that a process is not running, so the peer says what a device would have lost
 * (WIRE_LOST), and only then the timer runs.
 */
#include <string.h>

#include "context.h"
#include "fault.h"
#include "memory.h"
#include "rc.h"
#include "report.h"
#include "settings.h"

static bool is_atomic(const struct send_wr *wr)
{
    return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_answered(const struct send_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_READ || is_atomic(wr);
}

static void go_back(struct qp *qp, uint32_t mark)
{
    struct requester *requester = &qp->requester;

    for (uint32_t i = mark; i != requester->next; i++) {
        struct send_wr *wr = qp_request(qp, i);
        if (is_answered(wr) && !wr->done)
            requester->reads--;
        wr->received = 0;
    }
    requester->next = mark;
    requester->offset = 0;
    requester->lost = false;
    loop_unset_timer(&requester->timer);
}

/* The retry timer: 4.096 us * 2^timeout. */
static uint64_t retry_time(const struct qp *qp)
{
    return 4096ull << qp->attr.timeout;
}

/* Table 45 of the InfiniBand specification, in units of 10 us. */
static uint64_t not_ready_time(unsigned code)
{
    static const uint16_t units[32] = {65535, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

    return units[code & 31] * 10000ull;
}

static void timer_fires(struct timer *timer)
{
    struct qp *qp = list_item(timer, struct qp, requester.timer);
    struct requester *requester = &qp->requester;

    if (requester->waiting) {
        requester->waiting = false;
        if (requester->lost)
            loop_set_timer(timer, loop_now() + retry_time(qp));
        requester_pump(qp);
        return;
    }
    if (!requester->lost || requester->head == requester->tail)
        return;
    const struct port *port = &qp->device->ports[qp->attr.port_num - 1];

    if (port->down && port->hangs)
        requester->retries++;
    if (requester->retries == 0) {
        qp_complete_send(qp, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    requester->retries--;
    go_back(qp, requester->head);
    requester_pump(qp);
}

static void wait_for(struct qp *qp, uint64_t nanoseconds)
{
    qp->requester.waiting = true;
    qp->requester.timer.fire = timer_fires;
    loop_set_timer(&qp->requester.timer, loop_now() + nanoseconds);
}

void requester_lost(struct qp *qp)
{
    struct requester *requester = &qp->requester;

    if (requester->lost || requester->head == requester->tail)
        return;
    requester->lost = true;
    if (requester->waiting || qp->attr.timeout == 0)
        return;
    requester->timer.fire = timer_fires;
    loop_set_timer(&requester->timer, loop_now() + retry_time(qp));
}

/* The device's check of a request as its turn comes: the status that it fails with. */
static enum ibv_wc_status check(struct qp *qp, const struct send_wr *wr)
{
    struct iovec pieces[64];
    enum ibv_wc_status fault = fault_request(qp->device, wr->opcode);

    if (fault != IBV_WC_SUCCESS)
        return fault;
    if (wr->length > (uint64_t)settings()->limits.max_msg_sz || (is_atomic(wr) && wr->length != 8))
        return IBV_WC_LOC_LEN_ERR;
    if (is_answered(wr) && qp->attr.max_rd_atomic == 0)
        return IBV_WC_LOC_QP_OP_ERR;
    if (wr->opcode == IBV_WR_RDMA_READ && wr->num_sge > settings()->limits.max_sge_rd)
        return IBV_WC_LOC_QP_OP_ERR;
    unsigned access = is_answered(wr) ? IBV_ACCESS_LOCAL_WRITE : 0;
    if (qp_gather(qp, wr, 0, wr->length, access, pieces) < 0)
        return IBV_WC_LOC_PROT_ERR;
    return IBV_WC_SUCCESS;
}

/* Whether the request at `next`, of which nothing has left, may leave. */
static bool may_start(struct qp *qp, const struct send_wr *wr)
{
    const struct requester *requester = &qp->requester;

    if (qp->ex.qp_base.state != IBV_QPS_RTS)
        return false;
    if ((wr->flags & IBV_SEND_FENCE) && requester->reads > 0)
        return false;
    if (is_answered(wr) && qp->attr.max_rd_atomic && requester->reads >= qp->attr.max_rd_atomic)
        return false;
    return true;
}

static enum wire_kind kind_of(const struct send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return WIRE_WRITE;
    case IBV_WR_RDMA_READ: return WIRE_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return WIRE_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return WIRE_ADD;
    default: return WIRE_SEND;
    }
}

/* Sends the next piece of a request; false if its memory is not registered any more. */
static bool send_piece(struct qp *qp, struct link *link, struct send_wr *wr)
{
    struct requester *requester = &qp->requester;
    struct wire_packet packet = qp_packet(qp, &qp->route, qp->attr.dest_qp_num);
    struct iovec pieces[64];
    int count = 0;

    packet.kind = (uint8_t)kind_of(wr);
    packet.message = requester->next + (qp->attr.sq_psn & 0xffffff);
    packet.total = wr->length;
    packet.rkey = wr->rkey;
    packet.remote_address = wr->remote_address;
    packet.operand[0] = wr->operand[0];
    packet.operand[1] = wr->operand[1];
    if (wr->flags & IBV_SEND_SOLICITED)
        packet.flags |= WIRE_SOLICITED;
    if (wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        packet.flags |= WIRE_IMMEDIATE;
        packet.immediate = wr->immediate;
    }
    if (!is_answered(wr)) {
        packet.offset = requester->offset;
        uint32_t left = wr->length - packet.offset;
        packet.length = left < WIRE_PAYLOAD ? left : WIRE_PAYLOAD;
        count = qp_gather(qp, wr, packet.offset, packet.length, 0, pieces);
        if (count < 0)
            return false;
        requester->offset += packet.length;
    }
    if (fault_drop(qp->device))
        requester_lost(qp);
    else
        link_send(link, &packet, pieces, count);
    if (is_answered(wr) || requester->offset == wr->length) {
        requester->reads += is_answered(wr);
        requester->next++;
        requester->offset = 0;
        if ((int32_t)(requester->next - requester->limit) > 0)
            requester->limit = requester->next;
    }
    return true;
}

/* The link to the peer if it takes a packet now. */
static struct link *ready_link(struct qp *qp)
{
    struct link *link = node_link(qp->attr.dest_qp_num >> WIRE_PLACE_BITS);

    if (!link || qp->device->ports[qp->attr.port_num - 1].down) {
        requester_lost(qp);
        return NULL;
    }
    if (!link_ready(link)) {
        link_wait(link, &qp->waiter);
        return NULL;
    }
    return link;
}

/* Whether a fault wants the next packet to wait. */
static bool delayed(struct qp *qp)
{
    uint64_t delay = fault_delay(qp->device);

    if (delay == 0)
        return false;
    wait_for(qp, delay);
    return true;
}

static void report_drained(struct qp *qp)
{
    struct ibv_qp *public = qp_public(qp);

    if (public->state != IBV_QPS_SQD || !qp->attr.en_sqd_async_notify ||
        qp->requester.head != qp->requester.next || qp->requester.offset)
        return;
    qp->attr.en_sqd_async_notify = 0;
    context_report(public->context, IBV_EVENT_SQ_DRAINED, qp, 0);
}

void requester_pump(struct qp *qp)
{
    struct requester *requester = &qp->requester;

    if (qp->ex.qp_base.state == IBV_QPS_ERR && requester->head != requester->tail) {
        qp_fail(qp);
        return;
    }
    while (requester->next != requester->tail && !requester->waiting) {
        struct send_wr *wr = qp_request(qp, requester->next);
        if (requester->offset == 0 && !wr->failed && !may_start(qp, wr))
            break;
        if (!wr->checked) {
            wr->checked = true;
            wr->failed = check(qp, wr);
        }
        if (wr->failed) {
            if (requester->head == requester->next)
                qp_complete_send(qp, wr->failed);
            break;
        }
        struct link *link = ready_link(qp);
        if (!link || delayed(qp))
            break;
        if (!send_piece(qp, link, wr))
            wr->failed = IBV_WC_LOC_PROT_ERR;
    }
    report_drained(qp);
}

/* Where `message` is: among what has been sent, a piece of it at least, and is not complete. */
static bool find_mark(const struct qp *qp, const struct wire_packet *packet, uint32_t *mark)
{
    const struct requester *requester = &qp->requester;
    uint32_t begun = requester->limit - requester->head;
    bool refusal =
        packet->kind == WIRE_LOST || packet->kind == WIRE_RNR || packet->kind == WIRE_NAK;

    *mark = packet->message - (qp->attr.sq_psn & 0xffffff);
    if (refusal && requester->next == requester->limit && requester->offset)
        begun++;
    return *mark - requester->head < begun;
}

/* All requests before `mark` have been executed. */
static void acknowledge_before(struct qp *qp, uint32_t mark)
{
    struct requester *requester = &qp->requester;

    /* Executed requests need not be repeated. */
    while ((int32_t)(mark - requester->next) > 0) {
        const struct send_wr *wr = qp_request(qp, requester->next++);
        requester->reads += is_answered(wr) && !wr->done;
        requester->offset = 0;
    }
    for (uint32_t i = requester->head; i != mark; i++)
        if (!is_answered(qp_request(qp, i)))
            qp_request(qp, i)->done = true;
    if (requester->head != mark) {
        requester->retries = qp->attr.retry_cnt;
        requester->rnr_retries = qp->attr.rnr_retry;
    }
    /* Behind a read whose answer was awaited there may be some that are acknowledged already. */
    while (requester->head != requester->next && qp_request(qp, requester->head)->done)
        qp_complete_send(qp, IBV_WC_SUCCESS);
    if (requester->head == requester->next && requester->offset == 0 && requester->lost) {
        requester->lost = false;
        if (!requester->waiting)
            loop_unset_timer(&requester->timer);
    }
}

static void finish_answered(struct qp *qp, uint32_t mark)
{
    struct send_wr *wr = qp_request(qp, mark);

    if (!wr->done)
        qp->requester.reads -= (int32_t)(mark - qp->requester.next) < 0;
    wr->done = true;
    acknowledge_before(qp, mark + 1);
}

static void take_answer(struct qp *qp, uint32_t mark, const struct wire_packet *packet,
                        const void *payload)
{
    struct send_wr *wr = qp_request(qp, mark);
    bool is_value = packet->kind == WIRE_ATOMIC_VALUE;
    const void *bytes = is_value ? (const void *)&packet->operand[0] : payload;
    uint32_t length = is_value ? 8 : packet->length;

    if (!is_answered(wr) || is_value != is_atomic(wr) || wr->done)
        return;
    if (!is_value && (packet->total != wr->length || packet->offset != wr->received))
        return;
    acknowledge_before(qp, mark);
    if (qp->requester.head != mark)
        return;
    if (!qp_scatter(qp, wr->sges, wr->num_sge, wr->received, bytes, length)) {
        qp_complete_send(qp, IBV_WC_LOC_PROT_ERR);
        return;
    }
    wr->received += length;
    if (wr->received == wr->length)
        finish_answered(qp, mark);
}

static void take_failure(struct qp *qp, uint32_t mark, unsigned code)
{
    static const enum ibv_wc_status statuses[WIRE_NAKS] = {
        [WIRE_NAK_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
        [WIRE_NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR,
        [WIRE_NAK_OPERATION] = IBV_WC_REM_OP_ERR,
    };

    acknowledge_before(qp, mark);
    if (qp->requester.head == mark)
        qp_complete_send(qp, statuses[code]);
}

static void take_not_ready(struct qp *qp, uint32_t mark, unsigned code)
{
    struct requester *requester = &qp->requester;

    acknowledge_before(qp, mark);
    /* 7 means without end. */
    if (qp->attr.rnr_retry != 7) {
        if (requester->rnr_retries == 0) {
            if (requester->head == mark)
                qp_complete_send(qp, IBV_WC_RNR_RETRY_EXC_ERR);
            return;
        }
        requester->rnr_retries--;
    }
    go_back(qp, mark);
    wait_for(qp, not_ready_time(code));
}

void requester_receive(struct qp *qp, const struct wire_packet *packet, const void *payload)
{
    uint32_t mark;

    if (qp->ex.qp_base.state != IBV_QPS_RTS && qp->ex.qp_base.state != IBV_QPS_SQD)
        return;
    if (!find_mark(qp, packet, &mark))
        return;
    switch (packet->kind) {
    case WIRE_LOST: requester_lost(qp); break;
    case WIRE_ACK: acknowledge_before(qp, mark + 1); break;
    case WIRE_NAK: take_failure(qp, mark, packet->status); break;
    case WIRE_RNR: take_not_ready(qp, mark, packet->status); break;
    default: take_answer(qp, mark, packet, payload); break;
    }
    requester_pump(qp);
}

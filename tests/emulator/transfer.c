/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by requester, responder and datagrams: segments, completions, and the end of it all. */
#include <string.h>

#include "context.h"
#include "efa.h"
#include "memory.h"
#include "qp.h"
#include "rc.h"
#include "report.h"

struct send_wr *qp_request(struct qp *qp, uint32_t mark)
{
    return &qp->requester.ring[mark % qp->requester.size];
}

int qp_gather(struct qp *qp, const struct send_wr *wr, uint32_t offset, uint32_t length,
              unsigned access, struct iovec *pieces)
{
    int count = 0;

    if (wr->flags & IBV_SEND_INLINE) {
        pieces[0].iov_base = wr->inlined + offset;
        pieces[0].iov_len = length;
        return length > 0;
    }
    for (int i = 0; i < wr->num_sge && length > 0; i++) {
        const struct ibv_sge *sge = &wr->sges[i];
        if (offset >= sge->length) {
            offset -= sge->length;
            continue;
        }
        uint32_t part = sge->length - offset < length ? sge->length - offset : length;
        void *at = memory_local(qp->ex.qp_base.pd, sge->lkey, sge->addr + offset, part, access);
        if (!at)
            return -1;
        pieces[count].iov_base = at;
        pieces[count++].iov_len = part;
        length -= part;
        offset = 0;
    }
    return count;
}

bool qp_scatter(struct qp *qp, const struct ibv_sge *sges, int count, uint32_t offset,
                const void *bytes, uint32_t length)
{
    const char *from = bytes;

    for (int i = 0; i < count && length > 0; i++) {
        if (offset >= sges[i].length) {
            offset -= sges[i].length;
            continue;
        }
        uint32_t part = sges[i].length - offset < length ? sges[i].length - offset : length;
        void *at = memory_local(qp->ex.qp_base.pd, sges[i].lkey, sges[i].addr + offset, part,
                                IBV_ACCESS_LOCAL_WRITE);
        if (!at)
            return false;
        memcpy(at, from, part);
        from += part;
        length -= part;
        offset = 0;
    }
    return length == 0;
}

struct wire_packet qp_packet(const struct qp *qp, const struct route *route, uint32_t target_qpn)
{
    struct wire_packet packet = {
        .source_qpn = qp->number,
        .target_qpn = target_qpn,
        .gid_type = route->gid_type,
        .pkey = 0xffff,
    };

    memcpy(packet.source_gid, route->source_gid, 16);
    memcpy(packet.target_gid, route->target_gid, 16);
    return packet;
}

static enum ibv_wc_opcode completion_opcode(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
    default: return IBV_WC_SEND;
    }
}

/* Completes the oldest request, and leaves the state of the queue pair as it is. */
static void complete_first(struct qp *qp, enum ibv_wc_status status)
{
    struct requester *requester = &qp->requester;
    const struct send_wr *wr = qp_request(qp, requester->head);

    requester->head++;
    requester->unsignaled++;
    if ((int32_t)(requester->next - requester->head) < 0) {
        requester->next = requester->head;
        requester->offset = 0;
    }
    if (status == IBV_WC_SUCCESS && !qp->sq_sig_all && !(wr->flags & IBV_SEND_SIGNALED))
        return;
    struct completion completion = {
        .wc = {.wr_id = wr->wr_id,
               .status = status,
               .opcode = completion_opcode(wr->opcode),
               .byte_len = wr->length,
               .qp_num = qp->ex.qp_base.qp_num},
        .owner = qp,
        .room = &requester->used,
        .freed = requester->unsignaled,
    };
    requester->unsignaled = 0;
    cq_push(cq_of(qp->ex.qp_base.send_cq), &completion, false);
}

static void flush_sends(struct qp *qp)
{
    struct requester *requester = &qp->requester;

    loop_unset_timer(&requester->timer);
    requester->lost = requester->waiting = false;
    requester->reads = 0;
    while (requester->head != requester->tail) {
        if (qp->ex.qp_base.qp_type == IBV_QPT_DRIVER && qp_request(qp, requester->head)->done)
            requester->head++; /* it has completed out of order */
        else
            complete_first(qp, IBV_WC_WR_FLUSH_ERR);
    }
    requester->next = requester->limit = requester->tail;
    requester->offset = 0;
}

void qp_complete_send(struct qp *qp, enum ibv_wc_status status)
{
    struct ibv_qp *public = qp_public(qp);

    if (status == IBV_WC_SUCCESS) {
        complete_first(qp, status);
        return;
    }
    report_why("queue pair %#x: request %#llx failed with status %d", public->qp_num,
               (unsigned long long)qp_request(qp, qp->requester.head)->wr_id, (int)status);
    complete_first(qp, status);
    if (public->qp_type == IBV_QPT_UD) {
        public->state = IBV_QPS_SQE;
        flush_sends(qp);
    } else {
        qp_fail(qp);
    }
}

bool qp_take_receive(struct qp *qp)
{
    struct responder *responder = &qp->responder;
    struct ibv_srq *srq = qp->ex.qp_base.srq;
    const struct recv_wr *wr = srq ? srq_take(srq_of(srq)) : recv_queue_take(&qp->receives);

    if (!wr)
        return false;
    responder->wr = *wr;
    responder->wr.sges = responder->sges;
    memcpy(responder->sges, wr->sges, (size_t)wr->num_sge * sizeof(*wr->sges));
    responder->taken = true;
    return true;
}

void qp_complete_receive(struct qp *qp, struct ibv_wc *wc, bool solicited)
{
    struct ibv_srq *srq = qp->ex.qp_base.srq;
    struct completion completion = {
        .owner = qp,
        .room = srq ? &srq_of(srq)->queue.used : &qp->receives.used,
        .freed = 1,
    };

    wc->wr_id = qp->responder.wr.wr_id;
    wc->qp_num = qp->ex.qp_base.qp_num;
    completion.wc = *wc;
    qp->responder.taken = false;
    cq_push(cq_of(qp->ex.qp_base.recv_cq), &completion, solicited);
}

static void flush_receives(struct qp *qp)
{
    struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV};

    if (qp->responder.taken)
        qp_complete_receive(qp, &wc, false);
    while (!qp->ex.qp_base.srq && qp_take_receive(qp))
        qp_complete_receive(qp, &wc, false);
    qp->responder.offset = 0;
}

void qp_fail(struct qp *qp)
{
    struct ibv_qp *public = qp_public(qp);
    bool was_failed = public->state == IBV_QPS_ERR;

    public->state = IBV_QPS_ERR;
    flush_sends(qp);
    flush_receives(qp);
    if (!was_failed && public->srq)
        context_report(public->context, IBV_EVENT_QP_LAST_WQE_REACHED, qp, 0);
}

void qp_reset(struct qp *qp)
{
    struct ibv_qp *public = qp_public(qp);
    struct requester *requester = &qp->requester;
    struct responder *responder = &qp->responder;

    public->state = IBV_QPS_RESET;
    srd_drop_held(qp);
    loop_unset_timer(&requester->timer);
    if (qp->waiter.link.next)
        list_detach(&qp->waiter.link);
    cq_purge(cq_of(public->send_cq), qp);
    cq_purge(cq_of(public->recv_cq), qp);
    if (responder->taken && public->srq)
        srq_of(public->srq)->queue.used--;
    requester->head = requester->next = requester->tail = requester->limit = 0;
    requester->offset = requester->used = requester->unsignaled = requester->reads = 0;
    requester->lost = requester->waiting = false;
    responder->taken = responder->refused = responder->met = false;
    responder->offset = responder->head = responder->count = responder->atomic_count = 0;
    recv_queue_clear(&qp->receives);
}

void qp_pump(struct qp *qp)
{
    if (qp->ex.qp_base.qp_type == IBV_QPT_UD) {
        datagram_pump(qp);
        return;
    }
    if (qp->ex.qp_base.qp_type == IBV_QPT_DRIVER) {
        srd_pump(qp);
        return;
    }
    responder_pump(qp);
    requester_pump(qp);
}

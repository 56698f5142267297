/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_post_send and ibv_post_recv: mistakes of the call itself are refused here; mistakes that a
 * device finds later (keys, sizes, the state of the peer) become a completion.
 */
#include <errno.h>
#include <string.h>

#include "ah.h"
#include "context.h"
#include "efa.h"
#include "loop.h"
#include "operations.h"
#include "report.h"
#include "settings.h"

static bool is_datagram(const struct qp *qp)
{
    return qp->ex.qp_base.qp_type != IBV_QPT_RC;
}

static bool opcode_known(const struct qp *qp, enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM: return true;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
        if (qp->ex.qp_base.qp_type == IBV_QPT_DRIVER)
            return qp->extended && settings()->limits.rdma;
        return !is_datagram(qp);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return !is_datagram(qp);
    default: return false;
    }
}

static const char *fault_of(const struct qp *qp, const struct send_wr *wr)
{
    unsigned known = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
    bool is_read = wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                   wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

    if (!opcode_known(qp, wr->opcode))
        return "an opcode that this type does not have";
    if (wr->flags & ~known)
        return "unknown flags";
    if ((wr->flags & IBV_SEND_INLINE) && is_read)
        return "inline data of a request that brings data";
    if (qp->device->efa && wr->flags & ~(unsigned)(IBV_SEND_INLINE | IBV_SEND_SIGNALED))
        return "other flags than signaled and inline";
    if (qp->device->efa && srd_is_rdma(wr->opcode) && wr->num_sge > EFA_SGE_RDMA)
        return "more segments than a read or write has";
    if (qp->device->efa && !qp->sq_sig_all && !(wr->flags & IBV_SEND_SIGNALED))
        return "a request that is not signaled";
    if ((wr->flags & IBV_SEND_FENCE) && is_datagram(qp))
        return "a fence on datagrams";
    if (is_datagram(qp) && wr->remote_qpn >> WIRE_QPN_BITS)
        return "a remote_qpn of more than 24 bits";
    return NULL;
}

int post_check(const struct qp *qp, const struct send_wr *wr)
{
    const struct ibv_qp *public = &qp->ex.qp_base;
    const char *fault = fault_of(qp, wr);

    if (public->state < IBV_QPS_RTS)
        fault = "the state is before RTS";
    if (!fault)
        return 0;
    report_why("post_send on %#x, opcode %d: %s", public->qp_num, (int)wr->opcode, fault);
    return EINVAL;
}

struct send_wr *post_place(struct qp *qp)
{
    struct requester *requester = &qp->requester;

    if (requester->used == requester->size ||
        requester->tail - requester->head == requester->size) {
        report_why("post_send on %#x: all %u places are taken", qp->ex.qp_base.qp_num,
                   requester->size);
        return NULL;
    }
    return qp_request(qp, requester->tail);
}

void post_commit(struct qp *qp)
{
    struct send_wr *wr = qp_request(qp, qp->requester.tail);

    wr->done = wr->checked = false;
    wr->failed = IBV_WC_SUCCESS;
    wr->received = 0;
    wr->srd = wr->rnr_count = 0;
    wr->sent = wr->out = 0;
    wr->begun = wr->told = false;
    qp->requester.tail++;
    qp->requester.used++;
}

static int take_segments(const struct qp *qp, struct send_wr *wr, const struct ibv_send_wr *from)
{
    uint64_t length = 0;

    if (from->num_sge < 0 || (uint32_t)from->num_sge > qp->cap.max_send_sge) {
        report_why("post_send: %d segments, at most %u", from->num_sge, qp->cap.max_send_sge);
        return EINVAL;
    }
    for (int i = 0; i < from->num_sge; i++)
        length += from->sg_list[i].length;
    wr->num_sge = from->num_sge;
    wr->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
    if (!(wr->flags & IBV_SEND_INLINE)) {
        if (from->num_sge)
            memcpy(wr->sges, from->sg_list, (size_t)from->num_sge * sizeof(*wr->sges));
        return 0;
    }
    if (length > qp->cap.max_inline_data) {
        report_why("post_send: %llu bytes inline, at most %u", (unsigned long long)length,
                   qp->cap.max_inline_data);
        return EINVAL;
    }
    uint8_t *to = wr->inlined;
    for (int i = 0; i < from->num_sge; i++) {
        if (from->sg_list[i].length)
            memcpy(to, (const void *)(uintptr_t)from->sg_list[i].addr, from->sg_list[i].length);
        to += from->sg_list[i].length;
    }
    return 0;
}

static int take_target(const struct qp *qp, struct send_wr *wr, const struct ibv_send_wr *from)
{
    if (is_datagram(qp)) {
        if (!from->wr.ud.ah) {
            report_why("post_send: a datagram without address handle");
            return EINVAL;
        }
        const struct address_handle *ah = ah_of(from->wr.ud.ah);
        memcpy(wr->route.source_gid, &ah->source.gid, 16);
        memcpy(wr->route.target_gid, &ah->attr.grh.dgid, 16);
        wr->route.gid_type = (uint8_t)ah->source.gid_type;
        wr->remote_qpn = from->wr.ud.remote_qpn;
        if (qp->device->efa)
            wr->remote_qpn = efa_wire_number(wr->remote_qpn);
        wr->remote_qkey = from->wr.ud.remote_qkey;
    } else if (from->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
               from->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->remote_address = from->wr.atomic.remote_addr;
        wr->rkey = from->wr.atomic.rkey;
        wr->operand[0] = from->wr.atomic.compare_add;
        wr->operand[1] = from->wr.atomic.swap;
    } else {
        wr->remote_address = from->wr.rdma.remote_addr;
        wr->rkey = from->wr.rdma.rkey;
    }
    return 0;
}

static int post_one(struct qp *qp, const struct ibv_send_wr *from)
{
    struct send_wr *wr = post_place(qp);

    if (!wr)
        return ENOMEM;
    wr->wr_id = from->wr_id;
    wr->opcode = from->opcode;
    wr->flags = from->send_flags;
    wr->immediate = from->imm_data;
    int rc = take_target(qp, wr, from);
    /* The driver has reads and writes by ibv_wr_* alone. */
    if (!rc && qp->device->efa && srd_is_rdma(wr->opcode))
        rc = EINVAL;
    if (!rc)
        rc = post_check(qp, wr);
    if (!rc)
        rc = take_segments(qp, wr, from);
    if (!rc)
        post_commit(qp);
    return rc;
}

int post_send(struct ibv_qp *public, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct qp *qp = qp_of(public);
    int rc = 0;

    loop_lock();
    for (; wr && !rc; wr = rc ? wr : wr->next)
        rc = post_one(qp, wr);
    if (rc)
        *bad = wr;
    qp_pump(qp);
    loop_unlock();
    return rc;
}

int post_recv(struct ibv_qp *public, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct qp *qp = qp_of(public);
    int rc = 0;

    loop_lock();
    if (public->state == IBV_QPS_RESET || public->srq) {
        report_why("post_recv on %#x: %s", public->qp_num,
                   public->srq ? "it has a shared receive queue" : "the state is RESET");
        *bad = wr;
        rc = EINVAL;
    } else {
        rc = recv_queue_post(&qp->receives, wr, bad);
        if (public->state == IBV_QPS_ERR)
            qp_fail(qp);
    }
    loop_unlock();
    return rc;
}

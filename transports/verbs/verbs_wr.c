/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_wr.h"

#include "core/base/log.h"
#include "transports/verbs/verbs_atomic.h"
#include "transports/verbs/verbs_ep.h"

enum {
    SEGMENTS = 16, /* of an operation: the most that a parameter allows */
    NO_VENDOR = 0xffffff,
};

static struct ibv_pd *pd_of(const struct verbs_ep *ep)
{
    return ep->cq->pd ? ep->cq->pd : ep->domain->pd;
}

static struct ibv_qp *create_extended(struct verbs_ep *ep, const struct ibv_qp_init_attr *attr)
{
    struct ibv_context *context = ep->domain->device->context;
    struct verbs_context *extended = verbs_get_ctx_op(context, create_qp_ex);
    struct ibv_qp_init_attr_ex wanted = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd_of(ep),
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ,
    };

    /* rdma_rxe is of no vendor. By ibv_wr_* of rdma-core 44 messages of several segments arrive
     * from it with another length than they were sent with. */
    if (!extended || !verbs_lib.qp_to_qp_ex || ep->domain->device->attr.vendor_id == NO_VENDOR)
        return NULL;
    if (verbs_has_atomics(ep->domain->device))
        wanted.send_ops_flags |=
            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    return extended->create_qp_ex(context, &wanted);
}

int verbs_wr_create_qp(struct verbs_ep *ep, struct ibv_qp_init_attr *attr)
{
    ep->qp_ex = NULL;
    ep->qp = create_extended(ep, attr);
    if (ep->qp)
        ep->qp_ex = verbs_lib.qp_to_qp_ex(ep->qp);
    else
        ep->qp = verbs_lib.create_qp(pd_of(ep), attr);
    if (!ep->qp)
        return verbs_error(-1);
    LOG_INFO("verbs", FI_LOG_EP_CTRL, "%s takes requests by %s", ep->domain->device->name,
             ep->qp_ex ? "ibv_wr_*" : "ibv_post_send");
    return 0;
}

/* Starts a request: what it does, and where. */
static void begin(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_SEND: ibv_wr_send(qp); break;
    case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(qp, wr->imm_data); break;
    case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr); break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        ibv_wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
        break;
    case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr); break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
                              wr->wr.atomic.compare_add, wr->wr.atomic.swap);
        break;
    default:
        ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
                                wr->wr.atomic.compare_add);
    }
}

static void set_inlined(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
    struct ibv_data_buf bufs[SEGMENTS];

    for (int i = 0; i < wr->num_sge; i++)
        bufs[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)wr->sg_list[i].addr,
                                        .length = wr->sg_list[i].length};
    ibv_wr_set_inline_data_list(qp, (size_t)wr->num_sge, bufs);
}

static void set_data(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
    const struct ibv_sge *sge = wr->sg_list;

    if (wr->num_sge == 1 && wr->send_flags & IBV_SEND_INLINE)
        ibv_wr_set_inline_data(qp, (void *)(uintptr_t)sge->addr, sge->length);
    else if (wr->send_flags & IBV_SEND_INLINE)
        set_inlined(qp, wr);
    else if (wr->num_sge == 1)
        ibv_wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
    else
        ibv_wr_set_sge_list(qp, (size_t)wr->num_sge, sge);
}

int verbs_wr_post(struct verbs_ep *ep, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct ibv_qp_ex *qp = ep->qp_ex;
    int rc;

    if (!qp)
        return ibv_post_send(ep->qp, wr, bad);
    *bad = wr;
    ibv_wr_start(qp);
    for (; wr; wr = wr->next) {
        qp->wr_id = wr->wr_id;
        qp->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE; /* set_data says that */
        begin(qp, wr);
        set_data(qp, wr);
    }
    rc = ibv_wr_complete(qp);
    return rc < 0 ? -verbs_error(rc) : rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The second way to poll: one completion after the other, each field by a call. */
#include <errno.h>

#include "loop.h"
#include "operations.h"

static struct cq *of_extended(struct ibv_cq_ex *cq)
{
    return list_item(cq, struct cq, ex);
}

static int take(struct cq *cq)
{
    loop_lock();
    if (cq->count == 0)
        loop_turn_idle();
    bool taken = cq_take(cq, &cq->current);
    loop_unlock();
    if (!taken)
        return ENOENT;
    cq->ex.wr_id = cq->current.wc.wr_id;
    cq->ex.status = cq->current.wc.status;
    return 0;
}

static int start_poll(struct ibv_cq_ex *public, struct ibv_poll_cq_attr *attr)
{
    struct cq *cq = of_extended(public);

    if (attr->comp_mask)
        return EINVAL;
    pthread_mutex_lock(&cq->polling);
    int rc = take(cq);
    if (rc)
        pthread_mutex_unlock(&cq->polling);
    return rc;
}

static int next_poll(struct ibv_cq_ex *cq)
{
    return take(of_extended(cq));
}

static void end_poll(struct ibv_cq_ex *cq)
{
    pthread_mutex_unlock(&of_extended(cq)->polling);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.vendor_err;
}

static unsigned read_wc_flags(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.wc_flags;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.src_qp;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
    return of_extended(cq)->current.wc.dlid_path_bits;
}

/* A field that was not asked for has no reader, as with devices. */
void cq_fill_extended(struct cq *cq, uint64_t fields)
{
    struct ibv_cq_ex *ex = &cq->ex;

    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_wc_flags = read_wc_flags;
    if (fields & IBV_WC_EX_WITH_BYTE_LEN)
        ex->read_byte_len = read_byte_len;
    if (fields & IBV_WC_EX_WITH_IMM)
        ex->read_imm_data = read_imm_data;
    if (fields & IBV_WC_EX_WITH_QP_NUM)
        ex->read_qp_num = read_qp_num;
    if (fields & IBV_WC_EX_WITH_SRC_QP)
        ex->read_src_qp = read_src_qp;
    if (fields & IBV_WC_EX_WITH_SLID)
        ex->read_slid = read_slid;
    if (fields & IBV_WC_EX_WITH_SL)
        ex->read_sl = read_sl;
    if (fields & IBV_WC_EX_WITH_DLID_PATH_BITS)
        ex->read_dlid_path_bits = read_dlid_path_bits;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The second way to post: a request is a call for its operation, then calls that complete it. They
 * are staged, so that wr_abort takes all of them back. */
#include <errno.h>
#include <string.h>

#include "ah.h"
#include "device.h"
#include "efa.h"
#include "loop.h"
#include "operations.h"
#include "report.h"
#include "settings.h"

static struct qp *of_extended(struct ibv_qp_ex *qp)
{
    return list_item(qp, struct qp, ex);
}

static struct send_wr *begin(struct ibv_qp_ex *public, enum ibv_wr_opcode opcode)
{
    struct qp *qp = of_extended(public);

    if (qp->staged_count == qp->requester.size) {
        qp->staged_error = ENOMEM;
        /* The calls that follow fill in the last one again; wr_complete refuses all. */
        qp->staged_count -= qp->staged_count > 0;
    }
    struct send_wr *wr = &qp->staged[qp->staged_count++];
    wr->wr_id = public->wr_id;
    wr->flags = public->wr_flags & ~(unsigned)IBV_SEND_INLINE;
    wr->opcode = opcode;
    wr->num_sge = 0;
    wr->length = 0;
    wr->remote_qpn = 0;
    return wr;
}

static struct send_wr *current(struct ibv_qp_ex *public)
{
    struct qp *qp = of_extended(public);

    if (qp->staged_count == 0) {
        report_why("wr_set_* before an operation");
        qp->staged_error = EINVAL;
        return &qp->staged[0];
    }
    return &qp->staged[qp->staged_count - 1];
}

static void wr_remote(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
                      uint64_t address)
{
    struct send_wr *wr = begin(qp, opcode);

    wr->rkey = rkey;
    wr->remote_address = address;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address,
                              uint64_t compare, uint64_t swap)
{
    wr_remote(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address);
    current(qp)->operand[0] = compare;
    current(qp)->operand[1] = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, uint64_t add)
{
    wr_remote(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address);
    current(qp)->operand[0] = add;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address)
{
    wr_remote(qp, IBV_WR_RDMA_READ, rkey, address);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address)
{
    wr_remote(qp, IBV_WR_RDMA_WRITE, rkey, address);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, __be32 value)
{
    wr_remote(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address);
    current(qp)->immediate = value;
}

static void wr_send(struct ibv_qp_ex *qp)
{
    begin(qp, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 value)
{
    begin(qp, IBV_WR_SEND_WITH_IMM)->immediate = value;
}

static void wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *public, uint32_t qpn, uint32_t qkey)
{
    struct send_wr *wr = current(qp);
    const struct address_handle *ah = ah_of(public);

    memcpy(wr->route.source_gid, &ah->source.gid, 16);
    memcpy(wr->route.target_gid, &ah->attr.grh.dgid, 16);
    wr->route.gid_type = (uint8_t)ah->source.gid_type;
    wr->remote_qpn = of_extended(qp)->device->efa ? efa_wire_number(qpn) : qpn;
    wr->remote_qkey = qkey;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *public, size_t count,
                                    const struct ibv_data_buf *buffers)
{
    struct qp *qp = of_extended(public);
    struct send_wr *wr = current(public);
    size_t length = 0;

    wr->flags |= IBV_SEND_INLINE;
    for (size_t i = 0; i < count; i++) {
        if (length + buffers[i].length > qp->cap.max_inline_data) {
            report_why("wr_set_inline_data: more than %u bytes", qp->cap.max_inline_data);
            qp->staged_error = EINVAL;
            return;
        }
        if (buffers[i].length)
            memcpy(wr->inlined + length, buffers[i].addr, buffers[i].length);
        length += buffers[i].length;
    }
    wr->length = (uint32_t)length;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *address, size_t length)
{
    struct ibv_data_buf buffer = {.addr = address, .length = length};

    wr_set_inline_data_list(qp, 1, &buffer);
}

static void wr_set_sge_list(struct ibv_qp_ex *public, size_t count, const struct ibv_sge *sges)
{
    struct qp *qp = of_extended(public);
    struct send_wr *wr = current(public);

    if (count > qp->cap.max_send_sge) {
        report_why("wr_set_sge_list: %zu segments, at most %u", count, qp->cap.max_send_sge);
        qp->staged_error = EINVAL;
        return;
    }
    uint64_t length = 0;
    for (size_t i = 0; i < count; i++) {
        wr->sges[i] = sges[i];
        length += sges[i].length;
    }
    wr->num_sge = (int)count;
    wr->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t address, uint32_t length)
{
    struct ibv_sge sge = {.addr = address, .length = length, .lkey = lkey};

    wr_set_sge_list(qp, 1, &sge);
}

static void wr_start(struct ibv_qp_ex *public)
{
    struct qp *qp = of_extended(public);

    pthread_mutex_lock(&qp->staging);
    qp->staged_count = 0;
    qp->staged_error = 0;
}

static void wr_abort(struct ibv_qp_ex *public)
{
    pthread_mutex_unlock(&of_extended(public)->staging);
}

/* Copies what was staged, but not the storage that belongs to the place. */
static void move_staged(struct qp *qp, const struct send_wr *from)
{
    struct send_wr *to = post_place(qp);
    struct ibv_sge *sges = to->sges;
    uint8_t *inlined = to->inlined;

    *to = *from;
    to->sges = sges;
    to->inlined = inlined;
    if (from->flags & IBV_SEND_INLINE)
        memcpy(inlined, from->inlined, from->length);
    else
        memcpy(sges, from->sges, (size_t)from->num_sge * sizeof(*sges));
    post_commit(qp);
}

static int wr_complete(struct ibv_qp_ex *public)
{
    struct qp *qp = of_extended(public);
    int rc = qp->staged_error;

    loop_lock();
    if (!rc && (qp->requester.size - qp->requester.used < qp->staged_count ||
                qp->requester.size - (qp->requester.tail - qp->requester.head) < qp->staged_count))
        rc = ENOMEM;
    for (uint32_t i = 0; i < qp->staged_count && !rc; i++)
        rc = post_check(qp, &qp->staged[i]);
    for (uint32_t i = 0; i < qp->staged_count && !rc; i++)
        move_staged(qp, &qp->staged[i]);
    if (!rc)
        qp_pump(qp);
    loop_unlock();
    pthread_mutex_unlock(&qp->staging);
    return rc;
}

bool wr_operations_known(enum ibv_qp_type type, uint64_t operations)
{
    uint64_t known = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

    if (type == IBV_QPT_DRIVER && settings()->limits.rdma)
        known |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                 IBV_QP_EX_WITH_RDMA_READ;
    if (type == IBV_QPT_RC)
        known |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    return !(operations & ~known);
}

/* An operation that was not asked for has no function, as with devices. */
void wr_fill(struct qp *qp)
{
    struct ibv_qp_ex *ex = &qp->ex;
    uint64_t operations = qp->extended ? qp->send_ops : 0;

#define SET(bit, name)                                                                             \
    if (operations & (bit))                                                                        \
    ex->name = name
    SET(IBV_QP_EX_WITH_SEND, wr_send);
    SET(IBV_QP_EX_WITH_SEND_WITH_IMM, wr_send_imm);
    SET(IBV_QP_EX_WITH_RDMA_WRITE, wr_rdma_write);
    SET(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
    SET(IBV_QP_EX_WITH_RDMA_READ, wr_rdma_read);
    SET(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
    SET(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
#undef SET
    if (!qp->extended)
        return;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
}

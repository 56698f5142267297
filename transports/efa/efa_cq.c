/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions of the device become those of operations. */
#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

enum {
    BATCH = 16, /* completions of one look */
};

/* A completion, of either kind of queue. */
struct done {
    struct ibv_wc wc;
    bool unsolicited; /* data of a write: wr_id is none of ours */
    bool has_gid;     /* instead of a handle's number */
    union ibv_gid gid;
};

/* The device's codes, as libfabric's efa reports them. */
static int errno_of(const struct ibv_wc *wc)
{
    switch (wc->vendor_err) {
    case 1: return FI_ECANCELED;
    case 6:
    case 11: return FI_EMSGSIZE;
    case 8:
    case 13: return FI_ECONNABORTED;
    case 9:
    case 14: return FI_ENOTCONN;
    case 10: return FI_ENORX;
    case 12: return FI_EREMOTEIO;
    case 15: return FI_EHOSTUNREACH;
    default: return FI_EINVAL;
    }
}

static void end_error(struct efa_ep *ep, const struct efa_wr *wr, const struct ibv_wc *wc)
{
    struct fi_cq_err_entry error = {
        .op_context = wr->context,
        .flags = wr->kind,
        .err = errno_of(wc),
        .prov_errno = (int)wc->vendor_err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    complete_error(&ep->base.binding, binding_kind_of(wr->kind), &error);
}

static fi_addr_t source_of(struct efa_ep *ep, const struct done *done)
{
    return efa_av_source(ep->base.av, done->wc.slid, done->wc.src_qp,
                         done->has_gid ? done->gid.raw : NULL);
}

/* Data of a peer's write, which has taken no receive. */
static void end_unsolicited(struct efa_ep *ep, const struct done *done)
{
    if (done->wc.status || ep->closing)
        return;
    complete(&ep->base.binding, BIND_REMOTE_WRITE, true, NULL,
             FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, done->wc.byte_len, NULL,
             done->wc.imm_data, 0, source_of(ep, done));
}

/* A message, or the immediate data of a peer's write, which has taken a receive. */
static void end_receive(struct efa_ep *ep, const struct efa_wr *wr, const struct done *done)
{
    const struct ibv_wc *wc = &done->wc;
    bool is_write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    uint64_t flags = is_write ? FI_RMA | FI_REMOTE_WRITE : wr->kind;
    uint64_t data = 0;

    if (wc->wc_flags & IBV_WC_WITH_IMM) {
        flags |= FI_REMOTE_CQ_DATA;
        data = wc->imm_data;
    }
    complete(&ep->base.binding, is_write ? BIND_REMOTE_WRITE : BIND_RECV, is_write || wr->wanted,
             wr->context, flags, wc->byte_len, is_write ? NULL : wr->buf, data, 0,
             source_of(ep, done));
}

void efa_cq_refused(struct efa_ep *ep, struct efa_wr *wr, int err)
{
    struct fi_cq_err_entry error = {
        .op_context = wr->context, .flags = wr->kind, .err = err, .src_addr = FI_ADDR_NOTAVAIL};
    bool told = wr->failed || ep->closing;

    if (wr->kind & FI_RECV)
        ep->receives--;
    else
        ep->sends--;
    wr->failed = true;
    if (!told)
        complete_error(&ep->base.binding, binding_kind_of(wr->kind), &error);
    if (--wr->left)
        return;
    efa_inject_give(&ep->inject, wr->slot);
    pool_put(&ep->wrs, wr);
}

static void end(struct efa_ep *ep, const struct done *done)
{
    const struct ibv_wc *wc = &done->wc;
    struct efa_wr *entry = (struct efa_wr *)(uintptr_t)wc->wr_id, wr;
    bool receives = entry->kind & FI_RECV;

    if (receives)
        ep->receives--;
    else
        ep->sends--;
    if (wc->status && !entry->failed && !ep->closing)
        end_error(ep, entry, wc);
    entry->failed = entry->failed || wc->status;
    if (--entry->left)
        return;
    wr = *entry;
    efa_inject_give(&ep->inject, wr.slot);
    pool_put(&ep->wrs, entry);
    if (wr.failed || ep->closing)
        return;
    if (receives)
        end_receive(ep, &wr, done);
    else
        complete(&ep->base.binding, binding_kind_of(wr.kind), wr.wanted, wr.context, wr.kind, 0,
                 NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

/* ---- Queues that tell more ---- */

static bool is_receive(const struct ibv_cq_ex *cq)
{
    return ((const struct efa_wr *)(uintptr_t)cq->wr_id)->kind & FI_RECV;
}

static void read_receive(const struct efa_ep *ep, struct done *done)
{
    const struct efa_cq_fields *fields = (const struct efa_cq_fields *)(const void *)ep->fields;
    struct ibv_cq_ex *cq = ep->extended;
    struct ibv_wc *wc = &done->wc;

    wc->opcode = ibv_wc_read_opcode(cq);
    wc->byte_len = ibv_wc_read_byte_len(cq);
    wc->wc_flags = ibv_wc_read_wc_flags(cq);
    if (wc->wc_flags & IBV_WC_WITH_IMM)
        wc->imm_data = ibv_wc_read_imm_data(cq);
    wc->src_qp = ibv_wc_read_src_qp(cq);
    wc->slid = (uint16_t)ibv_wc_read_slid(cq);
    done->has_gid = wc->slid == EFA_NO_HANDLE && !fields->read_sgid(ep->fields, &done->gid);
}

static void read_one(const struct efa_ep *ep, struct done *done)
{
    const struct efa_cq_fields *fields = (const struct efa_cq_fields *)(const void *)ep->fields;
    struct ibv_cq_ex *cq = ep->extended;

    *done = (struct done){.wc = {.wr_id = cq->wr_id, .status = cq->status},
                          .unsolicited = ep->unsolicited && fields->is_unsolicited(ep->fields)};
    if (done->wc.status)
        done->wc.vendor_err = ibv_wc_read_vendor_err(cq);
    else if (done->unsolicited || is_receive(cq))
        read_receive(ep, done);
}

/* All are read before any ends, since ends post. */
static int poll_extended(struct efa_ep *ep)
{
    struct ibv_poll_cq_attr attr = {.comp_mask = 0};
    struct done done[BATCH];
    int count = 0;

    if (ibv_start_poll(ep->extended, &attr))
        return 0;
    do
        read_one(ep, &done[count++]);
    while (count < BATCH && !ibv_next_poll(ep->extended));
    ibv_end_poll(ep->extended);
    for (int i = 0; i < count; i++) {
        if (done[i].unsolicited)
            end_unsolicited(ep, &done[i]);
        else
            end(ep, &done[i]);
    }
    return count;
}

int efa_cq_poll(struct efa_ep *ep)
{
    struct ibv_wc wc[BATCH];
    int count;

    efa_chain_flush(ep);
    if (ep->extended)
        return poll_extended(ep);
    count = ibv_poll_cq(ep->cq, BATCH, wc);
    for (int i = 0; i < count; i++)
        end(ep, &(struct done){.wc = wc[i]});
    return count;
}

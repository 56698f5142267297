/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions of the device become those of operations. */
#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

enum {
    BATCH = 16, /* completions of one look */
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

/* A message, or the immediate data of a peer's write, which has taken a receive. */
static void end_receive(struct efa_ep *ep, const struct efa_wr *wr, const struct ibv_wc *wc)
{
    bool is_write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    uint64_t flags = is_write ? FI_RMA | FI_REMOTE_WRITE : wr->kind;
    uint64_t data = 0;

    if (wc->wc_flags & IBV_WC_WITH_IMM) {
        flags |= FI_REMOTE_CQ_DATA;
        data = wc->imm_data;
    }
    complete(&ep->base.binding, is_write ? BIND_REMOTE_WRITE : BIND_RECV, is_write || wr->wanted,
             wr->context, flags, wc->byte_len, is_write ? NULL : wr->buf, data, 0,
             efa_av_source(ep->base.av, wc->slid, wc->src_qp));
}

static void end(struct efa_ep *ep, const struct ibv_wc *wc)
{
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
        end_receive(ep, &wr, wc);
    else
        complete(&ep->base.binding, binding_kind_of(wr.kind), wr.wanted, wr.context, wr.kind, 0,
                 NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

int efa_cq_poll(struct efa_ep *ep)
{
    struct ibv_wc wc[BATCH];
    int count = ibv_poll_cq(ep->cq, BATCH, wc);

    for (int i = 0; i < count; i++)
        end(ep, &wc[i]);
    return count;
}

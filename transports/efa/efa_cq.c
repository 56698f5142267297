/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions of the device become those of operations. */
#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

enum {
    BATCH = 16, /* completions of one look */
};

/* A completion, of either kind of queue. */
struct done {
    uint64_t id; /* struct efa_wr, or EFA_BARE; 0: data of a write that has taken no receive */
    enum ibv_wc_status status;
    uint32_t vendor_err;
    bool received; /* it is a receive's that succeeded, or has none: */
    uint32_t byte_len, src_qp;
    uint32_t data; /* 0 where it has none */
    uint16_t handle;
    bool is_write, has_data;
    bool has_gid; /* instead of a handle's number */
    union ibv_gid gid;
};

/* The device's codes, as libfabric's efa reports them. */
static int errno_of(uint32_t code)
{
    switch (code) {
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

static void end_error(struct efa_ep *ep, const struct efa_wr *wr, uint32_t code)
{
    struct fi_cq_err_entry error = {
        .op_context = wr->context,
        .flags = wr->kind,
        .err = errno_of(code),
        .prov_errno = (int)code,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    complete_error(&ep->base.binding, binding_kind_of(wr->kind), &error);
}

static fi_addr_t source_of(struct efa_ep *ep, const struct done *done)
{
    return efa_av_source(ep, done->handle, done->src_qp, done->has_gid ? done->gid.raw : NULL);
}

/* Data of a peer's write, which has taken no receive. */
static void end_unsolicited(struct efa_ep *ep, const struct done *done)
{
    if (!done->received || ep->closing)
        return;
    complete(&ep->base.binding, BIND_REMOTE_WRITE, true, NULL,
             FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, done->byte_len, NULL, done->data, 0,
             source_of(ep, done));
}

/* A message, or the immediate data of a peer's write, which has taken a receive. */
static void end_receive(struct efa_ep *ep, const struct efa_wr *wr, const struct done *done)
{
    uint64_t flags = done->is_write ? FI_RMA | FI_REMOTE_WRITE : wr->kind;

    if (done->has_data)
        flags |= FI_REMOTE_CQ_DATA;
    complete(&ep->base.binding, done->is_write ? BIND_REMOTE_WRITE : BIND_RECV,
             done->is_write || wr->state.wanted, wr->context, flags, done->byte_len,
             done->is_write ? NULL : wr->buf, done->data, 0, source_of(ep, done));
}

void efa_cq_refused(struct efa_ep *ep, struct efa_wr *wr, int err)
{
    struct fi_cq_err_entry error = {
        .op_context = wr->context, .flags = wr->kind, .err = err, .src_addr = FI_ADDR_NOTAVAIL};
    bool told = wr->state.failed || ep->closing;

    if (wr->kind & FI_RECV)
        ep->receives--;
    else
        ep->sends--;
    wr->state.failed = true;
    if (!told)
        complete_error(&ep->base.binding, binding_kind_of(wr->kind), &error);
    if (--wr->state.left)
        return;
    efa_inject_give(&ep->inject, wr->state.slot);
    pool_put(&ep->wrs, wr);
}

static void count_end(struct efa_ep *ep, bool is_receive)
{
    if (is_receive)
        ep->receives--;
    else
        ep->sends--;
}

static bool is_receive(uint64_t id)
{
    return id & EFA_BARE ? id & EFA_BARE_RECV
                         : ((const struct efa_wr *)(uintptr_t)id)->kind & FI_RECV;
}

static void report(struct efa_ep *ep, const struct efa_wr *wr, const struct done *done)
{
    if (done->received)
        end_receive(ep, wr, done);
    else
        complete(&ep->base.binding, binding_kind_of(wr->kind), wr->state.wanted, wr->context,
                 wr->kind, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

/* Of a request without a record. */
static void end_bare(struct efa_ep *ep, const struct done *done)
{
    struct efa_wr wr = {.context = efa_bare_context(done->id),
                        .kind = FI_MSG | (is_receive(done->id) ? FI_RECV : FI_SEND),
                        .state = EFA_WR_PLAIN};

    count_end(ep, wr.kind & FI_RECV);
    if (ep->closing)
        return;
    if (done->status)
        end_error(ep, &wr, done->vendor_err);
    else
        report(ep, &wr, done);
}

static void end(struct efa_ep *ep, const struct done *done)
{
    struct efa_wr *entry = (struct efa_wr *)(uintptr_t)done->id, wr;

    if (__builtin_expect(!entry, 0)) {
        end_unsolicited(ep, done);
        return;
    }
    if (__builtin_expect(done->id & EFA_BARE, 0)) {
        end_bare(ep, done);
        return;
    }
    count_end(ep, entry->kind & FI_RECV);
    if (__builtin_expect(done->status, 0)) {
        if (!entry->state.failed && !ep->closing)
            end_error(ep, entry, done->vendor_err);
        entry->state.failed = true;
    }
    if (--entry->state.left)
        return;
    wr = *entry;
    if (wr.state.slot >= 0)
        efa_inject_give(&ep->inject, wr.state.slot);
    pool_put(&ep->wrs, entry);
    if (!wr.state.failed && !ep->closing)
        report(ep, &wr, done);
}

/* ---- Queues that tell more ---- */

static const struct efa_cq_fields *fields_of(const struct efa_ep *ep)
{
    return (const struct efa_cq_fields *)(const void *)ep->fields;
}

static void read_receive(const struct efa_ep *ep, struct done *done)
{
    struct ibv_cq_ex *cq = ep->extended;
    unsigned flags = ibv_wc_read_wc_flags(cq);

    done->received = true;
    done->is_write = ibv_wc_read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM;
    done->byte_len = ibv_wc_read_byte_len(cq);
    done->has_data = flags & IBV_WC_WITH_IMM;
    done->data = done->has_data ? ibv_wc_read_imm_data(cq) : 0;
    done->src_qp = ibv_wc_read_src_qp(cq);
    done->handle = (uint16_t)ibv_wc_read_slid(cq);
    done->has_gid =
        done->handle == EFA_NO_HANDLE && !fields_of(ep)->read_sgid(ep->fields, &done->gid);
}

static void read_one(const struct efa_ep *ep, struct done *done)
{
    struct ibv_cq_ex *cq = ep->extended;

    done->id = cq->wr_id;
    done->status = cq->status;
    done->vendor_err = 0;
    done->received = false;
    if (ep->unsolicited && fields_of(ep)->is_unsolicited(ep->fields))
        done->id = 0;
    if (done->status)
        done->vendor_err = ibv_wc_read_vendor_err(cq);
    else if (!done->id || is_receive(done->id))
        read_receive(ep, done);
}

bool efa_cq_is_of_write(const struct efa_ep *ep)
{
    return (ep->unsolicited && fields_of(ep)->is_unsolicited(ep->fields)) ||
           ibv_wc_read_opcode(ep->extended) == IBV_WC_RECV_RDMA_WITH_IMM;
}

/* All are read before any ends, since ends post. */
static int read_started(const struct efa_ep *ep, struct done *done)
{
    int count = 0;

    do
        read_one(ep, &done[count++]);
    while (count < BATCH && !ibv_next_poll(ep->extended));
    ibv_end_poll(ep->extended);
    return count;
}

static int read_extended(const struct efa_ep *ep, struct done *done)
{
    struct ibv_poll_cq_attr attr = {.comp_mask = 0};

    return ibv_start_poll(ep->extended, &attr) ? 0 : read_started(ep, done);
}

static int read_plain(struct efa_ep *ep, struct done *done)
{
    struct ibv_wc wc[BATCH];
    int count = ibv_poll_cq(ep->cq, BATCH, wc);

    for (int i = 0; i < count; i++)
        done[i] = (struct done){
            .id = wc[i].wr_id,
            .status = wc[i].status,
            .vendor_err = wc[i].vendor_err,
            .received = wc[i].opcode & IBV_WC_RECV,
            .byte_len = wc[i].byte_len,
            .data = wc[i].wc_flags & IBV_WC_WITH_IMM ? wc[i].imm_data : 0,
            .src_qp = wc[i].src_qp,
            .handle = wc[i].slid,
            .is_write = wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM,
            .has_data = wc[i].wc_flags & IBV_WC_WITH_IMM,
        };
    return count;
}

/* The queue is empty: the endpoint forgets former handles of numbers, one look behind. */
static void forget_numbers(struct efa_ep *ep)
{
    ep->read = ep->reading;
    ep->reading = atomic_load(&ep->domain->changes);
}

/* It lets go of the handles that it has pinned, for endpoints that have none. */
void efa_cq_poll_idle(struct efa_ep *ep)
{
    if (__builtin_expect(
            ep->read != atomic_load_explicit(&ep->domain->changes, memory_order_relaxed), 0))
        forget_numbers(ep);
    if (!efa_is_pressed(ep->domain) || ep->sends)
        return;
    ep->dest = FI_ADDR_NOTAVAIL;
    efa_handle_unpin_all(ep->domain, &ep->pins);
}

void efa_cq_poll_started(struct efa_ep *ep)
{
    struct done done[BATCH];
    int count = read_started(ep, done);

    for (int i = 0; i < count; i++)
        end(ep, &done[i]);
}

void efa_cq_poll_behind(struct efa_ep *ep, size_t before)
{
    struct done done[BATCH];
    int count = read_started(ep, done);

    if (before)
        ep->burst->sink->take(ep->burst->sink, ep->burst->done, before);
    for (int i = 0; i < count; i++)
        end(ep, &done[i]);
}

int efa_cq_poll(struct efa_ep *ep)
{
    struct done done[BATCH];
    int count;

    if (efa_chain_waits(ep))
        efa_chain_flush(ep);
    count = ep->extended ? read_extended(ep, done) : read_plain(ep, done);
    for (int i = 0; i < count; i++)
        end(ep, &done[i]);
    if (!count)
        efa_cq_poll_idle(ep);
    return count;
}

void efa_cq_poll_source(struct progress_source *source)
{
    struct efa_ep *ep = object_of(source, struct efa_ep, source);

    efa_cq_poll(ep);
    if (ep->extended && !ep->closing && !efa_chain_waits(ep))
        source->poll = ep->usual;
}

void efa_cq_poll_usual(struct progress_source *source)
{
    struct efa_ep *ep = object_of(source, struct efa_ep, source);
    struct ibv_poll_cq_attr attr = {.comp_mask = 0};

    if (ibv_start_poll(ep->extended, &attr))
        efa_cq_poll_idle(ep);
    else
        efa_cq_poll_started(ep);
}

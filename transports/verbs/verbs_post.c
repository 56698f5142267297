/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations to the device, and what it says of them. */
#include <string.h>

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include "transports/verbs/verbs_atomic.h"
#include "transports/verbs/verbs_ep.h"
#include "transports/verbs/verbs_wr.h"

enum {
    SEGMENTS = 16, /* of an operation: the most that a parameter allows */
};

static struct verbs_ep *ep_of(struct ep *base)
{
    return object_of(base, struct verbs_ep, base);
}

/* ---- What is known of an operation that the device has ---- */

int verbs_status_error(enum ibv_wc_status status, bool receive)
{
    switch (status) {
    case IBV_WC_SUCCESS: return 0;
    case IBV_WC_WR_FLUSH_ERR: return FI_ECANCELED;
    case IBV_WC_LOC_LEN_ERR: return receive ? FI_ETRUNC : FI_EMSGSIZE;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_REM_ACCESS_ERR: return FI_EACCES;
    case IBV_WC_REM_INV_REQ_ERR: return FI_EREMOTEIO;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR: return FI_ETIMEDOUT;
    case IBV_WC_RNR_RETRY_EXC_ERR: return FI_ENORX;
    default: return FI_EIO;
    }
}

/* The first error that is not of our making ends the connection. */
static int note_status(struct verbs_ep *ep, enum ibv_wc_status status, bool receive)
{
    if (status == IBV_WC_SUCCESS)
        return 0;
    ep->failed = true;
    if (status != IBV_WC_WR_FLUSH_ERR && !ep->closing)
        verbs_ep_end(ep);
    return verbs_status_error(status, receive);
}

static void report_error(struct verbs_ep *ep, enum binding_kind kind, void *context, uint64_t flags,
                         int err, int status)
{
    struct fi_cq_err_entry entry = {
        .op_context = context,
        .flags = flags,
        .err = err,
        .prov_errno = status,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    complete_error(&ep->base.binding, kind, &entry);
}

/* Of an operation whose error was reported: its further requests end without a word. */
static void silence_rest(struct verbs_ep *ep)
{
    uint32_t at = ep->tx.head;
    bool part = true;

    for (; part && at != ep->tx.tail; at++) {
        struct verbs_send *send = &ep->sends[verbs_place(&ep->tx, at)];

        part = send->part;
        send->silent = true;
    }
}

void verbs_ep_report_refused(struct verbs_ep *ep, const struct verbs_send *send, int err)
{
    if (!ep->closing && !send->silent)
        report_error(ep, send->kind, send->context, send->flags, err, 0);
}

static void finish_send(struct verbs_ep *ep, const struct verbs_send *send,
                        enum ibv_wc_status status)
{
    int err = note_status(ep, status, false);

    if (ep->closing || (err ? send->silent : send->part))
        return;
    if (err && send->part)
        silence_rest(ep);
    if (__builtin_expect(!err, 1))
        complete(&ep->base.binding, send->kind, send->wanted, send->context, send->flags, 0, NULL,
                 0, 0, FI_ADDR_NOTAVAIL);
    else
        report_error(ep, send->kind, send->context, send->flags, err, status);
}

void verbs_ep_sent(struct verbs_ep *ep, uint32_t slot, const struct ibv_wc *wc)
{
    uint32_t ahead = (slot - ep->tx.head) & ep->tx.mask;

    if (ahead >= verbs_in_use(&ep->tx))
        return; /* none of ours */
    for (uint32_t i = 0; i <= ahead; i++) {
        struct verbs_send send = ep->sends[verbs_place(&ep->tx, ep->tx.head)];
        enum ibv_wc_status before = ep->failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;

        verbs_took(&ep->tx);
        finish_send(ep, &send, i == ahead ? wc->status : before);
    }
}

void verbs_ep_report_received(struct verbs_ep *ep, const struct verbs_recv *recv,
                              const struct ibv_wc *wc)
{
    bool data = wc->wc_flags & IBV_WC_WITH_IMM;
    bool write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    uint64_t flags;
    int err = note_status(ep, wc->status, true);

    if (ep->closing)
        return;
    if (__builtin_expect(err, 0)) {
        report_error(ep, BIND_RECV, recv->context, FI_RECV | FI_MSG, err, wc->status);
        return;
    }
    flags = (write ? FI_RMA | FI_REMOTE_WRITE : FI_RECV | FI_MSG) |
            (data ? (uint64_t)FI_REMOTE_CQ_DATA : 0);
    complete(&ep->base.binding, write ? BIND_REMOTE_WRITE : BIND_RECV, recv->wanted || write,
             recv->context, flags, wc->byte_len, write ? NULL : recv->buf,
             data ? ntohl(wc->imm_data) : 0, 0, FI_ADDR_NOTAVAIL);
}

void verbs_ep_received(struct verbs_ep *ep, uint32_t slot, const struct ibv_wc *wc)
{
    struct verbs_recv recv;

    if (!verbs_in_use(&ep->rx) || slot != verbs_place(&ep->rx, ep->rx.head))
        return;
    recv = ep->recvs[slot];
    verbs_took(&ep->rx);
    verbs_ep_report_received(ep, &recv, wc);
}

/* ---- Receives ---- */

/* One with bytes; false: it cannot be. */
static inline bool fill_segment(struct ibv_sge *sge, const struct iovec *iov,
                                const struct ibv_mr *mr, bool copied)
{
    if ((!mr && !copied) || iov->iov_len > UINT32_MAX)
        return false; /* FI_MR_LOCAL */
    sge->addr = (uintptr_t)iov->iov_base;
    sge->length = (uint32_t)iov->iov_len;
    sge->lkey = mr ? mr->lkey : 0;
    return true;
}

int verbs_fill_segments(struct ibv_sge *sges, const struct op *op, size_t limit, bool copied)
{
    int used = 0;

    if (__builtin_expect(op->count == 1 && op->iov->iov_len, 1))
        return fill_segment(sges, op->iov, op->desc ? op->desc[0] : NULL, copied) ? 1 : -FI_EINVAL;
    if (op->count > limit)
        return -FI_EINVAL;
    for (size_t i = 0; i < op->count; i++) {
        if (!op->iov[i].iov_len)
            continue;
        if (!fill_segment(&sges[used++], &op->iov[i], op->desc ? op->desc[i] : NULL, copied))
            return -FI_EINVAL;
    }
    return used;
}

/* The device has no memory for it just now, or the queue is full. */
ssize_t verbs_post_refused(int rc)
{
    rc = rc > 0 ? rc : -verbs_error(rc);
    return rc == ENOMEM ? -FI_EAGAIN : -rc;
}

static ssize_t receive_locked(struct verbs_ep *ep, const struct op *op)
{
    uint64_t flags = op_final_flags(op, ep->base.rx_op_flags);
    struct ibv_sge sges[SEGMENTS];
    struct ibv_recv_wr wr = {.sg_list = sges}, *bad;
    uint32_t slot = verbs_place(&ep->rx, ep->rx.tail);
    int rc;

    if (verbs_in_use(&ep->rx) == ep->rx.limit)
        return -FI_EAGAIN;
    rc = verbs_fill_segments(sges, op, ep->rx_iov_limit, false);
    if (rc < 0)
        return rc;
    wr.num_sge = rc;
    wr.wr_id = verbs_wr_id(ep->number, true, slot);
    ep->recvs[slot] = (struct verbs_recv){
        .context = op->context,
        .buf = op_buf(op),
        .wanted = completion_wanted(ep->base.binding.rx_selective, flags),
    };
    rc = ibv_post_recv(ep->qp, &wr, &bad);
    if (rc)
        return verbs_post_refused(rc);
    verbs_posted(&ep->rx);
    return 0;
}

/* ---- Transmissions ---- */

static bool is_message(const struct op *op)
{
    return !(op->group & (OP_GROUP_RMA | OP_GROUP_ATOMIC));
}

static enum ibv_wr_opcode opcode_of(const struct op *op)
{
    bool data = op->flags & FI_REMOTE_CQ_DATA;

    if (is_message(op))
        return data ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    if (op->kind & FI_READ)
        return IBV_WR_RDMA_READ;
    return data ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
}

static bool must_signal(const struct verbs_ep *ep, const struct verbs_send *send)
{
    return send->wanted || ep->base.binding.cntr[send->kind] ||
           ep->unsignaled + 1 >= ep->signal_every;
}

static ssize_t post_wr(struct verbs_ep *ep, struct ibv_send_wr *wr, const struct verbs_send *send)
{
    uint32_t slot = verbs_place(&ep->tx, ep->tx.tail);
    bool signal = must_signal(ep, send);
    struct ibv_send_wr *bad;
    int rc;

    if (verbs_in_use(&ep->tx) == ep->tx.limit)
        return -FI_EAGAIN;
    wr->wr_id = verbs_wr_id(ep->number, false, slot);
    if (signal)
        wr->send_flags |= IBV_SEND_SIGNALED;
    ep->sends[slot] = *send;
    rc = verbs_wr_post(ep, wr, &bad);
    if (rc)
        return verbs_post_refused(rc);
    ep->tx.tail++;
    ep->unsignaled = signal ? 0 : ep->unsignaled + 1;
    return 0;
}

/* The same for one with which, or before which, others wait. */
static ssize_t post_chained(struct verbs_ep *ep, struct ibv_send_wr *wr,
                            const struct verbs_send *send, bool more)
{
    uint32_t slot = verbs_place(&ep->tx, ep->tx.tail);
    bool signal = must_signal(ep, send);

    if (verbs_in_use(&ep->tx) == ep->tx.limit)
        return -FI_EAGAIN;
    wr->wr_id = verbs_wr_id(ep->number, false, slot);
    if (signal)
        wr->send_flags |= IBV_SEND_SIGNALED;
    ep->sends[slot] = *send;
    ep->unsignaled = signal ? 0 : ep->unsignaled + 1;
    return verbs_chain_add(ep, wr, more);
}

size_t verbs_read_segments(const struct ibv_device_attr *device, size_t iov_limit)
{
    size_t most = device->max_sge_rd > 0 ? (size_t)device->max_sge_rd : iov_limit;

    return most < iov_limit ? most : iov_limit;
}

/* Posts a chain; what the device took of it is under way. If it did not take all, the connection
 * ends, and with it the operation. */
static ssize_t post_chain(struct verbs_ep *ep, struct ibv_send_wr *wrs, uint32_t count)
{
    struct ibv_send_wr *bad = wrs;
    int rc = verbs_wr_post(ep, wrs, &bad);

    if (rc && bad == wrs)
        return verbs_post_refused(rc);
    if (rc) {
        count = (uint32_t)(bad - wrs);
        verbs_qp_fail(ep);
    }
    ep->tx.tail += count;
    return 0;
}

/* A read into more segments than a request of the device has: several requests, of which the last
 * one has the completion. */
static ssize_t post_pieces(struct verbs_ep *ep, struct ibv_send_wr *wr,
                           const struct verbs_send *send)
{
    uint32_t most = (uint32_t)ep->read_segments, left = (uint32_t)wr->num_sge;
    uint32_t count = (left + most - 1) / most;
    struct ibv_send_wr wrs[SEGMENTS];
    bool signal = must_signal(ep, send) || ep->unsignaled + count >= ep->signal_every;
    ssize_t rc;

    if (count > ep->tx.limit)
        return -FI_EINVAL;
    rc = verbs_chain_flush(ep);
    if (rc == -FI_EAGAIN)
        return rc;
    if (verbs_in_use(&ep->tx) + count > ep->tx.limit)
        return -FI_EAGAIN;
    for (uint32_t i = 0; i < count; i++, left -= most) {
        uint32_t slot = verbs_place(&ep->tx, ep->tx.tail + i);

        wrs[i] = *wr;
        wrs[i].wr_id = verbs_wr_id(ep->number, false, slot);
        wrs[i].num_sge = (int)(left < most ? left : most);
        wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
        for (int j = 0; j < wrs[i].num_sge; j++)
            wr->wr.rdma.remote_addr += wr->sg_list[j].length;
        wr->sg_list += wrs[i].num_sge;
        wr->send_flags &= ~(unsigned)IBV_SEND_FENCE;
        if (signal && i + 1 == count)
            wrs[i].send_flags |= IBV_SEND_SIGNALED;
        ep->sends[slot] = *send;
        ep->sends[slot].part = i + 1 < count;
    }
    rc = post_chain(ep, wrs, count);
    if (!rc)
        ep->unsignaled = signal ? 0 : ep->unsignaled + count;
    return rc;
}

static ssize_t check(const struct verbs_ep *ep, const struct op *op)
{
    if (atomic_load_explicit(&ep->state, memory_order_relaxed) != VERBS_CONNECTED)
        return ep->base.enabled ? -FI_ENOTCONN : -FI_EOPBADSTATE;
    if (op->group == OP_GROUP_ATOMIC)
        return verbs_atomic_check(op);
    if (op->len > ep->max_msg_size || (op->flags & FI_INJECT && op->len > ep->inline_size))
        return -FI_EMSGSIZE;
    return op->group == OP_GROUP_RMA && (op->rma_count != 1 || op->rma->len != op->len) ? -FI_EINVAL
                                                                                        : 0;
}

/* The request for a message, a write or a read: its segments. */
static int fill(const struct verbs_ep *ep, const struct op *op, struct ibv_send_wr *wr,
                struct ibv_sge *sges)
{
    bool copied = !(op->kind & FI_READ) && op->len <= ep->inline_size;

    wr->opcode = opcode_of(op);
    if (copied && op->len)
        wr->send_flags |= IBV_SEND_INLINE;
    if (op->flags & FI_REMOTE_CQ_DATA)
        wr->imm_data = htonl((uint32_t)op->data);
    if (op->group == OP_GROUP_RMA) {
        wr->wr.rdma.remote_addr = op->rma->addr;
        wr->wr.rdma.rkey = (uint32_t)op->rma->key;
    }
    return verbs_fill_segments(sges, op, ep->tx_iov_limit, copied);
}

static ssize_t send_locked(struct verbs_ep *ep, const struct op *op)
{
    bool silent = op_is_inject(op);
    struct ibv_sge sges[SEGMENTS];
    struct ibv_send_wr wr; /* only what a request has is set: the rest is most of its 128 bytes */
    struct verbs_send send = {
        .context = op->context,
        .flags = op->kind,
        .kind = (uint8_t)binding_kind_of(op->kind),
        .wanted = !silent && completion_wanted(ep->base.binding.tx_selective, op->flags),
        .silent = silent,
    };
    int count;

    send.plain = send.wanted && send.kind == BIND_SEND;
    wr.next = NULL;
    wr.sg_list = sges;
    wr.send_flags = op->flags & FI_FENCE ? IBV_SEND_FENCE : 0;
    count = op->group == OP_GROUP_ATOMIC ? verbs_atomic_fill(ep, op, &wr, sges)
                                         : fill(ep, op, &wr, sges);
    if (count < 0)
        return count;
    wr.num_sge = count;
    if (__builtin_expect(wr.opcode == IBV_WR_RDMA_READ && (size_t)count > ep->read_segments, 0))
        return post_pieces(ep, &wr, &send);
    if (__builtin_expect(op->flags & FI_MORE || verbs_chain_waits(ep->chain), 0))
        return post_chained(ep, &wr, &send,
                            (op->flags & (FI_MORE | FI_INJECT)) == FI_MORE && !silent);
    return post_wr(ep, &wr, &send);
}

/* A write of no bytes touches no memory. */
void verbs_post_probe(struct verbs_ep *ep)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct verbs_send send = {.kind = BIND_WRITE, .silent = true};

    verbs_chain_flush(ep);
    if (verbs_chain_waits(ep->chain))
        return;                        /* for places that others have, of which the same is true */
    ep->unsignaled = ep->signal_every; /* post_wr knows whether it has an entry by this */
    post_wr(ep, &wr, &send);
}

void verbs_post_marker(struct verbs_ep *ep)
{
    verbs_chain_flush(ep);
    if (ep->unsignaled)
        verbs_post_probe(ep);
}

ssize_t verbs_post(struct ep *base, struct op *op)
{
    struct verbs_ep *ep = ep_of(base);
    ssize_t rc;

    if (progress_forked(ep->base.binding.progress))
        return -FI_EOPBADSTATE;
    if (op->group & (OP_GROUP_RECV | OP_GROUP_TRECV)) {
        if (!ep->base.enabled)
            return -FI_EOPBADSTATE;
        progress_lock(ep->base.binding.progress);
        rc = receive_locked(ep, op);
        progress_unlock(ep->base.binding.progress);
        return rc;
    }
    rc = endpoint_settle(&ep->base, op);
    if (!rc)
        rc = check(ep, op);
    if (rc)
        return rc;
    progress_lock(ep->base.binding.progress);
    rc = send_locked(ep, op);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote memory is the lower's: its addresses, keys and flags, without a packet of ours. */
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "layers/rxm/rxm_emu.h"

static ssize_t inject(struct rxm_link *link, const struct post *post, size_t len)
{
    const struct fi_rma_iov *rma = post->rma;
    const void *buf = post->iov->iov_base;
    ssize_t rc = post->flags & FI_REMOTE_CQ_DATA
                     ? fi_inject_writedata(link->ep, buf, len, post->data, FI_ADDR_UNSPEC,
                                           rma->addr, rma->key)
                     : fi_inject_write(link->ep, buf, len, FI_ADDR_UNSPEC, rma->addr, rma->key);

    if (!rc && link->owner->report.cntr[REPORT_WRITE])
        cntr_add_one(link->owner->report.cntr[REPORT_WRITE]);
    return rc;
}

static void copy_in(struct rxm_op *op, const struct post *post, struct fi_msg_rma *msg)
{
    struct iovec out = {.iov_base = op->bytes, .iov_len = op->len};

    iov_copy(&out, 1, post->iov, post->count);
    op->iov[0] = out;
    msg->msg_iov = op->iov;
    msg->desc = &op->buffer.desc;
    msg->iov_count = 1;
}

static ssize_t post_op(struct rxm_op *op, const struct post *post)
{
    struct rxm_link *link = op->conn;
    uint64_t flags = post->flags & ~(FI_INJECT | FI_FENCE | FI_COMPLETION);
    struct fi_msg_rma msg = {
        .msg_iov = post->iov,
        .desc = post->desc,
        .iov_count = post->count,
        .addr = FI_ADDR_UNSPEC,
        .rma_iov = post->rma,
        .rma_iov_count = post->rma_count,
        .context = &op->context,
        .data = post->data,
    };
    ssize_t rc;

    if (post->flags & FI_INJECT)
        copy_in(op, post, &msg);
    op->pending++;
    link->emu.outstanding++;
    rc = post->kind & FI_READ ? fi_readmsg(link->ep, &msg, flags)
                              : fi_writemsg(link->ep, &msg, flags);
    if (rc)
        link->emu.outstanding--;
    return rc;
}

/* A write with CQ data takes a receive of the target, on lowers that count them. */
static bool takes_credit(const struct rxm_link *link, const struct post *post)
{
    return link->emu.credit.on && link->owner->emu->data_takes_receive &&
           post->flags & FI_REMOTE_CQ_DATA && post->kind & FI_WRITE;
}

ssize_t rxm_emu_rma(struct rxm_link *link, const struct post *post)
{
    struct rxm_emu *emu = link->owner->emu;
    struct rxm_op *op;
    size_t len;
    ssize_t rc;

    if (post->count > RXM_EMU_IOV || !iov_total(post->iov, post->count, &len))
        return -FI_EINVAL;
    if (post->flags & FI_INJECT && len > RXM_EMU_INJECT)
        return -FI_EMSGSIZE;
    if (post->flags & FI_FENCE && !list_empty(&link->emu.ops))
        return -FI_EAGAIN;
    if (post->silent && len <= emu->lower_inject && !takes_credit(link, post))
        return inject(link, post, len);
    op = rxm_op_get_counted(link);
    if (!op)
        return -FI_EAGAIN;
    if (takes_credit(link, post) && !rxm_credit_take(&link->emu.credit, false)) {
        rxm_op_put(op);
        return -FI_EAGAIN;
    }
    op->user = post->context;
    op->flags = post->kind;
    op->silent = post->silent;
    op->wanted = !post->silent && report_wanted(link->owner->report.tx_selective, post->flags);
    op->kind = post->kind & FI_READ ? REPORT_READ : REPORT_WRITE;
    op->len = len;
    op->posted = true;
    rc = post_op(op, post);
    if (rc) {
        if (takes_credit(link, post))
            rxm_credit_untake(&link->emu.credit);
        rxm_op_put(op);
    }
    return rc;
}

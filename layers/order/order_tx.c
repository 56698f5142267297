/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is posted to the transmit side: each form becomes the lower's *msg call with an item as its
 * context. A completion is always asked for, of injected operations too: what nobody waits for has
 * to end as well before something later is told.
 */
#include <rdma/fi_errno.h>

#include "core/post.h"
#include "layers/order/order.h"

static uint64_t tx_flags(struct fid_ep *fid)
{
    return order_tx_flags(fid);
}

static enum report_kind kind_of(uint64_t kind)
{
    if (kind & FI_SEND)
        return REPORT_SEND;
    return kind & FI_READ ? REPORT_READ : REPORT_WRITE;
}

static inline struct order_item *begin(struct order_ep *ep, uint64_t kind, uint64_t flags,
                                       bool silent, void *context)
{
    const struct report *report = &ep->cover.report;
    bool wanted = !silent && report->tx && report_wanted(report->tx_selective, flags);

    cover_enter(&ep->cover);
    return order_post(ep, kind_of(kind), context, wanted);
}

static inline ssize_t finish(struct order_ep *ep, struct order_item *item, ssize_t rc)
{
    return cover_leave(&ep->cover, item ? order_posted(item, rc) : -FI_EAGAIN);
}

/* ---- Messages and RMA ---- */

static ssize_t lower_message(struct fid_ep *lower, const struct post *post, void *context)
{
    const struct fi_msg msg = {.msg_iov = post->iov,
                               .desc = post->desc,
                               .iov_count = post->count,
                               .addr = post->peer,
                               .context = context,
                               .data = post->data};

    return lower->msg->sendmsg(lower, &msg, post->flags | FI_COMPLETION);
}

static ssize_t lower_tagged(struct fid_ep *lower, const struct post *post, void *context)
{
    const struct fi_msg_tagged msg = {.msg_iov = post->iov,
                                      .desc = post->desc,
                                      .iov_count = post->count,
                                      .addr = post->peer,
                                      .tag = post->tag,
                                      .context = context,
                                      .data = post->data};

    return lower->tagged->sendmsg(lower, &msg, post->flags | FI_COMPLETION);
}

static ssize_t lower_rma(struct fid_ep *lower, const struct post *post, void *context)
{
    const struct fi_msg_rma msg = {.msg_iov = post->iov,
                                   .desc = post->desc,
                                   .iov_count = post->count,
                                   .addr = post->peer,
                                   .rma_iov = post->rma,
                                   .rma_iov_count = post->rma_count,
                                   .context = context,
                                   .data = post->data};
    uint64_t flags = post->flags | FI_COMPLETION;

    return post->kind & FI_READ ? lower->rma->readmsg(lower, &msg, flags)
                                : lower->rma->writemsg(lower, &msg, flags);
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    struct pass_ep *pass = object_of(fid, struct pass_ep, fid);
    struct order_ep *ep = pass->hook;
    struct order_item *item = begin(ep, post->kind, post->flags, post->silent, post->context);
    ssize_t rc = 0;

    if (item)
        rc = post->kind & FI_TAGGED ? lower_tagged(ep->cover.pass->lower, post, item)
                                    : lower_message(ep->cover.pass->lower, post, item);
    return finish(ep, item, rc);
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    struct pass_ep *pass = object_of(fid, struct pass_ep, fid);
    struct order_ep *ep = pass->hook;
    struct order_item *item = begin(ep, post->kind, post->flags, post->silent, post->context);

    return finish(ep, item, item ? lower_rma(ep->cover.pass->lower, post, item) : 0);
}

/* ---- Atomics ---- */

static ssize_t lower_atomic(struct fid_ep *lower, const struct post_atomic *post, void *context)
{
    const struct fi_msg_atomic msg = {.msg_iov = post->iov,
                                      .desc = post->desc,
                                      .iov_count = post->count,
                                      .addr = post->peer,
                                      .rma_iov = post->rma,
                                      .rma_iov_count = post->rma_count,
                                      .datatype = post->datatype,
                                      .op = post->op,
                                      .context = context,
                                      .data = post->data};
    uint64_t flags = post->flags | FI_COMPLETION;

    switch (post->function) {
    case 0: return lower->atomic->writemsg(lower, &msg, flags);
    case FI_FETCH_ATOMIC:
        return lower->atomic->readwritemsg(lower, &msg, post->result, post->result_desc,
                                           post->result_count, flags);
    default:
        return lower->atomic->compwritemsg(lower, &msg, post->compare, post->compare_desc,
                                           post->compare_count, post->result, post->result_desc,
                                           post->result_count, flags);
    }
}

static ssize_t post_atomic(struct fid_ep *fid, const struct post_atomic *post)
{
    struct pass_ep *pass = object_of(fid, struct pass_ep, fid);
    struct order_ep *ep = pass->hook;
    struct order_item *item = begin(ep, post->kind, post->flags, post->silent, post->context);

    return finish(ep, item, item ? lower_atomic(ep->cover.pass->lower, post, item) : 0);
}

/* The lower's: the valid functions of the table are the cover's. */
static int count_atomic(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                        size_t *count)
{
    return -FI_ENOSYS;
}

#include "core/post_atomic.inc"
#include "core/post_rma.inc"
#include "core/post_send.inc"
#include "core/post_tsend.inc"

/* ---- Tables ---- */

static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), POST_SEND, NO_RECV};
static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops), POST_TSEND, NO_TRECV};
static struct fi_ops_rma rma_ops = {.size = sizeof(rma_ops), POST_RMA};
static struct fi_ops_atomic atomic_ops = {.size = sizeof(atomic_ops), POST_ATOMIC};

void order_tx_tables(struct pass_ops *tables)
{
    msg_ops.recv = tables->msg->recv;
    msg_ops.recvv = tables->msg->recvv;
    msg_ops.recvmsg = tables->msg->recvmsg;
    tagged_ops.recv = tables->tagged->recv;
    tagged_ops.recvv = tables->tagged->recvv;
    tagged_ops.recvmsg = tables->tagged->recvmsg;
    atomic_ops.writevalid = tables->atomic->writevalid;
    atomic_ops.readwritevalid = tables->atomic->readwritevalid;
    atomic_ops.compwritevalid = tables->atomic->compwritevalid;
    tables->msg = &msg_ops;
    tables->tagged = &tagged_ops;
    tables->rma = &rma_ops;
    tables->atomic = &atomic_ops;
}

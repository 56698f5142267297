/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/alias.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/fid.h"
#include "core/no.h"
#include "core/post.h"

struct alias {
    struct fid_ep fid;
    struct fid_ep *ep;
    struct children *children; /* of the endpoint */
    uint64_t tx_flags, rx_flags;
};

static struct alias *alias_of(struct fid_ep *fid)
{
    return object_of(fid, struct alias, fid);
}

/* ---- Transfers ---- */

static uint64_t tx_flags(struct fid_ep *fid)
{
    return alias_of(fid)->tx_flags;
}

static uint64_t rx_flags(struct fid_ep *fid)
{
    return alias_of(fid)->rx_flags;
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct fid_ep *ep = alias_of(fid)->ep;

    return ep->msg->recvmsg(ep, msg, flags);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct fid_ep *ep = alias_of(fid)->ep;

    return ep->tagged->recvmsg(ep, msg, flags);
}

static ssize_t inject(struct fid_ep *ep, const struct post *post)
{
    const void *buf = post->iov->iov_base;
    size_t len = post->iov->iov_len;
    bool tagged = post->kind & FI_TAGGED;

    if (!(post->flags & FI_REMOTE_CQ_DATA))
        return tagged ? ep->tagged->inject(ep, buf, len, post->peer, post->tag)
                      : ep->msg->inject(ep, buf, len, post->peer);
    return tagged ? ep->tagged->injectdata(ep, buf, len, post->data, post->peer, post->tag)
                  : ep->msg->injectdata(ep, buf, len, post->data, post->peer);
}

static ssize_t send_tagged(struct fid_ep *ep, const struct post *post)
{
    const struct fi_msg_tagged msg = {.msg_iov = post->iov,
                                      .desc = post->desc,
                                      .iov_count = post->count,
                                      .addr = post->peer,
                                      .tag = post->tag,
                                      .context = post->context,
                                      .data = post->data};

    return ep->tagged->sendmsg(ep, &msg, post->flags);
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    struct fid_ep *ep = alias_of(fid)->ep;
    const struct fi_msg msg = {.msg_iov = post->iov,
                               .desc = post->desc,
                               .iov_count = post->count,
                               .addr = post->peer,
                               .context = post->context,
                               .data = post->data};

    if (post->silent)
        return inject(ep, post);
    return post->kind & FI_TAGGED ? send_tagged(ep, post) : ep->msg->sendmsg(ep, &msg, post->flags);
}

static ssize_t inject_write(struct fid_ep *ep, const struct post *post)
{
    const void *buf = post->iov->iov_base;
    size_t len = post->iov->iov_len;

    return post->flags & FI_REMOTE_CQ_DATA
               ? ep->rma->injectdata(ep, buf, len, post->data, post->peer, post->rma->addr,
                                     post->rma->key)
               : ep->rma->inject(ep, buf, len, post->peer, post->rma->addr, post->rma->key);
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    struct fid_ep *ep = alias_of(fid)->ep;
    const struct fi_msg_rma msg = {.msg_iov = post->iov,
                                   .desc = post->desc,
                                   .iov_count = post->count,
                                   .addr = post->peer,
                                   .rma_iov = post->rma,
                                   .rma_iov_count = post->rma_count,
                                   .context = post->context,
                                   .data = post->data};

    if (post->silent)
        return inject_write(ep, post);
    return post->kind & FI_READ ? ep->rma->readmsg(ep, &msg, post->flags)
                                : ep->rma->writemsg(ep, &msg, post->flags);
}

static ssize_t post_atomic(struct fid_ep *fid, const struct post_atomic *post)
{
    struct fid_ep *ep = alias_of(fid)->ep;
    const struct fi_msg_atomic msg = {.msg_iov = post->iov,
                                      .desc = post->desc,
                                      .iov_count = post->count,
                                      .addr = post->peer,
                                      .rma_iov = post->rma,
                                      .rma_iov_count = post->rma_count,
                                      .datatype = post->datatype,
                                      .op = post->op,
                                      .context = post->context,
                                      .data = post->data};

    if (post->silent)
        return ep->atomic->inject(ep, post->iov->addr, post->iov->count, post->peer,
                                  post->rma->addr, post->rma->key, post->datatype, post->op);
    switch (post->function) {
    case FI_FETCH_ATOMIC:
        return ep->atomic->readwritemsg(ep, &msg, post->result, post->result_desc,
                                        post->result_count, post->flags);
    case FI_COMPARE_ATOMIC:
        return ep->atomic->compwritemsg(ep, &msg, post->compare, post->compare_desc,
                                        post->compare_count, post->result, post->result_desc,
                                        post->result_count, post->flags);
    default: return ep->atomic->writemsg(ep, &msg, post->flags);
    }
}

static int count_atomic(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                        size_t *count)
{
    struct fid_ep *ep = alias_of(fid)->ep;

    switch (kind) {
    case FI_FETCH_ATOMIC: return ep->atomic->readwritevalid(ep, datatype, op, count);
    case FI_COMPARE_ATOMIC: return ep->atomic->compwritevalid(ep, datatype, op, count);
    default: return ep->atomic->writevalid(ep, datatype, op, count);
    }
}

#include "core/post_atomic.inc"
#include "core/post_recv.inc"
#include "core/post_rma.inc"
#include "core/post_send.inc"
#include "core/post_trecv.inc"
#include "core/post_tsend.inc"

static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), POST_RECV, POST_SEND};
static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops), POST_TRECV, POST_TSEND};
static struct fi_ops_rma rma_ops = {.size = sizeof(rma_ops), POST_RMA};
static struct fi_ops_atomic atomic_ops = {.size = sizeof(atomic_ops), POST_ATOMIC};

/* ---- The fid ---- */

static int alias_close(struct fid *fid)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);

    children_release(alias->children);
    free(alias);
    return 0;
}

static int alias_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);

    return fi_ep_bind(alias->ep, other, flags);
}

static int alias_control(struct fid *fid, int command, void *arg)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);
    uint64_t *flags = arg;
    uint64_t *mine = command == FI_GETOPSFLAG || command == FI_SETOPSFLAG
                         ? *flags & FI_TRANSMIT ? &alias->tx_flags : &alias->rx_flags
                         : NULL;

    if (!mine)
        return fi_control(&alias->ep->fid, command, arg);
    if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
        return -FI_EINVAL;
    if (command == FI_GETOPSFLAG)
        *flags = *mine;
    else if (*flags & FI_TRANSMIT && post_refuses(*flags))
        return (int)post_refused();
    else
        *mine = *flags & ~(FI_TRANSMIT | FI_RECV);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = alias_close,
    .bind = alias_bind,
    .control = alias_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static ssize_t alias_cancel(fid_t fid, void *context)
{
    return fi_cancel(&object_of(fid, struct alias, fid.fid)->ep->fid, context);
}

static int alias_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);

    return fi_getopt(&alias->ep->fid, level, optname, optval, optlen);
}

static int alias_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);

    return fi_setopt(&alias->ep->fid, level, optname, optval, optlen);
}

static ssize_t alias_rx_size_left(struct fid_ep *fid)
{
    return fi_rx_size_left(alias_of(fid)->ep);
}

static ssize_t alias_tx_size_left(struct fid_ep *fid)
{
    return fi_tx_size_left(alias_of(fid)->ep);
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = alias_cancel,
    .getopt = alias_getopt,
    .setopt = alias_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = alias_rx_size_left,
    .tx_size_left = alias_tx_size_left,
};

int alias_open(struct fid_ep *ep, struct children *children, uint64_t tx_op_flags,
               uint64_t rx_op_flags, struct fi_alias *request)
{
    uint64_t flags = request->flags & ~(FI_TRANSMIT | FI_RECV);
    struct alias *alias;

    if (!(request->flags & FI_TRANSMIT) == !(request->flags & FI_RECV))
        return -FI_EINVAL;
    alias = calloc(1, sizeof(*alias));
    if (!alias)
        return -FI_ENOMEM;
    alias->fid = *ep; /* the operations that it does not have, it does not have either */
    fid_init(&alias->fid.fid, FI_CLASS_EP, ep->fid.context, &fid_ops);
    alias->fid.ops = &ep_ops;
    alias->fid.cm = &no_cm_ops;
    if (ep->msg != &no_msg_ops)
        alias->fid.msg = &msg_ops;
    if (ep->tagged != &no_tagged_ops)
        alias->fid.tagged = &tagged_ops;
    if (ep->rma != &no_rma_ops)
        alias->fid.rma = &rma_ops;
    if (ep->atomic != &no_atomic_ops)
        alias->fid.atomic = &atomic_ops;
    alias->ep = ep;
    alias->children = children;
    alias->tx_flags = request->flags & FI_TRANSMIT ? flags : tx_op_flags;
    alias->rx_flags = request->flags & FI_RECV ? flags : rx_op_flags;
    children_hold(children);
    *request->fid = &alias->fid.fid;
    return 0;
}

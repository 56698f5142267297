/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_ep_alias: the endpoint under another fid with other default flags. Each operation becomes the
 * endpoint's *msg call with those flags.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/no.h"
#include "core/post.h"
#include "layers/rxm/rxm_ep.h"

struct rxm_alias {
    struct fid_ep fid;
    struct rxm_ep *ep;
    uint64_t tx_flags, rx_flags;
};

static struct rxm_alias *alias_of(struct fid_ep *fid)
{
    return object_of(fid, struct rxm_alias, fid);
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
    return rxm_msg_ops.recvmsg(&alias_of(fid)->ep->fid, msg, flags);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return rxm_tagged_ops.recvmsg(&alias_of(fid)->ep->fid, msg, flags);
}

static ssize_t inject(struct fid_ep *ep, const struct post *post)
{
    const void *buf = post->iov->iov_base;
    size_t len = post->iov->iov_len;
    bool tagged = post->kind & FI_TAGGED;

    if (!(post->flags & FI_REMOTE_CQ_DATA))
        return tagged ? rxm_tagged_ops.inject(ep, buf, len, post->peer, post->tag)
                      : rxm_msg_ops.inject(ep, buf, len, post->peer);
    return tagged ? rxm_tagged_ops.injectdata(ep, buf, len, post->data, post->peer, post->tag)
                  : rxm_msg_ops.injectdata(ep, buf, len, post->data, post->peer);
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

    return rxm_tagged_ops.sendmsg(ep, &msg, post->flags);
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    struct fid_ep *ep = &alias_of(fid)->ep->fid;
    const struct fi_msg msg = {.msg_iov = post->iov,
                               .desc = post->desc,
                               .iov_count = post->count,
                               .addr = post->peer,
                               .context = post->context,
                               .data = post->data};

    if (post->silent)
        return inject(ep, post);
    return post->kind & FI_TAGGED ? send_tagged(ep, post)
                                  : rxm_msg_ops.sendmsg(ep, &msg, post->flags);
}

static ssize_t inject_write(struct fid_ep *ep, const struct post *post)
{
    const void *buf = post->iov->iov_base;
    size_t len = post->iov->iov_len;

    return post->flags & FI_REMOTE_CQ_DATA
               ? rxm_rma_ops.injectdata(ep, buf, len, post->data, post->peer, post->rma->addr,
                                        post->rma->key)
               : rxm_rma_ops.inject(ep, buf, len, post->peer, post->rma->addr, post->rma->key);
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    struct fid_ep *ep = &alias_of(fid)->ep->fid;
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
    return post->kind & FI_READ ? rxm_rma_ops.readmsg(ep, &msg, post->flags)
                                : rxm_rma_ops.writemsg(ep, &msg, post->flags);
}

#include "core/post_recv.inc"
#include "core/post_rma.inc"
#include "core/post_send.inc"
#include "core/post_trecv.inc"
#include "core/post_tsend.inc"

static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), POST_RECV, POST_SEND};
static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops), POST_TRECV, POST_TSEND};
static struct fi_ops_rma rma_ops = {.size = sizeof(rma_ops), POST_RMA};

/* ---- The fid ---- */

static int alias_close(struct fid *fid)
{
    struct rxm_alias *alias = object_of(fid, struct rxm_alias, fid.fid);

    children_release(&alias->ep->aliases);
    free(alias);
    return 0;
}

static int alias_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct rxm_alias *alias = object_of(fid, struct rxm_alias, fid.fid);

    return fi_ep_bind(&alias->ep->fid, other, flags);
}

static int alias_control(struct fid *fid, int command, void *arg)
{
    struct rxm_alias *alias = object_of(fid, struct rxm_alias, fid.fid);
    uint64_t *flags = arg;
    uint64_t *mine = command == FI_GETOPSFLAG || command == FI_SETOPSFLAG
                         ? *flags & FI_TRANSMIT ? &alias->tx_flags : &alias->rx_flags
                         : NULL;

    if (!mine)
        return fi_control(&alias->ep->fid.fid, command, arg);
    if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
        return -FI_EINVAL;
    if (command == FI_GETOPSFLAG)
        *flags = *mine;
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
    return fi_cancel(&object_of(fid, struct rxm_alias, fid.fid)->ep->fid.fid, context);
}

static int alias_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct rxm_alias *alias = object_of(fid, struct rxm_alias, fid.fid);

    return fi_getopt(&alias->ep->fid.fid, level, optname, optval, optlen);
}

static int alias_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct rxm_alias *alias = object_of(fid, struct rxm_alias, fid.fid);

    return fi_setopt(&alias->ep->fid.fid, level, optname, optval, optlen);
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = alias_cancel,
    .getopt = alias_getopt,
    .setopt = alias_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

int rxm_alias_open(struct rxm_ep *ep, struct fi_alias *request)
{
    uint64_t flags = request->flags & ~(FI_TRANSMIT | FI_RECV);
    struct rxm_alias *alias;

    if (!(request->flags & FI_TRANSMIT) == !(request->flags & FI_RECV))
        return -FI_EINVAL;
    alias = calloc(1, sizeof(*alias));
    if (!alias)
        return -FI_ENOMEM;
    alias->fid = ep->fid; /* the operations that it does not have, it does not have either */
    fid_init(&alias->fid.fid, FI_CLASS_EP, ep->fid.fid.context, &fid_ops);
    alias->fid.ops = &ep_ops;
    alias->fid.cm = &no_cm_ops;
    if (ep->fid.msg == &rxm_msg_ops)
        alias->fid.msg = &msg_ops;
    if (ep->fid.tagged == &rxm_tagged_ops)
        alias->fid.tagged = &tagged_ops;
    if (ep->fid.rma == &rxm_rma_ops)
        alias->fid.rma = &rma_ops;
    alias->ep = ep;
    alias->tx_flags = request->flags & FI_TRANSMIT ? flags : ep->info->tx_attr->op_flags;
    alias->rx_flags = request->flags & FI_RECV ? flags : ep->info->rx_attr->op_flags;
    children_hold(&ep->aliases);
    *request->fid = &alias->fid.fid;
    return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_ep_alias: the endpoint under another fid with other default flags. Each operation becomes the
 * endpoint's *msg call with those flags.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/no.h"
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

/* ---- Messages ---- */

static ssize_t send_one(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                        fi_addr_t dest, uint64_t data, void *context, uint64_t more)
{
    struct rxm_alias *alias = alias_of(fid);
    struct fi_msg msg = {.msg_iov = iov,
                         .desc = desc,
                         .iov_count = count,
                         .addr = dest,
                         .context = context,
                         .data = data};

    return rxm_msg_ops.sendmsg(&alias->ep->fid, &msg, alias->tx_flags | more);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, void *context)
{
    return send_one(fid, iov, desc, count, dest, 0, context, 0);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
                        void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return send_one(fid, &iov, &desc, 1, dest, 0, context, 0);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return send_one(fid, &iov, &desc, 1, dest, data, context, FI_REMOTE_CQ_DATA);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, void *context)
{
    struct rxm_alias *alias = alias_of(fid);
    struct fi_msg msg = {
        .msg_iov = iov, .desc = desc, .iov_count = count, .addr = src, .context = context};

    return rxm_msg_ops.recvmsg(&alias->ep->fid, &msg, alias->rx_flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return msg_recvv(fid, &iov, &desc, 1, src, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return rxm_msg_ops.sendmsg(&alias_of(fid)->ep->fid, msg, flags);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return rxm_msg_ops.recvmsg(&alias_of(fid)->ep->fid, msg, flags);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    return rxm_msg_ops.inject(&alias_of(fid)->ep->fid, buf, len, dest);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest)
{
    return rxm_msg_ops.injectdata(&alias_of(fid)->ep->fid, buf, len, data, dest);
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

/* ---- Tagged messages ---- */

static ssize_t tsend_one(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, uint64_t tag, uint64_t data, void *context, uint64_t more)
{
    struct rxm_alias *alias = alias_of(fid);
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .desc = desc,
                                .iov_count = count,
                                .addr = dest,
                                .tag = tag,
                                .context = context,
                                .data = data};

    return rxm_tagged_ops.sendmsg(&alias->ep->fid, &msg, alias->tx_flags | more);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    return tsend_one(fid, iov, desc, count, dest, tag, 0, context, 0);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return tsend_one(fid, &iov, &desc, 1, dest, tag, 0, context, 0);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return tsend_one(fid, &iov, &desc, 1, dest, tag, data, context, FI_REMOTE_CQ_DATA);
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
    struct rxm_alias *alias = alias_of(fid);
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .desc = desc,
                                .iov_count = count,
                                .addr = src,
                                .tag = tag,
                                .ignore = ignore,
                                .context = context};

    return rxm_tagged_ops.recvmsg(&alias->ep->fid, &msg, alias->rx_flags);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return tagged_recvv(fid, &iov, &desc, 1, src, tag, ignore, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return rxm_tagged_ops.sendmsg(&alias_of(fid)->ep->fid, msg, flags);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return rxm_tagged_ops.recvmsg(&alias_of(fid)->ep->fid, msg, flags);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    return rxm_tagged_ops.inject(&alias_of(fid)->ep->fid, buf, len, dest, tag);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    return rxm_tagged_ops.injectdata(&alias_of(fid)->ep->fid, buf, len, data, dest, tag);
}

static struct fi_ops_tagged tagged_ops = {
    .size = sizeof(tagged_ops),
    .recv = tagged_recv,
    .recvv = tagged_recvv,
    .recvmsg = tagged_recvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};

/* ---- Remote memory ---- */

static ssize_t rma_one(struct fid_ep *fid,
                       ssize_t (*op)(struct fid_ep *, const struct fi_msg_rma *, uint64_t),
                       const struct fi_msg_rma *msg, uint64_t addr, uint64_t key, uint64_t more)
{
    struct rxm_alias *alias = alias_of(fid);
    struct fi_msg_rma whole = *msg;
    struct fi_rma_iov remote = {.addr = addr, .key = key};

    for (size_t i = 0; i < msg->iov_count; i++)
        remote.len += msg->msg_iov[i].iov_len;
    whole.rma_iov = &remote;
    whole.rma_iov_count = 1;
    return op(&alias->ep->fid, &whole, alias->tx_flags | more);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
    struct fi_msg_rma msg = {
        .msg_iov = iov, .desc = desc, .iov_count = count, .addr = src, .context = context};

    return rma_one(fid, rxm_rma_ops.readmsg, &msg, addr, key, 0);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return rma_readv(fid, &iov, &desc, 1, src, addr, key, context);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    struct fi_msg_rma msg = {
        .msg_iov = iov, .desc = desc, .iov_count = count, .addr = dest, .context = context};

    return rma_one(fid, rxm_rma_ops.writemsg, &msg, addr, key, 0);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                         fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return rma_writev(fid, &iov, &desc, 1, dest, addr, key, context);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                             void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = dest,
                             .context = context,
                             .data = data};

    return rma_one(fid, rxm_rma_ops.writemsg, &msg, addr, key, FI_REMOTE_CQ_DATA);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rxm_rma_ops.readmsg(&alias_of(fid)->ep->fid, msg, flags);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rxm_rma_ops.writemsg(&alias_of(fid)->ep->fid, msg, flags);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    return rxm_rma_ops.inject(&alias_of(fid)->ep->fid, buf, len, dest, addr, key);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest, uint64_t addr, uint64_t key)
{
    return rxm_rma_ops.injectdata(&alias_of(fid)->ep->fid, buf, len, data, dest, addr, key);
}

static struct fi_ops_rma rma_ops = {
    .size = sizeof(rma_ops),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};

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

/* SPDX-License-Identifier: BSD-2-Clause */
/* Tagged messages: fi_tagged(3). */
#include "layers/rxm/rxm_ep.h"

static ssize_t recv_posted(struct rxm_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    ssize_t rc = -FI_EOPBADSTATE;

    unit_lock(ep->unit);
    if (__builtin_expect(ep->enabled, 1))
        rc = match_trecv(ep->match, msg, flags);
    unit_unlock(ep->unit);
    return rc;
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fi_msg_tagged msg = {
        .msg_iov = iov,
        .desc = desc,
        .iov_count = count,
        .addr = src_addr,
        .tag = tag,
        .ignore = ignore,
        .context = context,
    };

    return recv_posted(ep, &msg, ep->info->rx_attr->op_flags);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc,
                           fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return tagged_recvv(fid, &iov, &desc, 1, src_addr, tag, ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return recv_posted(rxm_ep_of(fid), msg, flags);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc =
        to ? fi_tsend(to, buf, len, desc, FI_ADDR_UNSPEC, tag, context)
           : rxm_ep_unconnected(ep, dest, (struct rxm_post){FI_TAGGED | FI_SEND, context, false});

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc =
        to ? fi_tsendv(to, iov, desc, count, FI_ADDR_UNSPEC, tag, context)
           : rxm_ep_unconnected(ep, dest, (struct rxm_post){FI_TAGGED | FI_SEND, context, false});

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, msg->addr);
    ssize_t rc =
        to ? fi_tsendmsg(to, msg, flags)
           : rxm_ep_unconnected(ep, msg->addr,
                                (struct rxm_post){FI_TAGGED | FI_SEND, msg->context, false});

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc =
        to ? fi_tinject(to, buf, len, FI_ADDR_UNSPEC, tag)
           : rxm_ep_unconnected(ep, dest, (struct rxm_post){FI_TAGGED | FI_SEND, NULL, true});

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc =
        to ? fi_tsenddata(to, buf, len, desc, data, FI_ADDR_UNSPEC, tag, context)
           : rxm_ep_unconnected(ep, dest, (struct rxm_post){FI_TAGGED | FI_SEND, context, false});

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc =
        to ? fi_tinjectdata(to, buf, len, data, FI_ADDR_UNSPEC, tag)
           : rxm_ep_unconnected(ep, dest, (struct rxm_post){FI_TAGGED | FI_SEND, NULL, true});

    return rxm_ep_leave(ep, rc);
}

struct fi_ops_tagged rxm_tagged_ops = {
    .size = sizeof(rxm_tagged_ops),
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

/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: fi_msg(3). */
#include "core/post.h"
#include "layers/rxm/rxm_ep.h"
#include "layers/rxm/rxm_wait.h"

static uint64_t rx_flags(struct fid_ep *fid)
{
    return rxm_ep_of(fid)->info->rx_attr->op_flags;
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    ssize_t rc = -FI_EOPBADSTATE;

    unit_lock(ep->unit);
    if (__builtin_expect(ep->enabled, 1))
        rc = match_recv(ep->match, msg, flags);
    unit_unlock(ep->unit);
    return rc;
}

#include "core/post_recv.inc"

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
                        void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_send(to, buf, len, desc, FI_ADDR_UNSPEC, context)
                    : rxm_wait_msg.send(fid, buf, len, desc, dest, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_sendv(to, iov, desc, count, FI_ADDR_UNSPEC, context)
                    : rxm_wait_msg.sendv(fid, iov, desc, count, dest, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, msg->addr);
    ssize_t rc = to ? fi_sendmsg(to, msg, flags) : rxm_wait_msg.sendmsg(fid, msg, flags);

    return rxm_ep_leave(ep, rc);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc =
        to ? fi_inject(to, buf, len, FI_ADDR_UNSPEC) : rxm_wait_msg.inject(fid, buf, len, dest);

    return rxm_ep_leave(ep, rc);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_senddata(to, buf, len, desc, data, FI_ADDR_UNSPEC, context)
                    : rxm_wait_msg.senddata(fid, buf, len, desc, data, dest, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_injectdata(to, buf, len, data, FI_ADDR_UNSPEC)
                    : rxm_wait_msg.injectdata(fid, buf, len, data, dest);

    return rxm_ep_leave(ep, rc);
}

struct fi_ops_msg rxm_msg_ops = {
    .size = sizeof(rxm_msg_ops),
    POST_RECV,
    POST_SEND,
};

struct fi_ops_msg rxm_msg_tx_ops = {
    .size = sizeof(rxm_msg_tx_ops),
    NO_RECV,
    POST_SEND,
};

struct fi_ops_msg rxm_msg_rx_ops = {
    .size = sizeof(rxm_msg_rx_ops),
    POST_RECV,
    NO_SEND,
};

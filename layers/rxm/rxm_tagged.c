/* SPDX-License-Identifier: BSD-2-Clause */
/* Tagged messages: fi_tagged(3). */
#include "core/post.h"
#include "layers/rxm/rxm_ep.h"
#include "layers/rxm/rxm_wait.h"

static uint64_t rx_flags(struct fid_ep *fid)
{
    return rxm_ep_of(fid)->info->rx_attr->op_flags;
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    ssize_t rc = -FI_EOPBADSTATE;

    unit_lock(ep->unit);
    if (__builtin_expect(ep->enabled, 1))
        rc = match_trecv(ep->match, msg, flags);
    unit_unlock(ep->unit);
    return rc;
}

#include "core/post_trecv.inc"

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_tsend(to, buf, len, desc, FI_ADDR_UNSPEC, tag, context)
                    : rxm_wait_tagged.send(fid, buf, len, desc, dest, tag, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_tsendv(to, iov, desc, count, FI_ADDR_UNSPEC, tag, context)
                    : rxm_wait_tagged.sendv(fid, iov, desc, count, dest, tag, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, msg->addr);
    ssize_t rc = to ? fi_tsendmsg(to, msg, flags) : rxm_wait_tagged.sendmsg(fid, msg, flags);

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_tinject(to, buf, len, FI_ADDR_UNSPEC, tag)
                    : rxm_wait_tagged.inject(fid, buf, len, dest, tag);

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_tsenddata(to, buf, len, desc, data, FI_ADDR_UNSPEC, tag, context)
                    : rxm_wait_tagged.senddata(fid, buf, len, desc, data, dest, tag, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_tinjectdata(to, buf, len, data, FI_ADDR_UNSPEC, tag)
                    : rxm_wait_tagged.injectdata(fid, buf, len, data, dest, tag);

    return rxm_ep_leave(ep, rc);
}

struct fi_ops_tagged rxm_tagged_ops = {
    .size = sizeof(rxm_tagged_ops),
    POST_TRECV,
    POST_TSEND,
};

struct fi_ops_tagged rxm_tagged_tx_ops = {
    .size = sizeof(rxm_tagged_tx_ops),
    NO_TRECV,
    POST_TSEND,
};

struct fi_ops_tagged rxm_tagged_rx_ops = {
    .size = sizeof(rxm_tagged_rx_ops),
    POST_TRECV,
    NO_TSEND,
};

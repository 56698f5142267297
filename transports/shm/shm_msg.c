/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send, fi_recv, fi_tsend, fi_trecv in all their forms. */
#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "transports/shm/shm_op.h"

static inline ssize_t send_any(struct fid_ep *fid, bool tagged, const struct iovec *iov,
                               size_t count, fi_addr_t dest, uint64_t flags, uint64_t data,
                               uint64_t tag, void *context, bool silent)
{
    struct shm_post post;

    post.iov = iov;
    post.count = count;
    post.peer = dest;
    post.flags = flags;
    post.data = data;
    post.tag = tag;
    post.context = context;
    post.done = FI_SEND | (tagged ? FI_TAGGED : FI_MSG);
    post.kind = REPORT_SEND;
    post.tagged = tagged;
    post.silent = silent;
    return shm_post_message(shm_ep_of(fid), &post);
}

static inline ssize_t send_one(struct fid_ep *fid, bool tagged, const void *buf, size_t len,
                               fi_addr_t dest, uint64_t flags, uint64_t data, uint64_t tag,
                               void *context, bool silent)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return send_any(fid, tagged, &iov, 1, dest, flags, data, tag, context, silent);
}

static inline uint64_t tx_flags(struct fid_ep *fid)
{
    return shm_ep_of(fid)->tx_op_flags;
}

/* ---- Untagged ---- */

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return send_any(fid, false, msg->msg_iov, msg->iov_count, msg->addr, flags, msg->data, 0,
                    msg->context, false);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, void *context)
{
    return send_any(fid, false, iov, count, dest, tx_flags(fid), 0, 0, context, false);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
                        void *context)
{
    return send_one(fid, false, buf, len, dest, tx_flags(fid), 0, 0, context, false);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest, void *context)
{
    return send_one(fid, false, buf, len, dest, tx_flags(fid) | FI_REMOTE_CQ_DATA, data, 0,
                    context, false);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    return send_one(fid, false, buf, len, dest, FI_INJECT, 0, 0, NULL, true);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest)
{
    return send_one(fid, false, buf, len, dest, FI_INJECT | FI_REMOTE_CQ_DATA, data, 0, NULL,
                    true);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct shm_ep *ep = shm_ep_of(fid);
    ssize_t rc;

    if (!ep->match || ep->forks != fork_generation)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    rc = match_recv(ep->match, msg, flags);
    unit_unlock(ep->report.unit);
    return rc;
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, void *context)
{
    struct fi_msg msg = {
        .msg_iov = iov, .desc = desc, .iov_count = count, .addr = src, .context = context};

    return msg_recvmsg(fid, &msg, shm_ep_of(fid)->rx_op_flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return msg_recvv(fid, &iov, &desc, 1, src, context);
}

struct fi_ops_msg shm_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
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

/* ---- Tagged ---- */

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return send_any(fid, true, msg->msg_iov, msg->iov_count, msg->addr, flags, msg->data,
                    msg->tag, msg->context, false);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    return send_any(fid, true, iov, count, dest, tx_flags(fid), 0, tag, context, false);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    return send_one(fid, true, buf, len, dest, tx_flags(fid), 0, tag, context, false);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    return send_one(fid, true, buf, len, dest, tx_flags(fid) | FI_REMOTE_CQ_DATA, data, tag,
                    context, false);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    return send_one(fid, true, buf, len, dest, FI_INJECT, 0, tag, NULL, true);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    return send_one(fid, true, buf, len, dest, FI_INJECT | FI_REMOTE_CQ_DATA, data, tag,
                    NULL, true);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct shm_ep *ep = shm_ep_of(fid);
    ssize_t rc;

    if (!ep->match || ep->forks != fork_generation)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    rc = match_trecv(ep->match, msg, flags);
    unit_unlock(ep->report.unit);
    return rc;
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .desc = desc,
                                .iov_count = count,
                                .addr = src,
                                .tag = tag,
                                .ignore = ignore,
                                .context = context};

    return tagged_recvmsg(fid, &msg, shm_ep_of(fid)->rx_op_flags);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return tagged_recvv(fid, &iov, &desc, 1, src, tag, ignore, context);
}

struct fi_ops_tagged shm_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
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

/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send, fi_recv, fi_tsend, fi_trecv in all their forms. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/no.h"
#include "transports/loop/loop.h"

/* Of an operation only what counts is set: most of the struct is room. */
static inline void fill(struct loop_op *op, enum loop_kind kind, size_t count, uint64_t data,
                        uint64_t tag, void *context)
{
    loop_count(kind == LOOP_TAGGED ? LOOP_CALL_TSEND : LOOP_CALL_SEND);
    op->kind = kind;
    op->data = data;
    op->tag = tag;
    op->context = context;
    op->count = count;
    op->rma_count = 0;
}

static inline ssize_t send_any(struct fid_ep *fid, enum loop_kind kind, const struct iovec *iov,
                               size_t count, fi_addr_t dest, uint64_t flags, uint64_t data,
                               uint64_t tag, void *context)
{
    struct loop_op op;

    if (count > LOOP_IOV_LIMIT)
        return -FI_EINVAL;
    fill(&op, kind, count, data, tag, context);
    for (size_t i = 0; i < count; i++)
        op.iov[i] = iov[i];
    return loop_send(loop_ep_of(fid), &op, dest, flags, false);
}

static inline ssize_t send_one(struct fid_ep *fid, enum loop_kind kind, const void *buf, size_t len,
                               fi_addr_t dest, uint64_t flags, uint64_t data, uint64_t tag,
                               void *context, bool silent)
{
    struct loop_op op;

    fill(&op, kind, 1, data, tag, context);
    op.iov[0].iov_base = (void *)(uintptr_t)buf;
    op.iov[0].iov_len = len;
    return loop_send(loop_ep_of(fid), &op, dest, flags, silent);
}

static inline uint64_t tx_flags(struct fid_ep *fid)
{
    return loop_ep_of(fid)->tx_op_flags;
}

/* ---- Untagged ---- */

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return send_any(fid, LOOP_MSG, msg->msg_iov, msg->iov_count, msg->addr, flags, msg->data, 0,
                    msg->context);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, void *context)
{
    return send_any(fid, LOOP_MSG, iov, count, dest, tx_flags(fid), 0, 0, context);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
                        void *context)
{
    return send_one(fid, LOOP_MSG, buf, len, dest, tx_flags(fid), 0, 0, context, false);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest, void *context)
{
    return send_one(fid, LOOP_MSG, buf, len, dest, tx_flags(fid) | FI_REMOTE_CQ_DATA, data, 0,
                    context, false);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    return send_one(fid, LOOP_MSG, buf, len, dest, FI_INJECT, 0, 0, NULL, true);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest)
{
    return send_one(fid, LOOP_MSG, buf, len, dest, FI_INJECT | FI_REMOTE_CQ_DATA, data, 0, NULL,
                    true);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct loop_ep *ep = loop_ep_of(fid);
    ssize_t rc = -FI_EOPBADSTATE;

    loop_count(LOOP_CALL_RECV);
    if (!ep->match)
        return rc;
    unit_lock(ep->report.unit);
    if (atomic_load_explicit(&ep->state, memory_order_relaxed) != LOOP_DOWN ||
        match_queued(ep->match))
        rc = match_recv(ep->match, msg, flags);
    else
        rc = -FI_ENOTCONN;
    unit_unlock(ep->report.unit);
    return rc;
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, void *context)
{
    struct fi_msg msg = {
        .msg_iov = iov, .desc = desc, .iov_count = count, .addr = src, .context = context};

    return msg_recvmsg(fid, &msg, loop_ep_of(fid)->rx_op_flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return msg_recvv(fid, &iov, &desc, 1, src, context);
}

struct fi_ops_msg loop_msg_ops = {
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

/* Receives are posted to the shared context. */
struct fi_ops_msg loop_msg_shared_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = no_msg_recv,
    .recvv = no_msg_recvv,
    .recvmsg = no_msg_recvmsg,
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
    return send_any(fid, LOOP_TAGGED, msg->msg_iov, msg->iov_count, msg->addr, flags, msg->data,
                    msg->tag, msg->context);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    return send_any(fid, LOOP_TAGGED, iov, count, dest, tx_flags(fid), 0, tag, context);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    return send_one(fid, LOOP_TAGGED, buf, len, dest, tx_flags(fid), 0, tag, context, false);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    return send_one(fid, LOOP_TAGGED, buf, len, dest, tx_flags(fid) | FI_REMOTE_CQ_DATA, data, tag,
                    context, false);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    return send_one(fid, LOOP_TAGGED, buf, len, dest, FI_INJECT, 0, tag, NULL, true);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    return send_one(fid, LOOP_TAGGED, buf, len, dest, FI_INJECT | FI_REMOTE_CQ_DATA, data, tag,
                    NULL, true);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct loop_ep *ep = loop_ep_of(fid);
    ssize_t rc;

    loop_count(LOOP_CALL_TRECV);
    if (!ep->match)
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

    return tagged_recvmsg(fid, &msg, loop_ep_of(fid)->rx_op_flags);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return tagged_recvv(fid, &iov, &desc, 1, src, tag, ignore, context);
}

struct fi_ops_tagged loop_tagged_ops = {
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

struct fi_ops_tagged loop_tagged_shared_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = no_tagged_recv,
    .recvv = no_tagged_recvv,
    .recvmsg = no_tagged_recvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};

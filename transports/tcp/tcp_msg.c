/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send and fi_recv, fi_tsend, in all their forms. */
#include <rdma/fi_errno.h>

#include "core/no.h"
#include "transports/tcp/tcp_ep_ops.h"
#include "transports/tcp/tcp_post.h"

/* The parts of a send that its forms fill in. */
struct send {
    const struct iovec *iov;
    size_t count;
    void *context;
    uint64_t flags, data, tag;
    bool tagged, silent;
};

static ssize_t send_any(struct fid_ep *fid, const struct send *send)
{
    struct tcp_post post = {
        .wire = {.op = send->tagged ? TCP_OP_TAG : TCP_OP_MSG, .tag = send->tag},
        .iov = send->iov,
        .iov_count = send->count,
        .context = send->context,
        .flags = send->flags,
        .data = send->data,
        .done = FI_SEND | (send->tagged ? FI_TAGGED : FI_MSG),
        .silent = send->silent,
    };

    return tcp_post(tcp_ep_of(fid), &post);
}

static uint64_t default_flags(struct fid_ep *fid)
{
    return tcp_ep_of(fid)->tx_op_flags;
}

/* ---- Untagged ---- */

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return send_any(fid, &(struct send){.iov = msg->msg_iov,
                                        .count = msg->iov_count,
                                        .context = msg->context,
                                        .flags = flags,
                                        .data = msg->data});
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest_addr, void *context)
{
    return send_any(
        fid, &(struct send){
                 .iov = iov, .count = count, .context = context, .flags = default_flags(fid)});
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                        fi_addr_t dest_addr, void *context)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return msg_sendv(fid, &iov, NULL, 1, dest_addr, context);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest_addr, void *context)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return send_any(fid, &(struct send){.iov = &iov,
                                        .count = 1,
                                        .context = context,
                                        .flags = default_flags(fid) | FI_REMOTE_CQ_DATA,
                                        .data = data});
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return send_any(fid,
                    &(struct send){.iov = &iov, .count = 1, .flags = FI_INJECT, .silent = true});
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return send_any(fid, &(struct send){.iov = &iov,
                                        .count = 1,
                                        .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                                        .data = data,
                                        .silent = true});
}

/* ---- Receives of an endpoint's own ---- */

/* After the end of a connection only what has arrived can be received; other receives end in error,
 * as those do that were posted before it. */
static ssize_t post_recv(struct tcp_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    ssize_t rc = unit_forked(ep->report.unit) ? -FI_EOPBADSTATE : match_recv(ep->match, msg, flags);
    if (!rc && ep->state == TCP_DOWN)
        match_fail(ep->match, NULL, FI_ENOTCONN);
    unit_unlock(ep->report.unit);
    return rc;
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return post_recv(tcp_ep_of(fid), msg, flags);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, void *context)
{
    const struct fi_msg msg = {.msg_iov = iov,
                               .desc = desc,
                               .iov_count = count,
                               .addr = FI_ADDR_UNSPEC,
                               .context = context};

    return post_recv(tcp_ep_of(fid), &msg, tcp_ep_of(fid)->rx_op_flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                        void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};

    return msg_recvv(fid, &iov, &desc, 1, src_addr, context);
}

struct fi_ops_msg tcp_msg_ops = {
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

struct fi_ops_msg tcp_msg_shared_ops = {
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
    return send_any(fid, &(struct send){.iov = msg->msg_iov,
                                        .count = msg->iov_count,
                                        .context = msg->context,
                                        .flags = flags,
                                        .data = msg->data,
                                        .tag = msg->tag,
                                        .tagged = true});
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return send_any(fid, &(struct send){.iov = iov,
                                        .count = count,
                                        .context = context,
                                        .flags = default_flags(fid),
                                        .tag = tag,
                                        .tagged = true});
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest_addr, uint64_t tag, void *context)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return tagged_sendv(fid, &iov, NULL, 1, dest_addr, tag, context);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return send_any(fid, &(struct send){.iov = &iov,
                                        .count = 1,
                                        .context = context,
                                        .flags = default_flags(fid) | FI_REMOTE_CQ_DATA,
                                        .data = data,
                                        .tag = tag,
                                        .tagged = true});
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr,
                             uint64_t tag)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return send_any(fid, &(struct send){.iov = &iov,
                                        .count = 1,
                                        .flags = FI_INJECT,
                                        .tag = tag,
                                        .tagged = true,
                                        .silent = true});
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest_addr, uint64_t tag)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return send_any(fid, &(struct send){.iov = &iov,
                                        .count = 1,
                                        .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                                        .data = data,
                                        .tag = tag,
                                        .tagged = true,
                                        .silent = true});
}

struct fi_ops_tagged tcp_tagged_ops = {
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

/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send, fi_recv, fi_tsend, fi_trecv and their kin, of every endpoint of ours. */
#include "core/ep/ep_build.h"

/* ---- Untagged ---- */

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_RECV, OP_GROUP_RECV, FI_RECV | FI_MSG, src, context);
    op_set_iov(&op, &iov, &desc, 1);
    return ep_post(fid, &op);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, void *context)
{
    struct op op;

    op_start(&op, OP_RECVV, OP_GROUP_RECV, FI_RECV | FI_MSG, src, context);
    op_set_iov(&op, iov, desc, count);
    return ep_post(fid, &op);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct op op;

    op_of_msg(&op, OP_RECVMSG, msg, flags);
    return ep_post(fid, &op);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
                        void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_SEND, OP_GROUP_SEND, FI_SEND | FI_MSG, dest, context);
    op_set_iov(&op, &iov, &desc, 1);
    return ep_post(fid, &op);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, void *context)
{
    struct op op;

    op_start(&op, OP_SENDV, OP_GROUP_SEND, FI_SEND | FI_MSG, dest, context);
    op_set_iov(&op, iov, desc, count);
    return ep_post(fid, &op);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct op op;

    op_of_msg(&op, OP_SENDMSG, msg, flags);
    return ep_post(fid, &op);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_INJECT, OP_GROUP_SEND, FI_SEND | FI_MSG, dest, NULL);
    op_set_flags(&op, FI_INJECT);
    op_set_iov(&op, &iov, NULL, 1);
    return ep_post(fid, &op);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_SENDDATA, OP_GROUP_SEND, FI_SEND | FI_MSG, dest, context);
    op_set_iov(&op, &iov, &desc, 1);
    op_set_data(&op, data);
    return ep_post(fid, &op);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_INJECTDATA, OP_GROUP_SEND, FI_SEND | FI_MSG, dest, NULL);
    op_set_flags(&op, FI_INJECT);
    op_set_iov(&op, &iov, NULL, 1);
    op_set_data(&op, data);
    return ep_post(fid, &op);
}

struct fi_ops_msg ep_msg_ops = {
    .size = sizeof(ep_msg_ops),
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

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_TRECV, OP_GROUP_TRECV, FI_RECV | FI_TAGGED, src, context);
    op_set_iov(&op, &iov, &desc, 1);
    op.tag = tag;
    op.ignore = ignore;
    return ep_post(fid, &op);
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
    struct op op;

    op_start(&op, OP_TRECVV, OP_GROUP_TRECV, FI_RECV | FI_TAGGED, src, context);
    op_set_iov(&op, iov, desc, count);
    op.tag = tag;
    op.ignore = ignore;
    return ep_post(fid, &op);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct op op;

    op_of_tagged(&op, OP_TRECVMSG, msg, flags);
    return ep_post(fid, &op);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_TSEND, OP_GROUP_TSEND, FI_SEND | FI_TAGGED, dest, context);
    op_set_iov(&op, &iov, &desc, 1);
    op.tag = tag;
    op.ignore = 0;
    return ep_post(fid, &op);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    struct op op;

    op_start(&op, OP_TSENDV, OP_GROUP_TSEND, FI_SEND | FI_TAGGED, dest, context);
    op_set_iov(&op, iov, desc, count);
    op.tag = tag;
    op.ignore = 0;
    return ep_post(fid, &op);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct op op;

    op_of_tagged(&op, OP_TSENDMSG, msg, flags);
    return ep_post(fid, &op);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_TINJECT, OP_GROUP_TSEND, FI_SEND | FI_TAGGED, dest, NULL);
    op_set_flags(&op, FI_INJECT);
    op_set_iov(&op, &iov, NULL, 1);
    op.tag = tag;
    op.ignore = 0;
    return ep_post(fid, &op);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_TSENDDATA, OP_GROUP_TSEND, FI_SEND | FI_TAGGED, dest, context);
    op_set_iov(&op, &iov, &desc, 1);
    op_set_data(&op, data);
    op.tag = tag;
    op.ignore = 0;
    return ep_post(fid, &op);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_TINJECTDATA, OP_GROUP_TSEND, FI_SEND | FI_TAGGED, dest, NULL);
    op_set_flags(&op, FI_INJECT);
    op_set_iov(&op, &iov, NULL, 1);
    op_set_data(&op, data);
    op.tag = tag;
    op.ignore = 0;
    return ep_post(fid, &op);
}

struct fi_ops_tagged ep_tagged_ops = {
    .size = sizeof(ep_tagged_ops),
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

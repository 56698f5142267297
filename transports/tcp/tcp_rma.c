/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_read and fi_write in all their forms. */
#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_ep_ops.h"
#include "transports/tcp/tcp_post.h"

struct access {
    const struct iovec *iov;
    size_t count;
    const struct fi_rma_iov *remote;
    size_t remote_count;
    void *context;
    uint64_t flags, data;
    bool silent;
};

/* Local and remote segments must describe the same number of bytes. */
static bool lengths_match(const struct access *access)
{
    uint64_t local = 0, remote = 0;

    for (size_t i = 0; i < access->count; i++)
        local += access->iov[i].iov_len;
    for (size_t i = 0; i < access->remote_count; i++)
        remote += access->remote[i].len;
    return local == remote;
}

static ssize_t access_any(struct fid_ep *fid, enum tcp_record op, const struct access *access)
{
    struct tcp_post post = {
        .wire = {.op = (uint8_t)op, .iov_count = (uint8_t)access->remote_count},
        .iov = access->iov,
        .iov_count = access->count,
        .context = access->context,
        .flags = access->flags,
        .data = access->data,
        .done = FI_RMA | (op == TCP_OP_WRITE ? FI_WRITE : FI_READ),
        .silent = access->silent,
    };

    if (access->remote_count > TCP_WIRE_IOV_MAX || access->count > TCP_IOV_LIMIT ||
        !lengths_match(access))
        return -FI_EINVAL;
    for (size_t i = 0; i < access->remote_count; i++)
        post.wire.iov[i] = (struct tcp_wire_iov){access->remote[i].addr, access->remote[i].len,
                                                 access->remote[i].key};
    if (op == TCP_OP_READ_REQ)
        post.flags &= ~(FI_REMOTE_CQ_DATA | FI_INJECT);
    return tcp_post(tcp_ep_of(fid), &post);
}

static uint64_t default_flags(struct fid_ep *fid)
{
    return tcp_ep_of(fid)->tx_op_flags;
}

static ssize_t rma_msg(struct fid_ep *fid, enum tcp_record op, const struct fi_msg_rma *msg,
                       uint64_t flags)
{
    return access_any(fid, op,
                      &(struct access){.iov = msg->msg_iov,
                                       .count = msg->iov_count,
                                       .remote = msg->rma_iov,
                                       .remote_count = msg->rma_iov_count,
                                       .context = msg->context,
                                       .flags = flags,
                                       .data = msg->data});
}

static ssize_t rma_vector(struct fid_ep *fid, enum tcp_record op, const struct iovec *iov,
                          size_t count, uint64_t addr, uint64_t key, void *context)
{
    struct fi_rma_iov remote = {.addr = addr, .key = key};

    for (size_t i = 0; i < count && i < TCP_IOV_LIMIT; i++)
        remote.len += iov[i].iov_len;
    return access_any(fid, op,
                      &(struct access){.iov = iov,
                                       .count = count,
                                       .remote = &remote,
                                       .remote_count = 1,
                                       .context = context,
                                       .flags = default_flags(fid)});
}

static ssize_t write_one(struct fid_ep *fid, const void *buf, size_t len, uint64_t addr,
                         uint64_t key, const struct access *model)
{
    const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    const struct fi_rma_iov remote = {.addr = addr, .len = len, .key = key};
    struct access access = *model;

    access.iov = &iov;
    access.count = 1;
    access.remote = &remote;
    access.remote_count = 1;
    return access_any(fid, TCP_OP_WRITE, &access);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rma_msg(fid, TCP_OP_READ_REQ, msg, flags);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
    return rma_vector(fid, TCP_OP_READ_REQ, iov, count, addr, key, context);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                        uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};

    return rma_vector(fid, TCP_OP_READ_REQ, &iov, 1, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rma_msg(fid, TCP_OP_WRITE, msg, flags);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    return rma_vector(fid, TCP_OP_WRITE, iov, count, addr, key, context);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                         fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    return write_one(fid, buf, len, addr, key,
                     &(struct access){.context = context, .flags = default_flags(fid)});
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             void *context)
{
    return write_one(fid, buf, len, addr, key,
                     &(struct access){.context = context,
                                      .flags = default_flags(fid) | FI_REMOTE_CQ_DATA,
                                      .data = data});
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr,
                          uint64_t addr, uint64_t key)
{
    return write_one(fid, buf, len, addr, key,
                     &(struct access){.flags = FI_INJECT, .silent = true});
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
    return write_one(
        fid, buf, len, addr, key,
        &(struct access){.flags = FI_INJECT | FI_REMOTE_CQ_DATA, .data = data, .silent = true});
}

struct fi_ops_rma tcp_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
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

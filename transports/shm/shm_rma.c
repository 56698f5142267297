/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_read, fi_write in all their forms. */
#include "transports/shm/shm_op.h"

static ssize_t access_remote(struct fid_ep *fid, bool write, const struct fi_msg_rma *msg,
                             uint64_t flags, bool silent)
{
    struct shm_post post = {
        .iov = msg->msg_iov,
        .count = msg->iov_count,
        .rma = msg->rma_iov,
        .rma_count = msg->rma_iov_count,
        .peer = msg->addr,
        .flags = flags,
        .data = msg->data,
        .context = msg->context,
        .done = FI_RMA | (write ? FI_WRITE : FI_READ),
        .kind = write ? REPORT_WRITE : REPORT_READ,
        .silent = silent,
    };
    struct shm_ep *ep = shm_ep_of(fid);

    return write ? shm_post_write(ep, &post) : shm_post_read(ep, &post);
}

static ssize_t access_one(struct fid_ep *fid, bool write, const struct iovec *iov,
                          size_t count, fi_addr_t peer, uint64_t addr, uint64_t key, uint64_t data,
                          uint64_t flags, void *context, bool silent)
{
    struct fi_rma_iov remote = {.addr = addr, .key = key};
    struct fi_msg_rma msg = {.msg_iov = iov,
                             .iov_count = count,
                             .addr = peer,
                             .rma_iov = &remote,
                             .rma_iov_count = 1,
                             .context = context,
                             .data = data};

    for (size_t i = 0; i < count; i++)
        remote.len += iov[i].iov_len;
    return access_remote(fid, write, &msg, flags, silent);
}

static inline uint64_t tx_flags(struct fid_ep *fid)
{
    return shm_ep_of(fid)->tx_op_flags;
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    /* A read has no payload to take a copy of, and no data to hand over. */
    return access_remote(fid, false, msg, flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA), false);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
    return access_one(fid, false, iov, count, src, addr, key, 0, tx_flags(fid) & ~FI_INJECT,
                      context, false);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return rma_readv(fid, &iov, &desc, 1, src, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return access_remote(fid, true, msg, flags, false);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    return access_one(fid, true, iov, count, dest, addr, key, 0, tx_flags(fid), context,
                      false);
}

static ssize_t write_one(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                         fi_addr_t dest, uint64_t addr, uint64_t key, uint64_t flags, void *context,
                         bool silent)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return access_one(fid, true, &iov, 1, dest, addr, key, data, flags, context, silent);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                         fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    return write_one(fid, buf, len, 0, dest, addr, key, tx_flags(fid), context, false);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                             void *context)
{
    return write_one(fid, buf, len, data, dest, addr, key, tx_flags(fid) | FI_REMOTE_CQ_DATA,
                     context, false);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    return write_one(fid, buf, len, 0, dest, addr, key, FI_INJECT, NULL, true);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest, uint64_t addr, uint64_t key)
{
    return write_one(fid, buf, len, data, dest, addr, key, FI_INJECT | FI_REMOTE_CQ_DATA, NULL,
                     true);
}

struct fi_ops_rma shm_rma_ops = {
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

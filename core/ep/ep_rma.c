/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_read, fi_write and their kin, of every endpoint of ours. */
#include "core/ep/ep_build.h"

/* Sets the one remote segment, as long as the local ones, and posts. */
OP_INLINE ssize_t post_at(struct fid_ep *fid, struct op *op, uint64_t addr, uint64_t key)
{
    const struct fi_rma_iov rma = {.addr = addr, .len = op->len, .key = key};

    ssize_t rc;

    op->rma = &rma;
    op->rma_count = 1;
    rc = ep_post(fid, op);
    op->rma = NULL;
    return rc;
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_READ, OP_GROUP_RMA, FI_RMA | FI_READ, src, context);
    op_set_iov(&op, &iov, &desc, 1);
    return post_at(fid, &op, addr, key);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
    struct op op;

    op_start(&op, OP_READV, OP_GROUP_RMA, FI_RMA | FI_READ, src, context);
    op_set_iov(&op, iov, desc, count);
    return post_at(fid, &op, addr, key);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct op op;

    op_of_rma(&op, OP_READMSG, msg, flags);
    return ep_post(fid, &op);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                         fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_WRITE, OP_GROUP_RMA, FI_RMA | FI_WRITE, dest, context);
    op_set_iov(&op, &iov, &desc, 1);
    return post_at(fid, &op, addr, key);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    struct op op;

    op_start(&op, OP_WRITEV, OP_GROUP_RMA, FI_RMA | FI_WRITE, dest, context);
    op_set_iov(&op, iov, desc, count);
    return post_at(fid, &op, addr, key);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct op op;

    op_of_rma(&op, OP_WRITEMSG, msg, flags);
    return ep_post(fid, &op);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_INJECT_WRITE, OP_GROUP_RMA, FI_RMA | FI_WRITE, dest, NULL);
    op_set_flags(&op, FI_INJECT);
    op_set_iov(&op, &iov, NULL, 1);
    return post_at(fid, &op, addr, key);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                             void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_WRITEDATA, OP_GROUP_RMA, FI_RMA | FI_WRITE, dest, context);
    op_set_iov(&op, &iov, &desc, 1);
    op_set_data(&op, data);
    return post_at(fid, &op, addr, key);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest, uint64_t addr, uint64_t key)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct op op;

    op_start(&op, OP_INJECT_WRITEDATA, OP_GROUP_RMA, FI_RMA | FI_WRITE, dest, NULL);
    op_set_flags(&op, FI_INJECT);
    op_set_iov(&op, &iov, NULL, 1);
    op_set_data(&op, data);
    return post_at(fid, &op, addr, key);
}

struct fi_ops_rma ep_rma_ops = {
    .size = sizeof(ep_rma_ops),
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

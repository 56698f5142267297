/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_read, fi_write. */
#include "core/post.h"
#include "transports/shm/shm_op.h"
#include "transports/shm/shm_quick.h"

static inline uint64_t tx_flags(struct fid_ep *fid)
{
    return shm_ep_of(fid)->tx_op_flags;
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    struct shm_ep *ep = shm_ep_of(fid);

    return post->kind & FI_WRITE ? shm_post_write(ep, post) : shm_post_read(ep, post);
}

#include "core/post_rma.inc"

static ssize_t quick_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    const struct fi_rma_iov rma = {.addr = addr, .len = len, .key = key};
    const struct post post = {.kind = FI_RMA | FI_READ,
                              .iov = &iov,
                              .rma = &rma,
                              .peer = src,
                              .flags = tx_flags(fid) & ~(FI_INJECT | FI_REMOTE_CQ_DATA),
                              .context = context};

    if (__builtin_expect(shm_quick_access(shm_ep_of(fid), &post, SHM_IN), 1))
        return 0;
    return rma_read(fid, buf, len, desc, src, addr, key, context);
}

static ssize_t quick_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct fi_rma_iov rma = {.addr = addr, .len = len, .key = key};
    /* A small write is done when it is complete at the target, whatever was asked for. */
    const struct post post = {.kind = FI_RMA | FI_WRITE,
                              .iov = &iov,
                              .rma = &rma,
                              .peer = dest,
                              .flags = tx_flags(fid) & ~FI_DELIVERY_COMPLETE,
                              .context = context};

    if (__builtin_expect(shm_quick_access(shm_ep_of(fid), &post, SHM_OUT), 1))
        return 0;
    return rma_write(fid, buf, len, desc, dest, addr, key, context);
}

static ssize_t quick_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                            uint64_t addr, uint64_t key)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct fi_rma_iov rma = {.addr = addr, .len = len, .key = key};
    const struct post post = {
        .kind = FI_RMA | FI_WRITE, .iov = &iov, .rma = &rma, .peer = dest, .silent = true};

    if (__builtin_expect(shm_quick_access(shm_ep_of(fid), &post, SHM_OUT), 1))
        return 0;
    return rma_inject(fid, buf, len, dest, addr, key);
}

struct fi_ops_rma shm_rma_ops = {.size = sizeof(struct fi_ops_rma),
                                 .read = quick_read,
                                 .readv = rma_readv,
                                 .readmsg = rma_readmsg,
                                 .write = quick_write,
                                 .writev = rma_writev,
                                 .writemsg = rma_writemsg,
                                 .inject = quick_inject,
                                 .writedata = rma_writedata,
                                 .injectdata = rma_injectdata};

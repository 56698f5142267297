/* SPDX-License-Identifier: BSD-2-Clause */
/* The fast paths of fi_read, fi_write and fi_inject_write: as those of shm_msg.c. */
#include "core/base/table.h"
#include "transports/shm/shm_fast.h"
#include "transports/shm/shm_op.h"

static ssize_t quick_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    const struct fi_rma_iov rma = {.addr = addr, .len = len, .key = key};
    const struct op post = {.call = OP_READ,
                            .kind = FI_RMA | FI_READ,
                            .iov = &iov,
                            .rma = &rma,
                            .peer = src,
                            .flags =
                                shm_ep_of(fid)->base.tx_op_flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA),
                            .context = context};

    if (__builtin_expect(shm_fast_access(shm_ep_of(fid), &post, SHM_IN, SHM_FAST_LINE), 1))
        return 0;
    return ep_rma_ops.read(fid, buf, len, desc, src, addr, key, context);
}

static __attribute__((noinline)) bool lines_out(struct shm_ep *ep, const struct op *post)
{
    return shm_fast_access(ep, post, SHM_OUT, SHM_FAST_LINES);
}

static inline __attribute__((always_inline)) bool quick_out(struct shm_ep *ep,
                                                            const struct op *post)
{
    return shm_fast_access(ep, post, SHM_OUT, SHM_FAST_LINE) ||
           (post->iov->iov_len <= SHM_INLINE && lines_out(ep, post));
}

static ssize_t quick_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct fi_rma_iov rma = {.addr = addr, .len = len, .key = key};
    /* A small write is done when it is complete at the target, whatever was asked for. */
    const struct op post = {.call = OP_WRITE,
                            .kind = FI_RMA | FI_WRITE,
                            .iov = &iov,
                            .rma = &rma,
                            .peer = dest,
                            .flags = shm_ep_of(fid)->base.tx_op_flags & ~FI_DELIVERY_COMPLETE,
                            .context = context};

    if (__builtin_expect(quick_out(shm_ep_of(fid), &post), 1))
        return 0;
    return ep_rma_ops.write(fid, buf, len, desc, dest, addr, key, context);
}

static ssize_t quick_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                            uint64_t addr, uint64_t key)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct fi_rma_iov rma = {.addr = addr, .len = len, .key = key};
    const struct op post = {
        .call = OP_INJECT_WRITE, .kind = FI_RMA | FI_WRITE, .iov = &iov, .rma = &rma, .peer = dest};

    if (__builtin_expect(quick_out(shm_ep_of(fid), &post), 1))
        return 0;
    return ep_rma_ops.inject(fid, buf, len, dest, addr, key);
}

static struct fi_ops_rma ops = {
    .size = sizeof(ops), .read = quick_read, .write = quick_write, .inject = quick_inject};

struct fi_ops_rma *shm_rma_ops(void)
{
    return table_inherit(&ops, &ep_rma_ops);
}

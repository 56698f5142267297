/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote memory: fi_rma(3). Addresses and keys are the lower's, as the regions are. */
#include "layers/rxm/rxm_ep.h"
#include "layers/rxm/rxm_wait.h"

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        uint64_t addr, uint64_t key, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, src);
    ssize_t rc = to ? fi_read(to, buf, len, desc, FI_ADDR_UNSPEC, addr, key, context)
                    : rxm_wait_rma.read(fid, buf, len, desc, src, addr, key, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, src);
    ssize_t rc = to ? fi_readv(to, iov, desc, count, FI_ADDR_UNSPEC, addr, key, context)
                    : rxm_wait_rma.readv(fid, iov, desc, count, src, addr, key, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, msg->addr);
    ssize_t rc = to ? fi_readmsg(to, msg, flags) : rxm_wait_rma.readmsg(fid, msg, flags);

    return rxm_ep_leave(ep, rc);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                         fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_write(to, buf, len, desc, FI_ADDR_UNSPEC, addr, key, context)
                    : rxm_wait_rma.write(fid, buf, len, desc, dest, addr, key, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_writev(to, iov, desc, count, FI_ADDR_UNSPEC, addr, key, context)
                    : rxm_wait_rma.writev(fid, iov, desc, count, dest, addr, key, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, msg->addr);
    ssize_t rc = to ? fi_writemsg(to, msg, flags) : rxm_wait_rma.writemsg(fid, msg, flags);

    return rxm_ep_leave(ep, rc);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_inject_write(to, buf, len, FI_ADDR_UNSPEC, addr, key)
                    : rxm_wait_rma.inject(fid, buf, len, dest, addr, key);

    return rxm_ep_leave(ep, rc);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                             void *context)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_writedata(to, buf, len, desc, data, FI_ADDR_UNSPEC, addr, key, context)
                    : rxm_wait_rma.writedata(fid, buf, len, desc, data, dest, addr, key, context);

    return rxm_ep_leave(ep, rc);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest, uint64_t addr, uint64_t key)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, dest);
    ssize_t rc = to ? fi_inject_writedata(to, buf, len, data, FI_ADDR_UNSPEC, addr, key)
                    : rxm_wait_rma.injectdata(fid, buf, len, data, dest, addr, key);

    return rxm_ep_leave(ep, rc);
}

struct fi_ops_rma rxm_rma_ops = {
    .size = sizeof(rxm_rma_ops),
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

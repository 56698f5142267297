/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast paths of fi_send, fi_recv, fi_tsend, fi_trecv and of the two injects, past struct op. A
 * send that comes as one takes the same path (shm_post.c), a receive the engine's own. Other posts
 * go through the public functions of core/ep.
 */

#include "core/base/fork.h"
#include "core/base/table.h"
#include "core/match/match_quick.h"
#include "transports/shm/shm_fast.h"
#include "transports/shm/shm_op.h"

/* ---- One buffer ---- */

static inline __attribute__((always_inline)) bool receive(struct shm_ep *ep, struct want want)
{
    want.flags = ep->base.rx_op_flags;
    return __builtin_expect(ep->forks == fork_generation, 1) &&
           match_quick_receive(ep->base.match, ep->base.binding.progress, want);
}

static ssize_t quick_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct shm_ep *ep = shm_ep_of(fid);

    if (__builtin_expect(ep->base.match && receive(ep, match_want(&ep->base.match->msg, &iov, 1,
                                                                  &desc, src, 0, context)),
                         1))
        return 0;
    return ep_msg_ops.recv(fid, buf, len, desc, src, context);
}

static ssize_t quick_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct shm_ep *ep = shm_ep_of(fid);
    struct want want;

    if (__builtin_expect(ep->base.match != NULL, 1)) {
        want = match_want(&ep->base.match->tag, &iov, 1, &desc, src, 0, context);
        want.tag = tag;
        want.ignore = ignore;
        if (__builtin_expect(receive(ep, want), 1))
            return 0;
    }
    return ep_tagged_ops.recv(fid, buf, len, desc, src, tag, ignore, context);
}

static ssize_t quick_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct op post = {.call = OP_SEND,
                            .kind = FI_SEND | FI_MSG,
                            .iov = &iov,
                            .peer = dest,
                            .flags = shm_ep_of(fid)->base.tx_op_flags,
                            .context = context};

    if (__builtin_expect(shm_fast_send(shm_ep_of(fid), &post), 1))
        return 0;
    return ep_msg_ops.send(fid, buf, len, desc, dest, context);
}

static ssize_t quick_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct op post = {.call = OP_INJECT,
                            .kind = FI_SEND | FI_MSG,
                            .iov = &iov,
                            .peer = dest,
                            .flags = endpoint_inject_flags(&shm_ep_of(fid)->base, BIND_SEND)};

    if (__builtin_expect(shm_fast_send(shm_ep_of(fid), &post), 1))
        return 0;
    return ep_msg_ops.inject(fid, buf, len, dest);
}

static ssize_t quick_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct op post = {.call = OP_TSEND,
                            .kind = FI_SEND | FI_TAGGED,
                            .iov = &iov,
                            .peer = dest,
                            .tag = tag,
                            .flags = shm_ep_of(fid)->base.tx_op_flags,
                            .context = context};

    if (__builtin_expect(shm_fast_send(shm_ep_of(fid), &post), 1))
        return 0;
    return ep_tagged_ops.send(fid, buf, len, desc, dest, tag, context);
}

static ssize_t quick_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct op post = {.call = OP_TINJECT,
                            .kind = FI_SEND | FI_TAGGED,
                            .iov = &iov,
                            .peer = dest,
                            .tag = tag,
                            .flags = endpoint_inject_flags(&shm_ep_of(fid)->base, BIND_SEND)};

    if (__builtin_expect(shm_fast_send(shm_ep_of(fid), &post), 1))
        return 0;
    return ep_tagged_ops.inject(fid, buf, len, dest, tag);
}

/* ---- Tables ---- */

static struct fi_ops_msg msg_tx_ops = {
    .size = sizeof(msg_tx_ops), .send = quick_send, .inject = quick_inject};
static struct fi_ops_msg msg_rx_ops = {.size = sizeof(msg_rx_ops), .recv = quick_recv};
static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops), .recv = quick_recv, .send = quick_send, .inject = quick_inject};
static struct fi_ops_tagged tagged_tx_ops = {
    .size = sizeof(tagged_tx_ops), .send = quick_tsend, .inject = quick_tinject};
static struct fi_ops_tagged tagged_rx_ops = {.size = sizeof(tagged_rx_ops), .recv = quick_trecv};
static struct fi_ops_tagged tagged_ops = {
    .size = sizeof(tagged_ops), .recv = quick_trecv, .send = quick_tsend, .inject = quick_tinject};

void shm_set_data_ops(struct shm_ep *ep, size_t class)
{
    bool sends = class != FI_CLASS_RX_CTX, receives = class != FI_CLASS_TX_CTX;

    if (ep->base.caps & FI_MSG)
        ep->fid.msg = table_inherit(!receives ? &msg_tx_ops
                                    : sends   ? &msg_ops
                                              : &msg_rx_ops,
                                    &ep_msg_ops);
    if (ep->base.caps & FI_TAGGED)
        ep->fid.tagged = table_inherit(!receives ? &tagged_tx_ops
                                       : sends   ? &tagged_ops
                                                 : &tagged_rx_ops,
                                       &ep_tagged_ops);
    if (ep->base.caps & FI_RMA && sends)
        ep->fid.rma = shm_rma_ops();
}

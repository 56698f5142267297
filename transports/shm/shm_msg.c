/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send, fi_recv, fi_tsend, fi_trecv. */
#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "core/match_quick.h"
#include "core/no.h"
#include "core/post.h"
#include "transports/shm/shm_op.h"
#include "transports/shm/shm_quick.h"

static inline uint64_t tx_flags(struct fid_ep *fid)
{
    return shm_ep_of(fid)->tx_op_flags;
}

static inline uint64_t rx_flags(struct fid_ep *fid)
{
    return shm_ep_of(fid)->rx_op_flags;
}

static inline ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    return shm_post_message(shm_ep_of(fid), post);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct shm_ep *ep = shm_ep_of(fid);
    ssize_t rc;

    if (!ep->match || ep->forks != fork_generation)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    rc = match_recv(ep->match, msg, flags);
    unit_unlock(ep->report.unit);
    return rc;
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct shm_ep *ep = shm_ep_of(fid);
    ssize_t rc;

    if (!ep->match || ep->forks != fork_generation)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    rc = match_trecv(ep->match, msg, flags);
    unit_unlock(ep->report.unit);
    return rc;
}

#include "core/post_recv.inc"
#include "core/post_send.inc"
#include "core/post_trecv.inc"
#include "core/post_tsend.inc"

/* ---- One buffer ---- */

static inline __attribute__((always_inline)) bool receive(struct shm_ep *ep, struct want want)
{
    bool done;

    if (__builtin_expect(ep->forks != fork_generation, 0))
        return false;
    want.flags = ep->rx_op_flags;
    want.src = ep->match->attr.directed ? want.src : FI_ADDR_UNSPEC;
    unit_lock(ep->report.unit);
    done = match_quick_post(ep->match, &want);
    unit_unlock(ep->report.unit);
    return done;
}

static ssize_t quick_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct shm_ep *ep = shm_ep_of(fid);

    if (__builtin_expect(
            ep->match && receive(ep, match_want(&ep->match->msg, &iov, 1, &desc, src, 0, context)),
            1))
        return 0;
    return msg_recv(fid, buf, len, desc, src, context);
}

static ssize_t quick_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct shm_ep *ep = shm_ep_of(fid);
    struct want want;

    if (__builtin_expect(ep->match != NULL, 1)) {
        want = match_want(&ep->match->tag, &iov, 1, &desc, src, 0, context);
        want.tag = tag;
        want.ignore = ignore;
        if (__builtin_expect(receive(ep, want), 1))
            return 0;
    }
    return tagged_recv(fid, buf, len, desc, src, tag, ignore, context);
}

static ssize_t quick_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct post post = {.kind = FI_SEND | FI_MSG,
                              .iov = &iov,
                              .peer = dest,
                              .flags = tx_flags(fid),
                              .context = context};

    if (__builtin_expect(shm_quick_send(shm_ep_of(fid), &post), 1))
        return 0;
    return msg_send(fid, buf, len, desc, dest, context);
}

static ssize_t quick_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct post post = {.kind = FI_SEND | FI_MSG, .iov = &iov, .peer = dest, .silent = true};

    if (__builtin_expect(shm_quick_send(shm_ep_of(fid), &post), 1))
        return 0;
    return msg_inject(fid, buf, len, dest);
}

static ssize_t quick_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct post post = {.kind = FI_SEND | FI_TAGGED,
                              .iov = &iov,
                              .peer = dest,
                              .tag = tag,
                              .flags = tx_flags(fid),
                              .context = context};

    if (__builtin_expect(shm_quick_send(shm_ep_of(fid), &post), 1))
        return 0;
    return tagged_send(fid, buf, len, desc, dest, tag, context);
}

static ssize_t quick_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct post post = {
        .kind = FI_SEND | FI_TAGGED, .iov = &iov, .peer = dest, .tag = tag, .silent = true};

    if (__builtin_expect(shm_quick_send(shm_ep_of(fid), &post), 1))
        return 0;
    return tagged_inject(fid, buf, len, dest, tag);
}

#define QUICK_RECV .recv = quick_recv, .recvv = msg_recvv, .recvmsg = msg_recvmsg
#define QUICK_TRECV .recv = quick_trecv, .recvv = tagged_recvv, .recvmsg = tagged_recvmsg
#define QUICK_SEND                                                                                 \
    .send = quick_send, .sendv = msg_sendv, .sendmsg = msg_sendmsg, .inject = quick_inject,        \
    .senddata = msg_senddata, .injectdata = msg_injectdata
#define QUICK_TSEND                                                                                \
    .send = quick_tsend, .sendv = tagged_sendv, .sendmsg = tagged_sendmsg,                         \
    .inject = quick_tinject, .senddata = tagged_senddata, .injectdata = tagged_injectdata

struct fi_ops_msg shm_msg_ops = {.size = sizeof(struct fi_ops_msg), QUICK_RECV, QUICK_SEND};
struct fi_ops_msg shm_msg_tx_ops = {.size = sizeof(struct fi_ops_msg), NO_RECV, QUICK_SEND};
struct fi_ops_msg shm_msg_rx_ops = {.size = sizeof(struct fi_ops_msg), QUICK_RECV, NO_SEND};
struct fi_ops_tagged shm_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged), QUICK_TRECV, QUICK_TSEND};
struct fi_ops_tagged shm_tagged_tx_ops = {
    .size = sizeof(struct fi_ops_tagged), NO_TRECV, QUICK_TSEND};
struct fi_ops_tagged shm_tagged_rx_ops = {
    .size = sizeof(struct fi_ops_tagged), QUICK_TRECV, NO_TSEND};

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_recv and fi_trecv of one buffer, from anybody, with an exact tag, and fi_send and fi_tsend of
 * the usual message: past struct op. A function that refuses has changed nothing, and calls the
 * general one.
 */
#include "core/base/table.h"
#include "core/ep/ep.h"
#include "core/match/match_quick.h"
#include "layers/rxd/rxd.h"

/* Default flags of transmissions that ask for nothing special. */
#define PLAIN (FI_COMPLETION | FI_INJECT_COMPLETE)

static struct rxd_ep *ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct rxd_ep, base.fid);
}

static inline __attribute__((always_inline)) bool receive(struct fid_ep *fid, bool tagged,
                                                          void *buf, size_t len, void *desc,
                                                          fi_addr_t src, uint64_t tag,
                                                          uint64_t ignore, void *context)
{
    struct message_ep *ep = &ep_of(fid)->base;
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct match *match = ep->own.match;
    struct want want;

    if (__builtin_expect(!ep->endpoint.enabled || !match || progress_forked(ep->progress), 0))
        return false;
    want = match_want(tagged ? &match->tag : &match->msg, &iov, 1, &desc, src,
                      ep->endpoint.rx_op_flags, context);
    want.tag = tag;
    want.ignore = ignore;
    return match_quick_receive(match, ep->progress, want);
}

static ssize_t short_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          void *context)
{
    if (__builtin_expect(receive(fid, false, buf, len, desc, src, 0, 0, context), 1))
        return 0;
    return ep_msg_ops.recv(fid, buf, len, desc, src, context);
}

static ssize_t short_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    if (__builtin_expect(receive(fid, true, buf, len, desc, src, tag, ignore, context), 1))
        return 0;
    return ep_tagged_ops.recv(fid, buf, len, desc, src, tag, ignore, context);
}

static inline __attribute__((always_inline)) bool transmit(struct fid_ep *fid, const void *buf,
                                                           size_t len, fi_addr_t dest, bool tagged,
                                                           uint64_t tag, void *context)
{
    struct rxd_ep *ep = ep_of(fid);
    struct message_context *own = &ep->base.own;
    struct message_peer *peer;
    struct progress *root;
    bool done;

    if (__builtin_expect(!own->endpoint.enabled || progress_forked(ep->base.progress) ||
                             own->endpoint.tx_op_flags & ~PLAIN || len > rxd_quick_room(ep),
                         0))
        return false;
    root = progress_enter_post(ep->base.progress);
    peer = av_watch_any(&ep->base.watch) ? NULL : peer_map_at(&ep->base.map, dest);
    done = peer && rxd_send_short(rxd_peer_of(peer), buf, len, tagged, tag, context);
    if (done && own->top)
        progress_posted(ep->base.progress);
    progress_leave_post(root);
    return done;
}

static ssize_t short_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    if (__builtin_expect(transmit(fid, buf, len, dest, false, 0, context), 1))
        return 0;
    return ep_msg_ops.send(fid, buf, len, desc, dest, context);
}

static ssize_t short_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    if (__builtin_expect(transmit(fid, buf, len, dest, true, tag, context), 1))
        return 0;
    return ep_tagged_ops.send(fid, buf, len, desc, dest, tag, context);
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops), .recv = short_recv, .send = short_send};
static struct fi_ops_tagged tagged_ops = {
    .size = sizeof(tagged_ops), .recv = short_trecv, .send = short_tsend};
static struct fi_ops_msg msg_tx_ops = {.size = sizeof(msg_tx_ops), .send = short_send};
static struct fi_ops_tagged tagged_tx_ops = {.size = sizeof(tagged_tx_ops), .send = short_tsend};

/* Receives of a shared context are posted there. */
void rxd_short_enable(struct rxd_ep *ep)
{
    const unsigned groups = ep->base.endpoint.base.groups;
    bool shares = ep->base.endpoint.srx;

    if ((groups & OP_GROUP_MSG) == OP_GROUP_MSG)
        ep->base.fid.msg = table_inherit(shares ? &msg_tx_ops : &msg_ops, &ep_msg_ops);
    if ((groups & OP_GROUP_TAGGED) == OP_GROUP_TAGGED)
        ep->base.fid.tagged = table_inherit(shares ? &tagged_tx_ops : &tagged_ops, &ep_tagged_ops);
}

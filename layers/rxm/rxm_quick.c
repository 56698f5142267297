/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_recv and fi_trecv of one buffer, from anybody, with an exact tag, and with tags=emulate
 * fi_send and fi_tsend of a few bytes: past struct op. A function that refuses has changed nothing,
 * and calls the general one.
 */
#include "layers/rxm/rxm_post.h"

#include "core/base/table.h"
#include "core/match/match_quick.h"
#include "layers/rxm/msgproto/msgproto_plain.h"

/* Default flags of transmissions that ask for nothing special. */
#define PLAIN (FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE)

/* The question to the engine is made with the lock held: the call that takes the lock would have to
 * keep all of it. */
static inline __attribute__((always_inline)) bool receive(struct rxm_ep *ep, bool tagged, void *buf,
                                                          size_t len, void *desc, fi_addr_t src,
                                                          uint64_t tag, uint64_t ignore,
                                                          void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct match *match = ep->match;
    struct progress *root;
    struct want want;
    bool done;

    if (__builtin_expect(progress_forked(ep->progress), 0))
        return false;
    root = progress_enter_post(ep->progress);
    want = match_want(tagged ? &match->tag : &match->msg, &iov, 1, &desc,
                      match->attr.directed ? src : FI_ADDR_UNSPEC, ep->base.rx_op_flags, context);
    want.tag = tag;
    want.ignore = ignore;
    done = match_quick_post(match, &want);
    progress_leave_post(root);
    return done;
}

static ssize_t quick_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          void *context)
{
    if (__builtin_expect(receive(rxm_ep_of(fid), false, buf, len, desc, src, 0, 0, context), 1))
        return 0;
    return ep_msg_ops.recv(fid, buf, len, desc, src, context);
}

static ssize_t quick_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    if (__builtin_expect(receive(rxm_ep_of(fid), true, buf, len, desc, src, tag, ignore, context),
                         1))
        return 0;
    return ep_tagged_ops.recv(fid, buf, len, desc, src, tag, ignore, context);
}

/* A small message in packets of ours, to a peer that there is a connection with. */
static inline __attribute__((always_inline)) bool transmit(struct rxm_ep *ep, const void *buf,
                                                           size_t len, fi_addr_t dest, bool tagged,
                                                           uint64_t tag, void *context)
{
    struct progress *root;
    struct rxm_peer *peer;
    bool done;

    if (__builtin_expect(len >= ep->plain_end || progress_forked(ep->progress), 0))
        return false;
    root = progress_enter_post(ep->progress);
    peer = av_watch_any(&ep->watch) ? NULL : rxm_peers_at(&ep->peers, dest);
    done = peer && peer->up && msgproto_send_plain(peer->up, buf, len, tagged, tag, context);
    progress_leave_post(root);
    return done;
}

static ssize_t quick_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    if (__builtin_expect(transmit(rxm_ep_of(fid), buf, len, dest, false, 0, context), 1))
        return 0;
    return ep_msg_ops.send(fid, buf, len, desc, dest, context);
}

static ssize_t quick_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    if (__builtin_expect(transmit(rxm_ep_of(fid), buf, len, dest, true, tag, context), 1))
        return 0;
    return ep_tagged_ops.send(fid, buf, len, desc, dest, tag, context);
}

static struct fi_ops_msg msg_emulated_ops = {
    .size = sizeof(msg_emulated_ops), .recv = quick_recv, .send = quick_send};
static struct fi_ops_tagged tagged_emulated_ops = {
    .size = sizeof(tagged_emulated_ops), .recv = quick_trecv, .send = quick_tsend};
static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), .recv = quick_recv};
static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops), .recv = quick_trecv};
static struct fi_ops_msg msg_tx_ops = {.size = sizeof(msg_tx_ops), .send = quick_send};
static struct fi_ops_tagged tagged_tx_ops = {.size = sizeof(tagged_tx_ops), .send = quick_tsend};

void rxm_quick_tx_flags(struct rxm_ep *ep)
{
    ep->plain_wanted = completion_wanted(ep->base.binding.tx_selective, ep->base.tx_op_flags);
    ep->plain_end = ep->base.tx_op_flags & ~PLAIN ? 0 : MSGPROTO_SMALL + 1;
}

/* Receives of a shared context are posted there. */
void rxm_quick_enable(struct rxm_ep *ep)
{
    const unsigned groups = ep->base.base.groups;
    const unsigned in = ep->base.srx ? 0 : groups, out = ep->msgproto ? groups : 0;

    rxm_quick_tx_flags(ep);
    if (in & OP_GROUP_RECV)
        ep->fid.msg =
            table_inherit(out & OP_GROUP_SEND ? &msg_emulated_ops : &msg_ops, &ep_msg_ops);
    else if (out & OP_GROUP_SEND)
        ep->fid.msg = table_inherit(&msg_tx_ops, &ep_msg_ops);
    if (in & OP_GROUP_TRECV)
        ep->fid.tagged = table_inherit(out & OP_GROUP_TSEND ? &tagged_emulated_ops : &tagged_ops,
                                       &ep_tagged_ops);
    else if (out & OP_GROUP_TSEND)
        ep->fid.tagged = table_inherit(&tagged_tx_ops, &ep_tagged_ops);
}

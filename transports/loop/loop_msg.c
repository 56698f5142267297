/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send, fi_recv, fi_tsend, fi_trecv. */
#include <rdma/fi_errno.h>

#include "core/post.h"
#include "transports/loop/loop.h"

static inline uint64_t tx_flags(struct fid_ep *fid)
{
    return loop_ep_of(fid)->tx_op_flags;
}

static inline uint64_t rx_flags(struct fid_ep *fid)
{
    return loop_ep_of(fid)->rx_op_flags;
}

/* Of an operation only what counts is set: most of the struct is room. */
static inline ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    bool tagged = post->kind & FI_TAGGED;
    struct loop_op op;

    loop_count(tagged ? LOOP_CALL_TSEND : LOOP_CALL_SEND);
    if (post->count > LOOP_IOV_LIMIT)
        return -FI_EINVAL;
    op.kind = tagged ? LOOP_TAGGED : LOOP_MSG;
    op.data = post->data;
    op.tag = post->tag;
    op.atomic = NULL;
    op.context = post->context;
    op.count = post->count;
    op.rma_count = 0;
    for (size_t i = 0; i < post->count; i++)
        op.iov[i] = post->iov[i];
    return loop_send(loop_ep_of(fid), &op, post->peer, post->flags, post->silent);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct loop_ep *ep = loop_ep_of(fid);
    ssize_t rc = -FI_EOPBADSTATE;

    loop_count(LOOP_CALL_RECV);
    if (!ep->match)
        return rc;
    unit_lock(ep->report.unit);
    if (atomic_load_explicit(&ep->state, memory_order_relaxed) != LOOP_DOWN ||
        match_queued(ep->match))
        rc = match_recv(ep->match, msg, flags);
    else
        rc = -FI_ENOTCONN;
    unit_unlock(ep->report.unit);
    return rc;
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct loop_ep *ep = loop_ep_of(fid);
    ssize_t rc;

    loop_count(LOOP_CALL_TRECV);
    if (!ep->match)
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

struct fi_ops_msg loop_msg_ops = {.size = sizeof(struct fi_ops_msg), POST_RECV, POST_SEND};
struct fi_ops_tagged loop_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged), POST_TRECV, POST_TSEND};

/* Receives are posted to the shared context. */
struct fi_ops_msg loop_msg_shared_ops = {.size = sizeof(struct fi_ops_msg), NO_RECV, POST_SEND};
struct fi_ops_tagged loop_tagged_shared_ops = {
    .size = sizeof(struct fi_ops_tagged), NO_TRECV, POST_TSEND};

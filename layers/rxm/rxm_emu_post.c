/* SPDX-License-Identifier: BSD-2-Clause */
/* What the application calls: fi_msg(3), fi_tagged(3), fi_rma(3). */
#include "core/post.h"

#include <rdma/fi_errno.h>

#include "layers/rxm/rxm_emu.h"
#include "layers/rxm/rxm_wait.h"

static uint64_t tx_flags(struct fid_ep *fid)
{
    return rxm_ep_of(fid)->info->tx_attr->op_flags;
}

static uint64_t rx_flags(struct fid_ep *fid)
{
    return rxm_ep_of(fid)->info->rx_attr->op_flags;
}

/* What is waited for may be a packet of the peer's. */
static ssize_t leave(struct rxm_ep *ep, ssize_t rc)
{
    if (__builtin_expect(rc == -FI_EAGAIN, 0))
        rxm_ep_try_again(ep);
    return rxm_ep_leave(ep, rc);
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, post->peer);
    ssize_t rc = __builtin_expect(to != NULL, 1) ? rxm_emu_send(to->fid.context, post)
                                                 : rxm_wait_add(ep, post);

    return leave(ep, rc);
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    struct fid_ep *to = rxm_ep_enter(ep, post->peer);
    ssize_t rc = to ? rxm_emu_rma(to->fid.context, post) : rxm_wait_add(ep, post);

    return leave(ep, rc);
}

ssize_t rxm_emu_atomic_post(struct rxm_ep *ep, const struct post_atomic *post)
{
    struct fid_ep *to = rxm_ep_enter(ep, post->peer);
    ssize_t rc = to ? rxm_emu_atomic(to->fid.context, post) : rxm_wait_add_atomic(ep, post);

    return leave(ep, rc);
}

static ssize_t post_atomic(struct fid_ep *fid, const struct post_atomic *post)
{
    return rxm_emu_atomic_post(rxm_ep_of(fid), post);
}

static int count_atomic(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
                        uint64_t function, size_t *count)
{
    return rxm_emu_atomic_count(rxm_ep_of(fid), datatype, op, function, count);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    ssize_t rc = -FI_EOPBADSTATE;

    unit_lock(ep->unit);
    if (__builtin_expect(ep->enabled, 1))
        rc = match_recv(ep->match, msg, flags);
    unit_unlock(ep->unit);
    return rc;
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct rxm_ep *ep = rxm_ep_of(fid);
    ssize_t rc = -FI_EOPBADSTATE;

    unit_lock(ep->unit);
    if (__builtin_expect(ep->enabled, 1))
        rc = match_trecv(ep->match, msg, flags);
    unit_unlock(ep->unit);
    return rc;
}

#include "core/post_atomic.inc"
#include "core/post_recv.inc"
#include "core/post_rma.inc"
#include "core/post_send.inc"
#include "core/post_trecv.inc"
#include "core/post_tsend.inc"

struct fi_ops_msg rxm_emu_msg_ops = {.size = sizeof(rxm_emu_msg_ops), POST_RECV, POST_SEND};
struct fi_ops_msg rxm_emu_msg_tx_ops = {.size = sizeof(rxm_emu_msg_tx_ops), NO_RECV, POST_SEND};
struct fi_ops_tagged rxm_emu_tagged_ops = {
    .size = sizeof(rxm_emu_tagged_ops), POST_TRECV, POST_TSEND};
struct fi_ops_tagged rxm_emu_tagged_tx_ops = {
    .size = sizeof(rxm_emu_tagged_tx_ops), NO_TRECV, POST_TSEND};
struct fi_ops_rma rxm_emu_rma_ops = {.size = sizeof(rxm_emu_rma_ops), POST_RMA};
struct fi_ops_atomic rxm_emu_atomic_ops = {.size = sizeof(rxm_emu_atomic_ops), POST_ATOMIC};

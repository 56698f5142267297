/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send, fi_recv, fi_tsend, fi_trecv. */
#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "core/no.h"
#include "core/post.h"
#include "transports/shm/shm_op.h"

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

struct fi_ops_msg shm_msg_ops = {.size = sizeof(struct fi_ops_msg), POST_RECV, POST_SEND};
struct fi_ops_msg shm_msg_tx_ops = {.size = sizeof(struct fi_ops_msg), NO_RECV, POST_SEND};
struct fi_ops_msg shm_msg_rx_ops = {.size = sizeof(struct fi_ops_msg), POST_RECV, NO_SEND};
struct fi_ops_tagged shm_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged), POST_TRECV, POST_TSEND};
struct fi_ops_tagged shm_tagged_tx_ops = {
    .size = sizeof(struct fi_ops_tagged), NO_TRECV, POST_TSEND};
struct fi_ops_tagged shm_tagged_rx_ops = {
    .size = sizeof(struct fi_ops_tagged), POST_TRECV, NO_TSEND};

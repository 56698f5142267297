/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send and fi_recv, fi_tsend and fi_trecv. */
#include <rdma/fi_errno.h>

#include "core/post.h"
#include "transports/tcp/tcp_ep_ops.h"
#include "transports/tcp/tcp_lone.h"
#include "transports/tcp/tcp_post.h"

static uint64_t tx_flags(struct fid_ep *fid)
{
    return tcp_ep_of(fid)->tx_op_flags;
}

static uint64_t rx_flags(struct fid_ep *fid)
{
    return tcp_ep_of(fid)->rx_op_flags;
}

static ssize_t send_record(struct tcp_ep *ep, const struct post *post)
{
    struct tcp_wire wire = {.op = post->kind & FI_TAGGED ? TCP_OP_TAG : TCP_OP_MSG,
                            .tag = post->tag};

    return tcp_post_locked(ep, post, &wire);
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    struct tcp_ep *ep = tcp_ep_of(fid);
    ssize_t rc;

    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    rc = post->count == 1 && tcp_lone_send(ep, post) ? 0 : send_record(ep, post);
    unit_unlock(ep->report.unit);
    return rc;
}

/* After the end of a connection only what has arrived can be received; other receives end in error,
 * as those do that were posted before it. */
static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct tcp_ep *ep = tcp_ep_of(fid);

    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    ssize_t rc = unit_forked(ep->report.unit) ? -FI_EOPBADSTATE : match_recv(ep->match, msg, flags);
    if (!rc && ep->state == TCP_DOWN)
        match_fail(ep->match, NULL, FI_ECANCELED);
    unit_unlock(ep->report.unit);
    return rc;
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct tcp_ep *ep = tcp_ep_of(fid);

    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    unit_lock(ep->report.unit);
    ssize_t rc =
        unit_forked(ep->report.unit) ? -FI_EOPBADSTATE : match_trecv(ep->match, msg, flags);
    if (!rc && ep->state == TCP_DOWN)
        match_fail(ep->match, NULL, FI_ECANCELED);
    unit_unlock(ep->report.unit);
    return rc;
}

#include "core/post_recv.inc"
#include "core/post_send.inc"
#include "core/post_trecv.inc"
#include "core/post_tsend.inc"

struct fi_ops_msg tcp_msg_ops = {.size = sizeof(struct fi_ops_msg), POST_RECV, POST_SEND};
struct fi_ops_msg tcp_msg_shared_ops = {.size = sizeof(struct fi_ops_msg), NO_RECV, POST_SEND};
struct fi_ops_tagged tcp_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged), POST_TRECV, POST_TSEND};
struct fi_ops_tagged tcp_tagged_shared_ops = {
    .size = sizeof(struct fi_ops_tagged), NO_TRECV, POST_TSEND};

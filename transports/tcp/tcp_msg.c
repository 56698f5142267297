/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations as they are posted; fi_send and fi_recv, fi_tsend and fi_trecv. */
#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "transports/tcp/tcp_fast.h"
#include "transports/tcp/tcp_post.h"

static ssize_t send_record(struct tcp_ep *ep, const struct op *post)
{
    bool tagged = post->group == OP_GROUP_TSEND;
    struct tcp_wire wire = {.op = tagged ? TCP_OP_TAG : TCP_OP_MSG, .tag = tagged ? post->tag : 0};

    return tcp_post_locked(ep, post, &wire);
}

static ssize_t post_send(struct tcp_ep *ep, const struct op *post)
{
    ssize_t rc;

    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    progress_lock(ep->base.binding.progress);
    rc = post->count == 1 && tcp_fast_send(ep, post) ? 0 : send_record(ep, post);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

/* After the end of a connection only what has arrived can be received; other receives end in error,
 * as those do that were posted before it. */
static ssize_t post_receive(struct tcp_ep *ep, struct op *post)
{
    if (ep->state == TCP_IDLE)
        return -FI_EOPBADSTATE;
    progress_lock(ep->base.binding.progress);
    op_finalize_flags(post, ep->base.rx_op_flags);
    ssize_t rc = progress_forked(ep->base.binding.progress) ? -FI_EOPBADSTATE
                                                            : match_receive(ep->base.match, post);
    if (!rc && ep->state == TCP_DOWN)
        match_fail(ep->base.match, NULL, FI_ECANCELED);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

ssize_t tcp_ep_post(struct ep *base, struct op *op)
{
    struct tcp_ep *ep = object_of(base, struct tcp_ep, base);
    ssize_t rc;

    if (op_is_receive(op))
        return post_receive(ep, op);
    rc = endpoint_settle(&ep->base, op);
    if (rc)
        return rc;
    switch (op->group) {
    case OP_GROUP_RMA: return tcp_post_rma(ep, op);
    case OP_GROUP_ATOMIC: return tcp_post_atomic(ep, op);
    default: return post_send(ep, op);
    }
}

int tcp_ep_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                        size_t *count)
{
    return atomic_count(datatype, op, function, TCP_ATOMIC_MAX, count);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations as they are posted: receives go to the matching engine, transmissions to the
 * connection of their peer, as they are (tags=pass) or in packets of ours (tags=emulate). Without a
 * connection they wait.
 */
#include "layers/rxm/rxm_post.h"

#include <rdma/fi_errno.h>

#include "layers/rxm/conn/rxm_wait.h"
#include "layers/rxm/msgproto/msgproto.h"

static struct rxm_ep *ep_of(struct ep *base)
{
    return object_of(base, struct rxm_ep, base);
}

static ssize_t post_receive(struct rxm_ep *ep, struct op *op)
{
    struct progress *root;
    ssize_t rc = -FI_EOPBADSTATE;

    root = progress_enter(ep->progress);
    if (__builtin_expect(ep->base.enabled, 1))
        rc = match_receive(ep->match, op);
    progress_leave(root);
    return rc;
}

/* ---- tags=pass ---- */

ssize_t rxm_post(struct ep *base, struct op *op)
{
    struct rxm_ep *ep = ep_of(base);
    struct rxm_conn *conn;
    ssize_t rc;

    if (op_is_receive(op))
        return post_receive(ep, op);
    conn = rxm_ep_enter(ep, op->peer);
    if (__builtin_expect(conn != NULL, 1)) {
        op->peer = FI_ADDR_UNSPEC;
        rc = op_post(&conn->target, op);
    } else {
        rc = rxm_wait_add(ep, op);
    }
    return rxm_ep_leave(ep, rc);
}

/* Asked of the lower's domain, since there may be no connection yet. */
static int lower_atomic_count(struct rxm_ep *ep, enum fi_datatype datatype, enum fi_op op,
                              uint64_t function, size_t *count)
{
    struct fi_atomic_attr attr;
    int rc = fi_query_atomic(ep->domain->lower, datatype, op, &attr, function);

    if (!rc && count)
        *count = attr.count;
    return rc;
}

/* ---- tags=emulate ---- */

ssize_t msgproto_post_conn(struct rxm_conn *conn, const struct op *op)
{
    switch (op->group) {
    case OP_GROUP_RMA: return msgproto_rma(conn, op);
    case OP_GROUP_ATOMIC: return msgproto_atomic(conn, op);
    default: return msgproto_send(conn, op);
    }
}

ssize_t msgproto_post(struct ep *base, struct op *op)
{
    struct rxm_ep *ep = ep_of(base);
    struct rxm_conn *conn;
    ssize_t rc;

    if (op_is_receive(op))
        return post_receive(ep, op);
    rc = endpoint_settle(&ep->base, op);
    if (rc)
        return rc;
    conn = rxm_ep_enter(ep, op->peer);
    if (__builtin_expect(conn != NULL, 1))
        rc = msgproto_post_conn(conn, op);
    /* The lower is full, or the peer has granted no more: tx_attr->size is a promise. */
    if (__builtin_expect(!conn || (rc == -FI_EAGAIN && !(op->flags & FI_INJECT)), 0))
        rc = rxm_wait_add(ep, op);
    if (__builtin_expect(rc == -FI_EAGAIN, 0))
        rxm_ep_try_again(ep); /* the peer's packet may give room */
    return rxm_ep_leave(ep, rc);
}

int rxm_atomic_valid(struct ep *base, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count)
{
    struct rxm_ep *ep = ep_of(base);

    return ep->msgproto ? msgproto_atomic_count(ep, datatype, op, function, count)
                        : lower_atomic_count(ep, datatype, op, function, count);
}

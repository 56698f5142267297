/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_wait.h"

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/op/atomic.h"
#include "layers/rxm/conn/rxm_actions.h"
#include "layers/rxm/conn/rxm_av.h"
#include "layers/rxm/conn/rxm_conn.h"
#include "layers/rxm/msgproto/msgproto.h"
#include "layers/rxm/rxm_post.h"

/* ---- Adding ---- */

static bool too_many(size_t count, size_t limit)
{
    return count > (limit ? limit : 1);
}

/* Refuses what every connection would refuse. */
static int check(const struct rxm_ep *ep, const struct op *op, size_t *len)
{
    const struct fi_tx_attr *tx = ep->info->tx_attr;

    if (too_many(op->count, tx->iov_limit) || !iov_total(op->iov, op->count, len))
        return -FI_EINVAL;
    if (op->kind & FI_RMA && too_many(op->rma_count, tx->rma_iov_limit))
        return -FI_EINVAL;
    if (*len > ep->info->ep_attr->max_msg_size)
        return -FI_EMSGSIZE;
    return op->flags & FI_INJECT && *len > tx->inject_size ? -FI_EMSGSIZE : 0;
}

static int check_atomic(struct rxm_ep *ep, const struct op *op, size_t *elements)
{
    const struct fi_tx_attr *tx = ep->info->tx_attr;
    size_t limit = tx->iov_limit > tx->rma_iov_limit ? tx->iov_limit : tx->rma_iov_limit;
    size_t size = atomic_size(op->datatype), most;
    int rc = rxm_atomic_valid(&ep->base.base, op->function, op->datatype, op->op, &most);

    if (!rc)
        rc = atomic_check_op(op, most * size, limit ? limit : 1, elements);
    if (!rc && op->flags & FI_INJECT && *elements * size > tx->inject_size)
        rc = -FI_EMSGSIZE;
    return rc;
}

static bool full(const struct rxm_ep *ep)
{
    size_t size = ep->info->tx_attr->size;
    size_t posted = ep->msgproto ? ep->msgproto->used : 0;

    return ep->waits.ops.count + posted >= (size ? size : 1024);
}

static ssize_t find(struct rxm_ep *ep, fi_addr_t dest, struct rxm_peer **peer)
{
    if (!ep->base.enabled || progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    if (atomic_load(&ep->watch.any)) {
        rxm_ep_try_again(ep);
        return -FI_EAGAIN;
    }
    return rxm_av_peer(ep, dest, peer);
}

static ssize_t add(struct rxm_ep *ep, struct rxm_peer *peer, const struct op *op)
{
    struct queued_op *queued = op_queue_add(&ep->waits.ops, op, &peer->waiting);

    if (!queued)
        return rxm_ep_try_again(ep);
    if (op_queue_first(&peer->waiting) == queued) {
        peer->up = NULL;
        rxm_wait_wake(ep, peer);
        rxm_wait_run(ep);
    }
    rxm_ep_try_again(ep);
    return 0;
}

/* A caller may take any answer but -FI_EAGAIN for final, rxm_ep_passes or not. */
static ssize_t final(int rc)
{
    return rxm_ep_passes(rc) ? -FI_ECONNABORTED : rc;
}

/* Injected data is on its way when the post returns: the caller may never call again. So it is
 * not kept, but brings the connection about. */
static ssize_t dial(struct rxm_ep *ep, struct rxm_peer *peer)
{
    int rc = rxm_cm_want(&ep->cm, &peer->cm, clock_ms());

    ep->attend = true;
    if (rc && rc != -FI_EAGAIN)
        return final(rc);
    if (!rc)
        rxm_wait_run(ep); /* earlier operations go first */
    return rxm_ep_try_again(ep);
}

ssize_t rxm_wait_add(struct rxm_ep *ep, struct op *op)
{
    struct rxm_peer *peer = NULL;
    ssize_t rc = find(ep, op->peer, &peer);
    size_t len;

    if (!rc)
        rc = endpoint_settle(&ep->base, op);
    if (!rc)
        rc = op->group == OP_GROUP_ATOMIC ? check_atomic(ep, op, &len) : check(ep, op, &len);
    if (rc)
        return rc;
    if (op->flags & FI_INJECT)
        return dial(ep, peer);
    return full(ep) ? rxm_ep_try_again(ep) : add(ep, peer, op);
}

/* ---- Posting and ending ---- */

static ssize_t post_one(struct rxm_conn *conn, const struct queued_op *queued)
{
    struct op op = queued->op;

    return conn->owner->msgproto ? msgproto_post_conn(conn, &op) : op_post(&conn->target, &op);
}

/* The peer is connected. Stops where the lower is full; an upper may post meanwhile, behind. */
static bool flush(struct rxm_ep *ep, struct rxm_peer *peer)
{
    struct rxm_conn *conn = object_of(peer->cm.conn, struct rxm_conn, cm);
    bool done = false;

    while (!list_empty(&peer->waiting)) {
        struct queued_op *queued = op_queue_first(&peer->waiting);
        ssize_t rc;

        op_queue_take(queued);
        rc = post_one(conn, queued);
        if (rxm_ep_passes(rc)) {
            op_queue_return(&ep->waits.ops, queued, &peer->waiting);
            ep->skip = 0; /* the connection may have ended */
            return done;
        }
        done = true;
        if (rc)
            op_queue_fail(&ep->waits.ops, queued, (int)-rc, NULL);
        else
            op_queue_posted(&ep->waits.ops, queued);
    }
    list_detach(&peer->ready);
    peer->up = conn;
    return done;
}

void rxm_wait_wake(struct rxm_ep *ep, struct rxm_peer *peer)
{
    if (!list_empty(&peer->waiting) && list_empty(&peer->ready))
        list_attach(&peer->ready, &ep->waits.ready);
    ep->attend = true;
}

void rxm_wait_fail(struct rxm_ep *ep, struct rxm_peer *peer, int err, const char *why)
{
    list_detach(&peer->ready);
    op_queue_fail_peer(&ep->waits.ops, &peer->waiting, err, why);
}

static void fail(struct rxm_ep *ep, struct rxm_peer *peer, int err)
{
    char text[RXM_FAILURE_TEXT_MAX];

    rxm_failure_text(&peer->cm, err, text);
    rxm_wait_fail(ep, peer, err, text);
}

bool rxm_wait_run(struct rxm_ep *ep)
{
    bool done = false;

    if (ep->waits.running)
        return false; /* an upper posts from inside */
    ep->waits.running = true;
    list_for_each_safe (item, after, &ep->waits.ready) {
        struct rxm_peer *peer = list_item(item, struct rxm_peer, ready);
        int rc = rxm_cm_want(&ep->cm, &peer->cm, clock_ms());

        ep->attend = true;
        if (!rc) {
            done |= flush(ep, peer);
            continue;
        }
        list_detach(&peer->ready); /* the connection's next change brings it back */
        ep->skip = 0;
        if (rc != -FI_EAGAIN)
            fail(ep, peer, -rc);
        done |= rc != -FI_EAGAIN;
    }
    ep->waits.running = false;
    return done;
}

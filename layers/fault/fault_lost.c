/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a transfer that the lower never gets. A completion of a send or write says only that
 * it left, so it succeeds. A read has no data, and an operation that was to complete at the target
 * (FI_DELIVERY_COMPLETE) must not succeed: these time out.
 */
#include <rdma/fi_errno.h>

#include "layers/fault/fault.h"

int fault_lost_error(uint64_t kind, uint64_t flags)
{
    bool late = flags & (FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE);

    return kind & FI_READ || late ? FI_ETIMEDOUT : 0;
}

struct hook_cntr *fault_cntr_of(const struct fault_ep *own, uint64_t kind)
{
    if (kind & FI_SEND)
        return own->sent;
    return kind & FI_READ ? own->read : own->written;
}

static void count(const struct hook_cntr *cntr, int err)
{
    struct fid_peer_cntr *owner = cntr->owner;

    if (owner && err)
        owner->owner_ops->incerr(owner);
    else if (owner)
        owner->owner_ops->inc(owner);
    else if (err)
        fi_cntr_adderr(cntr->lower, 1);
    else
        fi_cntr_add(cntr->lower, 1);
}

int fault_lost_end(const struct fault_ep *own, bool wanted, void *context, uint64_t kind, int err)
{
    const struct hook_cntr *cntr = fault_cntr_of(own, kind);
    int rc = wanted ? fault_cq_end(own->tx, (struct fault_end){context, kind, err}) : 0;

    if (!rc && cntr)
        count(cntr, err);
    return rc;
}

/* ---- Reads and atomics ---- */

/* False: the lower is to have it. True: it is lost, and *rc is what the call answers. */
static bool is_lost(const struct fault_ep *own, const struct op *op, ssize_t *rc)
{
    uint64_t flags = op_final_flags(op, own->tx_op_flags);
    uint64_t n = atomic_load_explicit(&own->messages, memory_order_relaxed);
    bool silent = op_is_inject(op), wanted;
    int err;

    if (!fault_plan_happens(own->plan, FAULT_DROP, own->number, n))
        return false;
    err = silent ? 0 : fault_lost_error(op->kind, flags);
    wanted = own->tx && !silent && (err || !own->selective || flags & FI_COMPLETION);
    *rc = fault_lost_end(own, wanted, op->context, op->kind, err);
    return true;
}

ssize_t fault_lost_post(const struct hook_ep *ep, struct op *op)
{
    struct fault_ep *own = ep->own;
    ssize_t rc;

    if (!own)
        return op_post(&ep->target, op);
    if (!is_lost(own, op, &rc))
        rc = op_post(&ep->target, op);
    if (!rc)
        atomic_fetch_add_explicit(&own->messages, 1, memory_order_relaxed);
    return rc;
}

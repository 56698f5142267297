/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a transfer ends that the lower has never got. Who sends or writes is told no more than that
 * it left, so that is success; who reads or fetches has nothing to show for it, and who asked for
 * the end at the target (FI_DELIVERY_COMPLETE) is not lied to: their operations time out.
 */
#include <rdma/fi_errno.h>

#include "layers/fault/fault.h"

int fault_lost_error(uint64_t kind, uint64_t flags)
{
    bool late = flags & (FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE);

    return kind & FI_READ || late ? FI_ETIMEDOUT : 0;
}

struct pass_cntr *fault_cntr_of(const struct fault_ep *own, uint64_t kind)
{
    if (kind & FI_SEND)
        return own->sent;
    return kind & FI_READ ? own->read : own->written;
}

static void count(const struct pass_cntr *cntr, int err)
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
    const struct pass_cntr *cntr = fault_cntr_of(own, kind);
    int rc = wanted ? fault_cq_end(own->tx, (struct fault_end){context, kind, err}) : 0;

    if (!rc && cntr)
        count(cntr, err);
    return rc;
}

/* ---- Reads and atomics ---- */

enum {
    LOST = 1, /* call.note, and what call_enter answers for the lower */
};

static uint64_t kind_of(const struct call *call)
{
    switch (call_class(call->kind)) {
    case CALL_CLASS_READ: return FI_RMA | FI_READ;
    case CALL_CLASS_ATOMIC:
        return FI_ATOMIC | (call->kind >= CALL_ATOMIC_READWRITE ? FI_READ : FI_WRITE);
    default: return 0; /* sends and writes are those of fault_wire.c */
    }
}

static uint64_t final_flags(const struct fault_ep *own, const struct call *call)
{
    switch (call->kind) {
    case CALL_READMSG:
    case CALL_ATOMIC_WRITEMSG:
    case CALL_ATOMIC_READWRITEMSG:
    case CALL_ATOMIC_COMPWRITEMSG: return call->flags;
    default: return own->tx_op_flags;
    }
}

ssize_t fault_lost_enter(const struct pass_ep *ep, struct call *call)
{
    const struct fault_ep *own = ep->hook;
    uint64_t kind = own ? kind_of(call) : 0, flags, n;
    bool silent = call_is_inject(call->kind), wanted;
    int err, rc;

    call->note = 0;
    if (!kind)
        return 0;
    n = atomic_load_explicit(&own->messages, memory_order_relaxed);
    if (!fault_plan_happens(own->plan, FAULT_DROP, own->number, n))
        return 0;
    flags = final_flags(own, call);
    err = silent ? 0 : fault_lost_error(kind, flags);
    wanted = own->tx && !silent && (err || !own->selective || flags & FI_COMPLETION);
    rc = fault_lost_end(own, wanted, call->context, kind, err);
    call->note = rc ? 0 : LOST;
    return rc ? rc : LOST;
}

ssize_t fault_lost_leave(const struct pass_ep *ep, const struct call *call, ssize_t rc)
{
    struct fault_ep *own = ep->hook;

    rc = call->note == LOST ? 0 : rc;
    if (own && !rc && kind_of(call))
        atomic_fetch_add_explicit(&own->messages, 1, memory_order_relaxed);
    return rc;
}

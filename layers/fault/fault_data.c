/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfers that are refused or fail, and connections that end. */
#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "layers/fault/fault.h"

static enum fault_call fault_of_class(enum call_class class)
{
    switch (class) {
    case CALL_CLASS_RECV: return FAULT_RECV;
    case CALL_CLASS_READ: return FAULT_READ;
    case CALL_CLASS_WRITE: return FAULT_WRITE;
    case CALL_CLASS_ATOMIC: return FAULT_ATOMIC;
    case CALL_CLASS_COLLECTIVE: return FAULT_COLLECTIVE;
    default: return FAULT_SEND;
    }
}

ssize_t fault_call_enter(struct pass_ep *ep, enum call_class class)
{
    struct fault_ep *own = ep->hook;
    uint64_t n;

    if (!own)
        return 0;
    if (fault_plan_fails(own->plan, fault_of_class(class)))
        return -FI_EIO;
    n = atomic_fetch_add_explicit(&own->calls, 1, memory_order_relaxed);
    return fault_plan_happens(own->plan, FAULT_REFUSE, own->number, n) ? -FI_EAGAIN : 0;
}

/* As a connection ends that neither side wanted to: who shuts one down is not told by its lower. */
static void kill_conn(struct pass_ep *ep)
{
    const struct fault_ep *own = ep->hook;
    const struct fi_eq_cm_entry entry = {0};

    fi_shutdown(ep->lower, 0);
    own->plan->ended = &ep->fid;
    if (own->eq)
        fi_eq_write(own->eq, FAULT_ENDED, &entry, sizeof(entry), 0);
}

void fault_call_accepted(struct pass_ep *ep, enum call_class class)
{
    struct fault_ep *own = ep->hook;

    if (own && class == CALL_CLASS_SEND && fault_plan_kills(own->plan))
        kill_conn(ep);
}

static ssize_t call_enter(struct pass_ep *ep, struct call *call)
{
    ssize_t rc = fault_call_enter(ep, call_class(call->kind));

    return rc ? rc : fault_lost_enter(ep, call);
}

static ssize_t call_leave(struct pass_ep *ep, const struct call *call, ssize_t rc)
{
    rc = fault_lost_leave(ep, call, rc);
    if (rc >= 0)
        fault_call_accepted(ep, call_class(call->kind));
    return rc;
}

#include "core/call_transfers.inc"

#include "core/call_atomics.inc"

void fault_data_ops(struct pass_ops *ops)
{
    ops->msg = &seen_msg_ops;
    ops->tagged = &seen_tagged_ops;
    ops->rma = &seen_rma_ops;
    ops->atomic = &seen_atomic_ops;
    ops->collective = &seen_collective_ops;
}

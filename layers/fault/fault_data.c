/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfers that are refused or fail, and connections that end. */
#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "layers/fault/fault.h"

static enum fault_call fault_of_class(enum op_class class)
{
    switch (class) {
    case OP_CLASS_RECV: return FAULT_RECV;
    case OP_CLASS_READ: return FAULT_READ;
    case OP_CLASS_WRITE: return FAULT_WRITE;
    case OP_CLASS_ATOMIC: return FAULT_ATOMIC;
    case OP_CLASS_COLLECTIVE: return FAULT_COLLECTIVE;
    default: return FAULT_SEND;
    }
}

ssize_t fault_call_enter(struct hook_ep *ep, enum op_class class)
{
    struct fault_ep *own = ep->own;
    uint64_t n;

    if (!own)
        return 0;
    if (fault_plan_fails(own->plan, fault_of_class(class)))
        return -FI_EIO;
    n = atomic_fetch_add_explicit(&own->calls, 1, memory_order_relaxed);
    return fault_plan_happens(own->plan, FAULT_REFUSE, own->number, n) ? -FI_EAGAIN : 0;
}

/* As a connection ends that neither side wanted to: the side that shuts one down is not told by its
 * lower. */
static void kill_conn(struct hook_ep *ep)
{
    const struct fault_ep *own = ep->own;
    const struct fi_eq_cm_entry entry = {0};

    fi_shutdown(ep->lower, 0);
    own->plan->ended = &ep->fid;
    if (own->eq)
        fi_eq_write(own->eq, FAULT_ENDED, &entry, sizeof(entry), 0);
}

void fault_call_accepted(struct hook_ep *ep, enum op_class class)
{
    struct fault_ep *own = ep->own;

    if (own && class == OP_CLASS_SEND && fault_plan_kills(own->plan))
        kill_conn(ep);
}

ssize_t fault_post(struct ep *base, struct op *op)
{
    struct hook_ep *ep = hook_ep_of(base);
    const struct fault_ep *own = ep->own;
    enum op_class class = op_class(op->call);
    ssize_t rc;

    if (own && own->plan->loses && (class == OP_CLASS_SEND || class == OP_CLASS_WRITE))
        return fault_wire_post(ep, op);
    rc = fault_call_enter(ep, class);
    if (rc)
        return rc;
    rc = class == OP_CLASS_READ || class == OP_CLASS_ATOMIC ? fault_lost_post(ep, op)
                                                            : op_post(&ep->target, op);
    if (rc >= 0)
        fault_call_accepted(ep, class);
    return rc;
}

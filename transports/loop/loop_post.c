/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations as they are posted: counted, checked, and sent. */
#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "transports/loop/device/loop_device.h"

static enum loop_call call_of(const struct op *op)
{
    switch (op->group) {
    case OP_GROUP_RECV: return LOOP_CALL_RECV;
    case OP_GROUP_TRECV: return LOOP_CALL_TRECV;
    case OP_GROUP_TSEND: return LOOP_CALL_TSEND;
    case OP_GROUP_RMA: return op->kind & FI_READ ? LOOP_CALL_READ : LOOP_CALL_WRITE;
    case OP_GROUP_ATOMIC: return LOOP_CALL_ATOMIC;
    default: return LOOP_CALL_SEND;
    }
}

static ssize_t receive(struct loop_ep *ep, const struct op *op)
{
    ssize_t rc;

    if (!ep->base.match)
        return -FI_EOPBADSTATE;
    rc = loop_is_device(ep->domain->fabric) ? loop_rdma_check(ep->domain, op) : 0;
    if (rc)
        return rc;
    rc = -FI_ENOTCONN;
    progress_lock(ep->base.binding.progress);
    if (op->group == OP_GROUP_TRECV ||
        atomic_load_explicit(&ep->state, memory_order_relaxed) != LOOP_DOWN ||
        match_queued(ep->base.match))
        rc = match_receive(ep->base.match, op);
    if (!rc && ep->packets)
        loop_receive_posted(ep);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

int loop_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                      size_t *count)
{
    return atomic_count(datatype, op, function, LOOP_ATOMIC, count);
}

/* The segments of a transmission. *len gets the bytes of its local ones. */
static ssize_t check_segments(const struct loop_ep *ep, const struct op *op, size_t *len)
{
    size_t elements;

    *len = op->len;
    if (op->group == OP_GROUP_ATOMIC) {
        *len *= atomic_size(op->datatype);
        return atomic_check_op(op, LOOP_ATOMIC, LOOP_IOV_LIMIT, &elements);
    }
    if (op->count > LOOP_IOV_LIMIT)
        return -FI_EINVAL;
    if (ep->packets && op->group == OP_GROUP_RMA && !(op->kind & FI_READ))
        return -FI_EOPNOTSUPP;
    if (op->group == OP_GROUP_RMA && (!op->rma_count || op->rma_count > LOOP_IOV_LIMIT))
        return -FI_EINVAL;
    return 0;
}

static ssize_t check_size(const struct loop_ep *ep, const struct op *op, size_t len)
{
    size_t remote = 0;

    if (op->flags & FI_INJECT && len > LOOP_INJECT + ep->prefix)
        return -FI_EMSGSIZE;
    if (op->group == OP_GROUP_SEND && len > ep->max)
        return -FI_EMSGSIZE;
    if (op->group != OP_GROUP_RMA)
        return len < ep->prefix ? -FI_EINVAL : 0;
    for (size_t i = 0; i < op->rma_count; i++)
        remote += op->rma[i].len;
    return remote == len ? 0 : -FI_EINVAL;
}

ssize_t loop_post(struct ep *base, struct op *op)
{
    struct loop_ep *ep = object_of(base, struct loop_ep, base);
    size_t len;
    ssize_t rc;

    loop_count(call_of(op));
    if (op_is_receive(op))
        return receive(ep, op);
    rc = endpoint_settle(&ep->base, op);
    if (!rc && loop_is_device(ep->domain->fabric))
        rc = loop_rdma_check(ep->domain, op);
    if (!rc)
        rc = check_segments(ep, op, &len);
    if (!rc)
        rc = check_size(ep, op, len);
    return rc ? rc : loop_send(ep, op, len);
}

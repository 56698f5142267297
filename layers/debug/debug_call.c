/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfers: the endpoint's granted capabilities, and the threads inside of it. */

#include "layers/debug/debug.h"

/* ---- Threads ---- */

static _Thread_local char own_place; /* its address is the thread */

bool debug_enter(struct debug_object *object, const char *call)
{
    uintptr_t me = (uintptr_t)&own_place, other = 0;
    char whom[DEBUG_NAME];

    if (atomic_compare_exchange_strong(&object->inside, &other, me))
        return true;
    if (other != me)
        debug_report(object->layer->reporter, DEBUG_THREADS, call, debug_name(object, whom),
                     "another thread is inside of a call on it, or on what it shares with it");
    return false;
}

struct debug_object *debug_cq_guard(struct debug_cq *cq)
{
    if (!cq || cq->domain->peers)
        return NULL;
    switch (cq->domain->threading) {
    case FI_THREAD_DOMAIN: return &cq->domain->object;
    case FI_THREAD_COMPLETION:
    case FI_THREAD_FID: return &cq->object;
    default: return NULL;
    }
}

/* By direction: two threads may send and receive on one endpoint, but for FI_THREAD_DOMAIN. */
static struct debug_object *guard_of(struct debug_ep *ep, enum op_class class)
{
    struct debug_cq *cq = class == OP_CLASS_RECV ? ep->rx : ep->tx;

    if (ep->domain->peers)
        return NULL;
    switch (ep->domain->threading) {
    case FI_THREAD_DOMAIN: return &ep->domain->object;
    case FI_THREAD_COMPLETION: return cq ? &cq->object : NULL;
    case FI_THREAD_ENDPOINT: return &ep->object;
    default: return NULL;
    }
}

/* ---- Limits ---- */

static struct debug_reporter *reporter_of(struct debug_ep *ep)
{
    return ep->object.layer->reporter;
}

static uint64_t needed_caps(const struct op *op)
{
    uint64_t message = op->group & OP_GROUP_TAGGED ? FI_TAGGED : FI_MSG;

    switch (op_class(op->call)) {
    case OP_CLASS_RECV: return message | FI_RECV;
    case OP_CLASS_SEND: return message | FI_SEND;
    case OP_CLASS_READ: return FI_RMA | FI_READ;
    case OP_CLASS_WRITE: return FI_RMA | FI_WRITE;
    case OP_CLASS_ATOMIC: return FI_ATOMIC;
    default: return FI_COLLECTIVE;
    }
}

/* A shared context has the caps of endpoints that need not be open yet. */
static void check_caps(struct debug_ep *ep, const struct op *op, const char *whom)
{
    uint64_t missing = needed_caps(op) & ~ep->caps;

    if (ep->caps && missing && !ep->receives_only)
        debug_report(reporter_of(ep), DEBUG_CAPS, op_name(op->call), whom,
                     "the endpoint was opened without %s", fi_tostr(&missing, FI_TYPE_CAPS));
}

static void check_counts(struct debug_ep *ep, const struct op *op, const char *whom)
{
    size_t limit = op_class(op->call) == OP_CLASS_RECV ? ep->rx_iov : ep->tx_iov;

    if (limit && op->count > limit)
        debug_report(reporter_of(ep), DEBUG_IOV_LIMIT, op_name(op->call), whom,
                     "%zu buffers, and iov_limit is %zu", op->count, limit);
    if (op->group & (OP_GROUP_RMA | OP_GROUP_ATOMIC) && ep->rma_iov && op->rma_count > ep->rma_iov)
        debug_report(reporter_of(ep), DEBUG_RMA_IOV_LIMIT, op_name(op->call), whom,
                     "%zu remote segments, and rma_iov_limit is %zu", op->rma_count, ep->rma_iov);
}

/* A limit of accesses by themselves may be above that of messages. */
static bool fits_access(struct fid_ep *lower, size_t len)
{
    size_t most = 0, size = sizeof(most);

    return !fi_getopt(&lower->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_RMA_SIZE, &most, &size) &&
           len <= most;
}

static void check_sizes(struct debug_ep *ep, struct fid_ep *lower, const struct op *op,
                        uint64_t flags, const char *whom)
{
    enum op_class class = op_class(op->call);
    bool inject =
        op_is_inject(op) || (flags & FI_INJECT && class != OP_CLASS_RECV && class != OP_CLASS_READ);

    if (class >= OP_CLASS_ATOMIC)
        return; /* debug_operand.c */
    if (inject && ep->inject_size && op->len > ep->inject_size)
        debug_report(reporter_of(ep), DEBUG_INJECT_SIZE, op_name(op->call), whom,
                     "%zu bytes are injected, and inject_size is %zu", op->len, ep->inject_size);
    if (class != OP_CLASS_RECV && ep->max_msg_size && op->len > ep->max_msg_size &&
        !(op->group == OP_GROUP_RMA && fits_access(lower, op->len)))
        debug_report(reporter_of(ep), DEBUG_MAX_MSG_SIZE, op_name(op->call), whom,
                     "%zu bytes, and max_msg_size is %zu", op->len, ep->max_msg_size);
}

static bool has_data(const struct op *op)
{
    return op->flags & FI_REMOTE_CQ_DATA && op_class(op->call) != OP_CLASS_RECV;
}

static void check_flags(struct debug_ep *ep, const struct op *op, uint64_t flags, const char *whom)
{
    bool receiving = op_class(op->call) == OP_CLASS_RECV;
    size_t size = ep->domain->data_size;

    if (flags & FI_FENCE && !receiving && !(ep->caps & FI_FENCE))
        debug_report(reporter_of(ep), DEBUG_FENCE, op_name(op->call), whom,
                     "the endpoint was opened without FI_FENCE");
    if (flags & FI_MULTI_RECV && receiving && !ep->receives_only &&
        !(ep->caps & (FI_MULTI_RECV | FI_TAGGED_MULTI_RECV)))
        debug_report(reporter_of(ep), DEBUG_MULTI_RECV, op_name(op->call), whom,
                     "the endpoint was opened without FI_MULTI_RECV");
    if (flags & FI_MULTI_RECV && receiving && ep->rx && !ep->rx->peer &&
        (ep->rx->format == FI_CQ_FORMAT_CONTEXT || ep->rx->format == FI_CQ_FORMAT_UNSPEC))
        debug_report(reporter_of(ep), DEBUG_FORMAT, op_name(op->call), whom,
                     "entries of its queue do not say where in the buffer a message is, nor when "
                     "the buffer is free");
    if (flags & FI_TRIGGER && !(ep->caps & FI_TRIGGER))
        debug_report(reporter_of(ep), DEBUG_CAPS, op_name(op->call), whom,
                     "the flag FI_TRIGGER, and the endpoint was opened without that");
    if (has_data(op) && size < sizeof(uint64_t) && op->data >> (8 * size))
        debug_report(reporter_of(ep), DEBUG_CQ_DATA, op_name(op->call), whom,
                     "data 0x%llx, and cq_data_size is %zu", (unsigned long long)op->data, size);
}

static void check_state(struct debug_ep *ep, const struct op *op, const char *whom)
{
    if (!atomic_load_explicit(&ep->enabled, memory_order_relaxed))
        debug_report(reporter_of(ep), DEBUG_ENABLED, op_name(op->call), whom, "it is not enabled");
}

/* ---- Calls ---- */

static struct debug_ep *own_of(const struct hook_ep *ep)
{
    return ep->own ? object_of(ep->own, struct debug_ep, object) : NULL;
}

static uint64_t final_flags(const struct debug_ep *ep, const struct op *op)
{
    return op_final_flags(op,
                          op_class(op->call) == OP_CLASS_RECV ? ep->rx_op_flags : ep->tx_op_flags);
}

static void check(struct debug_ep *ep, struct fid_ep *lower, const struct op *op, const char *whom)
{
    uint64_t flags = final_flags(ep, op);
    struct debug_buffers buffers;

    check_state(ep, op, whom);
    check_caps(ep, op, whom);
    check_counts(ep, op, whom);
    check_sizes(ep, lower, op, flags, whom);
    check_flags(ep, op, flags, whom);
    debug_check_address(ep, op, whom);
    debug_find_buffers(ep, op, flags, &buffers);
    debug_check_memory(ep, op, &buffers, whom);
    debug_check_operands(ep, lower, op, whom);
    debug_flight_begin(ep, op, flags, &buffers);
}

ssize_t debug_post(struct ep *base, struct op *op)
{
    struct debug_ep *ep = own_of(hook_ep_of(base));
    const void *context = op->context; /* the lower may change the op */
    struct debug_object *guard;
    char whom[DEBUG_NAME];
    bool inside;
    ssize_t rc;

    if (!ep)
        return hook_post(base, op);
    guard = guard_of(ep, op_class(op->call));
    inside = guard && debug_enter(guard, op_name(op->call));
    check(ep, hook_ep_of(base)->lower, op, debug_name(&ep->object, whom));
    rc = hook_post(base, op);
    if (rc < 0)
        debug_flight_end(ep->object.layer, context, 0, true);
    if (inside)
        debug_leave(guard);
    return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfers: what the endpoint was granted, and who is inside of it. */
#include <stdio.h>

#include <rdma/fi_errno.h>

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
static struct debug_object *guard_of(struct debug_ep *ep, enum call_class class)
{
    struct debug_cq *cq = class == CALL_CLASS_RECV ? ep->rx : ep->tx;

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

static bool is_tagged(enum call_kind kind)
{
    return kind >= CALL_TRECV && kind <= CALL_TINJECTDATA;
}

static uint64_t needed_caps(enum call_kind kind)
{
    uint64_t message = is_tagged(kind) ? FI_TAGGED : FI_MSG;

    switch (call_class(kind)) {
    case CALL_CLASS_RECV: return message | FI_RECV;
    case CALL_CLASS_SEND: return message | FI_SEND;
    case CALL_CLASS_READ: return FI_RMA | FI_READ;
    case CALL_CLASS_WRITE: return FI_RMA | FI_WRITE;
    case CALL_CLASS_ATOMIC: return FI_ATOMIC;
    default: return FI_COLLECTIVE;
    }
}

/* A shared context has the caps of endpoints that need not be open yet. */
static void check_caps(struct debug_ep *ep, const struct call *call, const char *whom)
{
    uint64_t missing = needed_caps(call->kind) & ~ep->caps;

    if (ep->caps && missing && !ep->receives_only)
        debug_report(reporter_of(ep), DEBUG_CAPS, call_name(call->kind), whom,
                     "the endpoint was opened without %s", fi_tostr(&missing, FI_TYPE_CAPS));
}

static void check_counts(struct debug_ep *ep, const struct call *call, const char *whom)
{
    size_t limit = call_class(call->kind) == CALL_CLASS_RECV ? ep->rx_iov : ep->tx_iov;

    if (limit && call->count > limit)
        debug_report(reporter_of(ep), DEBUG_IOV_LIMIT, call_name(call->kind), whom,
                     "%zu buffers, and iov_limit is %zu", call->count, limit);
    if (ep->rma_iov && call->rma_count > ep->rma_iov)
        debug_report(reporter_of(ep), DEBUG_RMA_IOV_LIMIT, call_name(call->kind), whom,
                     "%zu remote segments, and rma_iov_limit is %zu", call->rma_count, ep->rma_iov);
}

static void check_sizes(struct debug_ep *ep, const struct call *call, uint64_t flags,
                        const char *whom)
{
    enum call_class class = call_class(call->kind);
    bool inject = call_is_inject(call->kind) ||
                  (flags & FI_INJECT && class != CALL_CLASS_RECV && class != CALL_CLASS_READ);

    if (class >= CALL_CLASS_ATOMIC)
        return; /* debug_operand.c */
    if (inject && ep->inject_size && call->len > ep->inject_size)
        debug_report(reporter_of(ep), DEBUG_INJECT_SIZE, call_name(call->kind), whom,
                     "%zu bytes are injected, and inject_size is %zu", call->len, ep->inject_size);
    if (class != CALL_CLASS_RECV && ep->max_msg_size && call->len > ep->max_msg_size)
        debug_report(reporter_of(ep), DEBUG_MAX_MSG_SIZE, call_name(call->kind), whom,
                     "%zu bytes, and max_msg_size is %zu", call->len, ep->max_msg_size);
}

static bool has_data(const struct call *call)
{
    switch (call->kind) {
    case CALL_SENDDATA:
    case CALL_INJECTDATA:
    case CALL_TSENDDATA:
    case CALL_TINJECTDATA:
    case CALL_WRITEDATA:
    case CALL_INJECT_WRITEDATA: return true;
    default: return call->flags & FI_REMOTE_CQ_DATA && call_class(call->kind) != CALL_CLASS_RECV;
    }
}

static void check_flags(struct debug_ep *ep, const struct call *call, uint64_t flags,
                        const char *whom)
{
    bool receiving = call_class(call->kind) == CALL_CLASS_RECV;
    size_t size = ep->domain->data_size;

    if (flags & FI_FENCE && !receiving && !(ep->caps & FI_FENCE))
        debug_report(reporter_of(ep), DEBUG_FENCE, call_name(call->kind), whom,
                     "the endpoint was opened without FI_FENCE");
    if (flags & FI_MULTI_RECV && receiving && !ep->receives_only &&
        !(ep->caps & (FI_MULTI_RECV | FI_TAGGED_MULTI_RECV)))
        debug_report(reporter_of(ep), DEBUG_MULTI_RECV, call_name(call->kind), whom,
                     "the endpoint was opened without FI_MULTI_RECV");
    if (flags & FI_MULTI_RECV && receiving && ep->rx && !ep->rx->peer &&
        (ep->rx->format == FI_CQ_FORMAT_CONTEXT || ep->rx->format == FI_CQ_FORMAT_UNSPEC))
        debug_report(reporter_of(ep), DEBUG_FORMAT, call_name(call->kind), whom,
                     "entries of its queue do not say where in the buffer a message is, nor when "
                     "the buffer is free");
    if (flags & FI_TRIGGER && !(ep->caps & FI_TRIGGER))
        debug_report(reporter_of(ep), DEBUG_CAPS, call_name(call->kind), whom,
                     "the flag FI_TRIGGER, and the endpoint was opened without that");
    if (has_data(call) && size < sizeof(uint64_t) && call->data >> (8 * size))
        debug_report(reporter_of(ep), DEBUG_CQ_DATA, call_name(call->kind), whom,
                     "data 0x%llx, and cq_data_size is %zu", (unsigned long long)call->data, size);
}

static void check_state(struct debug_ep *ep, const struct call *call, const char *whom)
{
    if (!atomic_load_explicit(&ep->enabled, memory_order_relaxed))
        debug_report(reporter_of(ep), DEBUG_ENABLED, call_name(call->kind), whom,
                     "it is not enabled");
}

/* Only fi_*msg calls name flags; the others take the defaults of the endpoint. */
static uint64_t final_flags(const struct debug_ep *ep, const struct call *call)
{
    switch (call->kind) {
    case CALL_RECVMSG:
    case CALL_SENDMSG:
    case CALL_TRECVMSG:
    case CALL_TSENDMSG:
    case CALL_READMSG:
    case CALL_WRITEMSG:
    case CALL_ATOMIC_WRITEMSG:
    case CALL_ATOMIC_READWRITEMSG:
    case CALL_ATOMIC_COMPWRITEMSG: return call->flags;
    default: return call_class(call->kind) == CALL_CLASS_RECV ? ep->rx_op_flags : ep->tx_op_flags;
    }
}

/* ---- Calls ---- */

static struct debug_ep *own_of(const struct pass_ep *ep)
{
    return ep->hook ? object_of(ep->hook, struct debug_ep, object) : NULL;
}

/* note: whether the guard is ours to open. */
static ssize_t call_enter(struct pass_ep *fid, struct call *call)
{
    struct debug_ep *ep = own_of(fid);
    struct debug_buffers buffers;
    struct debug_object *guard;
    char whom[DEBUG_NAME];
    uint64_t flags;

    call->note = 0;
    if (!ep)
        return 0;
    flags = final_flags(ep, call);
    debug_name(&ep->object, whom);
    guard = guard_of(ep, call_class(call->kind));
    if (guard)
        call->note = debug_enter(guard, call_name(call->kind));
    check_state(ep, call, whom);
    check_caps(ep, call, whom);
    check_counts(ep, call, whom);
    check_sizes(ep, call, flags, whom);
    check_flags(ep, call, flags, whom);
    debug_check_address(ep, call, whom);
    debug_find_buffers(ep, call, flags, &buffers);
    debug_check_memory(ep, call, &buffers, whom);
    debug_check_operands(ep, fid->lower, call, whom);
    debug_flight_begin(ep, call, flags, &buffers);
    return 0;
}

static ssize_t call_leave(struct pass_ep *fid, const struct call *call, ssize_t rc)
{
    struct debug_ep *ep = own_of(fid);

    if (!ep)
        return rc;
    if (rc < 0)
        debug_flight_end(ep->object.layer, call->context, 0, true);
    if (call->note)
        debug_leave(guard_of(ep, call_class(call->kind)));
    return rc;
}

#include "core/call_transfers.inc"

#include "core/call_atomics.inc"

void debug_call_ops(struct pass_ops *ops)
{
    ops->msg = &seen_msg_ops;
    ops->tagged = &seen_tagged_ops;
    ops->rma = &seen_rma_ops;
    ops->atomic = &seen_atomic_ops;
    ops->collective = &seen_collective_ops;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics and collectives: how many elements, in which buffers, of which group; and the buffers of
 * all transfers one by one. */
#include <rdma/fi_errno.h>

#include "core/atomic.h"
#include "layers/debug/debug.h"

static enum fi_collective_op operation(const struct call *call)
{
    switch (call->kind) {
    case CALL_COLL_BROADCAST: return FI_BROADCAST;
    case CALL_COLL_ALLTOALL: return FI_ALLTOALL;
    case CALL_COLL_ALLREDUCE: return FI_ALLREDUCE;
    case CALL_COLL_ALLGATHER: return FI_ALLGATHER;
    case CALL_COLL_REDUCE_SCATTER: return FI_REDUCE_SCATTER;
    case CALL_COLL_REDUCE: return FI_REDUCE;
    case CALL_COLL_SCATTER: return FI_SCATTER;
    case CALL_COLL_GATHER: return FI_GATHER;
    case CALL_COLL_MSG: return call->coll;
    default: return FI_BARRIER;
    }
}

static bool has_root(const struct call *call)
{
    switch (operation(call)) {
    case FI_BROADCAST:
    case FI_REDUCE:
    case FI_SCATTER:
    case FI_GATHER: return true;
    default: return false;
    }
}

/* ---- Buffers ---- */

static size_t add_buffer(struct debug_buffer *list, size_t count, struct debug_buffer buffer)
{
    if (count < DEBUG_BUFFERS && buffer.iov.iov_len)
        list[count++] = buffer;
    return count;
}

static size_t add_elements(struct debug_buffer *list, size_t count,
                           const struct call_operand *operand, enum fi_datatype datatype,
                           uint64_t access)
{
    const struct fi_ioc one = {(void *)(uintptr_t)operand->buf, operand->len};
    const struct fi_ioc *iov = operand->iov ? operand->iov : &one;
    size_t size = atomic_size(datatype), pieces = operand->iov ? operand->count : 1;

    for (size_t i = 0; i < pieces; i++) {
        const void *desc = operand->descs ? operand->descs[i] : NULL;

        if (iov[i].addr && (!size || iov[i].count <= SIZE_MAX / size))
            count =
                add_buffer(list, count,
                           (struct debug_buffer){{iov[i].addr, iov[i].count * size}, desc, access});
    }
    return count;
}

static uint64_t bytes_access(enum call_class class)
{
    switch (class) {
    case CALL_CLASS_RECV: return FI_RECV;
    case CALL_CLASS_READ: return FI_READ;
    case CALL_CLASS_WRITE: return FI_WRITE;
    default: return FI_SEND;
    }
}

static size_t bytes(const struct call *call, struct debug_buffer *list)
{
    const struct iovec single = {(void *)(uintptr_t)call->buf, call->len};
    const struct iovec *iov = call->iov ? call->iov : &single;
    uint64_t access = bytes_access(call_class(call->kind));
    size_t count = 0;

    for (size_t i = 0; i < call->count; i++)
        count =
            add_buffer(list, count,
                       (struct debug_buffer){iov[i], call->descs ? call->descs[i] : NULL, access});
    return count;
}

/* Which member is the root is not known here: a buffer may be the root's alone, and then has no
 * descriptor with the others; one of a broadcast is read or written. */
static size_t collective(const struct call *call, struct debug_buffer *list)
{
    const struct call_operand own = {call->buf, call->ioc, call->descs, call->count, call->len};
    size_t all = add_elements(list, 0, &own, call->datatype, FI_SEND | FI_RECV), count = 0;

    all = add_elements(list, all, &call->result, call->datatype, FI_RECV);
    for (size_t i = 0; i < all; i++)
        if (list[i].desc || !has_root(call))
            list[count++] = list[i];
    return count;
}

size_t debug_buffers(const struct call *call, uint64_t flags, struct debug_buffer *list)
{
    const struct call_operand own = {call->buf, call->ioc, call->descs, call->count, call->len};
    bool injected = call_is_inject(call->kind) || flags & FI_INJECT;
    size_t count = 0;

    switch (call_class(call->kind)) {
    case CALL_CLASS_COLLECTIVE: return collective(call, list);
    case CALL_CLASS_ATOMIC:
        if (!injected && call->op != FI_ATOMIC_READ)
            count = add_elements(list, count, &own, call->datatype, FI_WRITE);
        if (!injected)
            count = add_elements(list, count, &call->compare, call->datatype, FI_WRITE);
        return add_elements(list, count, &call->result, call->datatype, FI_READ);
    default: return injected ? 0 : bytes(call, list);
    }
}

/* ---- Atomics ---- */

static uint64_t atomic_kind(enum call_kind kind)
{
    if (kind >= CALL_ATOMIC_COMPWRITE)
        return FI_COMPARE_ATOMIC;
    return kind >= CALL_ATOMIC_READWRITE ? FI_FETCH_ATOMIC : 0;
}

/* 0: the lower does not say. */
static size_t most_elements(struct fid_ep *lower, const struct call *call)
{
    size_t count = 0;
    int rc;

    switch (atomic_kind(call->kind)) {
    case FI_COMPARE_ATOMIC:
        rc = fi_compare_atomicvalid(lower, call->datatype, call->op, &count);
        break;
    case FI_FETCH_ATOMIC: rc = fi_fetch_atomicvalid(lower, call->datatype, call->op, &count); break;
    default: rc = fi_atomicvalid(lower, call->datatype, call->op, &count); break;
    }
    return rc ? 0 : count;
}

static void check_operand(struct debug_ep *ep, const struct call *call, const char *whom,
                          const struct call_operand *operand, const char *name)
{
    if (operand->len < call->len)
        debug_report(ep->object.layer->reporter, DEBUG_OPERANDS, call_name(call->kind), whom,
                     "the %s buffers have %zu elements, and the operation has %zu", name,
                     operand->len, call->len);
}

static void check_atomic(struct debug_ep *ep, struct fid_ep *lower, const struct call *call,
                         const char *whom)
{
    struct debug_reporter *reporter = ep->object.layer->reporter;
    uint64_t kind = atomic_kind(call->kind);
    size_t most = most_elements(lower, call), size = atomic_size(call->datatype);
    bool injected = call_is_inject(call->kind) || (call->flags & FI_INJECT);

    if (!atomic_valid(call->datatype, call->op, kind))
        debug_report(reporter, DEBUG_ATOMIC_OP, call_name(call->kind), whom,
                     "operation %d has no meaning with it and datatype %d", (int)call->op,
                     (int)call->datatype);
    if (most && call->len > most)
        debug_report(reporter, DEBUG_ATOMIC_COUNT, call_name(call->kind), whom,
                     "%zu elements, and %zu are valid", call->len, most);
    if (injected && ep->inject_size && size && call->len > ep->inject_size / size)
        debug_report(reporter, DEBUG_INJECT_SIZE, call_name(call->kind), whom,
                     "%zu elements of %zu bytes are injected, and inject_size is %zu", call->len,
                     size, ep->inject_size);
    if (kind)
        check_operand(ep, call, whom, &call->result, "result");
    if (kind == FI_COMPARE_ATOMIC)
        check_operand(ep, call, whom, &call->compare, "compare");
}

/* ---- Collectives ---- */

static void check_group(struct debug_ep *ep, const struct call *call, const char *whom)
{
    struct debug_layer *layer = ep->object.layer;
    bool found = false;

    pthread_mutex_lock(&layer->mutex);
    list_for_each (pos, &layer->objects) {
        const struct debug_object *object = list_item(pos, struct debug_object, link);

        if (object->fid->fclass == FI_CLASS_MC)
            found = found || object_of(object->fid, struct fid_mc, fid)->fi_addr == call->peer;
    }
    pthread_mutex_unlock(&layer->mutex);
    if (!found)
        debug_report(layer->reporter, DEBUG_GROUP, call_name(call->kind), whom,
                     "0x%llx is the address of no group that was joined and is open",
                     (unsigned long long)call->peer);
}

static void check_collective(struct debug_ep *ep, const struct call *call, const char *whom)
{
    struct fi_collective_attr attr = {.op = call->op, .datatype = call->datatype};
    struct fid_domain *domain = object_of(ep->domain->object.fid, struct fid_domain, fid);
    size_t most = 0;

    check_group(ep, call, whom);
    if (operation(call) == FI_BARRIER)
        return;
    if (!fi_query_collective(object_of(domain, struct pass_domain, fid)->lower, operation(call),
                             &attr, 0))
        most = attr.datatype_attr.count;
    if (most && call->len > most)
        debug_report(ep->object.layer->reporter, DEBUG_COLLECTIVE_COUNT, call_name(call->kind),
                     whom, "%zu elements, and %zu are valid", call->len, most);
}

void debug_check_operands(struct debug_ep *ep, struct fid_ep *lower, const struct call *call,
                          const char *whom)
{
    switch (call_class(call->kind)) {
    case CALL_CLASS_ATOMIC: check_atomic(ep, lower, call, whom); break;
    case CALL_CLASS_COLLECTIVE: check_collective(ep, call, whom); break;
    default: break;
    }
}

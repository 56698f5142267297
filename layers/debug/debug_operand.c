/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics and collectives: how many elements, in which buffers, of which group; and the buffers of
 * all transfers one by one. */
#include <rdma/fi_errno.h>

#include "core/atomic.h"
#include "layers/debug/debug.h"

static bool has_root(const struct call *call)
{
    switch (call_collective(call)) {
    case FI_BROADCAST:
    case FI_REDUCE:
    case FI_SCATTER:
    case FI_GATHER: return true;
    default: return false;
    }
}

/* ---- Buffers ---- */

static void add_buffer(struct debug_buffers *buffers, struct debug_buffer buffer)
{
    if (buffers->count < DEBUG_BUFFERS && buffer.iov.iov_len)
        buffers->list[buffers->count++] = buffer;
}

static void add_elements(struct debug_buffers *buffers, const struct call_operand *operand,
                         enum fi_datatype datatype, uint64_t access)
{
    const struct fi_ioc one = {(void *)(uintptr_t)operand->buf, operand->len};
    const struct fi_ioc *iov = operand->iov ? operand->iov : &one;
    size_t size = atomic_size(datatype), pieces = operand->iov ? operand->count : 1;

    for (size_t i = 0; i < pieces; i++) {
        const void *desc = operand->descs ? operand->descs[i] : NULL;

        if (iov[i].addr && (!size || iov[i].count <= SIZE_MAX / size))
            add_buffer(buffers,
                       (struct debug_buffer){{iov[i].addr, iov[i].count * size}, desc, access});
    }
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

static void bytes(const struct call *call, struct debug_buffers *buffers)
{
    const struct iovec single = {(void *)(uintptr_t)call->buf, call->len};
    const struct iovec *iov = call->iov ? call->iov : &single;
    uint64_t access = bytes_access(call_class(call->kind));

    for (size_t i = 0; i < call->count; i++)
        add_buffer(buffers,
                   (struct debug_buffer){iov[i], call->descs ? call->descs[i] : NULL, access});
}

/* The count is one member's share: of how many is in a buffer of a member? 0: it is not used. */
struct shares {
    uint32_t own, result;
};

static struct shares shares_of(enum fi_collective_op operation, uint32_t size, bool root)
{
    switch (operation) {
    case FI_ALLTOALL: return (struct shares){size, size};
    case FI_ALLGATHER: return (struct shares){1, size};
    case FI_REDUCE_SCATTER: return (struct shares){size, 1};
    case FI_REDUCE: return (struct shares){1, root};
    case FI_SCATTER: return (struct shares){root ? size : 0, 1};
    case FI_GATHER: return (struct shares){1, root ? size : 0};
    case FI_BROADCAST: return (struct shares){1, 0};
    default: return (struct shares){1, 1};
    }
}

/* False: who is in the group is not known, or a message says by itself how much is where. */
static bool find_shares(struct debug_ep *ep, const struct call *call, struct shares *shares)
{
    struct debug_layer *layer = ep->object.layer;
    bool found = false;

    if (call->kind == CALL_COLL_MSG)
        return false;
    pthread_mutex_lock(&layer->mutex);
    list_for_each (pos, &layer->objects) {
        const struct debug_object *object = list_item(pos, struct debug_object, link);
        const struct debug_group *group = object_of(object, struct debug_group, object);

        if (object->fid->fclass != FI_CLASS_MC || group->ep != &ep->object || !group->size ||
            object_of(object->fid, struct fid_mc, fid)->fi_addr != call->peer)
            continue;
        *shares = shares_of(call_collective(call), group->size, call->root == group->self);
        found = true;
    }
    pthread_mutex_unlock(&layer->mutex);
    return found;
}

static void add_shares(struct debug_buffers *buffers, const struct call *call,
                       const struct call_operand *operand, uint32_t shares, uint64_t access)
{
    struct call_operand whole = *operand;

    if (!__builtin_mul_overflow(operand->len, (size_t)shares, &whole.len))
        add_elements(buffers, &whole, call->datatype, access);
}

/* Where the root is not known, a buffer may be its alone, and then has no descriptor with the
 * others; one of a broadcast is read or written. */
static void collective(struct debug_ep *ep, const struct call *call, struct debug_buffers *buffers)
{
    const struct call_operand own = {call->buf, call->ioc, call->descs, call->count, call->len};
    struct shares shares = {1, 1};
    bool known = find_shares(ep, call, &shares);
    size_t count = 0;

    add_shares(buffers, call, &own, shares.own, FI_SEND | FI_RECV);
    add_shares(buffers, call, &call->result, shares.result, FI_RECV);
    for (size_t i = 0; i < buffers->count; i++)
        if (buffers->list[i].desc || known || !has_root(call))
            buffers->list[count++] = buffers->list[i];
    buffers->count = count;
}

void debug_find_buffers(struct debug_ep *ep, const struct call *call, uint64_t flags,
                        struct debug_buffers *buffers)
{
    const struct call_operand own = {call->buf, call->ioc, call->descs, call->count, call->len};
    bool injected = call_is_inject(call->kind) || flags & FI_INJECT;

    buffers->count = 0;
    if (!ep->domain->local)
        return;
    switch (call_class(call->kind)) {
    case CALL_CLASS_COLLECTIVE: collective(ep, call, buffers); break;
    case CALL_CLASS_ATOMIC:
        if (!injected && call->op != FI_ATOMIC_READ)
            add_elements(buffers, &own, call->datatype, FI_WRITE);
        if (!injected)
            add_elements(buffers, &call->compare, call->datatype, FI_WRITE);
        add_elements(buffers, &call->result, call->datatype, FI_READ);
        break;
    default:
        if (!injected)
            bytes(call, buffers);
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
    if (call_collective(call) == FI_BARRIER)
        return;
    if (!fi_query_collective(object_of(domain, struct pass_domain, fid)->lower,
                             call_collective(call), &attr, 0))
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

/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics and collectives: how many elements, in which buffers, of which group; and the buffers of
 * all transfers one by one. */

#include "core/op/atomic.h"
#include "layers/debug/debug.h"

static bool has_root(const struct op *op)
{
    switch (op->collective) {
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

static void add_elements(struct debug_buffers *buffers, const struct op_operand *operand,
                         enum fi_datatype datatype, uint64_t access)
{
    const struct fi_ioc *ioc = operand->ioc;
    size_t size = atomic_size(datatype);

    for (size_t i = 0; i < operand->count; i++) {
        const void *desc = operand->desc ? operand->desc[i] : NULL;

        if (ioc[i].addr && (!size || ioc[i].count <= SIZE_MAX / size))
            add_buffer(buffers,
                       (struct debug_buffer){{ioc[i].addr, ioc[i].count * size}, desc, access});
    }
}

static uint64_t bytes_access(enum op_class class)
{
    switch (class) {
    case OP_CLASS_RECV: return FI_RECV;
    case OP_CLASS_READ: return FI_READ;
    case OP_CLASS_WRITE: return FI_WRITE;
    default: return FI_SEND;
    }
}

static void bytes(const struct op *op, struct debug_buffers *buffers)
{
    uint64_t access = bytes_access(op_class(op->call));

    for (size_t i = 0; i < op->count; i++)
        add_buffer(buffers,
                   (struct debug_buffer){op->iov[i], op->desc ? op->desc[i] : NULL, access});
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

/* False: the members of the group are not known, or a message says by itself how much is where. */
static bool find_shares(struct debug_ep *ep, const struct op *op, struct shares *shares)
{
    struct debug_layer *layer = ep->object.layer;
    bool found = false;

    if (op->call == OP_COLLECTIVE_MSG)
        return false;
    pthread_mutex_lock(&layer->mutex);
    list_for_each (pos, &layer->objects) {
        const struct debug_object *object = list_item(pos, struct debug_object, link);
        const struct debug_group *group = object_of(object, struct debug_group, object);

        if (object->fid->fclass != FI_CLASS_MC || group->ep != &ep->object || !group->size ||
            object_of(object->fid, struct fid_mc, fid)->fi_addr != op->peer)
            continue;
        *shares = shares_of(op->collective, group->size, op->root == group->self);
        found = true;
    }
    pthread_mutex_unlock(&layer->mutex);
    return found;
}

/* Where a share is not one there is one segment. */
static void add_shares(struct debug_buffers *buffers, const struct op *op,
                       const struct op_operand *operand, uint32_t shares, uint64_t access)
{
    struct fi_ioc whole;

    if (shares == 1 || !operand->count) {
        add_elements(buffers, operand, op->datatype, access);
        return;
    }
    whole = *operand->ioc;
    if (!__builtin_mul_overflow(whole.count, (size_t)shares, &whole.count))
        add_elements(buffers, &(struct op_operand){&whole, operand->desc, 1}, op->datatype, access);
}

/* Where the root is not known, a buffer may be its alone, and then has no descriptor with the
 * others; one of a broadcast is read or written. */
static void collective(struct debug_ep *ep, const struct op *op, struct debug_buffers *buffers)
{
    const struct op_operand own = {op->ioc, op->desc, op->count};
    struct shares shares = {1, 1};
    bool known = find_shares(ep, op, &shares);
    size_t count = 0;

    add_shares(buffers, op, &own, shares.own, FI_SEND | FI_RECV);
    add_shares(buffers, op, &op->result, shares.result, FI_RECV);
    for (size_t i = 0; i < buffers->count; i++)
        if (buffers->list[i].desc || known || !has_root(op))
            buffers->list[count++] = buffers->list[i];
    buffers->count = count;
}

void debug_find_buffers(struct debug_ep *ep, const struct op *op, uint64_t flags,
                        struct debug_buffers *buffers)
{
    const struct op_operand own = {op->ioc, op->desc, op->count};
    bool injected = op_is_inject(op) || flags & FI_INJECT;

    buffers->count = 0;
    if (!ep->domain->local)
        return;
    switch (op_class(op->call)) {
    case OP_CLASS_COLLECTIVE: collective(ep, op, buffers); break;
    case OP_CLASS_ATOMIC:
        if (!injected && op->op != FI_ATOMIC_READ)
            add_elements(buffers, &own, op->datatype, FI_WRITE);
        if (!injected)
            add_elements(buffers, &op->compare, op->datatype, FI_WRITE);
        add_elements(buffers, &op->result, op->datatype, FI_READ);
        break;
    default:
        if (!injected)
            bytes(op, buffers);
    }
}

/* ---- Atomics ---- */

/* 0: the lower does not say. */
static size_t most_elements(struct fid_ep *lower, const struct op *op)
{
    size_t count = 0;
    int rc;

    switch (op->function) {
    case FI_COMPARE_ATOMIC: rc = fi_compare_atomicvalid(lower, op->datatype, op->op, &count); break;
    case FI_FETCH_ATOMIC: rc = fi_fetch_atomicvalid(lower, op->datatype, op->op, &count); break;
    default: rc = fi_atomicvalid(lower, op->datatype, op->op, &count); break;
    }
    return rc ? 0 : count;
}

static void check_operand(struct debug_ep *ep, const struct op *op, const char *whom,
                          const struct op_operand *operand, const char *name)
{
    size_t elements = op_operand_len(operand);

    if (elements < op->len)
        debug_report(ep->object.layer->reporter, DEBUG_OPERANDS, op_name(op->call), whom,
                     "the %s buffers have %zu elements, and the operation has %zu", name, elements,
                     op->len);
}

static void check_atomic(struct debug_ep *ep, struct fid_ep *lower, const struct op *op,
                         const char *whom)
{
    struct debug_reporter *reporter = ep->object.layer->reporter;
    size_t most = most_elements(lower, op), size = atomic_size(op->datatype);
    bool injected = op->flags & FI_INJECT;

    if (!atomic_valid(op->datatype, op->op, op->function))
        debug_report(reporter, DEBUG_ATOMIC_OP, op_name(op->call), whom,
                     "operation %d has no meaning with it and datatype %d", (int)op->op,
                     (int)op->datatype);
    if (most && op->len > most)
        debug_report(reporter, DEBUG_ATOMIC_COUNT, op_name(op->call), whom,
                     "%zu elements, and %zu are valid", op->len, most);
    if (injected && ep->inject_size && size && op->len > ep->inject_size / size)
        debug_report(reporter, DEBUG_INJECT_SIZE, op_name(op->call), whom,
                     "%zu elements of %zu bytes are injected, and inject_size is %zu", op->len,
                     size, ep->inject_size);
    if (op->function)
        check_operand(ep, op, whom, &op->result, "result");
    if (op->function == FI_COMPARE_ATOMIC)
        check_operand(ep, op, whom, &op->compare, "compare");
}

/* ---- Collectives ---- */

static void check_group(struct debug_ep *ep, const struct op *op, const char *whom)
{
    struct debug_layer *layer = ep->object.layer;
    bool found = false;

    pthread_mutex_lock(&layer->mutex);
    list_for_each (pos, &layer->objects) {
        const struct debug_object *object = list_item(pos, struct debug_object, link);

        if (object->fid->fclass == FI_CLASS_MC)
            found = found || object_of(object->fid, struct fid_mc, fid)->fi_addr == op->peer;
    }
    pthread_mutex_unlock(&layer->mutex);
    if (!found)
        debug_report(layer->reporter, DEBUG_GROUP, op_name(op->call), whom,
                     "0x%llx is the address of no group that was joined and is open",
                     (unsigned long long)op->peer);
}

static void check_collective(struct debug_ep *ep, const struct op *op, const char *whom)
{
    struct fi_collective_attr attr = {.op = op->op, .datatype = op->datatype};
    struct fid_domain *domain = object_of(ep->domain->object.fid, struct fid_domain, fid);
    size_t most = 0;

    check_group(ep, op, whom);
    if (op->collective == FI_BARRIER)
        return;
    if (!fi_query_collective(object_of(domain, struct hook_domain, fid)->lower, op->collective,
                             &attr, 0))
        most = attr.datatype_attr.count;
    if (most && op->len > most)
        debug_report(ep->object.layer->reporter, DEBUG_COLLECTIVE_COUNT, op_name(op->call), whom,
                     "%zu elements, and %zu are valid", op->len, most);
}

void debug_check_operands(struct debug_ep *ep, struct fid_ep *lower, const struct op *op,
                          const char *whom)
{
    switch (op_class(op->call)) {
    case OP_CLASS_ATOMIC: check_atomic(ep, lower, op, whom); break;
    case OP_CLASS_COLLECTIVE: check_collective(ep, op, whom); break;
    default: break;
    }
}

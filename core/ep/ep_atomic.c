/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_atomic, fi_fetch_atomic, fi_compare_atomic and their kin, of every endpoint of ours. */
#include "core/ep/ep_build.h"

/* Sets the one remote segment, of as many elements as there are operands or, where the operation
 * takes none, results; and posts. */
OP_INLINE ssize_t post_at(struct fid_ep *fid, struct op *op, uint64_t addr, uint64_t key,
                          enum fi_datatype datatype, enum fi_op operation)
{
    bool reads = op->function && operation == FI_ATOMIC_READ;
    const struct fi_rma_ioc rma = {
        .addr = addr, .count = reads ? op_operand_len(&op->result) : op->len, .key = key};

    ssize_t rc;

    op->rma_ioc = &rma;
    op->rma_count = 1;
    op->datatype = datatype;
    op->op = operation;
    rc = ep_post(fid, op);
    op->rma_ioc = NULL;
    return rc;
}

/* ---- Without a result ---- */

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                            fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                            enum fi_op operation, void *context)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    struct op op;

    op_start_atomic(&op, OP_ATOMIC, dest, context);
    op_set_ioc(&op, &ioc, &desc, 1);
    return post_at(fid, &op, addr, key, datatype, operation);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *ioc, void **desc,
                             size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                             enum fi_datatype datatype, enum fi_op operation, void *context)
{
    struct op op;

    op_start_atomic(&op, OP_ATOMICV, dest, context);
    op_set_ioc(&op, ioc, desc, count);
    return post_at(fid, &op, addr, key, datatype, operation);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
    struct op op;

    op_of_atomic(&op, OP_ATOMICMSG, msg, flags);
    return ep_post(fid, &op);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest,
                             uint64_t addr, uint64_t key, enum fi_datatype datatype,
                             enum fi_op operation)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    struct op op;

    op_start_atomic(&op, OP_INJECT_ATOMIC, dest, NULL);
    op_set_flags(&op, FI_INJECT);
    op_set_ioc(&op, &ioc, NULL, 1);
    return post_at(fid, &op, addr, key, datatype, operation);
}

/* ---- With the earlier value ---- */

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
                                uint64_t key, enum fi_datatype datatype, enum fi_op operation,
                                void *context)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    const struct fi_ioc results = {.addr = result, .count = count};
    struct op op;

    op_start_atomic(&op, OP_FETCH_ATOMIC, dest, context);
    op_set_ioc(&op, &ioc, &desc, 1);
    op.result = (struct op_operand){&results, &result_desc, 1};
    return post_at(fid, &op, addr, key, datatype, operation);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *ioc, void **desc,
                                 size_t count, struct fi_ioc *result, void **result_desc,
                                 size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
                                 enum fi_datatype datatype, enum fi_op operation, void *context)
{
    struct op op;

    op_start_atomic(&op, OP_FETCH_ATOMICV, dest, context);
    op_set_ioc(&op, ioc, desc, count);
    op.result = (struct op_operand){result, result_desc, result_count};
    return post_at(fid, &op, addr, key, datatype, operation);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *result, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
    struct op op;

    op_of_atomic(&op, OP_FETCH_ATOMICMSG, msg, flags);
    op.result = (struct op_operand){result, result_desc, result_count};
    return ep_post(fid, &op);
}

/* ---- With a comparison ---- */

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result,
                                void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op operation, void *context)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    const struct fi_ioc compares = {.addr = (void *)(uintptr_t)compare, .count = count};
    const struct fi_ioc results = {.addr = result, .count = count};
    struct op op;

    op_start_atomic(&op, OP_COMPARE_ATOMIC, dest, context);
    op_set_ioc(&op, &ioc, &desc, 1);
    op.compare = (struct op_operand){&compares, &compare_desc, 1};
    op.result = (struct op_operand){&results, &result_desc, 1};
    return post_at(fid, &op, addr, key, datatype, operation);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *ioc, void **desc,
                                 size_t count, const struct fi_ioc *compare, void **compare_desc,
                                 size_t compare_count, struct fi_ioc *result, void **result_desc,
                                 size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
                                 enum fi_datatype datatype, enum fi_op operation, void *context)
{
    struct op op;

    op_start_atomic(&op, OP_COMPARE_ATOMICV, dest, context);
    op_set_ioc(&op, ioc, desc, count);
    op.compare = (struct op_operand){compare, compare_desc, compare_count};
    op.result = (struct op_operand){result, result_desc, result_count};
    return post_at(fid, &op, addr, key, datatype, operation);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *compare, void **compare_desc,
                                   size_t compare_count, struct fi_ioc *result, void **result_desc,
                                   size_t result_count, uint64_t flags)
{
    struct op op;

    op_of_atomic(&op, OP_COMPARE_ATOMICMSG, msg, flags);
    op.compare = (struct op_operand){compare, compare_desc, compare_count};
    op.result = (struct op_operand){result, result_desc, result_count};
    return ep_post(fid, &op);
}

/* ---- Queries ---- */

static int valid(struct fid_ep *fid, uint64_t function, enum fi_datatype datatype,
                 enum fi_op operation, size_t *count)
{
    struct ep *ep = (struct ep *)fid;

    if (!(ep->groups & OP_GROUP_ATOMIC) || !ep->atomic_valid)
        return -FI_ENOSYS;
    return ep->atomic_valid(ep, function, datatype, operation, count);
}

static int atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op operation,
                             size_t *count)
{
    return valid(fid, 0, datatype, operation, count);
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype,
                                 enum fi_op operation, size_t *count)
{
    return valid(fid, FI_FETCH_ATOMIC, datatype, operation, count);
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype,
                                 enum fi_op operation, size_t *count)
{
    return valid(fid, FI_COMPARE_ATOMIC, datatype, operation, count);
}

struct fi_ops_atomic ep_atomic_ops = {
    .size = sizeof(ep_atomic_ops),
    .write = atomic_write,
    .writev = atomic_writev,
    .writemsg = atomic_writemsg,
    .inject = atomic_inject,
    .readwrite = atomic_readwrite,
    .readwritev = atomic_readwritev,
    .readwritemsg = atomic_readwritemsg,
    .compwrite = atomic_compwrite,
    .compwritev = atomic_compwritev,
    .compwritemsg = atomic_compwritemsg,
    .writevalid = atomic_writevalid,
    .readwritevalid = atomic_readwritevalid,
    .compwritevalid = atomic_compwritevalid,
};

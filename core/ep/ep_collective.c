/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_barrier, fi_broadcast and their kin, of every endpoint of ours. */
#include "core/ep/ep_build.h"

/* The arguments that the functions with two buffers share. */
struct exchange {
    enum op_call call;
    enum fi_collective_op collective;
    const void *buf;
    size_t count;
    void *desc, *result, *result_desc;
    fi_addr_t group, root;
    enum fi_datatype datatype;
    enum fi_op op;
    uint64_t flags;
    void *context;
};

static void start(struct op *op, enum op_call call, enum fi_collective_op collective,
                  fi_addr_t group, void *context)
{
    op_start(op, call, OP_GROUP_COLLECTIVE, FI_COLLECTIVE, group, context);
    op->collective = collective;
    op->root = 0;
    op->ioc = NULL;
    op->desc = NULL;
    op->count = 0;
    op->len = 0;
    op->datatype = FI_INT8;
    op->op = FI_NOOP;
    op->result = (struct op_operand){NULL, NULL, 0};
}

static ssize_t post_exchange(struct fid_ep *fid, const struct exchange *asked)
{
    const struct fi_ioc ioc = {.addr = (void *)(uintptr_t)asked->buf, .count = asked->count};
    const struct fi_ioc results = {.addr = asked->result, .count = asked->count};
    void *desc = asked->desc, *result_desc = asked->result_desc;
    struct op op;

    start(&op, asked->call, asked->collective, asked->group, asked->context);
    op_set_flags(&op, asked->flags);
    op_set_ioc(&op, &ioc, &desc, 1);
    op.datatype = asked->datatype;
    op.op = asked->op;
    op.root = asked->root;
    op.result = (struct op_operand){&results, &result_desc, 1};
    return ep_post(fid, &op);
}

static ssize_t barrier(struct fid_ep *fid, fi_addr_t group, void *context)
{
    struct op op;

    start(&op, OP_BARRIER, FI_BARRIER, group, context);
    return ep_post(fid, &op);
}

static ssize_t barrier2(struct fid_ep *fid, fi_addr_t group, uint64_t flags, void *context)
{
    struct op op;

    start(&op, OP_BARRIER2, FI_BARRIER, group, context);
    op_set_flags(&op, flags);
    return ep_post(fid, &op);
}

static ssize_t broadcast(struct fid_ep *fid, void *buf, size_t count, void *desc, fi_addr_t group,
                         fi_addr_t root, enum fi_datatype datatype, uint64_t flags, void *context)
{
    const struct fi_ioc ioc = {.addr = buf, .count = count};
    struct op op;

    start(&op, OP_BROADCAST, FI_BROADCAST, group, context);
    op_set_flags(&op, flags);
    op_set_ioc(&op, &ioc, &desc, 1);
    op.datatype = datatype;
    op.root = root;
    return ep_post(fid, &op);
}

static ssize_t alltoall(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                        void *result_desc, fi_addr_t group, enum fi_datatype datatype,
                        uint64_t flags, void *context)
{
    return post_exchange(fid, &(struct exchange){OP_ALLTOALL, FI_ALLTOALL, buf, count, desc, result,
                                                 result_desc, group, 0, datatype, FI_NOOP, flags,
                                                 context});
}

static ssize_t allreduce(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                         void *result, void *result_desc, fi_addr_t group,
                         enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
{
    return post_exchange(fid,
                         &(struct exchange){OP_ALLREDUCE, FI_ALLREDUCE, buf, count, desc, result,
                                            result_desc, group, 0, datatype, op, flags, context});
}

static ssize_t allgather(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                         void *result, void *result_desc, fi_addr_t group,
                         enum fi_datatype datatype, uint64_t flags, void *context)
{
    return post_exchange(fid, &(struct exchange){OP_ALLGATHER, FI_ALLGATHER, buf, count, desc,
                                                 result, result_desc, group, 0, datatype, FI_NOOP,
                                                 flags, context});
}

static ssize_t reduce_scatter(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                              void *result, void *result_desc, fi_addr_t group,
                              enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                              void *context)
{
    return post_exchange(fid, &(struct exchange){OP_REDUCE_SCATTER, FI_REDUCE_SCATTER, buf, count,
                                                 desc, result, result_desc, group, 0, datatype, op,
                                                 flags, context});
}

static ssize_t reduce(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                      void *result_desc, fi_addr_t group, fi_addr_t root, enum fi_datatype datatype,
                      enum fi_op op, uint64_t flags, void *context)
{
    return post_exchange(fid, &(struct exchange){OP_REDUCE, FI_REDUCE, buf, count, desc, result,
                                                 result_desc, group, root, datatype, op, flags,
                                                 context});
}

static ssize_t scatter(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                       void *result_desc, fi_addr_t group, fi_addr_t root,
                       enum fi_datatype datatype, uint64_t flags, void *context)
{
    return post_exchange(fid, &(struct exchange){OP_SCATTER, FI_SCATTER, buf, count, desc, result,
                                                 result_desc, group, root, datatype, FI_NOOP, flags,
                                                 context});
}

static ssize_t gather(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                      void *result_desc, fi_addr_t group, fi_addr_t root, enum fi_datatype datatype,
                      uint64_t flags, void *context)
{
    return post_exchange(fid, &(struct exchange){OP_GATHER, FI_GATHER, buf, count, desc, result,
                                                 result_desc, group, root, datatype, FI_NOOP, flags,
                                                 context});
}

static ssize_t collective_msg(struct fid_ep *fid, const struct fi_msg_collective *msg,
                              struct fi_ioc *result, void **result_desc, size_t result_count,
                              uint64_t flags)
{
    struct op op;

    start(&op, OP_COLLECTIVE_MSG, msg->coll, msg->coll_addr, msg->context);
    op_set_flags(&op, flags);
    op_set_ioc(&op, msg->msg_iov, msg->desc, msg->iov_count);
    op.datatype = msg->datatype;
    op.op = msg->op;
    op.root = msg->root_addr;
    op.result = (struct op_operand){result, result_desc, result_count};
    return ep_post(fid, &op);
}

struct fi_ops_collective ep_collective_ops = {
    .size = sizeof(ep_collective_ops),
    .barrier = barrier,
    .broadcast = broadcast,
    .alltoall = alltoall,
    .allreduce = allreduce,
    .allgather = allgather,
    .reduce_scatter = reduce_scatter,
    .reduce = reduce,
    .scatter = scatter,
    .gather = gather,
    .msg = collective_msg,
    .barrier2 = barrier2,
};

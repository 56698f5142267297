/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/op/op.h"

#include <rdma/fi_errno.h>

#include "core/base/log.h"

static const char *const names[OP_CALLS] = {
    [OP_RECV] = "fi_recv",
    [OP_RECVV] = "fi_recvv",
    [OP_RECVMSG] = "fi_recvmsg",
    [OP_SEND] = "fi_send",
    [OP_SENDV] = "fi_sendv",
    [OP_SENDMSG] = "fi_sendmsg",
    [OP_INJECT] = "fi_inject",
    [OP_SENDDATA] = "fi_senddata",
    [OP_INJECTDATA] = "fi_injectdata",
    [OP_TRECV] = "fi_trecv",
    [OP_TRECVV] = "fi_trecvv",
    [OP_TRECVMSG] = "fi_trecvmsg",
    [OP_TSEND] = "fi_tsend",
    [OP_TSENDV] = "fi_tsendv",
    [OP_TSENDMSG] = "fi_tsendmsg",
    [OP_TINJECT] = "fi_tinject",
    [OP_TSENDDATA] = "fi_tsenddata",
    [OP_TINJECTDATA] = "fi_tinjectdata",
    [OP_READ] = "fi_read",
    [OP_READV] = "fi_readv",
    [OP_READMSG] = "fi_readmsg",
    [OP_WRITE] = "fi_write",
    [OP_WRITEV] = "fi_writev",
    [OP_WRITEMSG] = "fi_writemsg",
    [OP_INJECT_WRITE] = "fi_inject_write",
    [OP_WRITEDATA] = "fi_writedata",
    [OP_INJECT_WRITEDATA] = "fi_inject_writedata",
    [OP_ATOMIC] = "fi_atomic",
    [OP_ATOMICV] = "fi_atomicv",
    [OP_ATOMICMSG] = "fi_atomicmsg",
    [OP_INJECT_ATOMIC] = "fi_inject_atomic",
    [OP_FETCH_ATOMIC] = "fi_fetch_atomic",
    [OP_FETCH_ATOMICV] = "fi_fetch_atomicv",
    [OP_FETCH_ATOMICMSG] = "fi_fetch_atomicmsg",
    [OP_COMPARE_ATOMIC] = "fi_compare_atomic",
    [OP_COMPARE_ATOMICV] = "fi_compare_atomicv",
    [OP_COMPARE_ATOMICMSG] = "fi_compare_atomicmsg",
    [OP_BARRIER] = "fi_barrier",
    [OP_BROADCAST] = "fi_broadcast",
    [OP_ALLTOALL] = "fi_alltoall",
    [OP_ALLREDUCE] = "fi_allreduce",
    [OP_ALLGATHER] = "fi_allgather",
    [OP_REDUCE_SCATTER] = "fi_reduce_scatter",
    [OP_REDUCE] = "fi_reduce",
    [OP_SCATTER] = "fi_scatter",
    [OP_GATHER] = "fi_gather",
    [OP_COLLECTIVE_MSG] = "fi_collective_msg",
    [OP_BARRIER2] = "fi_barrier2",
};

const char *op_name(enum op_call call)
{
    return names[call];
}

enum op_class op_class(enum op_call call)
{
    if (call >= OP_BARRIER)
        return OP_CLASS_COLLECTIVE;
    if (call >= OP_ATOMIC)
        return OP_CLASS_ATOMIC;
    if (call >= OP_WRITE)
        return OP_CLASS_WRITE;
    if (call >= OP_READ)
        return OP_CLASS_READ;
    if (call <= OP_RECVMSG || (call >= OP_TRECV && call <= OP_TRECVMSG))
        return OP_CLASS_RECV;
    return OP_CLASS_SEND;
}

static enum op_call message_call(const struct op *op)
{
    switch (op->group) {
    case OP_GROUP_RECV: return OP_RECVMSG;
    case OP_GROUP_SEND: return OP_SENDMSG;
    case OP_GROUP_TRECV: return OP_TRECVMSG;
    case OP_GROUP_TSEND: return OP_TSENDMSG;
    case OP_GROUP_RMA: return op->kind & FI_READ ? OP_READMSG : OP_WRITEMSG;
    case OP_GROUP_ATOMIC: break;
    default: return OP_COLLECTIVE_MSG;
    }
    if (op->function == FI_COMPARE_ATOMIC)
        return OP_COMPARE_ATOMICMSG;
    return op->function ? OP_FETCH_ATOMICMSG : OP_ATOMICMSG;
}

void op_make_message(struct op *op, uint64_t endpoint_defaults)
{
    op_finalize_flags(op, endpoint_defaults);
    op->call = message_call(op);
}

ssize_t op_refuse_match(void)
{
    LOG_WARN("core", FI_LOG_EP_DATA,
             "FI_MATCH_COMPLETE: no completion here waits for a receive of the peer's to match; "
             "the latest that is offered is FI_DELIVERY_COMPLETE");
    return -FI_EOPNOTSUPP;
}

uint64_t op_call_flags(const struct op *op)
{
    switch (op->call) {
    case OP_RECVMSG:
    case OP_SENDMSG:
    case OP_TRECVMSG:
    case OP_TSENDMSG:
    case OP_READMSG:
    case OP_WRITEMSG:
    case OP_ATOMICMSG:
    case OP_FETCH_ATOMICMSG:
    case OP_COMPARE_ATOMICMSG: return op->flags;
    default: return op->group == OP_GROUP_COLLECTIVE && !op->defaults ? op->flags : 0;
    }
}

size_t op_operand_len(const struct op_operand *operand)
{
    size_t elements = 0;

    for (size_t i = 0; i < operand->count; i++)
        elements += operand->ioc[i].count;
    return elements;
}

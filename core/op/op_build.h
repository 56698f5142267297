/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a struct op is filled: by the public functions (core/ep), and by layers that keep operations
 * or make some of their own. Only what the group uses is written, so that an op costs a few stores.
 */
#ifndef WEFT_CORE_OP_OP_BUILD_H
#define WEFT_CORE_OP_OP_BUILD_H

#include "core/op/op.h"

#define OP_INLINE static inline __attribute__((always_inline))

enum {
    OP_SEGMENTS_MAX = 64 /* no endpoint takes more: those of a wild count are not read */
};

/* The fields of every op, for a call that takes the endpoint's default flags. */
OP_INLINE void op_start(struct op *op, enum op_call call, enum op_group group, uint64_t kind,
                        fi_addr_t peer, void *context)
{
    op->call = call;
    op->group = group;
    op->kind = kind;
    op->flags = 0;
    op->defaults = true;
    op->peer = peer;
    op->context = context;
    op->data = 0;
}

/* For a call whose flags are final: those of *msg functions and of injects. */
OP_INLINE void op_set_flags(struct op *op, uint64_t flags)
{
    op->flags = flags;
    op->defaults = false;
}

OP_INLINE void op_set_data(struct op *op, uint64_t data)
{
    op->flags |= FI_REMOTE_CQ_DATA;
    op->data = data;
}

OP_INLINE void op_set_iov(struct op *op, const struct iovec *iov, void **desc, size_t count)
{
    op->iov = iov;
    op->desc = desc;
    op->count = count;
    op->len = 0;
    for (size_t i = 0; i < count && count <= OP_SEGMENTS_MAX; i++)
        op->len += iov[i].iov_len;
}

OP_INLINE void op_set_ioc(struct op *op, const struct fi_ioc *ioc, void **desc, size_t count)
{
    op->ioc = ioc;
    op->desc = desc;
    op->count = count;
    op->len = 0;
    for (size_t i = 0; i < count && count <= OP_SEGMENTS_MAX; i++)
        op->len += ioc[i].count;
}

/* The fields of every atomic; no compare and result segments. */
OP_INLINE void op_start_atomic(struct op *op, enum op_call call, fi_addr_t peer, void *context)
{
    uint64_t function = call >= OP_COMPARE_ATOMIC ? FI_COMPARE_ATOMIC
                        : call >= OP_FETCH_ATOMIC ? FI_FETCH_ATOMIC
                                                  : 0;

    op_start(op, call, OP_GROUP_ATOMIC, FI_ATOMIC | (function ? FI_READ : FI_WRITE), peer, context);
    op->function = function;
    op->compare = (struct op_operand){NULL, NULL, 0};
    op->result = (struct op_operand){NULL, NULL, 0};
}

/* From the structs of *msg calls, whose flags are final. call: of the group that is meant. */

OP_INLINE void op_of_msg(struct op *op, enum op_call call, const struct fi_msg *msg, uint64_t flags)
{
    bool receives = call == OP_RECVMSG;

    op_start(op, call, receives ? OP_GROUP_RECV : OP_GROUP_SEND,
             FI_MSG | (receives ? FI_RECV : FI_SEND), msg->addr, msg->context);
    op_set_flags(op, flags);
    op_set_iov(op, msg->msg_iov, msg->desc, msg->iov_count);
    op->data = msg->data;
}

OP_INLINE void op_of_tagged(struct op *op, enum op_call call, const struct fi_msg_tagged *msg,
                            uint64_t flags)
{
    bool receives = call == OP_TRECVMSG;

    op_start(op, call, receives ? OP_GROUP_TRECV : OP_GROUP_TSEND,
             FI_TAGGED | (receives ? FI_RECV : FI_SEND), msg->addr, msg->context);
    op_set_flags(op, flags);
    op_set_iov(op, msg->msg_iov, msg->desc, msg->iov_count);
    op->tag = msg->tag;
    op->ignore = msg->ignore;
    op->data = msg->data;
}

OP_INLINE void op_of_rma(struct op *op, enum op_call call, const struct fi_msg_rma *msg,
                         uint64_t flags)
{
    op_start(op, call, OP_GROUP_RMA, FI_RMA | (call == OP_READMSG ? FI_READ : FI_WRITE), msg->addr,
             msg->context);
    op_set_flags(op, flags);
    op_set_iov(op, msg->msg_iov, msg->desc, msg->iov_count);
    op->data = msg->data;
    op->rma = msg->rma_iov;
    op->rma_count = msg->rma_iov_count;
}

/* Without compare and result segments, which follow. */
OP_INLINE void op_of_atomic(struct op *op, enum op_call call, const struct fi_msg_atomic *msg,
                            uint64_t flags)
{
    op_start_atomic(op, call, msg->addr, msg->context);
    op_set_flags(op, flags);
    op_set_ioc(op, msg->msg_iov, msg->desc, msg->iov_count);
    op->data = msg->data;
    op->rma_ioc = msg->rma_iov;
    op->rma_count = msg->rma_iov_count;
    op->datatype = msg->datatype;
    op->op = msg->op;
}

#endif

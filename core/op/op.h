/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One operation. The API has 48 functions that start an operation, and all of them mean the same
 * few things; struct op describes an operation. It is built once, where the application calls
 * (core/ep), and travels whole from part to part: each part gets it by its endpoint's `post`
 * (core/ep/ep.h) and may change it on the way down.
 *
 * An op, and all that it points to, is valid until the call returns. A part that needs it longer
 * takes a copy (core/op/op_copy.h).
 *
 * Source: fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3), fi_collective(3).
 */
#ifndef WEFT_CORE_OP_OP_H
#define WEFT_CORE_OP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* The public function that was called. */
enum op_call {
    OP_RECV,
    OP_RECVV,
    OP_RECVMSG,
    OP_SEND,
    OP_SENDV,
    OP_SENDMSG,
    OP_INJECT,
    OP_SENDDATA,
    OP_INJECTDATA,
    OP_TRECV,
    OP_TRECVV,
    OP_TRECVMSG,
    OP_TSEND,
    OP_TSENDV,
    OP_TSENDMSG,
    OP_TINJECT,
    OP_TSENDDATA,
    OP_TINJECTDATA,
    OP_READ,
    OP_READV,
    OP_READMSG,
    OP_WRITE,
    OP_WRITEV,
    OP_WRITEMSG,
    OP_INJECT_WRITE,
    OP_WRITEDATA,
    OP_INJECT_WRITEDATA,
    OP_ATOMIC,
    OP_ATOMICV,
    OP_ATOMICMSG,
    OP_INJECT_ATOMIC,
    OP_FETCH_ATOMIC,
    OP_FETCH_ATOMICV,
    OP_FETCH_ATOMICMSG,
    OP_COMPARE_ATOMIC,
    OP_COMPARE_ATOMICV,
    OP_COMPARE_ATOMICMSG,
    OP_BARRIER,
    OP_BROADCAST,
    OP_ALLTOALL,
    OP_ALLREDUCE,
    OP_ALLGATHER,
    OP_REDUCE_SCATTER,
    OP_REDUCE,
    OP_SCATTER,
    OP_GATHER,
    OP_COLLECTIVE_MSG,
    OP_BARRIER2,
    OP_CALLS,
};

/* Which operations an endpoint was opened for, as a set: struct ep.groups. */
enum op_group {
    OP_GROUP_RECV = 1 << 0,  /* fi_recv */
    OP_GROUP_SEND = 1 << 1,  /* fi_send */
    OP_GROUP_TRECV = 1 << 2, /* fi_trecv */
    OP_GROUP_TSEND = 1 << 3, /* fi_tsend */
    OP_GROUP_RMA = 1 << 4,
    OP_GROUP_ATOMIC = 1 << 5,
    OP_GROUP_COLLECTIVE = 1 << 6,
    OP_GROUP_MSG = OP_GROUP_RECV | OP_GROUP_SEND,
    OP_GROUP_TAGGED = OP_GROUP_TRECV | OP_GROUP_TSEND,
    OP_GROUP_ALL = (1 << 7) - 1,
};

/* The class of an operation in reports of hooks. */
enum op_class {
    OP_CLASS_RECV,
    OP_CLASS_SEND,
    OP_CLASS_READ,
    OP_CLASS_WRITE,
    OP_CLASS_ATOMIC,
    OP_CLASS_COLLECTIVE,
    OP_CLASSES,
};

/* Compare and result buffers of atomics, result buffers of collectives. */
struct op_operand {
    const struct fi_ioc *ioc;
    void **desc;  /* one per segment, or NULL */
    size_t count; /* segments; 0: none */
};

/*
 * Fields behind `data` are set for the groups named there only; the others are indeterminate.
 * Segments, descriptors and buffers are the caller's memory.
 */
struct op {
    enum op_call call;
    enum op_group group; /* exactly one bit */
    uint64_t kind;       /* as its completion reports it: FI_SEND | FI_TAGGED, FI_RMA | FI_READ */
    /* With `defaults` the call's own flags (FI_REMOTE_CQ_DATA of fi_senddata), to which the
     * endpoint that carries the operation out adds its default flags; else final. */
    uint64_t flags;
    bool defaults;
    fi_addr_t peer; /* source of a receive, group of a collective */
    void *context;
    union {
        const struct iovec *iov;
        const struct fi_ioc *ioc; /* atomics, collectives */
    };
    void **desc;   /* one per segment, or NULL */
    size_t count;  /* local segments */
    size_t len;    /* of all segments: bytes; elements of atomics and collectives */
    uint64_t data; /* counts with FI_REMOTE_CQ_DATA; 0 of receives and reads */
    /* TRECV, TSEND */
    uint64_t tag, ignore; /* ignore: 0 of sends that do not name it */
    /* RMA, ATOMIC: remote segments */
    union {
        const struct fi_rma_iov *rma;
        const struct fi_rma_ioc *rma_ioc; /* atomics */
    };
    size_t rma_count;
    /* ATOMIC, COLLECTIVE */
    enum fi_datatype datatype;
    enum fi_op op;
    struct op_operand result;
    /* ATOMIC */
    uint64_t function; /* 0, FI_FETCH_ATOMIC or FI_COMPARE_ATOMIC */
    struct op_operand compare;
    /* COLLECTIVE */
    enum fi_collective_op collective;
    fi_addr_t root;
};

/* The public function's name: "fi_tsend". */
const char *op_name(enum op_call call);
enum op_class op_class(enum op_call call);

/* Flags of operations that complete when they are in place at the target. An inject has them by its
 * endpoint's defaults if a counter is bound: it has no completion entry, but the counter counts it
 * then. */
#define OP_DELIVERED (FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE)

static inline bool op_is_receive(const struct op *op)
{
    return op->group & (OP_GROUP_RECV | OP_GROUP_TRECV);
}

/* Is it fi_inject or one of its kin, whose success is not reported? */
static inline bool op_is_inject(const struct op *op)
{
    const uint64_t injects = 1ULL << OP_INJECT | 1ULL << OP_INJECTDATA | 1ULL << OP_TINJECT |
                             1ULL << OP_TINJECTDATA | 1ULL << OP_INJECT_WRITE |
                             1ULL << OP_INJECT_WRITEDATA | 1ULL << OP_INJECT_ATOMIC;

    return injects >> op->call & 1;
}

/* The flags that count for an endpoint with these defaults. */
static inline uint64_t op_final_flags(const struct op *op, uint64_t endpoint_defaults)
{
    return op->defaults ? op->flags | endpoint_defaults : op->flags;
}

/* Makes the flags final: the defaults below do not count any more. */
static inline void op_finalize_flags(struct op *op, uint64_t endpoint_defaults)
{
    op->flags = op_final_flags(op, endpoint_defaults);
    op->defaults = false;
}

/* Of op_settle: says in the log why FI_MATCH_COMPLETE is refused. -FI_EOPNOTSUPP. */
ssize_t op_refuse_match(void);

/*
 * At the endpoint that carries out a transmission: makes its flags final (of the defaults, an
 * inject takes OP_DELIVERED alone), and takes from it what has no meaning for its kind. A read has
 * no payload to copy and no data to hand over; an atomic read has no operands. -FI_EOPNOTSUPP with
 * FI_MATCH_COMPLETE: no wire of ours tells that a message was matched with a receive.
 */
static inline ssize_t op_settle(struct op *op, uint64_t endpoint_defaults)
{
    op_finalize_flags(op, endpoint_defaults);
    if (__builtin_expect(!!(endpoint_defaults & OP_DELIVERED), 0) && op_is_inject(op))
        op->flags |= endpoint_defaults & OP_DELIVERED;
    if (__builtin_expect(!!(op->flags & FI_MATCH_COMPLETE), 0))
        return op_refuse_match();
    if (op->kind == (FI_RMA | FI_READ))
        op->flags &= ~(FI_INJECT | FI_REMOTE_CQ_DATA);
    if (op->group == OP_GROUP_ATOMIC && op->function && op->op == FI_ATOMIC_READ) {
        op->ioc = NULL;
        op->desc = NULL;
        op->count = op->len = 0;
    }
    return 0;
}

/* Makes it the *msg call of its group, with final flags: for layers that add flags to an inject, or
 * that change fields which the called function does not have. */
void op_make_message(struct op *op, uint64_t endpoint_defaults);

/* The flags that the caller passed: 0 of a function that takes none. */
uint64_t op_call_flags(const struct op *op);

/* The first local buffer; NULL without one. */
static inline void *op_buf(const struct op *op)
{
    if (!op->count || !op->iov)
        return NULL;
    return op->group & (OP_GROUP_ATOMIC | OP_GROUP_COLLECTIVE) ? op->ioc->addr : op->iov->iov_base;
}

/* Elements of all segments of an operand. */
size_t op_operand_len(const struct op_operand *operand);

/*
 * Posts op on an endpoint by the public function: by the one that was called where the flags are
 * still the call's own, else by the *msg function of its group. The only place that turns an op
 * into a public call. Returns what that function does; -FI_ENOSYS where the endpoint lacks it.
 */
ssize_t op_call_public(struct fid_ep *ep, const struct op *op);

#endif

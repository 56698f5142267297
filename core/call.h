/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A data transfer as hooks see it: one form for the 48 functions that start one. Tables that make
 * it are in core/call_transfers.inc and core/call_atomics.inc, those for what ends one in
 * core/completions.inc.
 */
#ifndef WEFT_CORE_CALL_H
#define WEFT_CORE_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum call_kind {
    CALL_RECV,
    CALL_RECVV,
    CALL_RECVMSG,
    CALL_SEND,
    CALL_SENDV,
    CALL_SENDMSG,
    CALL_INJECT,
    CALL_SENDDATA,
    CALL_INJECTDATA,
    CALL_TRECV,
    CALL_TRECVV,
    CALL_TRECVMSG,
    CALL_TSEND,
    CALL_TSENDV,
    CALL_TSENDMSG,
    CALL_TINJECT,
    CALL_TSENDDATA,
    CALL_TINJECTDATA,
    CALL_READ,
    CALL_READV,
    CALL_READMSG,
    CALL_WRITE,
    CALL_WRITEV,
    CALL_WRITEMSG,
    CALL_INJECT_WRITE,
    CALL_WRITEDATA,
    CALL_INJECT_WRITEDATA,
    CALL_ATOMIC_WRITE,
    CALL_ATOMIC_WRITEV,
    CALL_ATOMIC_WRITEMSG,
    CALL_ATOMIC_INJECT,
    CALL_ATOMIC_READWRITE,
    CALL_ATOMIC_READWRITEV,
    CALL_ATOMIC_READWRITEMSG,
    CALL_ATOMIC_COMPWRITE,
    CALL_ATOMIC_COMPWRITEV,
    CALL_ATOMIC_COMPWRITEMSG,
    CALL_COLL_BARRIER,
    CALL_COLL_BROADCAST,
    CALL_COLL_ALLTOALL,
    CALL_COLL_ALLREDUCE,
    CALL_COLL_ALLGATHER,
    CALL_COLL_REDUCE_SCATTER,
    CALL_COLL_REDUCE,
    CALL_COLL_SCATTER,
    CALL_COLL_GATHER,
    CALL_COLL_MSG,
    CALL_COLL_BARRIER2,
    CALL_KINDS,
};

enum call_class {
    CALL_CLASS_RECV,
    CALL_CLASS_SEND,
    CALL_CLASS_READ,
    CALL_CLASS_WRITE,
    CALL_CLASS_ATOMIC,
    CALL_CLASS_COLLECTIVE,
    CALL_CLASSES,
};

/* Further buffers of atomics and collectives: one, buf, or those of iov. */
struct call_operand {
    const void *buf;
    const struct fi_ioc *iov;
    void **descs; /* may be NULL */
    size_t count; /* 0: there is none */
    size_t len;   /* elements of buf */
};

struct call {
    enum call_kind kind;
    const void *buf; /* the first buffer; may be NULL */
    size_t len;      /* bytes; elements of atomics and collectives */
    fi_addr_t peer;
    uint64_t tag; /* remote address of RMA and atomics */
    uint64_t key; /* remote key; bits to ignore of a tagged receive */
    uint64_t data, flags;
    void *context;
    const struct iovec *iov;  /* all buffers; NULL: there is one, buf, or they are of elements */
    const struct fi_ioc *ioc; /* the same of atomics and collectives */
    void **descs;             /* of them; may be NULL */
    size_t count;
    size_t rma_count;                    /* remote segments */
    enum fi_datatype datatype;           /* of atomics and collectives */
    enum fi_op op;                       /* of atomics, and of collectives that have one */
    enum fi_collective_op coll;          /* of fi_collective_msg */
    fi_addr_t root;                      /* of collectives that have one */
    struct call_operand compare, result; /* of atomics and collectives */
    uint64_t note;                       /* the hook's own, from call_enter to call_leave */
};

/* What ended: an entry of a completion queue. */
struct completion {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data, tag;
    fi_addr_t src;
    int err; /* positive FI_E code; 0: success */
};

/* How it came: read by the upper, alone or in a batch, or written by the lower to a peer queue. */
enum completion_way {
    COMPLETION_READ,
    COMPLETION_READ_ERROR,
    COMPLETION_WRITTEN,
};

/* The public function's name: "fi_tsend". */
const char *call_name(enum call_kind kind);
enum call_class call_class(enum call_kind kind);
/* Of collectives. */
static inline enum fi_collective_op call_collective(const struct call *call)
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
/* Does it end without a completion of its own? */
bool call_is_inject(enum call_kind kind);

static inline size_t call_total_len(const struct iovec *iov, size_t count)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++)
        len += iov[i].iov_len;
    return len;
}

static inline size_t call_element_count(const struct fi_ioc *iov, size_t count)
{
    size_t elements = 0;

    for (size_t i = 0; i < count; i++)
        elements += iov[i].count;
    return elements;
}

static inline struct call_operand call_vector(const struct fi_ioc *iov, void **descs, size_t count)
{
    if (!iov)
        return (struct call_operand){NULL};
    return (struct call_operand){
        .iov = iov, .descs = descs, .count = count, .len = call_element_count(iov, count)};
}

static inline struct call call_message(enum call_kind kind, const struct fi_msg *msg,
                                       uint64_t flags)
{
    return (struct call){.kind = kind,
                         .buf = msg->iov_count ? msg->msg_iov->iov_base : NULL,
                         .len = call_total_len(msg->msg_iov, msg->iov_count),
                         .peer = msg->addr,
                         .data = msg->data,
                         .flags = flags,
                         .context = msg->context,
                         .iov = msg->msg_iov,
                         .descs = msg->desc,
                         .count = msg->iov_count};
}

static inline struct call call_tagged_message(enum call_kind kind, const struct fi_msg_tagged *msg,
                                              uint64_t flags)
{
    return (struct call){.kind = kind,
                         .buf = msg->iov_count ? msg->msg_iov->iov_base : NULL,
                         .len = call_total_len(msg->msg_iov, msg->iov_count),
                         .peer = msg->addr,
                         .tag = msg->tag,
                         .key = msg->ignore,
                         .data = msg->data,
                         .flags = flags,
                         .context = msg->context,
                         .iov = msg->msg_iov,
                         .descs = msg->desc,
                         .count = msg->iov_count};
}

static inline struct call call_rma_message(enum call_kind kind, const struct fi_msg_rma *msg,
                                           uint64_t flags)
{
    return (struct call){.kind = kind,
                         .buf = msg->iov_count ? msg->msg_iov->iov_base : NULL,
                         .len = call_total_len(msg->msg_iov, msg->iov_count),
                         .peer = msg->addr,
                         .tag = msg->rma_iov_count ? msg->rma_iov->addr : 0,
                         .key = msg->rma_iov_count ? msg->rma_iov->key : 0,
                         .data = msg->data,
                         .flags = flags,
                         .context = msg->context,
                         .iov = msg->msg_iov,
                         .descs = msg->desc,
                         .count = msg->iov_count,
                         .rma_count = msg->rma_iov_count};
}

static inline struct call call_atomic_message(enum call_kind kind, const struct fi_msg_atomic *msg,
                                              uint64_t flags)
{
    return (struct call){.kind = kind,
                         .buf = msg->iov_count ? msg->msg_iov->addr : NULL,
                         .len = call_element_count(msg->msg_iov, msg->iov_count),
                         .peer = msg->addr,
                         .tag = msg->rma_iov_count ? msg->rma_iov->addr : 0,
                         .key = msg->rma_iov_count ? msg->rma_iov->key : 0,
                         .data = msg->data,
                         .flags = flags,
                         .context = msg->context,
                         .ioc = msg->msg_iov,
                         .descs = msg->desc,
                         .count = msg->iov_count,
                         .rma_count = msg->rma_iov_count,
                         .datatype = msg->datatype,
                         .op = msg->op};
}

static inline struct call
call_collective_message(enum call_kind kind, const struct fi_msg_collective *msg, uint64_t flags)
{
    return (struct call){.kind = kind,
                         .buf = msg->iov_count ? msg->msg_iov->addr : NULL,
                         .len = call_element_count(msg->msg_iov, msg->iov_count),
                         .peer = msg->coll_addr,
                         .flags = flags,
                         .context = msg->context,
                         .ioc = msg->msg_iov,
                         .descs = msg->desc,
                         .count = msg->iov_count,
                         .datatype = msg->datatype,
                         .op = msg->op,
                         .coll = msg->coll,
                         .root = msg->root_addr};
}

#endif

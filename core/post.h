/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The forms of a transfer made one. A part writes the static functions below and includes a
 * template, which makes the entries of its table out of them; what is inline stays so, and costs
 * a struct on the stack at most. Final flags have the defaults of the endpoint merged in.
 *
 *   core/post_recv.inc    msg_recvmsg (the entry: flags are final) and rx_flags
 *   core/post_trecv.inc   tagged_recvmsg and rx_flags
 *   core/post_send.inc    post_send and tx_flags
 *   core/post_tsend.inc   post_send and tx_flags
 *   core/post_rma.inc     post_rma and tx_flags
 *   core/post_atomic.inc  post_atomic, count_atomic and tx_flags
 *   core/post_collective.inc  post_collective and tx_flags
 *
 *   uint64_t rx_flags(struct fid_ep *), tx_flags(struct fid_ep *): the defaults
 *   ssize_t post_send(struct fid_ep *, const struct post *), post_rma: posts one
 *   ssize_t post_atomic(struct fid_ep *, const struct post_atomic *): the same
 *   ssize_t post_collective(struct fid_ep *, const struct post_collective *): the same
 *   int count_atomic(struct fid_ep *, enum fi_datatype, enum fi_op, uint64_t kind, size_t *count):
 *       as atomic_count with the part's limit
 */
#ifndef WEFT_CORE_POST_H
#define WEFT_CORE_POST_H

#include <stdbool.h>
#include <sys/uio.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "core/no.h"

/* One transfer out of this endpoint; its iovecs are the caller's. */
struct post {
    uint64_t kind; /* as its completion says: FI_SEND | FI_MSG or FI_TAGGED, FI_RMA | FI_READ... */
    const struct iovec *iov;
    void **desc; /* as many, or NULL */
    size_t count;
    const struct fi_rma_iov *rma;
    size_t rma_count;
    fi_addr_t peer;
    uint64_t tag;
    uint64_t data;  /* counts with FI_REMOTE_CQ_DATA */
    uint64_t flags; /* final. Reads: without FI_INJECT and FI_REMOTE_CQ_DATA */
    void *context;
    bool silent; /* fi_inject and the like: success is not reported */
};

/* An atomic operation; atomic_check (core/atomic.h) tells whether it is sound. */
struct post_atomic {
    uint64_t kind;     /* as its completion says: FI_ATOMIC | FI_WRITE, or FI_READ if it fetches */
    uint64_t function; /* 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC: as atomic_valid takes it */
    const struct fi_ioc *iov; /* none with FI_ATOMIC_READ */
    void **desc;
    size_t count;
    const struct fi_ioc *compare; /* FI_COMPARE_ATOMIC */
    void **compare_desc;
    size_t compare_count;
    struct fi_ioc *result; /* FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC */
    void **result_desc;
    size_t result_count;
    const struct fi_rma_ioc *rma;
    size_t rma_count;
    enum fi_datatype datatype;
    enum fi_op op;
    fi_addr_t peer;
    uint64_t data;  /* of a *msg call, passed on */
    uint64_t flags; /* final */
    void *context;
    bool silent; /* fi_inject_atomic */
};

/* A collective, in one form; its buffers have one segment on either side. */
struct post_collective {
    enum fi_collective_op coll;
    const void *in;
    void *out; /* of a broadcast the only one */
    size_t count;
    void *in_desc, *out_desc;
    fi_addr_t group, root;
    enum fi_datatype datatype;
    enum fi_op op;
    uint64_t flags; /* final */
    void *context;
};

/* That a message was matched with a receive is what no wire of ours tells. */
static inline bool post_refuses(uint64_t flags)
{
    return flags & FI_MATCH_COMPLETE;
}

/* Says so in the log; -FI_EOPNOTSUPP. */
ssize_t post_refused(void);

/* What the templates give, for the initializer of a table; and nothing in its place. */
#define POST_RECV .recv = msg_recv, .recvv = msg_recvv, .recvmsg = msg_recvmsg
#define NO_RECV .recv = no_msg_recv, .recvv = no_msg_recvv, .recvmsg = no_msg_recvmsg
#define POST_TRECV .recv = tagged_recv, .recvv = tagged_recvv, .recvmsg = tagged_recvmsg
#define NO_TRECV .recv = no_tagged_recv, .recvv = no_tagged_recvv, .recvmsg = no_tagged_recvmsg
#define POST_SEND                                                                                  \
    .send = msg_send, .sendv = msg_sendv, .sendmsg = msg_sendmsg, .inject = msg_inject,            \
    .senddata = msg_senddata, .injectdata = msg_injectdata
#define NO_SEND                                                                                    \
    .send = no_msg_send, .sendv = no_msg_sendv, .sendmsg = no_msg_sendmsg,                         \
    .inject = no_msg_inject, .senddata = no_msg_senddata, .injectdata = no_msg_injectdata
#define POST_TSEND                                                                                 \
    .send = tagged_send, .sendv = tagged_sendv, .sendmsg = tagged_sendmsg,                         \
    .inject = tagged_inject, .senddata = tagged_senddata, .injectdata = tagged_injectdata
#define NO_TSEND                                                                                   \
    .send = no_tagged_send, .sendv = no_tagged_sendv, .sendmsg = no_tagged_sendmsg,                \
    .inject = no_tagged_inject, .senddata = no_tagged_senddata, .injectdata = no_tagged_injectdata
#define POST_RMA                                                                                   \
    .read = rma_read, .readv = rma_readv, .readmsg = rma_readmsg, .write = rma_write,              \
    .writev = rma_writev, .writemsg = rma_writemsg, .inject = rma_inject,                          \
    .writedata = rma_writedata, .injectdata = rma_injectdata
#define POST_ATOMIC                                                                                \
    .write = atomic_write, .writev = atomic_writev, .writemsg = atomic_writemsg,                   \
    .inject = atomic_inject, .readwrite = atomic_readwrite, .readwritev = atomic_readwritev,       \
    .readwritemsg = atomic_readwritemsg, .compwrite = atomic_compwrite,                            \
    .compwritev = atomic_compwritev, .compwritemsg = atomic_compwritemsg,                          \
    .writevalid = atomic_writevalid, .readwritevalid = atomic_readwritevalid,                      \
    .compwritevalid = atomic_compwritevalid
#define POST_COLLECTIVE                                                                            \
    .barrier = collective_barrier, .broadcast = collective_broadcast,                              \
    .alltoall = collective_alltoall, .allreduce = collective_allreduce,                            \
    .allgather = collective_allgather, .reduce_scatter = collective_reduce_scatter,                \
    .reduce = collective_reduce, .scatter = collective_scatter, .gather = collective_gather,       \
    .msg = collective_message, .barrier2 = collective_barrier2

#endif

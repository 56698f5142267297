/* SPDX-License-Identifier: BSD-2-Clause */
/* One record to send, and the report of its end. All with the progress domain locked. */
#ifndef WEFT_TCP_OP_H
#define WEFT_TCP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/domain/mr.h"
#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_info.h"
#include "transports/tcp/tcp_wire.h"

struct tcp_conn;
struct tcp_poller;
struct tcp_tx;

enum tcp_op_kind {
    TCP_KIND_SEND,
    TCP_KIND_WRITE,
    TCP_KIND_READ,
    TCP_KIND_RTS,      /* a tagged send that asks first */
    TCP_KIND_CONTROL,  /* ack, clear-to-send */
    TCP_KIND_RESPONSE, /* to a read; op->target holds the regions */
    TCP_KIND_ATOMIC,
    TCP_KIND_ANSWER, /* to an atomic */
};

/* The condition that a record waits for before it leaves. */
enum tcp_fence {
    TCP_FENCE_NONE,
    TCP_FENCE_READS, /* the data of the reads before it */
    TCP_FENCE_ALL,   /* the end of all before it */
};

/* Local memory of a remote access, with the regions held. */
struct tcp_target {
    struct mr *mr[TCP_WIRE_IOV_MAX];
    struct mr_watch *watch[TCP_WIRE_IOV_MAX]; /* NULL: the kernel reaches nothing */
    unsigned mr_count;
    struct tcp_conn *conn;
    size_t iov_count;
    struct iovec iov[TCP_WIRE_IOV_MAX * TCP_MR_IOV_MAX];
};

/* A record to send, and what to report when it is done. */
struct tcp_op {
    struct tcp_op *next;
    void *context;
    uint64_t flags; /* of the completion */
    size_t len;     /* of the message */
    uint64_t tag;
    struct tcp_target *target;
    struct tcp_atomic *atomic; /* payload of an atomic or its answer that is not in `bytes` */
    uint8_t kind;
    uint8_t fence; /* enum tcp_fence */
    bool wanted;   /* completion */
    bool ack;      /* done when the peer says so */
    bool waiting;  /* RTS: has left, the answer has not come */
    bool answered; /* before we knew that it has left (io_uring) */
    int error;     /* then: the answer's status, 0 or positive */
    uint8_t rndv;  /* context of a rendezvous, 0: none */
    uint8_t iov_count;
    uint16_t head; /* bytes used in `bytes` */
    uint16_t wire_flags;
    struct iovec iov[TCP_IOV_LIMIT];
    uint8_t bytes[]; /* header, then the payload when that is small */
};

/* A record of kind, or NULL: no memory. */
struct tcp_op *tcp_op_make(struct tcp_poller *poller, enum tcp_op_kind kind);
/* An operation of the application, or NULL when the limit is reached (-FI_EAGAIN) or there is no
 * memory. */
struct tcp_op *tcp_op_get(struct tcp_tx *tx);
void tcp_op_put(struct tcp_tx *tx, struct tcp_op *op);

/* Encodes the header of op, puts the payload in line when it fits, else refers to iov. */
void tcp_op_build(const struct tcp_conn *conn, struct tcp_op *op, const struct tcp_wire *wire,
                  const struct iovec *iov, size_t count);

/* Done: the completion, if one is wanted, when op is free again. */
void tcp_op_complete(struct tcp_tx *tx, struct tcp_op *op);
/* The same in error, err positive; or silently (0). */
void tcp_op_end(struct tcp_tx *tx, struct tcp_op *op, int err);

void tcp_target_release(struct tcp_poller *poller, struct tcp_target *target);

/* Posted by the application, not an answer of ours. */
static inline bool tcp_op_is_application(const struct tcp_op *op)
{
    return op->kind != TCP_KIND_CONTROL && op->kind != TCP_KIND_RESPONSE &&
           op->kind != TCP_KIND_ANSWER;
}

/* The part of op that goes out behind its `bytes`. */
static inline const struct iovec *tcp_op_iov(const struct tcp_op *op, size_t *count)
{
    if (op->kind == TCP_KIND_RTS || op->kind == TCP_KIND_READ) {
        *count = 0;
        return NULL;
    }
    if (op->kind == TCP_KIND_ATOMIC || op->kind == TCP_KIND_ANSWER) {
        *count = op->atomic ? 1 : 0;
        return op->atomic ? &op->atomic->bytes : NULL;
    }
    if (op->target) {
        *count = op->target->iov_count;
        return op->target->iov;
    }
    *count = op->iov_count;
    return op->iov;
}

static inline size_t tcp_op_size(const struct tcp_op *op)
{
    size_t count, size = op->head;
    const struct iovec *iov = tcp_op_iov(op, &count);

    for (size_t i = 0; i < count; i++)
        size += iov[i].iov_len;
    return size;
}

#endif

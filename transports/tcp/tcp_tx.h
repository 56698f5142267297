/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending side of a connection: records in the order of their posts, an urgent queue for
 * answers (acks, read responses, clear-to-send) that goes between records and never splits one, and
 * the lists of those that wait for the peer. All with the unit locked.
 */
#ifndef WEFT_TCP_TX_H
#define WEFT_TCP_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/mr.h"
#include "transports/tcp/tcp_info.h"
#include "transports/tcp/tcp_wire.h"

struct tcp_ep;
struct tcp_atomic;

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

/* Local memory of a remote access, with the regions held. */
struct tcp_target {
    struct mr *mr[TCP_WIRE_IOV_MAX];
    unsigned mr_count;
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
    bool wanted;  /* completion */
    bool ack;     /* done when the peer says so */
    bool fence;   /* waits for all before it */
    bool waiting; /* RTS: has left, the answer has not come */
    uint8_t rndv; /* context of a rendezvous, 0: none */
    uint8_t iov_count;
    uint16_t head; /* bytes used in `bytes` */
    uint16_t wire_flags;
    struct iovec iov[TCP_IOV_LIMIT];
    uint8_t bytes[]; /* header, then the payload when that is small */
};

struct tcp_queue {
    struct tcp_op *first, **end;
    unsigned count;
};

struct tcp_tx {
    struct tcp_op *current; /* has left in part */
    size_t sent;            /* bytes of current that have left */
    struct tcp_queue urgent, normal;
    struct tcp_queue acks;  /* wait for an acknowledgement, in order */
    struct tcp_queue reads; /* and atomics: wait for a response, in order */
    struct tcp_op **rndv;   /* by context, 256 of them; NULL until used */
    unsigned rndv_count, rndv_next;
    unsigned posted, limit; /* operations of the application */
    uint8_t id;             /* of the next record */
    bool blocked;           /* the socket is full */
    bool flushing;
    struct tap_flow *flow; /* what is sent and received is shown to; NULL: off */
    int error;             /* positive: the socket is gone; what had arrived is still being read */
};

void tcp_tx_init(struct tcp_tx *tx, unsigned limit);

/* An operation, or NULL when the limit is reached (-FI_EAGAIN) or there is no memory. */
struct tcp_op *tcp_tx_get(struct tcp_ep *ep);
void tcp_tx_put(struct tcp_ep *ep, struct tcp_op *op);

/* Encodes the header of op, puts the payload in line when it fits, else refers to iov. inject: the
 * caller guarantees that it fits. */
void tcp_tx_build(struct tcp_ep *ep, struct tcp_op *op, const struct tcp_wire *wire,
                  const struct iovec *iov, size_t count);

/* Queues an operation and sends what can be sent; more: another post follows at once. */
void tcp_tx_post(struct tcp_ep *ep, struct tcp_op *op, bool more);
void tcp_tx_flush(struct tcp_ep *ep);
/* After a stage was open (tcp_stage.h): the queues are the unit's again, and what has left is
 * reported. Before anything is done to them. */
void tcp_tx_reclaim(struct tcp_ep *ep);
/* For the thread of open stages: one system call that takes nothing out of the queues. Bytes that
 * have left, or negative. */
ssize_t tcp_tx_send_ahead(struct tcp_tx *tx, int fd);

/* Answers; they leave with the next flush. -FI_ENOMEM. */
int tcp_tx_ack(struct tcp_ep *ep);
int tcp_tx_cts(struct tcp_ep *ep, uint8_t context);
/* Takes over target on success. */
int tcp_tx_respond(struct tcp_ep *ep, const struct tcp_wire *request, struct tcp_target *target);
/* Sends the status and result of an atomic, which it takes over in any case. */
int tcp_tx_answer(struct tcp_ep *ep, struct tcp_atomic *atomic);
/* More answers wait than a peer that keeps to its limits can cause: stop reading from it. */
bool tcp_tx_choked(const struct tcp_ep *ep);

/* From the peer. Each: 0, or -FI_EPROTO when nothing of the kind is outstanding. */
int tcp_tx_acked(struct tcp_ep *ep);
int tcp_tx_cleared(struct tcp_ep *ep, uint8_t context);
struct tcp_op *tcp_tx_reading(struct tcp_ep *ep); /* read or atomic of the next response */
void tcp_tx_read_done(struct tcp_ep *ep);
void tcp_tx_read_failed(struct tcp_ep *ep, int err); /* positive: what the target says */

/* Reserves a context for a rendezvous; 0 when all are in use. */
uint8_t tcp_tx_rndv_open(struct tcp_ep *ep, struct tcp_op *op);

/* Ends everything outstanding, with error entries (err positive) or silently (0). */
void tcp_tx_finish(struct tcp_ep *ep, int err);

void tcp_target_release(struct tcp_ep *ep, struct tcp_target *target);

#endif

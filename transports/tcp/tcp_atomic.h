/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations: the target's CPU performs requests (core/op/atomic.h) when they have arrived,
 * and answers each once, in their order, with a status and the fetched values. A request that
 * cannot be done is answered with its error; the connection lives. All with the progress domain
 * locked.
 */
#ifndef WEFT_TCP_ATOMIC_H
#define WEFT_TCP_ATOMIC_H

#include <sys/uio.h>

#include "core/domain/mr.h"
#include "transports/tcp/tcp_info.h"
#include "transports/tcp/tcp_wire.h"

struct tcp_rx;
struct tcp_poller;

/* The bytes of a request or of its result, while they do not fit into its record; and at the target
 * what the request is. Of a pool of the set. */
struct tcp_atomic {
    struct iovec bytes; /* of `data`: a record's payload */
    int status;         /* positive error; 0: it can be done */
    uint8_t function, datatype, operation;
    size_t len; /* of one operand */
    unsigned mr_count;
    struct mr *mr[TCP_WIRE_IOV_MAX]; /* held */
    size_t iov_count;
    struct iovec iov[TCP_WIRE_IOV_MAX * TCP_MR_IOV_MAX]; /* target memory, whole elements each */
    uint8_t data[2 * TCP_ATOMIC_MAX];
};

/* NULL without memory. */
struct tcp_atomic *tcp_atomic_get(struct tcp_poller *poller);
void tcp_atomic_put(struct tcp_poller *poller, struct tcp_atomic *atomic); /* takes NULL */

/* A request begins, and has arrived; an answer does. 0, or a negative error that ends the
 * connection. */
int tcp_atomic_begin(struct tcp_rx *rx, const struct tcp_wire *wire);
int tcp_atomic_finish(struct tcp_rx *rx);
int tcp_atomic_begin_answer(struct tcp_rx *rx, const struct tcp_wire *wire);
void tcp_atomic_finish_answer(struct tcp_rx *rx);

/* The format of long double here, for tcp_wire.atomic; 0 for other datatypes. */
uint8_t tcp_atomic_precision(unsigned datatype);

#endif

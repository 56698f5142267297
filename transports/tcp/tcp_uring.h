/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection's part of a ring: requests with the kernel, and answers that were noted. */
#ifndef WEFT_TCP_URING_H
#define WEFT_TCP_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "core/base/list.h"

struct tcp_conn;
struct tcp_direct;

enum tcp_uring_receive {
    TCP_URING_NONE,
    TCP_URING_MULTI,  /* into buffers of the ring, until it is cancelled or they are used up */
    TCP_URING_SHORT,  /* once, so much that a large payload behind a header is left for DIRECT */
    TCP_URING_DIRECT, /* a payload, into place */
};

/* A connection's part of the ring of its poller. */
struct tcp_uring {
    struct tcp_conn *conn;
    struct list member;   /* of the ring */
    struct list flights;  /* given to the kernel to send, in order */
    unsigned asked;       /* requests with the kernel, but for sends */
    uint16_t first, last; /* buffers received and not read yet, by number; first valid if chained */
    bool chained;
    uint8_t receiving; /* enum tcp_uring_receive */
    bool large;        /* the last payload was received into place */
    bool cancelling;   /* the receive */
    bool polling;      /* for the end of a connection that is not read */
    bool hung_up;      /* the answer to that */
    bool sending;      /* the newest of flights is not answered */
    bool wary;         /* one of the queued records cannot be read from its memory */
    bool copying;      /* zero-copy is of no use here */
    bool ended;        /* the stream is at its end, with `error` (negative) or 0 */
    int error;
    struct tcp_direct *direct; /* while receiving is DIRECT */
    ssize_t placed;            /* its answer, 0: none */
};

static inline void tcp_uring_init(struct tcp_uring *uring, struct tcp_conn *conn)
{
    memset(uring, 0, sizeof(*uring));
    uring->conn = conn;
    list_init(&uring->member);
    list_init(&uring->flights);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp(io=uring): a set whose connections receive and send through one io_uring. Requests stay with
 * the kernel between calls, so that a connection can only be closed, and its operations be ended,
 * when the kernel has let go of it: tcp_uring_quiesce. All with the progress domain locked.
 */
#ifndef WEFT_TCP_URING_H
#define WEFT_TCP_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/list.h"

struct tcp_ep;
struct tcp_op;
struct tcp_poller;
struct tcp_direct;

enum tcp_uring_receive {
    TCP_URING_NONE,
    TCP_URING_MULTI,  /* into buffers of the ring, until it is cancelled or they are used up */
    TCP_URING_SHORT,  /* once, so much that a large payload behind a header is left for DIRECT */
    TCP_URING_DIRECT, /* a payload, into place */
};

/* A connection's part of the ring of its poller. */
struct tcp_uring {
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

void tcp_uring_init(struct tcp_uring *uring);

/* Gives the set a ring. 0, or a negative error with what was refused in *why; the set is as
 * before then. */
int tcp_uring_open(struct tcp_poller *poller, const char **why);
void tcp_uring_close(struct tcp_poller *poller);
/* Readable when progress has work. */
int tcp_uring_fd(const struct tcp_poller *poller);

/* A connected socket joins. */
int tcp_uring_add(struct tcp_ep *ep);
/* Ends all requests of ep with the kernel, and reports what has left. A send without a copy that
 * the peer has not acknowledged is waited for, wait_ms at most; then the connection is reset. */
void tcp_uring_quiesce(struct tcp_ep *ep, int wait_ms);

void tcp_uring_progress(struct tcp_poller *poller);
int tcp_uring_trywait(struct tcp_poller *poller);

/* The first record that has been given to the kernel to send, and of which it is not known that it
 * has left, for which `is` holds; NULL: none. */
struct tcp_op *tcp_uring_find(const struct tcp_ep *ep,
                              bool (*is)(const struct tcp_op *op, const void *context),
                              const void *context);

/* Sends what is queued; tcp_send_flush calls it. */
void tcp_uring_send(struct tcp_ep *ep);
/* Goes on sending until all has left or broken, wait_ms at most. */
void tcp_uring_send_all(struct tcp_ep *ep, int wait_ms);
/* Another source says that the peer hung up: reads what has been received of the rest of the
 * stream. While tcp_ep_ending, there is more to come. */
void tcp_uring_read_end(struct tcp_ep *ep);

#endif

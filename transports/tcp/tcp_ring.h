/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of a set, without what its answers mean to a connection: requests are made and
 * submitted, answers (CQEs) are noted at the connection or flight that they are for, in memory that
 * is there already, and nothing is called back. So answers can be noted anywhere, and are worked
 * off where reports may be made. With liburing only.
 */
#ifndef WEFT_TCP_RING_H
#define WEFT_TCP_RING_H

#include <liburing.h>
#include <sys/socket.h>

#include "core/base/list.h"
#include "core/base/pool.h"
#include "transports/tcp/tcp_gather.h"
#include "transports/tcp/tcp_uring.h"

struct tcp_conn;
struct tcp_poller;

enum {
    RING_BUFFERS = 128,
    RING_BUFFER = 16 * 1024, /* bytes of each */
    RING_SEGMENTS = 20,      /* of a payload received into place */
};

struct tcp_ring {
    struct io_uring io;
    struct tcp_poller *poller;
    struct io_uring_buf_ring *entries; /* buffers that the kernel may fill */
    uint8_t *buffers;
    uint16_t next[RING_BUFFERS]; /* of a connection's chain */
    uint32_t len[RING_BUFFERS];
    bool zero_copy;      /* the kernel has it */
    int refused;         /* the kernel takes nothing any more, with this error (negative), or 0 */
    struct list members; /* connections */
    struct pool flights; /* struct tcp_flight */
    struct pool directs; /* struct tcp_direct */
};

/* The bytes given to the kernel in one request to send. */
struct tcp_flight {
    struct list link;      /* of the connection */
    struct tcp_conn *conn; /* NULL: it could not wait for the memory to come back */
    struct msghdr message;
    struct tcp_gather gather;
    struct tcp_queue done; /* of it, once accounted for */
    int result;
    bool zero_copy;
    bool answered;  /* result is valid */
    bool accounted; /* for in the queues of the connection */
    bool lent;      /* the kernel still reads the memory */
    bool returned;  /* it has said that it does not */
};

struct tcp_direct {
    struct msghdr message;
    struct iovec iov[RING_SEGMENTS];
};

/* 0, or a negative error and a sentence. */
int ring_open(struct tcp_poller *poller, struct tcp_ring **ring, const char **why);
void ring_close(struct tcp_ring *ring);

/* Requests. They are submitted later, with ring_submit. False when there is no room even after a
 * submission: try again at the next progress. */
bool ring_receive(struct tcp_ring *ring, struct tcp_conn *conn, size_t short_len);
bool ring_receive_direct(struct tcp_ring *ring, struct tcp_conn *conn);
bool ring_cancel_receive(struct tcp_ring *ring, struct tcp_conn *conn);
bool ring_poll_end(struct tcp_ring *ring, struct tcp_conn *conn);
bool ring_send(struct tcp_ring *ring, struct tcp_flight *flight);
/* Makes the fd of the ring readable. */
void ring_poke(struct tcp_ring *ring);

void ring_submit(struct tcp_ring *ring);
/* Lets the kernel post the answers that wait for a call. */
void ring_collect(struct tcp_ring *ring);
/* Notes all answers that are there. */
void ring_reap(struct tcp_ring *ring);
/* Submits, waits for an answer, reaps. */
void ring_wait(struct tcp_ring *ring, int wait_ms);
/* Cancels whatever the kernel has of conn. */
void ring_cancel_all(struct tcp_ring *ring, int fd);
/* Drops what the kernel has of the connection's unacknowledged data, so that lent memory comes
 * back, and whatever is still to be received. */
void ring_reset(int fd);

/* The first buffer of conn's chain goes back to the kernel. */
void ring_return_first(struct tcp_ring *ring, struct tcp_uring *uring);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connected sockets of one progress domain, and the marks that say which of them progress
 * (tcp_drive.h) has to do something for. Each is registered once, edge-triggered; idle ones cost
 * nothing. A connection that has just received is "hot": progress tries recv() on it without asking
 * epoll, so a busy exchange costs one call for each look. Everything is called with the progress
 * domain locked. With tcp(io=uring) the poller has a ring instead (tcp_uring_io.h).
 */
#ifndef WEFT_TCP_POLLER_H
#define WEFT_TCP_POLLER_H

#include "core/base/list.h"
#include "core/base/pool.h"
#include "core/progress/progress.h"

struct tcp_conn;
struct tcp_domain;
struct tcp_op;
struct tcp_poller;
struct tcp_ring;

enum {
    TCP_BUFFER = 64 * 1024,
    TCP_HOT_MAX = 4, /* connections that are looked at without epoll */
};

/* A ring's part, in place of epoll and the calls of sockets. */
struct tcp_io {
    void (*close)(struct tcp_poller *poller);
    /* A connected socket joins. */
    int (*add)(struct tcp_conn *conn);
    /* Sends what is queued. */
    void (*send)(struct tcp_conn *conn);
    /* Goes on sending until all has left or broken, wait_ms at most. */
    void (*send_all)(struct tcp_conn *conn, int wait_ms);
    /* tcp_flight_find */
    struct tcp_op *(*find)(const struct tcp_conn *conn,
                           bool (*is)(const struct tcp_op *op, const void *context),
                           const void *context);
    /* Another source says that the peer hung up: reads what has been received of the rest of the
     * stream. While tcp_receive_ending, there is more to come. */
    void (*read_end)(struct tcp_conn *conn);
    /* Ends all requests of conn with the kernel, and reports what has left. A send without a copy
     * that the peer has not acknowledged is waited for, wait_ms at most; then the connection is
     * reset. */
    void (*quiesce)(struct tcp_conn *conn, int wait_ms);
};

struct tcp_poller {
    struct progress_source source;
    struct list link; /* of the domain */
    struct tcp_domain *domain;
    struct progress *progress;
    int epoll_fd;
    const struct tcp_io *io; /* does the work instead of epoll and the hot list, or NULL */
    struct tcp_ring *ring;   /* its state */
    unsigned users;          /* endpoints, connected or not */
    unsigned hot_count;      /* endpoints in hot */
    unsigned blocked;        /* endpoints whose socket is full */
    unsigned until_poll;     /* progress calls that may still skip epoll */
    uint32_t epoch;          /* counts progress calls */
    bool driving;            /* inside one: records posted meanwhile leave at its end */
    struct list hot;
    struct list work;    /* endpoints that can go on without an event */
    struct list ended;   /* endpoints whose stream has ended, until the others were read */
    struct pool ops;     /* struct tcp_op */
    struct pool targets; /* struct tcp_target */
    struct pool atomics; /* struct tcp_atomic */
    uint8_t *buffer;     /* TCP_BUFFER bytes: whatever arrives, of whatever endpoint */
};

/* Registers and forgets the socket of conn. */
int tcp_poller_add(struct tcp_conn *conn);
void tcp_poller_remove(struct tcp_conn *conn);

/* An event will tell when the socket of conn has room again. */
void tcp_poller_arm(struct tcp_conn *conn);
/* The socket of conn is full. promised: an event tells of room. Else less than all was taken, since
 * there is no room for more, or the memory of the rest cannot be read: the next attempt tells. */
void tcp_poller_block(struct tcp_conn *conn, bool promised);
void tcp_poller_unblock(struct tcp_conn *conn);

/* conn can go on at the next progress call. */
void tcp_poller_work(struct tcp_conn *conn);
/* A turn for each for which that was said; a connection marked meanwhile has its turn later. */
void tcp_poller_work_off(struct tcp_poller *poller, void (*turn)(struct tcp_conn *conn));
/* Nothing comes to conn any more. It fails before the progress under way returns, after the other
 * sockets were read once: earlier messages there must be reported first. */
void tcp_poller_end(struct tcp_conn *conn);
/* The endpoints of tcp_poller_end fail now; true when there were any. */
bool tcp_poller_fail_ended(struct tcp_poller *poller);
/* conn has received: look at it again soon. */
void tcp_poller_heat(struct tcp_conn *conn);
/* No longer, or hot and without epoll. */
void tcp_poller_cool(struct tcp_conn *conn);
void tcp_poller_disarm(struct tcp_conn *conn);

#endif

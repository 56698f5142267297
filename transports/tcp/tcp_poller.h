/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connected sockets of one progress domain. Each is registered once, edge-triggered;
 * idle ones cost nothing. An endpoint that has just received is "hot": progress tries recv() on it
 * without asking epoll, so a busy exchange costs one call for each look. Everything is called with
 * the progress domain locked. With tcp(io=uring) the set has a ring instead (tcp_uring.h).
 */
#ifndef WEFT_TCP_POLLER_H
#define WEFT_TCP_POLLER_H

#include "core/base/list.h"
#include "core/base/pool.h"
#include "core/progress/progress.h"

struct tcp_domain;
struct tcp_ep;

enum {
    TCP_BUFFER = 64 * 1024
};

struct tcp_poller {
    struct progress_source source;
    struct list link; /* of the domain */
    struct tcp_domain *domain;
    struct progress *progress;
    int epoll_fd;
    struct tcp_ring *ring; /* does the work instead of epoll and the hot list, or NULL */
    unsigned users;        /* endpoints, connected or not */
    unsigned hot_count;    /* endpoints in hot */
    unsigned blocked;      /* endpoints whose socket is full */
    unsigned until_poll;   /* progress calls that may still skip epoll */
    uint32_t epoch;        /* counts progress calls */
    bool driving;          /* inside one: records posted meanwhile leave at its end */
    struct list hot;
    struct list work;    /* endpoints that can go on without an event */
    struct list ended;   /* endpoints whose stream has ended, until the others were read */
    struct pool ops;     /* struct tcp_op */
    struct pool targets; /* struct tcp_target */
    struct pool atomics; /* struct tcp_atomic */
    uint8_t *buffer;     /* TCP_BUFFER bytes: whatever arrives, of whatever endpoint */
};

/* The set of `progress domain`, made if it has none; users counts one more. */
int tcp_poller_join(struct tcp_domain *domain, struct progress *progress,
                    struct tcp_poller **poller);
/* Takes an endpoint out; the last one closes the set, and its progress domain is returned: the
 * caller releases it when it is unlocked. */
struct progress *tcp_poller_leave(struct tcp_poller *poller);

/* Registers and forgets the socket of ep. */
int tcp_poller_add(struct tcp_poller *poller, struct tcp_ep *ep);
void tcp_poller_remove(struct tcp_poller *poller, struct tcp_ep *ep);

/* An event will tell when the socket of ep has room again. */
void tcp_poller_arm(struct tcp_poller *poller, struct tcp_ep *ep);

/* Progress of what can go on without an event; also for callers outside of the progress domain's
 * progress. */
void tcp_poller_drive(struct tcp_poller *poller);
/* ep can go on at the next progress call. */
void tcp_poller_work(struct tcp_poller *poller, struct tcp_ep *ep);
/* Nothing comes to ep any more. It fails before the progress under way returns, after the other
 * sockets were read once: earlier messages there must be reported first. */
void tcp_poller_end(struct tcp_poller *poller, struct tcp_ep *ep);
/* The endpoints of tcp_poller_end fail now; true when there were any. */
bool tcp_poller_fail_ended(struct tcp_poller *poller);
/* ep has received: look at it again soon. */
void tcp_poller_heat(struct tcp_poller *poller, struct tcp_ep *ep);

#endif

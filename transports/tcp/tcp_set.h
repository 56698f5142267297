/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connected sockets of one progress unit. Each is registered once, edge-triggered; idle ones
 * cost nothing. An endpoint that has just received is "hot": progress tries recv() on it without
 * asking epoll, so a busy exchange costs one call for each look. Everything is called with the
 * unit locked. With tcp(io=uring) the set has a ring instead (tcp_uring.h).
 */
#ifndef WEFT_TCP_SET_H
#define WEFT_TCP_SET_H

#include "core/list.h"
#include "core/pool.h"
#include "core/unit.h"

struct tcp_domain;
struct tcp_ep;

enum {
    TCP_BUFFER = 64 * 1024
};

struct tcp_set {
    struct unit_source source;
    struct list link; /* of the domain */
    struct tcp_domain *domain;
    struct unit *unit;
    int epoll_fd;
    struct tcp_ring *ring; /* does the work instead of epoll and the hot list, or NULL */
    unsigned users;        /* endpoints, connected or not */
    unsigned hot_count;    /* endpoints in hot */
    unsigned blocked;      /* endpoints whose socket is full */
    unsigned until_poll;   /* progress calls that may still skip epoll */
    uint32_t epoch;        /* counts progress calls */
    bool driving;          /* inside one: what is posted meanwhile leaves at its end */
    struct list hot;
    struct list work;    /* endpoints that can go on without an event */
    struct list ended;   /* endpoints whose stream has ended, until the others were read */
    struct pool ops;     /* struct tcp_op */
    struct pool targets; /* struct tcp_target */
    struct pool atomics; /* struct tcp_atomic */
    uint8_t *buffer;     /* TCP_BUFFER bytes: whatever arrives, of whatever endpoint */
};

/* The set of `unit`, made if it has none; users counts one more. */
int tcp_set_join(struct tcp_domain *domain, struct unit *unit, struct tcp_set **set);
/* Takes an endpoint out; the last one closes the set, and its unit is returned: the caller releases
 * it when it is unlocked. */
struct unit *tcp_set_leave(struct tcp_set *set);

/* Registers and forgets the socket of ep. */
int tcp_set_add(struct tcp_set *set, struct tcp_ep *ep);
void tcp_set_remove(struct tcp_set *set, struct tcp_ep *ep);

/* An event will tell when the socket of ep has room again. */
void tcp_set_arm(struct tcp_set *set, struct tcp_ep *ep);

/* Progress of what can go on without an event; also for callers outside of the unit's progress. */
void tcp_set_drive(struct tcp_set *set);
/* ep can go on at the next progress call. */
void tcp_set_work(struct tcp_set *set, struct tcp_ep *ep);
/* Nothing comes to ep any more. It fails before the progress under way returns, after the other
 * sockets were read once: what came there before must not be reported behind that. */
void tcp_set_end(struct tcp_set *set, struct tcp_ep *ep);
/* Those of tcp_set_end fail now; true when there were any. */
bool tcp_set_fail_ended(struct tcp_set *set);
/* ep has received: look at it again soon. */
void tcp_set_heat(struct tcp_set *set, struct tcp_ep *ep);

#endif

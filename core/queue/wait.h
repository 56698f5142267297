/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wait objects of CQs, EQs and counters: FI_WAIT_NONE, UNSPEC, FD, POLLFD, MUTEX_COND, YIELD, and
 * SET, which is the wait object of a wait set (core/queue/wait_set.h).
 * FD and POLLFD: an epoll fd with an eventfd (completions) and the fds added (progress domain,
 * lowers). A signal costs one load while no thread waits. Source: fi_cq(3), fi_eq(3), fi_poll(3).
 *
 * A waiter arms first, then looks whether there is something to take, then blocks. A writer queues
 * something signals after it. Both look at the queue with its lock held (or with sequentially
 * consistent atomics), so one of the two always sees the other.
 */
#ifndef WEFT_CORE_QUEUE_WAIT_H
#define WEFT_CORE_QUEUE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rdma/fi_eq.h>

#include "core/base/clock.h"
#include "core/base/list.h"

enum wait_state {
    WAIT_IDLE,
    WAIT_ARMED,    /* a thread sleeps or is about to */
    WAIT_SIGNALED, /* the eventfd is readable, the condition was broadcast */
};

struct wait_member;

struct wait {
    enum fi_wait_obj obj; /* as asked; UNSPEC acts as FD */
    struct wait *outer;   /* FI_WAIT_SET: the set's, held; else NULL */
    struct list link;     /* in the set, once it has joined */
    const struct wait_member *member;
    atomic_int armed; /* enum wait_state; changed under `state` */
    int epoll_fd, event_fd;
    pthread_mutex_t state;
    unsigned inside;       /* threads between wait_arm_inside and wait_disarm; under `state` */
    bool outside;          /* others have armed, whose sleep ends unannounced; under `state` */
    pthread_mutex_t mutex; /* this and cond are what FI_GETWAIT gives for MUTEX_COND */
    pthread_cond_t cond;
    atomic_uint generation; /* of signals, for the condition */
    unsigned forks;         /* fork_generation at init */
};

/* set: of FI_WAIT_SET, else not read. -FI_EINVAL for an unknown object or what is no wait set,
 * -FI_ENOMEM, -FI_EMFILE. */
int wait_init(struct wait *wait, enum fi_wait_obj obj, struct fid_wait *set);
void wait_finish(struct wait *wait);

/* The epoll fd of FI_WAIT_UNSPEC, FD, POLLFD, its own or the set's; -1: there is none. */
static inline int wait_fd(const struct wait *wait)
{
    return wait->outer ? wait->outer->epoll_fd : wait->epoll_fd;
}

/* No thread sleeps, nor will before it has armed. */
static inline bool wait_rests(const struct wait *wait)
{
    return atomic_load(&wait->armed) != WAIT_ARMED;
}

/* The waiter may hold the mutex that a signal takes: it may ask for no lock of a signaller. */
static inline bool wait_has_mutex(const struct wait *wait)
{
    return (wait->outer ? wait->outer : wait)->obj == FI_WAIT_MUTEX_COND;
}

/* Before sleeping: after this, and a last look at the queue, no signal is missed. The result
 * is for wait_block. The call takes the signal from other sleepers on an fd, which need it again if
 * there is something after all. */
unsigned wait_arm(struct wait *wait);

/* The same for a thread that sleeps in wait_block itself, and says when it does so no more: then a
 * signal costs nothing again, and what this thread takes by itself is not signalled. */
unsigned wait_arm_inside(struct wait *wait);
void wait_disarm(struct wait *wait);

/* wait_signal while a thread waits. */
void wait_wake(struct wait *wait);

/* After an event was queued. Wakes all sleepers if one is armed. */
static inline void wait_signal(struct wait *wait)
{
    if (__builtin_expect(atomic_load_explicit(&wait->armed, memory_order_seq_cst) == WAIT_ARMED, 0))
        wait_wake(wait);
}

/* Sleeps until a signal, an added fd, or timeout_ms (negative: no limit). 0, -FI_EAGAIN on timeout,
 * -FI_EINTR. NONE and YIELD yield once. Caller holds no lock and has armed. */
int wait_block(struct wait *wait, unsigned armed, int timeout_ms);

/* fi_control(FI_GETWAIT): int for FD, struct fi_wait_pollfd (with -FI_ETOOSMALL and the count when
 * nfds is too small), struct fi_mutex_cond. -FI_ENODATA for NONE and YIELD. */
int wait_get(struct wait *wait, void *arg);
/* fi_control(FI_GETWAITOBJ): the kind that wait_get gives (FD for UNSPEC). */
enum fi_wait_obj wait_kind(const struct wait *wait);

/* Milliseconds left of a timeout that started at start_ms (clock_ms()); keeps negative as is. */
int wait_left(int timeout_ms, long long start_ms);

#endif

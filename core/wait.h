/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wait objects of CQs, EQs and counters: FI_WAIT_NONE, UNSPEC, FD, POLLFD, MUTEX_COND, YIELD.
 * FD and POLLFD: an epoll fd with an eventfd (completions) and the fds added (unit, lowers).
 * A signal costs one load while nobody waits. Source: fi_cq(3), fi_eq(3), fi_poll(3).
 */
#ifndef WEFT_CORE_WAIT_H
#define WEFT_CORE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rdma/fi_eq.h>

struct wait {
    enum fi_wait_obj obj; /* as asked; UNSPEC acts as FD */
    atomic_int armed;     /* somebody sleeps or is about to */
    int epoll_fd, event_fd;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    unsigned generation; /* of signals, for the condition */
};

/* -FI_EINVAL for FI_WAIT_SET or an unknown object, -FI_ENOMEM, -FI_EMFILE. */
int wait_init(struct wait *wait, enum fi_wait_obj obj);
void wait_finish(struct wait *wait);

/* The wait fd also becomes readable when fd does. FD kinds only; others ignore it (0). */
int wait_add_fd(struct wait *wait, int fd);
void wait_remove_fd(struct wait *wait, int fd);

/* Before sleeping: after this, and a last look at the queue, no signal is missed. */
void wait_arm(struct wait *wait);
/* After an event was queued. Wakes all sleepers if anybody is armed. */
void wait_signal(struct wait *wait);
/* Sleeps until a signal, an added fd, or timeout_ms (negative: no limit). 0, -FI_EAGAIN on timeout,
 * -FI_EINTR. YIELD yields once. Caller holds no lock. */
int wait_block(struct wait *wait, int timeout_ms);

/* fi_control(FI_GETWAIT): int for FD, struct fi_wait_pollfd (with -FI_ETOOSMALL and the count when
 * nfds is too small), struct fi_mutex_cond. -FI_ENODATA for NONE and YIELD. */
int wait_get(struct wait *wait, void *arg);

/* Milliseconds left of a timeout that started at start_ms (clock_ms()); keeps negative as is. */
int wait_left(int timeout_ms, long long start_ms);
long long clock_ms(void);

#endif

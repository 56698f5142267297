/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One lock, one epoll set and one list of timers for each process. Work is done by any thread that
 * holds the lock: a caller that polls, or the helper thread, which sleeps until something is ready
 * and stays out of the way of threads that poll.
 */
#ifndef WEFT_EMULATOR_LOOP_H
#define WEFT_EMULATOR_LOOP_H

#include <stdint.h>

#include "core/base/list.h"

struct watch {
    int fd;
    void (*ready)(struct watch *watch, uint32_t events); /* the lock is held */
};

struct timer {
    struct list link;                  /* zeroed: not set */
    uint64_t at;                       /* CLOCK_MONOTONIC, nanoseconds */
    void (*fire)(struct timer *timer); /* the lock is held; the timer is not set any more */
};

void loop_lock(void);
void loop_unlock(void);

/* Starts the helper thread; 0, or an errno value. May be called again. The lock is held. */
int loop_start(void);

/* All below: the lock is held. */
int loop_watch(struct watch *watch, uint32_t events); /* 0, or an errno value */
void loop_change(struct watch *watch, uint32_t events);
void loop_unwatch(struct watch *watch);
uint64_t loop_now(void);
void loop_set_timer(struct timer *timer, uint64_t at);
void loop_unset_timer(struct timer *timer);

/* Does what is ready, without waiting. */
void loop_turn(void);

/* As loop_turn, for a caller whose queue was empty: gives the processor away now and then. */
void loop_turn_idle(void);

/* Callers that wait on a descriptor: while there are any, the helper thread reacts at once. */
void loop_add_sleeper(int change);

#endif

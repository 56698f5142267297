/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines: a list of timers, the earliest first; those of one moment keep the order in which they
 * were started. Pure: the owner has the clock, whose unit this room does not know, asks for what is
 * due, and sleeps until timers_next. Starting costs a step for each timer that is due later, hence
 * nothing for pauses of one length; stopping costs nothing. Not locked. Waking a sleeper at
 * timers_next is core/progress/wake_timer.h's.
 */
#ifndef WEFT_CORE_BASE_TIMER_H
#define WEFT_CORE_BASE_TIMER_H

#include <stdint.h>

#include "core/base/list.h"

#define TIMER_NEVER INT64_MAX

/* Embedded in the object that waits. */
struct timer {
    struct list link; /* empty: not running */
    int64_t due;
};

static inline void timer_init(struct timer *timer)
{
    list_init(&timer->link);
}

/* Also one that does not run. */
static inline void timer_stop(struct timer *timer)
{
    list_detach(&timer->link);
}

/* Starts it in the list `timers`; one that runs, in any list, starts again. */
void timer_start(struct timer *timer, struct list *timers, int64_t due);

/* When the first timer is due, or TIMER_NEVER. */
static inline int64_t timers_next(const struct list *timers)
{
    return list_empty(timers) ? TIMER_NEVER : list_item(timers->next, struct timer, link)->due;
}

/* The first timer if it is due, still running, or NULL. The caller stops it, or starts it again. */
static inline struct timer *timers_due(const struct list *timers, int64_t now)
{
    return timers_next(timers) <= now && !list_empty(timers)
               ? list_item(timers->next, struct timer, link)
               : NULL;
}

#endif

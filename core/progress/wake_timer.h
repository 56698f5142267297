/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends the sleep of a progress domain's waiters at a moment: one timerfd, set before sleeps only,
 * from the trywait of the source that has the deadline. That source's poll does the work that is
 * due; the timer does nothing but wake. Made with the first deadline, and a source of the progress
 * domain only while one is set, so idle owners pay nothing. Progress domain locked.
 */
#ifndef WEFT_CORE_PROGRESS_WAKE_TIMER_H
#define WEFT_CORE_PROGRESS_WAKE_TIMER_H

#include <stdint.h>

#include "core/progress/progress.h"

struct wake_timer {
    struct progress_source source;
    int64_t due_ms; /* of clock_ms; while source is attached */
};

void wake_timer_init(struct wake_timer *timer);
/* Detached from progress, and its fd closed. Takes one that was never set; progress may be NULL
 * then. */
void wake_timer_finish(struct wake_timer *timer, struct progress *progress);

/* A sleep that begins now, at now_ms, ends at due_ms (> now_ms) at the latest. One system call
 * where the moment is another than before. -FI_EMFILE; errors of progress_attach: the caller must
 * not sleep. */
int wake_timer_set(struct wake_timer *timer, struct progress *progress, int64_t due_ms,
                   int64_t now_ms);
/* Unless it is set to due_ms it is off now. */
void wake_timer_clear(struct wake_timer *timer, struct progress *progress, int64_t due_ms);

#endif

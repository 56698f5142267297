/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that owes an answer and gives none, as one that is stopped does: one line of the log after
 * a few seconds, so that a waiting user knows for which peer. Each wait has a struct silence; its
 * owner steps it by a timer that it has anyway. Not for data paths.
 */
#ifndef WEFT_CORE_PROGRESS_SILENCE_H
#define WEFT_CORE_PROGRESS_SILENCE_H

#include <limits.h>
#include <stdbool.h>

#define SILENCE_NO_LIMIT LLONG_MAX /* the wait lasts as long as the peer lives */

/* A wait from start_ms (of clock_ms) on, until limit_ms. */
struct silence {
    long long start_ms, limit_ms;
    bool told;
};

/* How long a peer may be silent before the log names it. Tests shorten it. */
extern long long silence_after_ms;

/* When to check the wait next: when the log names the peer, or at its limit. */
long long silence_next(const struct silence *silence);

/* True when the limit has passed. Else it logs, once: "no answer from 10.0.0.1:7471 for 5 s;
 * waiting up to 10 min", or "waiting as long as it lives". part: as log_line takes it; address: as
 * text. */
bool silence_over(struct silence *silence, long long now_ms, const char *part, const char *address);

#endif

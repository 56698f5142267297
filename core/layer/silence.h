/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of a join's lowers is worth a look. A look at one of sockets is a call of the kernel, as
 * long as half a round trip by shared memory. One whose looks have found nothing so many times in a
 * row is silent: it is looked at after a pause, 1 us at first and twice as long after each look
 * that finds nothing, up to what the join says; and the clock is asked one time in 16 only.
 * Progress domain locked.
 */
#ifndef WEFT_CORE_LAYER_SILENCE_H
#define WEFT_CORE_LAYER_SILENCE_H

#include <stdbool.h>

#include "core/base/clock.h"

enum {
    SILENCE_LOOKS = 64,
    SILENCE_EVERY = 16,
    SILENCE_LEAST = 1000, /* ns */
};

/* A zeroed one is not silent. */
struct silence {
    unsigned looks;            /* in a row, that found nothing */
    unsigned skips;            /* since it is silent */
    uint64_t due_ns, pause_ns; /* when it is looked at next; from look to look */
};

/* It has traffic, or is about to. */
static inline void silence_end(struct silence *silence)
{
    silence->looks = 0;
    silence->pause_ns = 0;
}

static inline void silence_found_nothing(struct silence *silence)
{
    if (silence->looks < SILENCE_LOOKS)
        silence->looks++;
}

/* Called for each time that it would be looked at. most: ns, of the longest pause. */
static inline bool silence_skips(struct silence *silence, uint64_t most)
{
    uint64_t now;

    if (silence->looks < SILENCE_LOOKS)
        return false;
    if (++silence->skips % SILENCE_EVERY)
        return true;
    now = clock_ns();
    if (now < silence->due_ns)
        return true;
    silence->pause_ns = silence->pause_ns ? 2 * silence->pause_ns : SILENCE_LEAST;
    if (silence->pause_ns > most)
        silence->pause_ns = most;
    silence->due_ns = now + silence->pause_ns;
    return false;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of a join's lowers is worth a look. A look at one of sockets is a call of the kernel, as
 * long as half a round trip by shared memory. One whose looks have found nothing so many times in a
 * row is silent: it is looked at after a pause, 1 us at first and twice as long after each look
 * that finds nothing, up to what the join says; and after a look that took long, as where it has
 * many endpoints, not before the others have had several times as long. The clock is asked one time
 * in 16 only; one time in 32 or 64 where twice as many have passed well before the pause was over.
 * Progress domain locked.
 */
#ifndef WEFT_CORE_LAYER_SILENCE_H
#define WEFT_CORE_LAYER_SILENCE_H

#include <stdbool.h>

#include "core/base/clock.h"

enum {
    SILENCE_LOOKS = 64,
    SILENCE_EVERY = 16,
    SILENCE_RAREST = 64,
    SILENCE_LEAST = 1000, /* ns */
    SILENCE_SHARE = 8,    /* a pause is at least so many times as long as the look before it, */
    SILENCE_SPARED =
        250000, /* ns, but no longer than that for its sake: the look may have waited */
};

/* A zeroed one is not silent. */
struct silence {
    unsigned looks;            /* in a row, that found nothing */
    unsigned skips, every;     /* until the clock is asked: to come, and in all; 0: at once */
    uint64_t asked_ns;         /* when it was asked last */
    uint64_t look_ns;          /* when the look of a silent one began; 0: none has */
    uint64_t due_ns, pause_ns; /* when it is looked at next; from look to look */
};

/* It has traffic, or is about to. */
static inline void silence_end(struct silence *silence)
{
    silence->looks = 0;
    silence->pause_ns = 0;
    silence->look_ns = 0;
}

/* The look of a silent one has ended. */
static inline void silence_spare(struct silence *silence)
{
    uint64_t now = clock_ns(), pause = SILENCE_SHARE * (now - silence->look_ns);

    if (pause > SILENCE_SPARED)
        pause = SILENCE_SPARED;
    if (silence->due_ns < now + pause)
        silence->due_ns = now + pause;
    silence->look_ns = 0;
}

static inline void silence_found_nothing(struct silence *silence)
{
    if (silence->looks < SILENCE_LOOKS)
        silence->looks++;
    else if (silence->look_ns)
        silence_spare(silence);
}

static inline bool silence_is(const struct silence *silence)
{
    return silence->looks == SILENCE_LOOKS;
}

/* How many skips there are until the clock is asked again, at `now`. A reader that has become
 * slower is found out with the next. */
static inline void silence_pace(struct silence *silence, uint64_t now)
{
    uint64_t took = now - silence->asked_ns;
    uint64_t left = now < silence->due_ns ? silence->due_ns - now : silence->pause_ns;

    if (left > 2 * took && silence->every < SILENCE_RAREST)
        silence->every *= 2;
    else if (left < took || !silence->every)
        silence->every = SILENCE_EVERY;
    silence->skips = silence->every;
    silence->asked_ns = now;
}

/* Of a silent one that was skipped silence.skips times: it is not due yet. most: ns, of the longest
 * pause. */
static inline bool silence_goes_on(struct silence *silence, uint64_t most)
{
    uint64_t now = clock_ns();

    if (now >= silence->due_ns) {
        silence->pause_ns = silence->pause_ns ? 2 * silence->pause_ns : SILENCE_LEAST;
        if (silence->pause_ns > most)
            silence->pause_ns = most;
        silence->due_ns = now + silence->pause_ns;
        silence->look_ns = now;
        silence_pace(silence, now);
        return false;
    }
    silence_pace(silence, now);
    return true;
}

/* Called for each time that it would be looked at. */
static inline bool silence_skips(struct silence *silence, uint64_t most)
{
    if (!silence_is(silence))
        return false;
    if (silence->skips > 1) {
        silence->skips--;
        return true;
    }
    return silence_goes_on(silence, most);
}

#endif

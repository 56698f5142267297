/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock of deadlines, pauses and measurements: CLOCK_MONOTONIC, never set back. No system call
 * where the C library has the vDSO. */
#ifndef WEFT_CORE_BASE_CLOCK_H
#define WEFT_CORE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The shorter of two waits in milliseconds, of which -1 is without limit. */
static inline int clock_shorter(int a_ms, int b_ms)
{
    if (a_ms < 0)
        return b_ms;
    return b_ms < 0 || a_ms < b_ms ? a_ms : b_ms;
}

long long clock_ms(void);
/* Nanoseconds of the calendar, but always more than *last, which it replaces: later than what any
 * earlier process on this host was given. */
uint64_t clock_epoch(uint64_t *last);
/* As of the last tick, up to 10 ms ago: cheaper, for pauses of seconds. */
long long clock_coarse_ms(void);

#endif

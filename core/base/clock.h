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

long long clock_ms(void);
/* As of the last tick, up to 10 ms ago: cheaper, for pauses of seconds. */
long long clock_coarse_ms(void);

#endif

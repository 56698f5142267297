/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/clock.h"

static long long now_ms(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

long long clock_ms(void)
{
    return now_ms(CLOCK_MONOTONIC);
}

long long clock_coarse_ms(void)
{
    return now_ms(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_epoch(uint64_t *last)
{
    struct timespec now;
    uint64_t ns;

    clock_gettime(CLOCK_REALTIME, &now);
    ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    *last = ns > *last ? ns : *last + 1;
    return *last;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A clock that costs a few nanoseconds, of any steady unit: about 2 or 3 ticks a nanosecond. */
#ifndef WEFT_SHM_TICKS_H
#define WEFT_SHM_TICKS_H

#include <stdint.h>

#include "core/base/clock.h"

static inline uint64_t shm_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#else
    return 2 * clock_ns();
#endif
}

#endif

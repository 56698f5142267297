/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a test waits for what comes by itself. A bound for a library that is wrong, far above
 * what a busy machine takes: a count of turns is none, since a fast one is through with millions
 * of them before a second has passed.
 */
#ifndef WEFT_TESTS_SUPPORT_PATIENCE_H
#define WEFT_TESTS_SUPPORT_PATIENCE_H

#include <stdbool.h>
#include <time.h>

enum {
    PATIENCE_S = 60
};

/* All 0 to begin with: for (struct patience patience = {0}; patience_lasts(&patience) && ...;) */
struct patience {
    unsigned turns;
    time_t end;
};

static inline bool patience_lasts(struct patience *patience)
{
    struct timespec now;

    if (patience->turns++ % 256)
        return true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!patience->end)
        patience->end = now.tv_sec + PATIENCE_S;
    return now.tv_sec <= patience->end;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the next packet may leave, so that a window is spread over a round trip instead of being
 * sent in one burst. A window below one packet is less than one packet a round trip.
 */
#ifndef WEFT_CORE_ARQ_PACER_H
#define WEFT_CORE_ARQ_PACER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PACER_FEW = 8,    /* packets: smaller windows can be kept exactly */
    PACER_BURST = 16, /* packets that may leave at once after a pause */
};

/* ns: no packet waits longer for those before it. A round trip that a stopped peer made minutes
 * long says nothing of the path; one packet in three seconds congests none (RFC 8085, 3.1.1). */
#define PACER_LONGEST UINT64_C(3000000000)

struct pacer {
    uint64_t next; /* ns: from when on packets may leave */
};

/* ns from one packet of `bytes` to the next: a quarter faster than window bytes each `smoothed` ns,
 * so that pacing alone does not hold the window back; but exactly so below one packet and, with
 * `exact`, below PACER_FEW: then a part of a packet more or less is what makes shares equal. */
static inline uint64_t pacer_interval(uint64_t bytes, uint64_t window, uint64_t smoothed,
                                      bool exact)
{
    double even = (double)bytes / (double)window * (double)smoothed;
    double interval = window < (exact ? PACER_FEW : 1) * bytes ? even : even * 0.8;

    return interval < (double)PACER_LONGEST ? (uint64_t)interval : PACER_LONGEST;
}

static inline void pacer_sent(struct pacer *pacer, uint64_t now, uint64_t interval)
{
    uint64_t credit = PACER_BURST * interval;
    uint64_t from = now > credit ? now - credit : 0;

    pacer->next = (pacer->next > from ? pacer->next : from) + interval;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The time between a packet and its acknowledgement: latest, smoothed, variance, and least. Times
 * are ns. Source: RFC 9002 section 5, RFC 6298.
 */
#ifndef WEFT_CORE_ARQ_RTT_H
#define WEFT_CORE_ARQ_RTT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RTT_INITIAL = 10 * 1000 * 1000, /* ns: assumed before the first sample */
    RTT_GRANULARITY = 500 * 1000,   /* ns: no timeout is shorter than the round trip and this */
};

/* ns: a least time that was seen longer ago no longer counts, since paths change. */
#define RTT_LEAST_AGE UINT64_C(10000000000)

#define RTT_KEPT_AGE UINT64_C(100000000) /* ns */

struct rtt {
    uint64_t latest, smoothed, variance; /* smoothed 0: there was no sample yet */
    uint64_t least;
    uint64_t next_least, since; /* of the samples since `since`, which is to follow `least` */
    uint64_t kept, kept_at;     /* how long the peer keeps acknowledgements: the longest, as seen at
                             * kept_at; it fades by half in each RTT_KEPT_AGE */
};

/* Of one packet that was acknowledged, ns. */
struct rtt_sample {
    uint64_t since; /* since it was sent: since a call returned */
    uint64_t took;  /* by that call, with whose begin it may have left: the least time has that */
    uint64_t delay; /* that the acknowledgement was kept for, as its sender states */
    uint64_t slack; /* that is too much at most: the acknowledgement may have waited to be read */
};

/* False: the sample says nothing: a statement of the peer's that would leave nothing is not
 * believed. A zeroed struct rtt is a new one. */
bool rtt_add_sample(struct rtt *rtt, uint64_t now, const struct rtt_sample *sample);
static inline bool rtt_add(struct rtt *rtt, uint64_t now, uint64_t since, uint64_t delay)
{
    return rtt_add_sample(rtt, now, &(struct rtt_sample){.since = since, .delay = delay});
}

/* The smoothed time; RTT_INITIAL without a sample. */
static inline uint64_t rtt_smoothed(const struct rtt *rtt)
{
    return rtt->smoothed ? rtt->smoothed : RTT_INITIAL;
}

/* After which an acknowledgement is overdue that the peer may keep for `delay`, or for as long
 * as it has kept others. */
uint64_t rtt_timeout(const struct rtt *rtt, uint64_t delay);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/rtt.h"

static void note_least(struct rtt *rtt, uint64_t now, uint64_t sample)
{
    if (!rtt->smoothed) {
        rtt->least = rtt->next_least = sample;
        rtt->since = now;
        return;
    }
    if (now - rtt->since > RTT_LEAST_AGE) {
        rtt->least = rtt->next_least;
        rtt->next_least = sample;
        rtt->since = now;
    }
    if (sample < rtt->next_least)
        rtt->next_least = sample;
    if (sample < rtt->least)
        rtt->least = sample;
}

/* A peer that loses its core from time to time acknowledges at once in between: what it keeps is
 * not to be learnt from the last acknowledgements. */
static void note_kept(struct rtt *rtt, uint64_t now, uint64_t delay)
{
    for (; rtt->kept && now - rtt->kept_at > RTT_KEPT_AGE; rtt->kept_at += RTT_KEPT_AGE)
        rtt->kept /= 2;
    if (delay < rtt->kept)
        return;
    rtt->kept = delay;
    rtt->kept_at = now;
}

void rtt_add_sent(struct rtt *rtt, uint64_t now, uint64_t sample, uint64_t delay, uint64_t took)
{
    uint64_t distance;

    if (!sample)
        sample = 1;
    if (delay >= sample)
        return;
    sample -= delay;
    note_least(rtt, now, sample + took);
    note_kept(rtt, now, delay);
    rtt->latest = sample;
    if (!rtt->smoothed) {
        rtt->smoothed = sample;
        rtt->variance = sample / 2;
        return;
    }
    distance = sample > rtt->smoothed ? sample - rtt->smoothed : rtt->smoothed - sample;
    rtt->variance = (3 * rtt->variance + distance) / 4;
    rtt->smoothed = (7 * rtt->smoothed + sample) / 8;
    if (!rtt->smoothed)
        rtt->smoothed = 1;
}

uint64_t rtt_timeout(const struct rtt *rtt, uint64_t delay)
{
    uint64_t spread = 4 * rtt->variance, kept = delay > rtt->kept ? delay : rtt->kept;

    if (!rtt->smoothed)
        return 2 * (uint64_t)RTT_INITIAL;
    return rtt->smoothed + (spread > RTT_GRANULARITY ? spread : RTT_GRANULARITY) + kept;
}

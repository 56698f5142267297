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

/* Longer than usual, but by no more than it may have waited to be read: as usual. */
static uint64_t without_slack(const struct rtt *rtt, uint64_t time, uint64_t slack)
{
    uint64_t least = time > slack ? time - slack : 0;

    if (!rtt->smoothed || time <= rtt->smoothed)
        return time;
    return least > rtt->smoothed ? least : rtt->smoothed;
}

bool rtt_add_sample(struct rtt *rtt, uint64_t now, const struct rtt_sample *sample)
{
    uint64_t time = sample->since ? sample->since : 1, distance;

    if (sample->delay >= time)
        return false;
    time = without_slack(rtt, time - sample->delay, sample->slack);
    note_least(rtt, now, time + sample->took);
    note_kept(rtt, now, sample->delay);
    rtt->latest = time;
    if (!rtt->smoothed) {
        rtt->smoothed = time;
        rtt->variance = time / 2;
        return true;
    }
    distance = time > rtt->smoothed ? time - rtt->smoothed : rtt->smoothed - time;
    rtt->variance = (3 * rtt->variance + distance) / 4;
    rtt->smoothed = (7 * rtt->smoothed + time) / 8;
    if (!rtt->smoothed)
        rtt->smoothed = 1;
    return true;
}

uint64_t rtt_timeout(const struct rtt *rtt, uint64_t delay)
{
    uint64_t spread = 4 * rtt->variance, kept = delay > rtt->kept ? delay : rtt->kept;

    if (!rtt->smoothed)
        return 2 * (uint64_t)RTT_INITIAL;
    return rtt->smoothed + (spread > RTT_GRANULARITY ? spread : RTT_GRANULARITY) + kept;
}

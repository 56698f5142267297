/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_flow.h"
#include "layers/mrail/mrail_path.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define RATE_AGE (100.0 * MS) /* of what the rate is made of */
#define FIRST_STALE (100 * MS)

enum {
    FIRST_PACKETS = 4, /* on a path that nothing is known of */
    LEAST_PACKETS = 2,
    LEAST_MEASURED = 8192, /* bytes under way that say something of the rate */
};

/* Of a path's own queue, beyond a round trip: pauses of the peer, of a few time slices at most. */
#define LEAST_SLACK (4 * MS)
#define MOST_SLACK PATH_ABSENT

/* ---- Time ---- */

/* ns between two times, less those in which the peer was absent. */
static uint64_t present(const struct flow *flow, uint64_t from, uint64_t to)
{
    uint64_t begin = flow->absent_from > from ? flow->absent_from : from;
    uint64_t end = flow->absent_to < to ? flow->absent_to : to;

    if (to <= from)
        return 0;
    return to - from - (end > begin ? end - begin : 0);
}

/* Of a path's round trips the least is used, and that there was one. */
static inline bool is_news(const struct rtt *rtt, uint64_t now, uint64_t sample)
{
    return sample < rtt->next_least || !rtt->smoothed || now - rtt->since > RTT_LEAST_AGE;
}

void path_round_trip(const struct flow *flow, struct flow_path *path, uint64_t sent, uint64_t now)
{
    uint64_t sample = present(flow, sent, now);

    if (is_news(&path->rtt, now, sample))
        rtt_add(&path->rtt, now, sample ? sample : 1, 0);
}

bool path_is_stale(struct flow_path *path, uint64_t now)
{
    uint64_t last = path->measured > path->probed ? path->measured : path->probed;

    if (path->stale < FIRST_STALE)
        path->stale = FIRST_STALE;
    if (!path->rtt.smoothed || now < last + path->stale)
        return false;
    path->stale = path->stale < RTT_LEAST_AGE / 2 ? 2 * path->stale : RTT_LEAST_AGE;
    return true;
}

/* ---- Measures ---- */

/* ns in which something was under way to the peer, but not by this path, since it was used. */
static uint64_t unused(const struct flow *flow, const struct flow_path *path, uint64_t now)
{
    uint64_t worked = flow_worked(flow, now);

    return path->inflight || worked < path->worked ? 0 : worked - path->worked;
}

void path_begin(const struct flow *flow, struct flow_path *path, uint64_t now)
{
    double left = (double)unused(flow, path, now);
    double fade = left > RATE_AGE ? RATE_AGE / left : 1;

    path->bytes *= fade;
    path->time *= fade;
    path->progress = path->measured = now;
    path->run = 0;
}

/* A message that nothing was under way with says that the rate is no less. */
static bool says_nothing(const struct flow_path *path, const struct flow_message *message,
                         double took)
{
    bool lone = !path->run && path->inflight <= message->len;

    return lone && (path->rate * took >= message->len || !(path->rate > 0));
}

static void add_to_rate(struct flow_path *path, const struct flow_message *message, double took)
{
    double fade = RATE_AGE / (RATE_AGE + took);

    if (says_nothing(path, message, took))
        return;
    path->bytes = fade * path->bytes + message->len;
    path->time = fade * path->time + took;
    if (path->time > 0)
        path->rate = path->bytes / path->time;
}

/* The rate is what was acknowledged in the time with something under way, of late: a link may be
 * ahead of its rate for a moment, or a peer without a core, and a moment says little. */
void path_measure(const struct flow *flow, struct flow_path *path,
                  const struct flow_message *message, uint64_t now)
{
    if (!message->again && path->inflight >= LEAST_MEASURED)
        add_to_rate(path, message, (double)present(flow, path->measured, now));
    path->measured = now;
    path->worked = flow_worked(flow, now);
    path->run += message->len;
    path->stale = FIRST_STALE;
    path->delivered += message->len;
    if (!message->again) /* else perhaps by the path that it was on before */
        path_round_trip(flow, path, message->sent, now);
}

/* A rate that was measured long ago is believed less and less: a rail that was slow may be fast
 * again, and only what is sent by it shows that. */
static uint64_t transfer(const struct flow *flow, const struct flow_path *path, uint64_t len,
                         uint64_t now)
{
    uint64_t takes = (uint64_t)((double)(path->inflight + len) / path->rate);
    uint64_t halves = unused(flow, path, now) / SECOND;

    return halves < 64 ? takes >> halves : 0;
}

uint64_t path_expected(const struct flow *flow, const struct flow_path *path, uint64_t len,
                       uint64_t now)
{
    uint64_t expected = path->rtt.least, silent;

    if (path->rate > 0)
        expected += transfer(flow, path, len, now);
    if (!path->inflight)
        return expected;
    silent = now > path->progress ? now - path->progress : 0;
    return silent > expected ? expected + silent : expected;
}

void path_progress(struct flow_path *path, uint64_t now)
{
    uint64_t gap = now > path->progress ? now - path->progress : 0;
    uint64_t halves = (now - path->gap_at) / PATH_GAP_AGE;

    if (gap >= (halves < 64 ? path->gap >> halves : 0)) {
        path->gap = gap;
        path->gap_at = now;
    }
    path->progress = now;
}

/* Twice the pauses that were seen: with less, they would be what limits the rate that is measured,
 * and the rate what may be under way. */
static double slack(const struct flow_path *path)
{
    uint64_t gap = 2 * path->gap;

    if (gap < LEAST_SLACK)
        return LEAST_SLACK;
    return (double)(gap < MOST_SLACK ? gap : MOST_SLACK);
}

bool path_has_room(const struct flow_path *path, uint64_t len, uint64_t packet)
{
    double room = path->rate * (2 * (double)path->rtt.least + slack(path));

    if (path->blocked)
        return false;
    if (!(path->rate > 0))
        return path->inflight + len <= FIRST_PACKETS * packet;
    if (room < (double)(LEAST_PACKETS * packet))
        room = (double)(LEAST_PACKETS * packet);
    return (double)(path->inflight + len) <= room;
}

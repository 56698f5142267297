/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control by loss, as TCP's on the Internet: after a loss the window grows as a cubic
 * function of time round the size at which it was lost. Source: RFC 9438.
 */
#include "core/arq/congestion.h"

/* cc->state: */
enum {
    BEFORE, /* bytes: the window of the last loss */
    BEGAN,  /* ns: when growth began; 0: with the next acknowledgement */
    LONG,   /* ms: from then until the window is BEFORE again */
    RENO,   /* bytes: the window that an additive increase would have */
};

static uint64_t cube_root(uint64_t value)
{
    uint64_t low = 0;

    for (uint64_t bit = UINT64_C(1) << 20; bit; bit >>= 1)
        if ((low + bit) * (low + bit) * (low + bit) <= value)
            low += bit;
    return low;
}

/* W(t) = 0.4 (t - K)^3 + W_max in packets and seconds; times here in ms. */
static uint64_t cubic(const struct congestion *cc, uint64_t now)
{
    int64_t t = (int64_t)((now - cc->state[BEGAN]) / 1000000) - (int64_t)cc->state[LONG];
    int64_t packets1000, bytes;

    if (t > 1000000)
        t = 1000000;
    packets1000 = 4 * t * t / 10000 * t / 1000; /* thousandths of a packet, for small t exact */
    bytes = (int64_t)cc->state[BEFORE] + packets1000 / 1000 * cc->packet +
            packets1000 % 1000 * cc->packet / 1000;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static void begin(struct congestion *cc, uint64_t now)
{
    uint64_t gap = cc->state[BEFORE] > cc->window ? cc->state[BEFORE] - cc->window : 0;

    cc->state[BEGAN] = now ? now : 1;
    /* K = cbrt((W_max - W) / 0.4) seconds */
    cc->state[LONG] = cube_root(gap * 10 / 4 * UINT64_C(1000000000) / cc->packet);
    if (cc->state[BEFORE] < cc->window)
        cc->state[BEFORE] = cc->window;
    cc->state[RENO] = cc->window;
}

static void acked(struct congestion *cc, const struct congestion_ack *ack)
{
    uint64_t aim;

    if (ack->marked && congestion_reacts(cc, ack->now, ack->sent)) {
        cc->state[BEFORE] = cc->window;
        congestion_set(cc, cc->window * 7 / 10);
        cc->threshold = cc->window;
        cc->state[BEGAN] = 0;
        return;
    }
    if (congestion_start(cc, ack) || !ack->limited)
        return;
    if (!cc->state[BEGAN])
        begin(cc, ack->now);
    /* 3 (1 - 0.7) / (1 + 0.7) of a packet a round trip */
    cc->state[RENO] += ack->bytes * cc->packet * 9 / 17 / (cc->window ? cc->window : 1);
    aim = cubic(cc, ack->now + ack->rtt->smoothed);
    if (aim < cc->state[RENO])
        aim = cc->state[RENO];
    if (aim > cc->window) {
        uint64_t step = (aim - cc->window) * ack->bytes / (cc->window ? cc->window : 1);

        congestion_set(cc, cc->window + (step < ack->bytes / 2 ? step : ack->bytes / 2) + 1);
    }
}

static void lost(struct congestion *cc, uint64_t now, uint64_t sent)
{
    if (!congestion_reacts(cc, now, sent))
        return;
    /* Below the window of the last loss: leave room for others. */
    cc->state[BEFORE] = cc->window < cc->state[BEFORE] ? cc->window * 17 / 20 : cc->window;
    congestion_set(cc, cc->window * 7 / 10);
    cc->threshold = cc->window;
    cc->state[BEGAN] = 0;
}

const struct congestion_ops congestion_cubic = {
    .name = "cubic",
    .summary = "fills the path until packets are lost, as TCP does",
    .acked = acked,
    .lost = lost,
};

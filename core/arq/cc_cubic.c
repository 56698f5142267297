/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control by loss, as TCP's on the Internet: after a loss the window grows as a cubic
 * function of time round the size at which it was lost. Source: RFC 9438.
 *
 * A mark of the network shrinks the window like a loss; but windows of few packets only by the
 * share of packets that are marked (as RFC 8257 has it), and they grow slowly (congestion_step):
 * many flows with a packet each, which shrink by 0.3 and grow by half a packet, hold a queue of a
 * packet each, or have unequal shares.
 */
#include "core/arq/congestion.h"

/* cc->state: */
enum {
    BEFORE, /* bytes: the window of the last loss */
    BEGAN,  /* ns: when growth began; 0: with the next acknowledgement */
    LONG,   /* ms: from then until the window is BEFORE again */
    RENO,   /* bytes: the window that an additive increase would have */
    CLEAR,  /* of ONE: the part of what is acknowledged that is not marked, smoothed */
};

enum {
    ONE = 1 << 16,
    GAIN = 32,  /* round trips that CLEAR goes back */
    FEW = 12,   /* packets: windows of no more shrink by the share of marks */
    GROWTH = 10 /* of congestion_step */
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

/* A window counts as a round trip: bytes acknowledged of it are the part of one. */
static void note_marks(struct congestion *cc, const struct congestion_ack *ack)
{
    int64_t clear = (int64_t)(ONE * (ack->bytes - ack->marked) / (ack->bytes ? ack->bytes : 1));
    int64_t part = (int64_t)(ONE * ack->bytes / (GAIN * cc->window));
    int64_t change = clear - (int64_t)cc->state[CLEAR];

    cc->state[CLEAR] += (uint64_t)(change * (part < ONE ? part : ONE) / ONE);
}

/* Bytes that a mark takes from the window: 0.3 of it, or the part of that which is marked; at least
 * the part that a large window is of itself and FEW packets. All of it at the end of slow start. */
static uint64_t reduction(const struct congestion *cc)
{
    uint64_t large = ONE * cc->window / (cc->window + (uint64_t)FEW * cc->packet);
    uint64_t marked = ONE - cc->state[CLEAR], part = large > marked ? large : marked;

    if (cc->window < cc->threshold)
        part = ONE;
    return cc->window * 3 / 10 * part / ONE;
}

/* Bytes a round trip that RENO grows by: 3 (1 - 0.7) / (1 + 0.7) of a packet, or less. */
static uint64_t additive(const struct congestion *cc)
{
    uint64_t step = congestion_step(cc, GROWTH), most = (uint64_t)cc->packet * 9 / 17;

    return step < most ? step : most;
}

static void acked(struct congestion *cc, const struct congestion_ack *ack)
{
    uint64_t aim;

    note_marks(cc, ack);
    if (ack->marked && congestion_reacts(cc, ack->now, ack->sent)) {
        cc->state[BEFORE] = cc->window;
        congestion_set(cc, cc->window - reduction(cc));
        cc->threshold = cc->window;
        cc->state[BEGAN] = 0;
        return;
    }
    if (congestion_start(cc, ack) || !ack->limited)
        return;
    if (!cc->state[BEGAN])
        begin(cc, ack->now);
    cc->state[RENO] += ack->bytes * additive(cc) / (cc->window ? cc->window : 1) + 1;
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
    .exact = true,
    .summary = "fills the path until packets are lost, as TCP does",
    .acked = acked,
    .lost = lost,
};

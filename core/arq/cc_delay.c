/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control by delay: the window follows the round trip, the lesser of the last two. Where
 * it is above a target (the least round trip, and a margin for the queue) the window shrinks by how
 * far, at most once a round trip; below it grows (congestion_grow). Flows with small windows aim at
 * a longer queue, so that many of them find room beside each other. Loss halves.
 *
 * Source: G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
 * Datacenter", SIGCOMM 2020.
 */
#include "core/arq/congestion.h"

enum {
    MARGIN_LEAST = 25 * 1000, /* ns of queue */
    SCALED = 200 * 1000,      /* ns more for a window of one packet, less by its square root */
    SCALED_MOST = 300 * 1000, /* of it: windows of half a packet grow among others */
    LEAST_KEPT = 50,          /* percent of the window that a reduction leaves */
    GROWTH = 8,               /* of congestion_grow */
    BEFORE = 0                /* state: the time before the latest, ns */
};

/* ns: what no window's target is below. The margin is an eighth of the least round trip, too, for
 * what a path itself varies by. */
static uint64_t least_target(const struct rtt *rtt)
{
    return rtt->least + (rtt->least / 8 > MARGIN_LEAST ? rtt->least / 8 : MARGIN_LEAST);
}

static uint64_t target(const struct congestion *cc, const struct rtt *rtt)
{
    /* 16 times the root of packets */
    uint64_t packets16 = congestion_root(256 * cc->window / cc->packet);
    uint64_t scaled = packets16 ? 16 * (uint64_t)SCALED / packets16 : SCALED_MOST;

    return least_target(rtt) + (scaled < SCALED_MOST ? scaled : SCALED_MOST);
}

static void reduce(struct congestion *cc, uint64_t percent)
{
    congestion_set(cc, cc->window * percent / 100);
    cc->threshold = cc->window;
}

/* The lesser of the last two, so that one that a pause of a processor has lengthened is no reason.
 * An acknowledgement without a time, as of who reads late, brings no other one. */
static uint64_t delay_of(struct congestion *cc, const struct congestion_ack *ack)
{
    uint64_t before = cc->state[BEFORE], latest = ack->rtt->latest;

    if (ack->timed)
        cc->state[BEFORE] = latest;
    return before && before < latest ? before : latest;
}

static void acked(struct congestion *cc, const struct congestion_ack *ack)
{
    uint64_t delay = delay_of(cc, ack);
    uint64_t aim = delay > least_target(ack->rtt) ? target(cc, ack->rtt) : delay;

    if (delay > aim) {
        uint64_t over = 80 * (delay - aim) / delay;

        if (ack->timed && congestion_reacts(cc, ack->now, ack->sent))
            reduce(cc, over < 100 - LEAST_KEPT ? 100 - over : LEAST_KEPT);
        return;
    }
    if (congestion_start(cc, ack) || !ack->limited)
        return;
    congestion_grow(cc, ack->bytes, GROWTH);
}

static void lost(struct congestion *cc, uint64_t now, uint64_t sent)
{
    if (congestion_reacts(cc, now, sent))
        reduce(cc, LEAST_KEPT);
}

const struct congestion_ops congestion_delay = {
    .name = "delay",
    .summary = "keeps the round trip near its least: short queues, needs no help of switches",
    .exact = true,
    .acked = acked,
    .lost = lost,
};

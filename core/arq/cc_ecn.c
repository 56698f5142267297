/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control by marks: the window shrinks by half of the share of packets that switches
 * have marked (ECN), once a round trip. Without marks, loss halves. Source: RFC 8257 (DCTCP).
 */
#include "core/arq/congestion.h"

enum {
    ONE = 1024, /* the share 1 */
    GAIN = 32,  /* RFC 8257 has 16: then 32 flows with a packet each leave 5 % of the link empty */
    GROWTH = 8  /* of step */
};

/* cc->state: */
enum {
    SHARE,  /* the estimate, of ONE */
    BYTES,  /* acknowledged in this round trip */
    MARKED, /* of these */
    ROUND,  /* ns: when it began */
    BEGUN,  /* 1 after the first mark: until then SHARE says nothing */
};

static void end_round(struct congestion *cc, uint64_t now)
{
    uint64_t seen = cc->state[BYTES] ? ONE * cc->state[MARKED] / cc->state[BYTES] : 0;

    if (cc->state[BEGUN])
        cc->state[SHARE] += (int64_t)(seen - cc->state[SHARE]) / GAIN;
    if (!cc->state[BEGUN] && seen) {
        cc->state[SHARE] = ONE;
        cc->state[BEGUN] = 1;
    }
    cc->state[BYTES] = cc->state[MARKED] = 0;
    cc->state[ROUND] = now;
}

/*
 * Bytes that it grows by in a round trip: an eighth of a packet, times the fourth root of the
 * window in packets; at most a packet. Windows shrink by a part of themselves, so the less growth
 * rises with the window, the sooner unequal windows are equal, and the less growth there is, the
 * less they scatter, since chance says which flow's packet is marked. Windows of a packet grow by
 * so little that 64 of them do not fill the queue together.
 */
static uint64_t step(const struct congestion *cc)
{
    /* 16 times the fourth root of packets */
    uint64_t root16 = congestion_root(congestion_root(65536 * cc->window / cc->packet));
    uint64_t bytes = cc->packet * root16 / ((uint64_t)16 * GROWTH), least = cc->packet / GROWTH;

    return bytes < least ? least : bytes < cc->packet ? bytes : cc->packet;
}

static void acked(struct congestion *cc, const struct congestion_ack *ack)
{
    cc->state[BYTES] += ack->bytes;
    cc->state[MARKED] += ack->marked;
    if (ack->sent >= cc->state[ROUND])
        end_round(cc, ack->now);
    if (ack->marked && congestion_reacts(cc, ack->now, ack->sent)) {
        uint64_t share = cc->state[BEGUN] ? cc->state[SHARE] : ONE;

        congestion_set(cc, cc->window - cc->window * share / (2 * ONE));
        cc->threshold = cc->window;
    }
    if (congestion_start(cc, ack) || !ack->limited)
        return;
    congestion_grow_by(cc, ack->bytes, step(cc));
}

static void lost(struct congestion *cc, uint64_t now, uint64_t sent)
{
    if (!congestion_reacts(cc, now, sent))
        return;
    congestion_set(cc, cc->window / 2);
    cc->threshold = cc->window;
}

const struct congestion_ops congestion_ecn = {
    .name = "ecn",
    .summary = "follows the share of packets that switches mark (DCTCP); needs ECN on the path",
    .exact = true,
    .acked = acked,
    .lost = lost,
};

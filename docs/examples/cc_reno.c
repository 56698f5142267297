/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control as docs/congestion-control.md explains it: a packet more each round trip, half
 * of the window at each loss or mark. Source: RFC 5681.
 */
#include "core/arq/congestion.h"

static void halve(struct congestion *cc)
{
    congestion_set(cc, cc->window / 2);
    cc->threshold = cc->window;
}

static void acked(struct congestion *cc, const struct congestion_ack *ack)
{
    if (ack->marked && congestion_reacts(cc, ack->now, ack->sent))
        halve(cc);
    if (congestion_start(cc, ack) || !ack->limited)
        return;
    congestion_set(cc, cc->window + ack->bytes * cc->packet / cc->window + 1);
}

static void lost(struct congestion *cc, uint64_t now, uint64_t sent)
{
    if (congestion_reacts(cc, now, sent))
        halve(cc);
}

const struct congestion_ops congestion_reno = {
    .name = "reno",
    .summary = "grows until packets are lost or marked",
    .acked = acked,
    .lost = lost,
};

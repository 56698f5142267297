/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/congestion.h"

#include <string.h>

enum {
    LARGE = 16, /* packets: of windows as large, half a packet of growth a round trip */
    LEAST = 16, /* a window has such a part of a packet at least: a packet in 16 round trips */
};

const struct congestion_ops *const congestion_all[] = {
    &congestion_delay,
    &congestion_ecn,
    &congestion_cubic,
    NULL,
};

const struct congestion_ops *congestion_named(const char *name)
{
    for (size_t i = 0; congestion_all[i]; i++)
        if (!strcmp(congestion_all[i]->name, name))
            return congestion_all[i];
    return NULL;
}

void congestion_init(struct congestion *cc, const struct congestion_ops *ops, uint32_t packet)
{
    *cc = (struct congestion){
        .ops = ops,
        .window = (uint64_t)CONGESTION_INITIAL * packet,
        .threshold = CONGESTION_MAX,
        .packet = packet,
    };
}

void congestion_collapse(struct congestion *cc, uint64_t now)
{
    cc->threshold = cc->window / 2 > 2 * cc->packet ? cc->window / 2 : 2 * cc->packet;
    cc->window = 2 * cc->packet;
    cc->reacted = now;
}

bool congestion_reacts(struct congestion *cc, uint64_t now, uint64_t sent)
{
    if (cc->reacted && sent <= cc->reacted)
        return false;
    cc->reacted = now;
    return true;
}

void congestion_set(struct congestion *cc, uint64_t window)
{
    uint64_t least = cc->packet / LEAST ? cc->packet / LEAST : 1;

    cc->window = window < least ? least : window > CONGESTION_MAX ? CONGESTION_MAX : window;
}

bool congestion_start(struct congestion *cc, const struct congestion_ack *ack)
{
    if (cc->window >= cc->threshold)
        return false;
    if (ack->limited)
        congestion_set(cc, cc->window + ack->bytes);
    return true;
}

uint64_t congestion_step(const struct congestion *cc, unsigned part)
{
    uint64_t large = cc->packet * cc->window / (cc->window + LARGE * (uint64_t)cc->packet);

    return large > cc->packet / part ? large : cc->packet / part;
}

void congestion_grow_by(struct congestion *cc, uint64_t bytes, uint64_t step)
{
    uint64_t more = bytes * step / cc->window + 1;

    congestion_set(cc, cc->window + (more < cc->packet / 2 ? more : cc->packet / 2));
}

void congestion_grow(struct congestion *cc, uint64_t bytes, unsigned part)
{
    congestion_grow_by(cc, bytes, congestion_step(cc, part));
}

uint64_t congestion_root(uint64_t value)
{
    uint64_t low = 0;

    if (!value)
        return 0;
    for (uint64_t bit = UINT64_C(1) << (63 - __builtin_clzll(value)) / 2; bit; bit >>= 1)
        if ((low + bit) * (low + bit) <= value)
            low += bit;
    return low;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_rest.h"

#define MS UINT64_C(1000000)
#define TIME_UNIT UINT64_C(10000) /* ns */

enum {
    LEAST_UNIT = 16, /* ns */
};

static bool path_may_rest(const struct flow_path *path)
{
    return path->state != PATH_DOWN && !path->asked && !path->unsent && !path->owes_answer;
}

bool flow_may_rest(const struct flow *flow)
{
    if (flow_busy(flow) || flow->owed || flow->ack_now || flow->kept ||
        flow->in.end > flow->in.next)
        return false;
    for (unsigned i = 0; i < flow->count; i++) {
        if (!path_may_rest(&flow->paths[i]))
            return false;
    }
    return true;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

void flow_rest(const struct flow *flow, struct flow_rest *rest, struct flow_rest_path *kept,
               uint64_t now)
{
    *rest = (struct flow_rest){
        .next_out = flow->next_out,
        .next_in = flow->in.next,
        .limit = (uint16_t)(flow->limit - flow->next_out),
        .told = (uint16_t)(flow->told - flow->in.next),
        .favourite = (uint8_t)flow->favourite,
        .turn = (uint8_t)(flow->turn % flow->count),
        .ack_rail = (uint8_t)flow->ack_rail,
        .rests = true,
    };
    for (unsigned i = 0; i < flow->count; i++) {
        const struct flow_path *path = &flow->paths[i];
        uint64_t unused = flow_worked(flow, now) - path->worked;

        kept[i] = (struct flow_rest_path){
            .rate = (float)path->rate,
            .least = (uint32_t)at_most((path->rtt.least + LEAST_UNIT - 1) / LEAST_UNIT, UINT32_MAX),
            .time = (uint16_t)at_most((uint64_t)path->time / TIME_UNIT, UINT16_MAX),
            .unused = (uint16_t)at_most(unused / MS, UINT16_MAX),
        };
    }
}

/* Probes have numbers that late answers to earlier ones do not have. */
static void wake_path(const struct flow *flow, struct flow_path *path,
                      const struct flow_rest_path *kept, uint64_t now)
{
    uint64_t least = (uint64_t)kept->least * LEAST_UNIT;

    path->rate = (double)kept->rate;
    path->time = (double)(kept->time * TIME_UNIT);
    path->bytes = path->rate * path->time;
    path->rtt = (struct rtt){.latest = least,
                             .smoothed = least,
                             .variance = least / 2,
                             .least = least,
                             .next_least = least,
                             .since = now};
    path->worked = flow->worked - kept->unused * MS;
    path->probe = (uint32_t)(now / MS);
}

void flow_wake(struct flow *flow, const struct flow_rest *rest, const struct flow_rest_path *kept,
               uint64_t now)
{
    flow->next_out = flow->acked = rest->next_out;
    flow->limit = rest->next_out + rest->limit;
    flow->in.next = flow->in.end = rest->next_in;
    flow->told = rest->next_in + rest->told;
    flow->favourite = rest->favourite;
    flow->turn = rest->turn;
    flow->ack_rail = rest->ack_rail;
    flow->worked = UINT16_MAX * MS;
    for (unsigned i = 0; i < flow->count; i++)
        wake_path(flow, &flow->paths[i], &kept[i], now);
}

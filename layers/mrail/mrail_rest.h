/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flow with nothing under way, in a few bytes: where it goes on, and what was measured of its
 * rails. Pure. Rates, round trips and times fade within seconds of traffic, so what
 * is rounded here changes no choice.
 */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_REST_H
#define WEFT_LAYERS_MRAIL_MRAIL_REST_H

#include "layers/mrail/mrail_flow.h"

/* ns after the last packet of the peer's. */
#define FLOW_REST_AFTER UINT64_C(1000000000)

/* Of a rail. */
struct flow_rest_path {
    float rate;      /* flow_path.rate */
    uint32_t least;  /* of its round trips, in units of 16 ns; 0: none was measured */
    uint16_t time;   /* that the rate was measured in, in units of 10 us */
    uint16_t unused; /* ms in which only others were used */
};

struct flow_rest {
    uint64_t next_out, next_in; /* serials of the next messages */
    uint16_t limit, told;       /* messages that may be sent, and that the peer may send */
    uint8_t favourite, turn, ack_rail;
    bool rests; /* the flow's memory is not needed */
};

/* Is nothing under way, owed, in question or down? */
bool flow_may_rest(const struct flow *flow);
/* kept: one for each of its rails. */
void flow_rest(const struct flow *flow, struct flow_rest *rest, struct flow_rest_path *kept,
               uint64_t now);
/* Goes on with it, as after flow_init and flow_add_path for the rails that the peer is on, which
 * the caller has called. */
void flow_wake(struct flow *flow, const struct flow_rest *rest, const struct flow_rest_path *kept,
               uint64_t now);

#endif

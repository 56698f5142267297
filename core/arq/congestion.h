/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many bytes a sender may have under way. An algorithm is a struct congestion_ops in a file of
 * its own; it changes `window` and nothing else. Time comes in as arguments.
 *
 * The window may be less than a packet: the pacer (core/arq/pacer.h) then sends less than one a
 * round trip. Source: RFC 9002 section 7; of the algorithms, see their files.
 */
#ifndef WEFT_CORE_ARQ_CONGESTION_H
#define WEFT_CORE_ARQ_CONGESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arq/rtt.h"

enum {
    CONGESTION_STATE = 6,   /* words of an algorithm's own */
    CONGESTION_INITIAL = 16 /* packets */
};

#define CONGESTION_MAX (UINT64_C(1) << 31) /* bytes: no window is larger */

struct congestion;

/* One acknowledgement that reached the sender. */
struct congestion_ack {
    uint64_t now;
    uint64_t sent;          /* when the latest packet was sent that it acknowledges */
    const struct rtt *rtt;  /* that packet's time is in it, if this is */
    bool timed;             /* true; else rtt->latest is of an earlier acknowledgement */
    uint64_t bytes, marked; /* acknowledged by it; of these, in packets marked by the network */
    bool limited;           /* the window, not the application, has held the sender back */
};

struct congestion_ops {
    const char *name; /* as in cc=NAME */
    const char *summary;
    /* Windows of few packets are kept to the byte, by pacing: a started packet may leave. Else only
     * whole packets do. */
    bool exact;
    void (*acked)(struct congestion *cc, const struct congestion_ack *ack);
    /* A packet that was sent at `sent` is lost. At most one reaction for each round trip:
     * congestion_reacts. */
    void (*lost)(struct congestion *cc, uint64_t now, uint64_t sent);
};

struct congestion {
    const struct congestion_ops *ops;
    uint64_t window;    /* bytes */
    uint64_t threshold; /* below it the window grows by what is acknowledged */
    uint64_t reacted;   /* ns: the last reduction; what was sent before has been answered by it */
    uint32_t packet;    /* bytes of a full packet */
    uint64_t state[CONGESTION_STATE];
};

extern const struct congestion_ops congestion_delay, congestion_ecn, congestion_cubic;

/* NULL-terminated, the default first. */
extern const struct congestion_ops *const congestion_all[];

/* The algorithm of this name, or NULL. */
const struct congestion_ops *congestion_named(const char *name);

void congestion_init(struct congestion *cc, const struct congestion_ops *ops, uint32_t packet);

/* Nothing that was sent for several timeouts has been acknowledged: the window starts again. */
void congestion_collapse(struct congestion *cc, uint64_t now);

/* ---- For the algorithms ---- */

/* Is a sign of congestion of a packet sent at `sent` one that no reduction has answered yet? If so,
 * the caller's reduction, which follows, is noted. */
bool congestion_reacts(struct congestion *cc, uint64_t now, uint64_t sent);
/* Sets window within [packet / 64, CONGESTION_MAX]. */
void congestion_set(struct congestion *cc, uint64_t window);
/*
 * Grows, for `bytes` that were acknowledged, by 1 / part of a packet a round trip, large windows by
 * up to a whole one. That is as much for each small window, so that many flows come to have equal
 * shares, and so little that they do not fill the queue by growing together.
 */
void congestion_grow(struct congestion *cc, uint64_t bytes, unsigned part);
/* The same, by `step` bytes a round trip. */
void congestion_grow_by(struct congestion *cc, uint64_t bytes, uint64_t step);
/* Bytes that it grows by in a round trip. */
uint64_t congestion_step(const struct congestion *cc, unsigned part);
/* The integer part of a square root. */
uint64_t congestion_root(uint64_t value);
/* Grows by what was acknowledged, while below the threshold; false: it is not below. */
bool congestion_start(struct congestion *cc, const struct congestion_ack *ack);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The largest packet that reaches a peer, found by probes: packets of padding, whose loss means
 * nothing but that they are too large. Sizes are bytes of the whole packet. Source: RFC 8899.
 */
#ifndef WEFT_CORE_ARQ_PATH_MTU_H
#define WEFT_CORE_ARQ_PATH_MTU_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PATH_MTU_BASE = 1200, /* believed to reach every peer */
    PATH_MTU_TRIES = 3,   /* probes of a size before it counts as too large */
    PATH_MTU_STEP = 16,   /* sizes that differ by less are not told apart */
    PATH_MTU_LOSSES = 6,  /* in a row, of struct path_mtu: a black hole */
};

#define PATH_MTU_AGAIN UINT64_C(600000000000) /* ns: then a larger size is tried once more */

struct path_mtu {
    uint32_t size;   /* what has been seen to reach the peer */
    uint32_t failed; /* the smallest that did not; one above `most` when none has failed */
    uint32_t most;   /* what the interface takes */
    uint32_t probe;  /* on its way or to be sent again; 0: none */
    uint8_t tries;   /* of probe */
    uint8_t losses;  /* of packets above the base, while none of their length came that left with
                      * them or later */
    bool out;        /* probe is on its way */
    uint32_t least;  /* bytes of the shortest of those */
    uint64_t again;  /* ns: when the search begins anew */
};

/* most: at least 1; where it is below PATH_MTU_BASE it is taken for the base. */
void path_mtu_init(struct path_mtu *mtu, uint32_t most);

/* The size of a probe that should be sent now, or 0. */
uint32_t path_mtu_probe(struct path_mtu *mtu, uint64_t now);
/* That probe has left. */
void path_mtu_sent(struct path_mtu *mtu);
/* A probe of that size has been acknowledged, or is lost. */
void path_mtu_probe_acked(struct path_mtu *mtu, uint32_t bytes);
void path_mtu_probe_lost(struct path_mtu *mtu, uint32_t bytes);

/* Of the packets above the base that came, the one that left last: when, and how long it was.
 * Zeroed: none came. */
struct path_mtu_came {
    uint64_t sent;
    uint32_t bytes;
};

/* A packet of that size, which left then, was acknowledged. */
void path_mtu_acked(struct path_mtu *mtu, struct path_mtu_came *came, uint32_t bytes,
                    uint64_t sent);
/* It was lost. True: the size has fallen to the base, since nothing larger comes through: a queue
 * that is full loses many packets at once, too, but takes others of their length. */
bool path_mtu_lost(struct path_mtu *mtu, const struct path_mtu_came *came, uint32_t bytes,
                   uint64_t sent);
/* The kernel says that packets above `most` do not fit: believed only downwards, and not below the
 * base, since anybody can forge the message behind it. True: the size has fallen. */
bool path_mtu_limit(struct path_mtu *mtu, uint32_t most);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The room `nic` of uet over a switch in memory, for programs that are linked with it: what it
 * defines (uet_nic_*, uet_path_*, the clock, random numbers) takes the place of sockets and of the
 * kernel, so the provider, SES and PDS run on it as they are. Endpoints have the addresses of
 * the switch's ports, one after the other. Time is virtual: it passes when an endpoint looks for
 * packets and finds none. One world at a time, one thread.
 */
#ifndef WEFT_TESTS_UET_MEMORY_H
#define WEFT_TESTS_UET_MEMORY_H

#include "../switch.h"

struct memory {
    struct sw sw;       /* whose paths, and filter, a test may set */
    uint64_t step;      /* ns that such a look takes */
    unsigned full;      /* of 1000 flushes find no room for the second half of what waits */
    uint32_t payload;   /* of all routes */
    uint64_t forgotten; /* packets that left since memory which they named was about to go */
    uint64_t refused;   /* that found a port without an endpoint */
    uint8_t dscp;       /* of the endpoint that was opened last */
    /* Each packet that reaches an endpoint has a congestion mark. */
    bool marking;
};

extern struct memory memory;

/* A world without endpoints. Everything in it follows from the seed. */
void memory_begin(uint64_t seed, unsigned ports);
/* All endpoints are closed. */
void memory_end(void);

#endif

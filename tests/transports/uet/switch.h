/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A NIC in memory: a switch of N ports, in virtual time, whose paths delay, lose, repeat and
 * reorder packets. Everything follows from the seed. Times are ns.
 */
#ifndef WEFT_TESTS_UET_SWITCH_H
#define WEFT_TESTS_UET_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/addr.h"

enum {
    SWITCH_PACKET = 9000,
};

struct sw_event;

struct sw_packet {
    unsigned from, to;
    size_t len;
    uint8_t bytes[SWITCH_PACKET];
};

struct sw {
    uint64_t now, seed;
    uint64_t delay, jitter;      /* a packet takes delay, and up to jitter more */
    unsigned loss, dup, reorder; /* of 1000; a reordered packet takes `late` more */
    uint64_t late;
    unsigned ports;
    uint64_t carried, lost;
    uint64_t arrived, farthest; /* farthest: most packets that overtook one */
    /* A test's change of a packet before that; false: it is lost. May be NULL. */
    bool (*filter)(struct sw *sw, struct sw_packet *packet);
    void (*deliver)(void *arg, unsigned port, const union addr *from, const uint8_t *bytes,
                    size_t len);
    void *arg;
    struct sw_event *heap;
    size_t count, room;
};

void switch_init(struct sw *sw, uint64_t seed, unsigned ports);
void switch_finish(struct sw *sw);
uint64_t switch_random(struct sw *sw);
/* The address of a port. */
union addr switch_addr(unsigned port);
void switch_send(struct sw *sw, unsigned from, const union addr *to, const struct iovec *iov,
                 size_t count);
/* When the next packet arrives; UINT64_MAX: none is under way. */
uint64_t switch_next(const struct sw *sw);
/* Delivers what arrives up to `until`, and moves the time there. */
void switch_run(struct sw *sw, uint64_t until);

#endif

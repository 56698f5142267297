/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets under way, by number: when each left, how long it is, what it carries. Acknowledgements
 * take them out; loss is found by later packets that have come (a count, and a time), both of which
 * grow where the network turns out to reorder. Times are ns. Source: RFC 9002 section 6, RFC 8985.
 */
#ifndef WEFT_CORE_ARQ_FLIGHT_H
#define WEFT_CORE_ARQ_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arq/rtt.h"

enum {
    FLIGHT_REORDER = 3,        /* packets: one that so many later ones overtook is lost */
    FLIGHT_REORDER_MAX = 1024, /* of what the network's reordering can raise it to */
    FLIGHT_EIGHTHS = 9,        /* of a round trip: later than this behind another it is lost */
    FLIGHT_EIGHTHS_MAX = 24,
    FLIGHT_KEPT = 64,
    FLIGHT_ASIDE = 128,
};

enum flight_state {
    FLIGHT_NONE, /* acknowledged, or forgotten */
    FLIGHT_OUT,
    FLIGHT_LOST,     /* called lost; an acknowledgement may show that it was not */
    FLIGHT_GIVEN_UP, /* the same, but it says nothing about reordering */
};

struct flight_packet {
    void *what; /* the sender's */
    uint64_t sent;
    uint32_t bytes;
    uint16_t piece;
    uint8_t state; /* enum flight_state */
    uint8_t kind;  /* the sender's; from FLIGHT_ASIDE on it is not counted in `bytes` */
};

struct flight {
    struct flight_packet *packets; /* a ring of `size`, by number */
    uint32_t size;                 /* a power of 2 */
    uint64_t first, next;          /* the lowest number that is not NONE; the next to be sent */
    uint64_t acked;                /* the highest that was acknowledged, and 1 */
    uint64_t bytes;                /* of the packets that are OUT, but for those aside */
    uint32_t out;                  /* packets that are OUT */
    uint32_t reorder, eighths;     /* the bounds in use */
    uint64_t calmed;               /* when the bounds were last raised or lowered */
};

/* packets: size entries of the caller's, which outlive it. */
void flight_init(struct flight *flight, struct flight_packet *packets, uint32_t size);

/* Goes on in another ring, which has room for all that is known. */
void flight_move(struct flight *flight, struct flight_packet *packets, uint32_t size);

/* Packets that may leave before one of those that are known is acknowledged or forgotten. */
static inline uint64_t flight_room(const struct flight *flight)
{
    return flight->size - (flight->next - flight->first);
}

static inline bool flight_full(const struct flight *flight)
{
    return !flight_room(flight);
}

/* A packet leaves, with number flight->next; flight_full is false. */
void flight_send(struct flight *flight, const struct flight_packet *packet);
/* So many leave together, whose pieces follow that of the packet; there is room for all. The last
 * one has last_bytes. */
void flight_send_run(struct flight *flight, const struct flight_packet *packet, unsigned count,
                     uint32_t last_bytes);

/* Was this number ever sent? Else an acknowledgement of it is a lie. */
static inline bool flight_knows(const struct flight *flight, uint64_t number)
{
    return number < flight->next;
}

/* Number is acknowledged. True: *packet is what it was, OUT, or LOST where it had been called so
 * wrongly (the bounds are raised then). False: nothing is known of it. */
bool flight_ack(struct flight *flight, uint64_t number, uint64_t now, struct flight_packet *packet);

/* Packets that left together, and were acknowledged together. */
struct flight_run {
    struct flight_packet packet; /* that of the highest number; but `bytes` is of the longest */
    unsigned count;
    uint64_t bytes;  /* of all */
    uint64_t pieces; /* a bit for each, where they carry something */
};

/* The same of number, and of those below it, `most` in all at most, that are OUT, left with it and
 * carry pieces of the same. */
bool flight_ack_run(struct flight *flight, uint64_t number, unsigned most, uint64_t now,
                    struct flight_run *run);

/* Calls lost for each packet that is to be called so now; its state is LOST then. Returns when the
 * next one will be unless it is acknowledged before; 0: none is in question. */
uint64_t flight_detect(struct flight *flight, uint64_t now, const struct rtt *rtt,
                       void (*lost)(void *arg, const struct flight_packet *packet), void *arg);

/* Forgets packets called lost that were sent before, unless they are among the last FLIGHT_KEPT:
 * where little is sent, an owner that was kept from reading calls lost what has come. UINT64_MAX:
 * all of them. */
void flight_forget(struct flight *flight, uint64_t before);

/* The caller needs no acknowledgement of `what` any more: no packet is said to carry it. */
void flight_clear(struct flight *flight, const void *what);

/* The packet that left first of those that are OUT, or NULL. */
struct flight_packet *flight_oldest(const struct flight *flight);
/* A packet that is OUT is given up: no longer under way. Its acknowledgement may still come. */
void flight_give_up(struct flight *flight, struct flight_packet *packet);

#endif

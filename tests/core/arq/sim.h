/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network in virtual time: sessions at its ends, and between them paths that delay, lose, repeat,
 * reorder and mark packets, with a bottleneck that they may share. Everything follows from the
 * seed. Times are ns.
 */
#ifndef WEFT_TESTS_CORE_ARQ_SIM_H
#define WEFT_TESTS_CORE_ARQ_SIM_H

#include "core/arq/session.h"

enum {
    SIM_ENDS = 160,
    SIM_PACKET = 9000,
};

/* A queue in front of a link, shared by any number of paths. */
struct sim_link {
    uint64_t rate;         /* bytes a second */
    uint64_t room, marks;  /* bytes: more are dropped; packets behind more are marked (0: never) */
    uint64_t free_at;      /* when the last byte will have left */
    uint64_t carried;      /* bytes */
    uint64_t most, waited; /* bytes: the longest queue; ns: the sum of all waits */
    uint64_t packets, dropped;
};

/* One direction between two ends. */
struct sim_path {
    uint64_t delay, jitter; /* a packet takes delay, and up to jitter more */
    unsigned loss, dup;     /* of 1000 */
    unsigned strays;        /* of 1000; they take `stray` more */
    uint64_t stray;
    uint32_t mtu;          /* larger packets vanish; 0: none is too large */
    struct sim_link *link; /* or NULL */
    bool down;
};

struct sim_end {
    struct session *session;
    struct session_config config;
    unsigned peer;
    struct sim_path path; /* to the peer */
    uint64_t deadline;
    bool asleep;                      /* neither runs nor receives: packets vanish */
    uint64_t to_send, made;           /* messages yet to be made; made */
    size_t size;                      /* of a message */
    uint64_t done, failed, delivered; /* messages */
    uint64_t bytes;                   /* delivered */
    uint8_t *seen;                    /* deliveries of each of the peer's messages */
    uint64_t seen_count;
    bool full;             /* takes no message */
    uint64_t trains[2];    /* packets that left, and came, in trains */
    uint64_t coming, came; /* packets that will arrive here, or have */
    uint64_t overtaken;    /* the most that came before one which had left before them */
    int err;               /* of the last message that failed */
};

struct sim {
    uint64_t now;
    uint64_t seed;
    unsigned ends;
    struct sim_end end[SIM_ENDS];
    struct sim_event *heap;
    size_t events, room;
    void (*tick)(struct sim *sim); /* after each step; may be NULL */
    void *arg;
};

struct sim *sim_create(uint64_t seed);
void sim_destroy(struct sim *sim);

/* Opens two ends towards each other over paths like `path`; a asks, b answers. Returns a; b is
 * a + 1. */
unsigned sim_pair(struct sim *sim, const struct congestion_ops *cc, uint32_t most,
                  const struct sim_path *path);
/* Both ends of that pair send trains and take them, those of pieces that come at the same time; the
 * lower of one refuses some of them, and takes some later. */
void sim_use_trains(struct sim *sim, unsigned first);
/* The end forgets its session and opens another, as a program that starts again. */
void sim_restart(struct sim *sim, unsigned end);

/* count messages of size bytes (at least 8) are to be sent. */
void sim_send(struct sim *sim, unsigned end, uint64_t count, size_t size);

/* Until `until`, or while `more` says so (NULL: always). */
void sim_run(struct sim *sim, uint64_t until, bool (*more)(const struct sim *sim));
/* Has an end a message that is not done? */
bool sim_busy(const struct sim *sim);

uint64_t sim_random(struct sim *sim);

#endif

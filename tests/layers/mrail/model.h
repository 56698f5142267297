/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two endpoints and the rails between them, in virtual time. A rail has a delay and a rate in each
 * direction, and may lose what it carries, keep it until it lives again, or say that it failed. It
 * reads memory of the other side: bytes that come late land, unless our end was closed.
 */
#ifndef WEFT_TESTS_LAYERS_MRAIL_MODEL_H
#define WEFT_TESTS_LAYERS_MRAIL_MODEL_H

#include "layers/mrail/mrail_flow.h"
#include "layers/mrail/mrail_intro.h"
#include "layers/mrail/mrail_rest.h"

#define MODEL_US UINT64_C(1000)
#define MODEL_MS UINT64_C(1000000)
#define MODEL_S UINT64_C(1000000000)

enum {
    MODEL_PACKET = 65536,
};

enum model_state {
    MODEL_ALIVE,
    MODEL_LOSES, /* takes packets, and loses them */
    MODEL_KEEPS, /* takes packets, and delivers them when it lives again */
    MODEL_FAILS, /* says so */
};

/* One direction of a rail. */
struct model_wire {
    enum model_state state;
    uint64_t delay;
    double rate;           /* bytes/ns */
    uint64_t burst;        /* ns that it may be ahead of its rate after a pause */
    uint64_t free;         /* when it is free again */
    uint64_t queued, most; /* bytes that it has; that it takes */
    struct list packets;
    int err;        /* MODEL_FAILS */
    uint64_t fails; /* when it says so; 0: nothing to say */
};

struct model_side {
    struct flow flow;
    struct flow_path paths[MRAIL_RAILS];
    struct model *model;
    struct model_wire out[MRAIL_RAILS];
    unsigned index;
    /* Messages that it sends: by number. */
    struct model_message *messages;
    uint32_t count, posted, done, failed;
    size_t window; /* of messages that are posted at a time */
    int err;       /* the last */
    uint64_t bytes_done;
    bool free;        /* with `quick`: some have ended, and others are to be posted */
    uint32_t quick;   /* messages that left without a run */
    uint32_t lone;    /* of these, with nothing before them */
    uint32_t settled; /* packets that came without one */
    uint64_t late;    /* when that of the last is settled; 0: it is */
    uint32_t settled_late;
    uint8_t *got; /* by number of the other side's */
    uint32_t got_count;
    uint64_t due;
    unsigned downs, ups, ends, rests;
    /* Reads of the other's memory. */
    struct model_read *reads;
    uint32_t read_count, reads_posted, reads_done, reads_failed;
    size_t read_window;
    struct list stripes;          /* with a rail */
    uint64_t stripe_ids;          /* the last */
    uint64_t closes[MRAIL_RAILS]; /* when our end is closed; 0: it is not to be */
    unsigned closed[MRAIL_RAILS]; /* how often it was */
    bool deaf[MRAIL_RAILS];       /* the other end of reads says nothing, packets live */
    bool shut;                    /* what is read of it is refused */
    uint64_t bytes_read;
    struct mrail_intro intro;
    bool no_memory; /* for what comes */
    bool heard;     /* by a rail that tells */
};

struct model {
    uint64_t now;
    struct flow_config config;
    struct model_side side[2];
    unsigned rails;
    uint32_t last; /* bytes of the last of the messages that model_send makes; 0: as the others */
    uint64_t seed;
    bool rests;     /* sides rest whenever they may */
    bool quick;     /* messages leave without a run, where they may; before the first is sent */
    bool later;     /* with `quick`: and as an endpoint does it, some of it later */
    bool lasts;     /* time goes on when everything has ended */
    unsigned tells; /* a bit for each rail that tells who sent a packet */
};

void model_open(struct model *model, unsigned rails, uint64_t seed);
void model_close(struct model *model);
void model_rail(struct model *model, unsigned rail, uint64_t delay, double bytes_per_ns);
/* Of the direction from side `from`, or of both (2). */
void model_set(struct model *model, unsigned rail, unsigned from, enum model_state state);
/* Messages of one length, or (0) of drawn ones, that a side sends from now on, `window` at a time;
 * its earlier messages have ended. */
void model_send(struct model *model, unsigned side, uint32_t count, uint32_t len, size_t window);
/* Reads of len bytes, or (0) of drawn ones up to 4 MiB, that a side begins from now on. */
void model_read(struct model *model, unsigned side, uint32_t count, uint64_t len, size_t window);
/* Stops the oldest read of a side's, as the target of a write does whose region is closed: no byte
 * of it may land from now on. False: there is none. */
bool model_stop(struct model *model, unsigned side);
/* Goes on until `until`, or everything that is sent has ended. */
void model_run(struct model *model, uint64_t until);
uint64_t model_draw(struct model *model, uint64_t below);

#endif

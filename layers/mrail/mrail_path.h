/* SPDX-License-Identifier: BSD-2-Clause */
/* One rail to one peer: what is on it, what was measured of it, and whether it lives. Pure. */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_PATH_H
#define WEFT_LAYERS_MRAIL_MRAIL_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arq/rtt.h"
#include "core/base/list.h"

enum path_state {
    PATH_NONE, /* the peer is not on this rail */
    PATH_UP,
    PATH_DOWN,
};

struct flow;
struct flow_message;

#define PATH_GAP_AGE UINT64_C(200000000) /* ns */

/* ns: a peer that is not heard on any rail for longer, though it owes acknowledgements, is absent;
 * the rest of that time says nothing of its rails. */
#define PATH_ABSENT UINT64_C(64000000)

struct flow_path {
    enum path_state state;
    int err;            /* why it is down; 0: silence */
    struct list flying; /* struct flow_message, the first sent first; also those of stripes */
    uint64_t inflight;  /* bytes of them */
    bool blocked;       /* the lower took nothing; until the next run */
    uint64_t shunned;   /* until when stripes go by others, if there are: one failed here */
    bool abandoned;     /* our end of it is being closed: no stripe goes by it */
    unsigned stripes;   /* of those in flying */
    uint64_t striped;   /* ns: when one ended last, or since when there are any */
    /* Measured. */
    struct rtt rtt;
    uint64_t delivered;   /* bytes */
    double rate;          /* bytes/ns; 0: not known */
    double bytes, time;   /* acknowledged, in ns with something under way; both fade */
    uint64_t measured;    /* up to when they count, or since when something is under way */
    uint64_t gap, gap_at; /* ns: the longest pause between acknowledgements, as seen at gap_at: a
                           * shorter one takes its place after a few PATH_GAP_AGE */
    uint64_t run;         /* bytes acknowledged since nothing was under way */
    uint64_t worked;      /* flow_worked when it was used last */
    uint64_t stale;       /* ns: one that is not used for so long is asked, for its round trip */
    /* Life. */
    uint64_t progress;  /* ns: the latest acknowledgement, or since when something is under way */
    uint64_t heard;     /* something came by it */
    uint32_t probe;     /* number of the latest */
    uint64_t probed;    /* when it left, or was to */
    bool asked, unsent; /* it is unanswered; the lower has not taken it yet */
    uint64_t others;    /* since when the peer is heard by others while it is; 0: it is not */
    uint64_t next_probe, pause; /* the next, again; next_probe 0: asked for the first time */
    bool owes_answer;
    uint32_t answer; /* the probe to be answered */
};

/* ---- mrail_measure.c ---- */

/* Something leaves by it, and nothing is under way. */
void path_begin(const struct flow *flow, struct flow_path *path, uint64_t now);
/* Something that is under way was acknowledged. */
void path_progress(struct flow_path *path, uint64_t now);
/* A message has come, whose bytes are among those under way still. */
void path_measure(const struct flow *flow, struct flow_path *path,
                  const struct flow_message *message, uint64_t now);
/* The peer has answered a packet that left at `sent`. */
void path_round_trip(const struct flow *flow, struct flow_path *path, uint64_t sent, uint64_t now);
/* Is it time to ask one with nothing under way? It was used, and what was measured then, perhaps
 * with a peer that was slow to answer, decides whether it is used again. Counts as asked. */
bool path_is_stale(struct flow_path *path, uint64_t now);
/* ns from now until a message of len bytes would be there. */
uint64_t path_expected(const struct flow *flow, const struct flow_path *path, uint64_t len,
                       uint64_t now);
/* Is there room for it? A path is given no more than keeps it busy until its acknowledgements come,
 * so that what it turns out not to carry can go by others: a peer that was given no core for a
 * while acknowledges late. packet: bytes of the largest. */
bool path_has_room(const struct flow_path *path, uint64_t len, uint64_t packet);

/* ---- mrail_path.c ---- */

/* Looks after all paths; when to look again. */
uint64_t paths_check(struct flow *flow, uint64_t now);
/* Something came by a rail. */
void paths_heard(struct flow *flow, unsigned rail, uint64_t now);
void path_answered(struct flow *flow, unsigned rail, uint32_t probe, uint64_t now);
/* A message was acknowledged: those that left long before it may be lost. */
void path_overtaken(struct flow *flow, unsigned rail, const struct flow_message *by, uint64_t now);
/* It is down; err: what its lower said, or 0. */
void path_fail(struct flow *flow, unsigned rail, int err, uint64_t now);
/* Sends the answers and probes that are due. */
void paths_talk(struct flow *flow);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two endpoints and the rails between them: messages of one packet, each delivered
 * once, in any order. Pure: no rail, clock or lock; times are ns, given by the caller. A rail
 * delivers what it took, or dies; it may die silently, in one direction, or for a while, and lose
 * what it had: a connection that breaks and is made again does.
 *
 *   mrail_flow      life, messages out, which rail takes the next
 *   mrail_flow_in   what came: acknowledgements, messages, probes
 *   mrail_path      the life of one rail: silent, asked, down, back
 *   mrail_measure   its rate and latency, and what they make expect
 *   mrail_stripe    reads of the peer's memory, by the rails' own
 *
 * A message leaves by the rail that is expected to have it at the peer first, from the bytes that
 * are under way there, and the rate and latency that were measured. Small ones keep to one rail
 * while it is not much slower than another. A rail that fails, or acknowledges nothing for
 * `rail_timeout` while the peer is heard by another, is down: what was on it goes by others, and
 * the receiver drops what comes twice. A rail that is down is probed, and is back with an answer.
 *
 * A peer that is heard on no rail is silent itself: nothing is down then, and after
 * `patience` the messages end with FI_ETIMEDOUT. Where every rail is down because its lower said
 * so, they end with that error a second later; and where one is refused (FI_ECONNREFUSED), and
 * probes on the others have had no answer.
 */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_FLOW_H
#define WEFT_LAYERS_MRAIL_MRAIL_FLOW_H

#include "core/arq/serial.h"
#include "core/base/list.h"
#include "layers/mrail/mrail_path.h"
#include "layers/mrail/mrail_wire.h"

enum {
    FLOW_WINDOW = 256, /* messages beyond the lowest one that has not come */
    FLOW_NO_RAIL = 255,
    FLOW_ACK_EVERY = 16, /* messages that come have an acknowledgement at once */
    FLOW_OVERTAKEN = 8,  /* of the rail timeout: what left so long before is lost */
};

struct flow;
struct flow_read;
struct flow_stripe;

/* How rails are chosen, for messages of up to `most` bytes. */
enum flow_way {
    FLOW_SHORTEST, /* the shortest expected end */
    FLOW_FIXED,    /* one rail */
    FLOW_TURNS,    /* one after the other */
};

struct flow_policy {
    uint64_t most;
    enum flow_way way;
};

struct flow_config {
    uint64_t rail_timeout, patience, ack_delay;
    uint32_t packet, small; /* bytes: of the largest message; up to which one is small */
    const struct flow_policy *policies; /* that ascend; beyond the last FLOW_SHORTEST */
    size_t policy_count;
    uint8_t order[MRAIL_RAILS]; /* rails, the nearest first */
    unsigned first;             /* the rail that small messages begin with */
    unsigned near;              /* a bit for each rail that is as near as that one */
    /* Sends a packet by a rail: the head lacks `to` and the introduction. message: whose payload
     * it has, or NULL; not used later. False: not now. */
    bool (*transmit)(struct flow *flow, unsigned rail, struct mrail_head *head,
                     struct flow_message *message);
    /* A message has come. own: as its sender set it. */
    void (*deliver)(struct flow *flow, const uint8_t *bytes, size_t len, bool own);
    /* A message is the caller's again: 0, the peer has it; an error number. May send. */
    void (*done)(struct flow *flow, struct flow_message *message, int err);
    /* A rail is down (err: why, 0: silence) or back. */
    void (*turned)(struct flow *flow, unsigned rail, bool up, int err);
    /* The flow has ended, and begins anew with empty state: packets of the old one must not reach
     * it any more. Called before `done` of its messages. */
    void (*ended)(struct flow *flow, int err);
    /* Of mrail_stripe.c; needed where there are reads. Memory of a stripe, or NULL; and back. */
    struct flow_stripe *(*stripe)(struct flow *flow);
    void (*stripe_put)(struct flow *flow, struct flow_stripe *stripe);
    /* A rail is to fetch it: 0, and flow_stripe_done follows, later; -FI_EAGAIN: not now; or why it
     * does not. */
    int (*stripe_post)(struct flow *flow, unsigned rail, struct flow_stripe *stripe);
    /* Our end of a rail is to be closed, of which flow_rail_closed tells, later. Stripes may still
     * end until then. */
    void (*abandon)(struct flow *flow, unsigned rail);
    /* A read is the caller's again. */
    void (*read_done)(struct flow *flow, struct flow_read *read, int err);
};

/* Of the caller's; it lives until `done`. */
struct flow_message {
    struct list link; /* in waiting, moved, or a path's flying */
    uint64_t serial, sent;
    uint32_t len;
    uint8_t rail; /* that it is on; FLOW_NO_RAIL */
    bool again;   /* it was sent before: its acknowledgement says nothing of this rail */
    bool own;     /* it is of the join's, not the upper's */
    bool patient; /* `done` may come with the next flow_run or flow_settle, if the peer has it */
    bool stripe;  /* it is that of a struct flow_stripe, and in `flying` alone */
};

struct flow {
    const struct flow_config *config;
    struct flow_path *paths;                /* the caller's */
    unsigned count;                         /* rails of ours; a path may be PATH_NONE */
    struct list waiting, moved;             /* not sent yet; to be sent again, by serial */
    uint64_t backlog;                       /* bytes of both */
    struct list reads;                      /* struct flow_read */
    struct list ended;                      /* patient ones that the peer has */
    struct flow_message *ring[FLOW_WINDOW]; /* sent, by serial */
    uint64_t next_out, acked;               /* serials: the next; the lowest not acknowledged */
    uint64_t limit;                         /* the first that may not be sent */
    unsigned turn, favourite;               /* rails */
    bool follows;                           /* set by the caller: to take the peer's favourite */
    struct serial in;
    uint64_t in_bits[FLOW_WINDOW / SERIAL_WORD];
    uint64_t told; /* the limit that the peer was told */
    size_t kept;   /* set by the caller: messages that wait for a receive */
    bool shut;     /* set by the caller: no more of them */
    unsigned owed; /* messages that came since an acknowledgement left */
    uint64_t owed_since;
    bool ack_now;
    unsigned ack_rail;               /* by which something came last */
    uint64_t heard;                  /* when */
    uint64_t busy_since;             /* 0: nothing to be acknowledged */
    uint64_t worked;                 /* ns with something to be acknowledged, before that */
    uint64_t checked;                /* when all rails were looked after last */
    uint64_t absent_from, absent_to; /* the last time that the peer was absent (PATH_ABSENT) */
};

/* Of count paths, in memory of the caller's that is zeroed; all of them are PATH_NONE until
 * flow_add_path. */
void flow_init(struct flow *flow, const struct flow_config *config, struct flow_path *paths,
               unsigned count);
void flow_add_path(struct flow *flow, unsigned rail);

/* A message with its len set. flow_run is to follow. */
void flow_send(struct flow *flow, struct flow_message *message);
/* The same, and it leaves at once: only where nothing stands before it, and all that flow_run looks
 * after was looked at a moment ago. Returns when to call flow_run at the latest; 0: it is to be
 * sent by flow_send. Not from inside of the flow. */
uint64_t flow_send_now(struct flow *flow, struct flow_message *message, uint64_t now);
/* The same of a small message with nothing under way before it, for which no time is needed: it has
 * left by that rail, and flow_sent is to follow. FLOW_NO_RAIL: it has not; flow_send_now may do. */
unsigned flow_send_lone(struct flow *flow, struct flow_message *message);
/* When to call flow_run at the latest; `now`: at once. */
uint64_t flow_sent(struct flow *flow, struct flow_message *message, unsigned rail, uint64_t now);
/* A packet of the peer's came by a rail of ours: NULL, or what is wrong with it. */
const char *flow_receive(struct flow *flow, unsigned rail, const struct mrail_head *head,
                         const uint8_t *payload, size_t len, uint64_t now);
/* The lower of a rail refused something, or lost it. */
void flow_rail_failed(struct flow *flow, unsigned rail, int err, uint64_t now);

/* The link of a rail is down, or up again: it is down at once, without a word of its lower, or
 * asked at once. */
void flow_rail_link(struct flow *flow, unsigned rail, bool up, uint64_t now);

/* Sends what is to be sent. Returns when to call it again at the latest; UINT64_MAX: never. */
uint64_t flow_run(struct flow *flow, uint64_t now);
/* After flow_receive, instead of flow_run, where that would do nothing but look for something to
 * do: when to call flow_run at the latest, or when it was said to be called before, if that is
 * sooner. 0: at once. */
uint64_t flow_settle(struct flow *flow);
/* May flow_settle wait a little, until what the message that came brings about has been done? */
static inline bool flow_may_settle_later(const struct flow *flow)
{
    return list_empty(&flow->waiting) && list_empty(&flow->moved) && list_empty(&flow->reads) &&
           !flow->ack_now && flow->owed < FLOW_ACK_EVERY;
}
/* Before a sleep: what is owed to the peer is to be sent. True: run it. */
bool flow_flush(struct flow *flow);
/* All messages end with err, and the flow begins anew. */
void flow_end(struct flow *flow, int err);

/* Has it messages that the peer has not acknowledged, or reads? */
static inline bool flow_waits(const struct flow *flow)
{
    return flow->acked != flow->next_out || !list_empty(&flow->waiting) ||
           !list_empty(&flow->reads);
}

/* The same, or messages whose end has not been told. */
static inline bool flow_busy(const struct flow *flow)
{
    return flow_waits(flow) || !list_empty(&flow->ended);
}

/* ns in which it was. */
static inline uint64_t flow_worked(const struct flow *flow, uint64_t now)
{
    return flow->worked + (flow->busy_since ? now - flow->busy_since : 0);
}

/* Is there a rail that is up, beside one (FLOW_NO_RAIL)? */
bool flow_has_rail(const struct flow *flow, unsigned but);

/* ---- mrail_stripe.c ---- */

/*
 * Reads of the peer's memory, cut in stripes that the rails fetch themselves. Pure.
 *
 * A stripe goes by the rail of the shortest expected end, and counts as under way there as a
 * message does. The bytes are written by the rail, so a stripe is posted again only when it has
 * ended: with its completion, or when our end of the rail is closed (`abandon`, flow_rail_closed).
 * So no byte of a read lands after it has ended.
 *
 * Reads end with an error where the flow ends, a stripe has failed on FLOW_STRIPE_TRIES rails, or
 * the peer does not say where the bytes are. The time of a stripe says as much of its rail as the
 * acknowledgement of a message.
 */
enum {
    FLOW_STRIPES = 64, /* of one read, under way */
    FLOW_STRIPE_TRIES = 3,
    FLOW_STRIPE_AHEAD = 3,          /* of a rail at least, so that it is busy while one has ended */
    FLOW_STRIPE_PARTS = 64,         /* of a read, unless that makes them too small or large */
    FLOW_STRIPE_LEAST = 61440,      /* bytes */
    FLOW_STRIPE_MOST = 1024 * 1024, /* bytes */
    FLOW_STRIPE_SHUNNED = 8, /* rail timeouts in which such a rail, or one that failed, is left */
    FLOW_STRIPE_SILENT = 2,  /* rail timeouts without the end of one, on a rail that lives */
};

/* Of the caller's; it lives until `read_done`. */
struct flow_read {
    struct list link; /* of the flow */
    struct list again;
    uint64_t len, next; /* bytes; the first that no stripe was made for */
    uint32_t piece;     /* of a stripe */
    unsigned rails;     /* a bit for each that reads it */
    bool known;         /* they are; until then it waits */
    unsigned flying;    /* stripes */
    uint64_t since;
    int err;
};

/* Memory of the caller's, from config->stripe. */
struct flow_stripe {
    struct flow_message message; /* its serial counts tries */
    struct flow_read *read;
    uint64_t at;
};

/* Begins a read of len bytes, in stripes of up to `most`. */
void flow_read_start(struct flow *flow, struct flow_read *read, uint64_t len, uint32_t most,
                     uint64_t now);
/* These rails read it; none: it ends with FI_EACCES. */
void flow_read_known(struct flow_read *read, unsigned rails);
/* The read is to end with FI_ECANCELED: rails that have stripes of it are abandoned. flow_run is to
 * follow once they are closed. */
void flow_read_stop(struct flow *flow, struct flow_read *read);
/* A stripe has ended, with an error or 0. Runs nothing: flow_run is to follow. */
void flow_stripe_done(struct flow *flow, struct flow_stripe *stripe, int err, uint64_t now);
/* Our end of a rail was closed: nothing that it had will land. flow_run is to follow. */
void flow_rail_closed(struct flow *flow, unsigned rail);

/* ---- Among the files of the flow ---- */

/* How packets of so many bytes choose their rail. */
enum flow_way flow_way_for(const struct flow *flow, uint64_t len);
/* The rail of small messages and of fixed ones, or FLOW_NO_RAIL. */
unsigned flow_favourite(struct flow *flow);
/* The peer is there. */
void flow_hear(struct flow *flow, uint64_t now);
/* Sends a packet without payload. False: not now. */
bool flow_transmit_plain(struct flow *flow, unsigned rail, enum mrail_type type, uint32_t serial);
/* Takes what is on a path off it, to be sent again. */
void flow_move_all(struct flow *flow, unsigned rail);
/* The same with what left well before a probe that was answered: it is lost. */
void flow_move_older(struct flow *flow, unsigned rail, uint64_t probed);

/* Posts what may be posted, and ends what is over. True: something was posted; *due: when to look
 * again, if that is sooner. */
bool stripes_run(struct flow *flow, uint64_t now, uint64_t *due);
/* The path has stripes, and is to have none. */
void path_abandon(struct flow *flow, unsigned rail);
/* All reads end with err, as soon as no rail has anything of them. */
void stripes_end(struct flow *flow, int err);
/* Bytes of stripes on a path. */
uint64_t path_stripe_bytes(const struct flow_path *path);

#endif

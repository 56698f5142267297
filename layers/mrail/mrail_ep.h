/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint: towards the upper core/layer/packet_ep.h, one of each rail's below, and peers, each
 * with a session while something is under way, which has a flow (mrail_flow.h). Everything is
 * guarded by the progress domain's lock.
 *
 *   the application posts   mrail_send.c      message -> flow -> packets -> a rail
 *   a rail completes        mrail_rail.c      packets wait in `arrived`
 *   progress                mrail_run.c       arrived -> flow -> mrail_receive.c; deadlines
 *   who sent it             mrail_peer.c
 *   what is under way       mrail_session.c
 *   reads                   mrail_read.c      op -> flow -> stripes -> a rail's reader
 *
 * A flow is run from mrail_run only.
 *
 * A packet is copied once from the application's buffer into memory that its rail sends from, each
 * time it leaves. So it ends when the peer has it, whatever a rail that is dead still holds.
 */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_EP_H
#define WEFT_LAYERS_MRAIL_MRAIL_EP_H

#include "core/av/peer_map.h"
#include "core/base/ids.h"
#include "core/base/seam.h"
#include "core/domain/mr_pool.h"
#include "core/layer/lower_source.h"
#include "core/layer/packet_ep.h"
#include "core/layer/silence.h"
#include "layers/mrail/mrail_domain.h"
#include "layers/mrail/mrail_flow.h"
#include "layers/mrail/mrail_intro.h"
#include "layers/mrail/mrail_policy.h"
#include "layers/mrail/mrail_rest.h"

enum {
    MRAIL_BUCKETS = 256,
    MRAIL_HEAD_ROOM = 1024, /* bytes of small packets that are sent */
};

#define MRAIL_NO_ADDR UINT32_MAX

struct mrail_ep;
struct mrail_keys;

/* Memory of one packet, of a rail's. */
struct mrail_packet {
    struct mr_buffer buffer; /* of a pool of the rail's */
    struct mrail_ep *ep;
    struct mr_pool *pool;
    struct list link; /* in arrived, saved, reading */
    uint8_t rail;
    bool receives;
    bool stripe;    /* its bytes are a struct flow_stripe (mrail_read.c) */
    int err;        /* of such a one that has ended */
    uint64_t peer;  /* its number: out: that it goes to; saved: that it is of */
    uint32_t src;   /* in: as the rail tells, in its AV; MRAIL_NO_ADDR: it does not */
    size_t at, len; /* of the bytes that count */
    unsigned tries; /* saved: more that a reader is given */
    _Alignas(8) uint8_t bytes[];
};

/* An operation of the application that sends something. */
struct mrail_send {
    struct flow_message message;
    void *context;
    bool wanted; /* a completion is */
    size_t count;
    struct iovec iov[RECV_QUEUE_IOV];
    void *copy; /* that iov points to, of ep->copies, or NULL */
};

/* The endpoint on one rail. */
struct mrail_way {
    struct mrail_ep *ep;
    struct fid_domain *domain;
    struct fid_ep *fid;
    struct op_target target;
    struct fid_av *av;
    struct lower_source source;
    struct fid_peer_cq sink; /* of its completions */
    size_t inject;           /* bytes that it copies */
    size_t fed, feed;        /* receives that it has, and should have */
    size_t feed_batch;       /* that are posted together, at least */
    size_t sending;          /* packets that it has */
    size_t completed;        /* of both, ever: what a look has found */
    struct silence silence;
    struct mr_pool heads, wholes, receives;
    unsigned down; /* peers to whom it is down while others are up */
    unsigned link; /* index of its interface; 0: it is none */
    bool unlinked; /* whose link is down */
    /* mrail_read.c */
    struct fid_ep *reader; /* fetches stripes; NULL: none has been fetched yet */
    struct fi_info *reader_info;
    struct op_target reader_target;
    struct list reading; /* struct mrail_packet: stripes that it has */
    bool abandoned;      /* it is to be closed */
    uint64_t last_key;
};

/* Links, as the kernel tells of them: mrail_link.c. */
struct mrail_links {
    struct progress_source source; /* fd -1: nothing */
    uint64_t next;                 /* ns: when a reader that does not sleep looks again */
    bool slept;
};

/* A peer on one rail. */
struct mrail_peer_rail {
    uint32_t lower;             /* in the rail's AV; MRAIL_NO_ADDR: it is not on it */
    struct flow_rest_path kept; /* while the peer rests */
};

/*
 * A peer that was sent to, or heard of. While nothing is under way it rests: it has no session, and
 * these few bytes are all that it costs.
 */
struct mrail_peer {
    struct mrail_peer *next; /* of the bucket */
    union {
        struct mrail_session *session; /* unless it rests */
        uint8_t *name;                 /* of one that rests and is not in the AV */
    };
    struct mrail_intro intro; /* its number is of ep->numbers */
    uint32_t addr;            /* the upper's; MRAIL_NO_ADDR: not in the AV */
    uint32_t hash;            /* of its name */
    struct flow_rest rest;
    struct mrail_peer_rail rail[]; /* of each of its endpoint's */
};

/* Messages and packets of a peer that are under way. */
struct mrail_session {
    struct flow flow;
    struct mrail_ep *ep;
    struct mrail_peer *peer;
    int failed[MRAIL_RAILS]; /* what a lower said, for the next run; 0: nothing */
    struct list ready;       /* in ep->up.ready, or (late) ep->late */
    bool late;
    struct timer timer;
    bool told_down[MRAIL_RAILS]; /* counted in way.down */
    const uint8_t *name;         /* in the same memory, of ep->name_size bytes */
    struct flow_path paths[];    /* of each of its endpoint's rails */
};

struct mrail_ep {
    /* In it: struct mrail_session ready; struct mrail_send sends; struct mrail_packet arrived,
     * saved. */
    struct packet_ep up;
    struct mrail_domain *domain;
    struct mrail_way way[MRAIL_RAILS];
    unsigned count;
    struct flow_config config;
    struct flow_policy policies[MRAIL_POLICIES];
    uint8_t name[MRAIL_ADDR_MAX];
    size_t name_size;
    struct peer_map map;
    struct mrail_peer *buckets[MRAIL_BUCKETS];
    struct ids numbers;
    size_t strangers, strangers_most; /* peers that the AV does not have */
    uint64_t forgot; /* ns: when strangers with nothing under way were forgotten last */
    uint64_t last_epoch;
    bool enabled, driven, closing;
    struct list late;       /* struct mrail_session: to be settled with the next look, */
    uint64_t late_ns;       /* packets having come at this time */
    bool abandons;          /* a way is abandoned */
    struct mrail_way *busy; /* that completed something last, or NULL: it is always looked at */
    unsigned waits;         /* looks with nothing to do but deadlines */
    struct mrail_links links;
    struct pool copies;     /* of up.copy_size */
    struct mr_pool stripes; /* packets that are such */
    struct pool reads;      /* struct mrail_read */
    uint32_t last_read, stripe_most;
    struct list regions;          /* struct mrail_region, of mrail_mr.c */
    struct mrail_packet *current; /* that a flow looks at; NULL: it was kept */
    struct event_target events;   /* where rails are told of; eq NULL: nowhere */
    struct packet_reader reader;  /* read NULL: messages go to receives */
    long long told_ms;            /* when the log was told of a bad packet last; 0: never */
};

static inline struct mrail_ep *mrail_ep_of(const struct endpoint *base)
{
    return object_of(base, struct mrail_ep, up.base);
}

static inline struct mrail_ep *mrail_ep_of_packets(const struct packet_ep *up)
{
    return object_of(up, struct mrail_ep, up);
}

int mrail_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                  void *context);

/* ---- mrail_rail.c ---- */

int mrail_way_open(struct mrail_ep *ep, unsigned rail);
/* Does its part of fi_enable. */
int mrail_way_enable(struct mrail_way *way);
/* Takes what was never opened. Progress domain unlocked. */
void mrail_way_close(struct mrail_way *way);
void mrail_way_feed(struct mrail_way *way);
void mrail_packet_put(struct mrail_packet *packet);
/* Sends the packet. flags: 0, its end is not told; FI_COMPLETION; with FI_TRANSMIT_COMPLETE the
 * rail tells, too, that the peer is not there. 0, -FI_EAGAIN, or the rail's error; then the packet
 * is the caller's still. */
ssize_t mrail_way_send(struct mrail_way *way, struct mrail_packet *packet, fi_addr_t to,
                       uint64_t flags);

/* ---- mrail_peer.c ---- */

/* The session with the peer of an fi_addr_t, made on its first use. -FI_EINVAL: it is not in the
 * AV; -FI_ENOMEM. */
int mrail_session_at(struct mrail_ep *ep, fi_addr_t addr, struct mrail_session **session);
/* That with the peer that sent a packet, or NULL: it is to be dropped. wrong: set if that is to be
 * told. */
struct mrail_session *mrail_session_from(struct mrail_ep *ep, const struct mrail_packet *packet,
                                         const struct mrail_head *head, const char **wrong);
/* The name of a peer, or NULL: it rests, and its address has been removed. */
const uint8_t *mrail_peer_name(const struct mrail_ep *ep, const struct mrail_peer *peer);
/* The peer has a new state now: packets of the old one lead nowhere. */
void mrail_peer_renew(struct mrail_ep *ep, struct mrail_peer *peer);
void mrail_peers_take_changes(struct mrail_ep *ep);
void mrail_peers_finish(struct mrail_ep *ep);

/* ---- mrail_session.c ---- */

/* That with the peer of a number, or NULL: there is none, or it rests. */
struct mrail_session *mrail_session_find(const struct mrail_ep *ep, uint64_t number);
/* That with a peer, made if it rests. NULL: without memory. */
struct mrail_session *mrail_session_wake(struct mrail_ep *ep, struct mrail_peer *peer);
/* The peer rests if nothing is under way, and has not been for a while: the session is gone, and 0.
 * Else when that is to be asked again, or UINT64_MAX. */
uint64_t mrail_session_rest(struct mrail_session *session, uint64_t now);
/* Also one with something under way. */
void mrail_session_free(struct mrail_session *session);

static inline struct mrail_session *mrail_session_of(const struct mrail_peer *peer)
{
    return peer->rest.rests ? NULL : peer->session;
}

/* ---- mrail_send.c ---- */

/* Entry of packet_ep_ops. */
int mrail_send(struct packet_ep *up, const struct op *op);
/* Sends a message of the join's own. -FI_EAGAIN, -FI_ENOMEM. */
int mrail_keys_send(struct mrail_session *session, const struct mrail_keys *keys);
/* Entries of the flow's config. */
bool mrail_transmit(struct flow *flow, unsigned rail, struct mrail_head *head,
                    struct flow_message *message);
void mrail_done(struct flow *flow, struct flow_message *message, int err);

/* ---- mrail_short.c ---- */

/* fi_send by a shorter way. */
void mrail_short_init(struct mrail_ep *ep);

/* ---- mrail_receive.c ---- */

void mrail_deliver(struct flow *flow, const uint8_t *bytes, size_t len, bool own);
/* Packets that were kept meet receives, or their reader again. */
void mrail_receive_run(struct mrail_ep *ep);

/* ---- mrail_mr.c ---- */

/*
 * Memory that peers may read by the rails' own: registered with each rail of the endpoint that it
 * is bound to (fi_mr_bind), whose lock the caller of fi_mr_bind and fi_close holds. Until it is
 * bound no peer can read it. Its address is the virtual one on every rail.
 */
extern struct fi_ops_mr mrail_mr_ops;

/* The keys that the region with that key has on the endpoint's rails; none: there is no such
 * region. */
void mrail_region_keys(const struct mrail_ep *ep, uint64_t key, struct mrail_keys *keys);
/* Its rails are about to be closed. */
void mrail_regions_leave(struct mrail_ep *ep);

/* ---- mrail_read.c ---- */

/* All calls but mrail_read_post: progress domain locked. */
void mrail_reads_init(struct mrail_ep *ep);
void mrail_reads_enable(struct mrail_ep *ep);
/* The endpoint's post, of the group OP_GROUP_RMA. */
ssize_t mrail_read_post(struct mrail_ep *ep, struct op *op);
/* OPT_STOP_READ. */
int mrail_read_stop(struct endpoint *base, const void *value, size_t len);
/* A rail's completion of a stripe, which is the flow's again. */
void mrail_stripe_came(struct mrail_packet *packet, uint64_t now);
/* A message of the join's own. */
void mrail_keys_came(struct mrail_session *session, const uint8_t *bytes, size_t len);
/* Closes the readers that flows have abandoned. Not from inside of a flow. */
void mrail_reads_abandon(struct mrail_ep *ep, uint64_t now);
/* All readers are closed; reads have ended, or end now. */
void mrail_reads_finish(struct mrail_ep *ep);

/* Entries of the flow's config. */
struct flow_stripe *mrail_stripe(struct flow *flow);
void mrail_stripe_put(struct flow *flow, struct flow_stripe *stripe);
int mrail_stripe_post(struct flow *flow, unsigned rail, struct flow_stripe *stripe);
void mrail_abandon(struct flow *flow, unsigned rail);
void mrail_read_done(struct flow *flow, struct flow_read *read, int err);

/* ---- mrail_link.c ---- */

void mrail_links_init(struct mrail_ep *ep);
/* Without what it takes nothing is known of links: rails are found dead by their silence. Progress
 * domain locked, as in what follows. */
void mrail_links_open(struct mrail_ep *ep);
void mrail_links_look(struct mrail_ep *ep, uint64_t now);
void mrail_links_close(struct mrail_ep *ep);

/* ---- mrail_run.c ---- */

void mrail_run(struct mrail_ep *ep);
/* Packets that the reader had no memory for wait for another try. */
static inline bool mrail_has_refused(const struct mrail_ep *ep)
{
    return ep->reader.read && !list_empty(&ep->up.saved);
}
/* Of it: what has arrived goes to its flows. */
void mrail_take_arrived(struct mrail_ep *ep, uint64_t now);
/* A line of the log, one in a minute. */
void mrail_say_wrong(struct mrail_ep *ep, const char *wrong);
void mrail_ready(struct mrail_session *session);
/* poll and trywait of each rail's source. */
void mrail_poll(struct progress_source *source);
int mrail_trywait(struct progress_source *source);
bool mrail_busy(const struct packet_ep *up);
/* Entries of the flow's config. */
void mrail_turned(struct flow *flow, unsigned rail, bool up, int err);
void mrail_ended(struct flow *flow, int err);

/* A message has left without a run. due: as its flow said. */
static inline void mrail_note_due(struct mrail_session *session, uint64_t due, uint64_t now)
{
    if (due > now)
        packet_ep_set_timer(&session->ep->up, &session->timer, due);
    else
        mrail_ready(session);
}

static inline struct mrail_session *mrail_session_of_flow(struct flow *flow)
{
    return object_of(flow, struct mrail_session, flow);
}

#endif

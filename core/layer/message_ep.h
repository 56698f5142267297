/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints that make complete messages, remote memory and atomics of reliable packets: the part
 * of layers over such a lower that belongs to no wire. A layer has a struct message_wire, whose
 * functions (message_wire.h) write and read its packets, and structs that begin with those of here.
 *
 *   message_ep_life     opening to closing        message_ep_post     operations as they are posted
 *   message_ep_run      progress, sleeps          message_ep_receive  messages meet their receives
 *   message_ep_peer     peers, and their ends     message_ep_move     bytes that are asked for
 *   message_ep_packet   packets, out and in       message_ep_remote   accesses, at their target
 *   message_ep_silence  peers that owe an answer  message_domain, message_info
 *   message_sep         scalable endpoints, whose contexts share one endpoint of the lower's
 *
 * Everything is guarded by the lock of the endpoint's progress domain. The lower completes while it
 * is driven; the work that a completion makes necessary is done behind it, by message_run.
 * Functions that take bytes of a peer return what is wrong with them, or NULL.
 */
#ifndef WEFT_CORE_LAYER_MESSAGE_EP_H
#define WEFT_CORE_LAYER_MESSAGE_EP_H

#include <string.h>

#include "core/av/av_watch.h"
#include "core/av/peer_map.h"
#include "core/base/ids.h"
#include "core/base/iov.h"
#include "core/base/pool.h"
#include "core/domain/mr_pool.h"
#include "core/ep/endpoint.h"
#include "core/layer/lower_domain.h"
#include "core/layer/lower_source.h"
#include "core/match/match_forward.h"
#include "core/net/addr.h"
#include "core/op/op.h"
#include "core/op/remote.h"
#include "core/progress/wake_timer.h"

enum {
    MESSAGE_SIZE = 1024, /* of queues whose size no info names */
    MESSAGE_IOV = 4,     /* local segments of an operation */
    MESSAGE_PLACES = 4,  /* its remote segments */
    MESSAGE_MIN_MULTI_RECV = 64,
    MESSAGE_LEAST_PACKET = 576, /* bytes of the smallest packets that such a layer stands on */
    MESSAGE_RECEIVES = 128,     /* posted to the lower, at most */
    MESSAGE_APART = 256,        /* packets out that are of malloc, at most */
    MESSAGE_RECEIVES_SHARE = 8, /* of them: so many are posted together */
    MESSAGE_BUCKETS = 1024,
    MESSAGE_SOURCES = 16, /* from so many on, peers that rest have none */
    MESSAGE_TRIES = 1000, /* to make a peer for a packet: memory may come back */
};

struct message_context;
struct message_ep;
struct message_peer;
struct message_source;
struct message_wire;

/* ---- Numbers that peers are given ---- */

/* A number names a thing of one kind, for one peer: for others it names nothing. */
enum message_kind {
    MESSAGE_SEND, /* struct message_op */
    MESSAGE_WRITE,
    MESSAGE_READ,
    MESSAGE_ATOMIC,
    MESSAGE_INBOUND, /* struct message_inbound */
    MESSAGE_WRITTEN, /* struct message_access, of a peer's write */
    MESSAGE_BEING_READ,
};

enum {
    MESSAGE_OPS = 1 << MESSAGE_SEND | 1 << MESSAGE_WRITE | 1 << MESSAGE_READ | 1 << MESSAGE_ATOMIC,
};

struct message_handle {
    enum message_kind kind;
    struct message_peer *peer;
    uint64_t id; /* of ep->ids, or IDS_NONE */
};

/* ---- Packets and bytes ---- */

/* Memory of one packet, out or in. */
struct message_packet {
    struct mr_buffer buffer;
    struct message_ep *ep;
    struct message_peer *peer; /* NULL: none, or one that has ended meanwhile */
    struct list link;          /* out: to be sent, or with the lower; in: held back */
    struct message_move *move; /* out: whose bytes it is about, or NULL */
    /* Out: it is a whole operation of that context, which ends when the lower has delivered it; of
     * that context and kind, and reported if wanted. NULL: it is not. */
    struct message_context *from;
    void *context;
    uint64_t kind;
    bool wanted;
    bool in;
    bool apart; /* of malloc: longer than those of ep->packets, or one that came, and is kept */
    bool other; /* no packet: the context of something else that the wire does with the lower */
    /* Out, in the peer's `out` alone: its memory is not the lower's to read. It waits for one whose
     * memory is, and gets that one's place: message_packets_equip. */
    bool bare;
    size_t len;     /* in: with the lower's prefix */
    fi_addr_t src;  /* deferred: as the lower told */
    unsigned tries; /* deferred: more that there will be */
};

/* Bytes that leave for a peer, as it asks for them. */
struct message_move {
    struct list link; /* of ep->moving, while there is something to send */
    struct message_peer *peer;
    const struct iovec *iov;
    size_t iov_count;
    size_t at, limit, total; /* sent so far; may be sent; all */
    uint32_t taker;
    unsigned pending;          /* packets that are queued, or with the lower */
    bool direct;               /* they have the memory itself: its operation ends when they have */
    const struct remote *held; /* whose memory it is, or NULL: the operation's */
    void (*idle)(struct message_move *move); /* nothing is left to send or pending */
};

/* Bytes that come from a peer. */
struct message_taker {
    struct message_handle *handle; /* NULL: it takes nothing */
    const struct iovec *iov;
    size_t iov_count;        /* bytes beyond them are dropped */
    size_t got, asked, want; /* all but `got` count from the first byte of the request */
    size_t pull_at;          /* the wire has nothing to ask for until so many bytes are there */
    uint32_t from;           /* the request at the peer that is asked; 0: it need not be */
    bool reads;              /* it is asked as the source of a read */
    /* All is there. May free it. */
    void (*ended)(struct message_taker *taker);
    bool (*alive)(struct message_taker *taker); /* its memory is still there; NULL: it is */
};

/* An operation as it is posted, and the receive context of the peer's that it is for. */
struct message_posting {
    const struct op *op;
    struct message_context *from;
    unsigned context;
};

/* An operation of the application that sends something. */
struct message_op {
    struct message_handle handle;
    struct message_context *from; /* reports it */
    struct list of_peer;
    void *context;
    uint64_t kind;
    bool wanted, answered;
    int err, prov_errno;
    size_t len;
    struct message_move move;
    struct message_taker taker;
    size_t iov_count;
    struct iovec iov[MESSAGE_IOV];
};

/* A message as its completion tells it. */
struct message_told {
    bool tagged, has_data;
    uint8_t context; /* of ours, that it is for */
    uint64_t tag, data;
    size_t size;
};

/* A message that is not delivered with its first packet. */
struct message_inbound {
    struct message_handle handle;
    struct message_taker taker;
    struct list link; /* of the peer */
    struct fi_peer_rx_entry *entry;
    struct message_told told;
    size_t saved; /* bytes that it costs */
    bool matched;
    bool early;   /* its context is not open, so it has met no receives */
    bool lost;    /* its sender is gone, with the rest of it */
    bool receipt; /* its sender waits for one */
};

/* An access, as a peer's packet asks for it. */
struct message_request {
    enum message_kind kind;
    uint64_t function; /* FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC, 0 */
    bool has_data, receipt;
    uint8_t context;            /* of ours, that reports it */
    uint32_t id, number, taker; /* of the wire: its operation; the message's; for its bytes */
    uint32_t datatype, op;
    size_t size, window;
    uint64_t data;
    unsigned place_count;
    const struct fi_rma_iov *places; /* len in bytes; the packet's memory */
    const uint8_t *payload;          /* likewise */
    size_t len;
    bool borrows; /* of a read: the requester's lower may read it, if it is lent */
    /* Of a write: the lower may read all of it from the requester's memory, at these places. 0: it
     * may not. */
    unsigned lent_count;
    const struct fi_rma_iov *lent; /* the caller's memory */
};

/* One that takes more than its packet. */
struct message_access {
    struct message_handle handle;
    struct message_taker taker; /* of a write */
    struct message_move move;   /* of a read */
    struct list link;
    struct remote remote;
    struct message_request request; /* without the packet's memory */
    bool reading;                   /* the wire has the rest of a write read by the lower, */
    bool lost;                      /* and its peer has ended meanwhile */
    size_t fetched;                 /* bytes of that rest that are there */
    unsigned lent_count;            /* as in its request */
    struct fi_rma_iov lent[MESSAGE_PLACES];
    void *loan; /* the wire's, of a read that it lends the memory for; or NULL */
};

/* ---- Peers and endpoints ---- */

struct message_peer {
    fi_addr_t addr;                 /* of the application's AV, or FI_ADDR_UNSPEC */
    struct message_source *sources; /* of messages, for contexts that some came for */
    struct message_ep *ep;
    struct message_peer *next; /* of the bucket */
    fi_addr_t lower;           /* in the lower's AV */
    struct list attended;      /* in ep->attention or ep->stalled */
    struct list broken;        /* in ep->broken */
    int16_t err, code;         /* of its end: FI_E, and the lower's prov_errno or 0 */
    bool heard;                /* since it was last looked for */
    bool gone;                 /* it has ended, and has said nothing since */
    unsigned busy;             /* accesses under way */
    unsigned takes;            /* takers that are owed something */
    struct list ops;           /* struct message_op.of_peer */
    struct list out, flying; /* packets: data and answers that wait for the lower; with the lower */
    struct list inbounds, accesses;
};

/* An application posts on it, and reads the ends in its queues. */
struct message_context {
    union {
        struct endpoint endpoint;
        struct fid_ep fid; /* endpoint.fid */
    };
    struct message_ep *ep; /* that carries them out */
    struct match *match;   /* NULL with an upper's context */
    size_t used;           /* operations under way */
    uint32_t close_ms;     /* that fi_close waits for peers */
    unsigned index;        /* of a context of a scalable endpoint */
    bool top, closing;
};

struct message_ep {
    union {
        struct message_context own; /* of a scalable endpoint its application does not see it */
        struct endpoint endpoint;   /* own.endpoint */
        struct fid_ep fid;          /* own.endpoint.fid */
    };
    const struct message_wire *wire;
    struct message_context **rx; /* of a scalable endpoint, where open; NULL: it is none */
    unsigned rx_count;
    struct endpoint_ops calls; /* with the wire's options */
    struct progress *progress; /* once enabled; before that one without a lock */
    struct lower_domain *domain;
    struct fi_info *info, *lower_info;
    struct fid_ep *lower;
    struct op_target target; /* of the lower */
    struct fid_av *lower_av;
    struct lower_source cq;
    struct cq_sink sink;
    struct av_watch watch;
    bool user_ids, source_err, running, closing;
    int code;           /* prov_errno of the lower's error that is being told, or 0 */
    bool driven;        /* the lower is enabled, and not being closed: progress may drive it */
    size_t prefix;      /* in front of packets */
    size_t packet_size; /* bytes of a packet without it */
    size_t operand;     /* bytes of an operand of an atomic, at most */
    size_t result_room; /* bytes of a result in a packet */
    size_t result_most; /* of an atomic's result */
    unsigned ahead;     /* packets of one move with the lower */
    struct mr_pool packets;
    struct pool ops;
    struct ids ids;             /* struct message_handle */
    struct message_handle none; /* has number 0 */
    uint32_t salt;              /* numbers on the wire are xored with it */
    struct peer_map map;
    struct message_peer **buckets;
    struct list sources; /* struct message_source, of an ordinary endpoint, oldest first */
    unsigned source_count;
    struct list attention, stalled, broken, moving;
    struct list deferred;      /* packets of peers for which there was no memory */
    unsigned posted, receives; /* with the lower; as many as there should be */
    unsigned receives_most;    /* the same, while there may be more packets */
    size_t narrow;             /* so many packets there were when there was no other one; or 0 */
    size_t bare;               /* packets that are */
    struct list spare;         /* packets for answers that there is no other memory for; */
    unsigned spares, spares_wanted; /* so many; and so many there are to be */
    unsigned flying;                /* sends with the lower */
    size_t outgoing;                /* packets that have not been sent, or are with the lower */
    unsigned apart;                 /* of these, those of message_packet_get_apart */
    size_t starved;          /* as many there were when there was no memory for one more; or 0 */
    size_t owed;             /* of these: carry operations that have ended */
    size_t used;             /* operations of the application, of all contexts */
    size_t takes;            /* takers */
    struct wake_timer timer; /* ends sleeps at ask_ms */
    long long ask_ms;        /* when silent peers are asked next; 0: no timer is set */
    unsigned polls;          /* of the lower: not each of them looks at the clock */
    bool counts;             /* the wire wants to know how time passes: */
    uint32_t seconds;        /* since it is driven, about */
    long long second_ms;     /* when the next one begins */
    size_t saved, saved_limit;
    bool saved_said;
    long long told_ms, full_ms; /* when the log was told of a bad packet, of full memory; or 0 */
};

/* ---- Endpoints, their progress ---- */

/* The context that a peer names, or NULL: it is not open. */
static inline struct message_context *message_context_at(struct message_ep *ep, unsigned index)
{
    if (__builtin_expect(!ep->rx, 1))
        return index ? NULL : &ep->own;
    return index < ep->rx_count ? ep->rx[index] : NULL;
}

/* One that is not open may be opened. */
static inline bool message_context_may_come(const struct message_ep *ep, unsigned index)
{
    return ep->rx && index < ep->rx_count;
}

/* The first rows of struct message_wire.options. Shared memory is the lower's affair. */
int message_set_shared_memory(struct endpoint *ep, const void *value, size_t len);
#define MESSAGE_OPTIONS                                                                            \
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED,                                                       \
     .kind = OPTION_FUNCTION,                                                                      \
     .set = message_set_shared_memory},                                                            \
    {                                                                                              \
        .name = OPT_CLOSE_WAIT, .kind = OPTION_FIELD,                                              \
        .at = offsetof(struct message_context, close_ms)                                           \
    }

/* fi_endpoint. */
int message_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                    void *context);
/* For a scalable endpoint: one with `count` receive contexts in rx. */
int message_ep_create(struct lower_domain *domain, const struct fi_info *info,
                      struct message_context **rx, unsigned count, struct message_ep **ep);
/* Entries of struct endpoint_ops. */
int message_ep_enable(struct endpoint *ep);
int message_ep_close(struct endpoint *ep);
size_t message_limit(struct endpoint *ep, int option);
size_t message_tx_used(const struct endpoint *ep);
/* For endpoint_init, all but fclass, context and ops. */
void message_context_init(struct message_context *context, struct message_ep *ep,
                          struct endpoint_attr *attr);
/* The context's operations have time to end, as at fi_close. Progress domain locked; unlocks it
 * meanwhile. */
void message_ops_drain(struct message_context *context);
/* Does all that is to be done: held packets, packets out, data, ends of peers. */
void message_run_all(struct message_ep *ep);
static inline void message_run(struct message_ep *ep)
{
    if (!list_empty(&ep->attention) || !list_empty(&ep->moving) || !list_empty(&ep->broken))
        message_run_all(ep);
}
/* One turn of all that may be waited for. Progress domain locked; unlocks it meanwhile. */
void message_turn(struct message_ep *ep);
/* The source of ep->cq, and the queue that the lower completes into. */
void message_poll_lower(struct progress_source *source);
int message_trywait(struct progress_source *source);
extern struct fi_ops_cq_owner message_sink_ops;
void message_sink_take(struct cq_sink *sink, const struct cq_done *done, size_t count);
/* Asks peers that owe something and are silent, when it is time to. */
void message_silence_run(struct message_ep *ep);
/* Counts ep->seconds. */
void message_seconds_run(struct message_ep *ep);
/* 0: a sleep that begins now ends when that is; -FI_EAGAIN: no sleep. */
int message_silence_sleep(struct message_ep *ep);

/* ---- Peers ---- */

/* The peer of an address of the application's AV, and the context of its that the address names:
 * 0, -FI_EINVAL, -FI_ENOMEM. */
int message_peer_at(struct message_ep *ep, fi_addr_t addr, struct message_peer **peer,
                    unsigned *context);
/* The peer of a name, or NULL. */
struct message_peer *message_peer_find(struct message_ep *ep, const void *name);
/* The same, made if need be; NULL without memory, or where the lower refuses it. */
struct message_peer *message_peer_of(struct message_ep *ep, const void *name);
/* Ends with the next message_run; why: for the log, or NULL. */
void message_peer_break(struct message_peer *peer, int err, const char *why);
/* Is err one that the peer cannot know of by itself? */
bool message_is_ours(int err);
/* All that is under way ends with err; during fi_close without a report. */
void message_peer_drop(struct message_peer *peer, int err);
/* The next message_run looks at it. */
static inline void message_peer_attend(struct message_peer *peer)
{
    list_detach(&peer->attended);
    list_attach(&peer->attended, &peer->ep->attention);
}

/* The lower takes no more of its packets for now. */
void message_peer_stall(struct message_peer *peer);
void message_peers_take_changes(struct message_ep *ep);
/* Is nothing under way with it, and nothing of it kept? */
bool message_peer_is_idle(const struct message_peer *peer);
/* Frees one that is idle, and not in the application's AV; it stays in the lower's. */
void message_peer_forget(struct message_peer *peer, const void *name);
/* Is something under way to a peer that may be there? */
bool message_peers_await(const struct message_ep *ep);
void message_peers_finish(struct message_ep *ep);
/* Ends a context of a scalable endpoint as a receiver of messages: none is under way for it. */
void message_sources_finish(struct message_context *context);
/* As completions report it. */
fi_addr_t message_peer_source(const struct message_peer *peer);

/* ---- Numbers ---- */

/* -FI_ENOMEM. */
int message_handle_open(struct message_handle *handle);
void message_handle_close(struct message_handle *handle);
uint32_t message_handle_id(const struct message_handle *handle);
/* The thing of one of those kinds (1 << kind) that this peer was given that number for, or NULL. */
static inline struct message_handle *message_handle_find(const struct message_peer *peer,
                                                         uint32_t id, unsigned kinds)
{
    struct message_handle *handle = ids_find(&peer->ep->ids, id ^ peer->ep->salt);

    return handle && handle->peer == peer && kinds & 1U << handle->kind ? handle : NULL;
}
/* The same, of an operation. */
struct message_op *message_op_find(const struct message_peer *peer, uint32_t id, unsigned kinds);

/* ---- Packets ---- */

static inline void message_packet_init(struct message_packet *packet, struct message_peer *peer)
{
    peer->ep->outgoing++;
    packet->ep = peer->ep;
    packet->peer = peer;
    packet->move = NULL;
    packet->from = NULL;
    packet->in = packet->other = packet->bare = packet->apart = false;
    packet->len = 0;
    list_init(&packet->link);
}

/* There is no packet: NULL. From now on receives have no more than a half of them. */
struct message_packet *message_packet_none(struct message_ep *ep);

/* One to that peer, which is in no queue; NULL without memory. */
static inline struct message_packet *message_packet_get(struct message_peer *peer)
{
    struct message_packet *packet = mr_pool_get(&peer->ep->packets);

    if (__builtin_expect(!packet, 0))
        return message_packet_none(peer->ep);
    message_packet_init(packet, peer);
    return packet;
}

/* The same with so many bytes behind it, in memory that is not registered with the lower; also NULL
 * where MESSAGE_APART of them are under way. */
struct message_packet *message_packet_get_apart(struct message_peer *peer, size_t bytes);

/* The same of what cannot be refused, as an answer: without a packet that the lower takes it is a
 * bare one, if need be a spare one. It goes into the peer's `out`. NULL: there is no memory at all.
 */
struct message_packet *message_packet_get_any(struct message_peer *peer);
/* Are all the spare ones there that the wire wants? Without them nothing should be begun that an
 * answer belongs to. */
bool message_spares_fill(struct message_ep *ep);
void message_spares_free(struct message_ep *ep);
static inline bool message_has_spares(struct message_ep *ep)
{
    return __builtin_expect(ep->spares >= ep->spares_wanted, 1) || message_spares_fill(ep);
}

/* The peer's packets that are bare get memory of the lower's, in turn. The first one for which
 * there is none, and all packets behind it, are moved to `rest`. */
void message_packets_equip(struct message_peer *peer, struct list *rest);
/* Of one in a peer's `out`, which may be bare. */
void message_packet_drop(struct message_packet *packet);

/* Of one that is apart. */
void message_packet_free(struct message_packet *packet);
/* Of one that came, and is in no list. */
static inline void message_packet_put_in(struct message_packet *packet)
{
    if (__builtin_expect(packet->apart, 0))
        message_packet_free(packet);
    else
        mr_pool_put(&packet->ep->packets, packet);
}

static inline void message_packet_put(struct message_packet *packet)
{
    list_detach(&packet->link);
    if (packet->in) {
        message_packet_put_in(packet);
        return;
    }
    packet->ep->outgoing--;
    if (__builtin_expect(packet->apart, 0))
        message_packet_free(packet);
    else
        mr_pool_put(&packet->ep->packets, packet);
}

void message_packets_put(struct list *packets);
/* Slices of the application's memory behind a packet. */
struct message_slices {
    const struct iovec *iov;
    void *const *desc; /* the lower's, one for each; NULL: it needs none */
    size_t count;
};

/* Gives it to the lower, len bytes from start on and the slices: true. Else it is the first of
 * `queue`, and the peer has broken unless the lower is only full. A lower may look at what comes
 * while it sends: other packets may leave meanwhile, and where all that was with the peer ends, a
 * packet that the lower does not take is gone, too (true). */
bool message_packet_send(struct message_packet *packet, struct list *queue, const void *start,
                         size_t len, const struct message_slices *slices, bool more);
/* The same of one in no queue, whose end need not be told at once, by the lower's fi_send. */
bool message_packet_send_lone(struct message_packet *packet, const void *start, size_t len);
/* The same of several, which have their packets for context, in one call of the lower's: how many,
 * from the first on, it took. The others are in no queue, and go by the function above. */
size_t message_packets_send(struct message_peer *peer, const struct ep_send *sends, size_t count);
/* Could the lower take any so? */
static inline bool message_sends_several(const struct message_ep *ep)
{
    return ep->target.ep && ep->target.ep->send;
}
/* The lower is through with it: puts it. */
void message_packet_sent(struct message_packet *packet, int err);
/* Posts receives to the lower; its error. */
int message_in_fill(struct message_ep *ep);
/* So many of them are missing that it is worth while. */
static inline bool message_in_lacks(const struct message_ep *ep)
{
    return ep->posted < ep->receives - ep->receives / MESSAGE_RECEIVES_SHARE;
}
void message_in(struct message_packet *packet, size_t len, fi_addr_t src);
/* Looks again at packets whose peers there was no memory for. */
void message_in_deferred(struct message_ep *ep);
/* Tells the log, once a minute. */
void message_say_wrong(struct message_ep *ep, const char *wrong);
/* Are more bytes of unmatched messages kept than may be? */
bool message_is_full(struct message_ep *ep);

/* ---- Operations ---- */

/* Entries of struct endpoint_ops. */
ssize_t message_post(struct ep *ep, struct op *op);
int message_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                         size_t *count);
/* A record of one; named: with a number. NULL without memory. */
struct message_op *message_op_get(struct message_peer *peer, const struct message_posting *posting,
                                  enum message_kind kind, bool named);
/* The same of a message that is answered, without a number, and of which no bytes move but those of
 * its packet. */
struct message_op *message_op_get_brief(struct message_peer *peer,
                                        const struct message_posting *posting);
/* The end of such a one, without an error. */
void message_op_end_brief(struct message_op *op);
/* Makes a packet the whole of an operation (its move stays NULL): once it has left, or cannot, it
 * is reported. */
void message_packet_is_op(struct message_packet *packet, const struct message_posting *posting);
/* The end of one, whatever the lower does with the packet. */
void message_packet_end_op(struct message_packet *packet, int err);
/* There was no packet for it: -FI_EAGAIN if some will come back, which are on their way or hold
 * what came before its turn; -FI_ENOMEM if all are those that the lower receives into. */
ssize_t message_op_refuse(const struct message_ep *ep);
/* The same; nothing was sent of it. */
ssize_t message_op_give_up(struct message_op *op);
void message_op_copy_segments(struct message_op *op, const struct op *post);
/* Of an atomic: writes elements and comparands; takes over where its result goes, and returns the
 * bytes of one operand. */
void message_op_put_operands(const struct op *post, uint8_t *payload);
size_t message_op_set_result(struct message_op *op, const struct op *post);
/* Ends it if nothing of it is outstanding. */
void message_op_settle(struct message_op *op);
/* Its end, whatever is outstanding; reports unless the endpoint is being closed. */
void message_op_end(struct message_op *op, int err);
/* prov_errno of an operation that ends with that err. */
int message_code_of(const struct message_ep *ep, int err);
/* The peer has answered; err: 0, or a positive FI_E code, with which nothing more moves. */
void message_op_answered(struct message_op *op, int err, int prov_errno);

/* ---- Bytes that move ---- */

void message_move_run(struct message_ep *ep);
/* Up to that limit may leave. */
void message_move_start(struct message_move *move, size_t limit);
/* No more are sent than were. */
void message_move_stop(struct message_move *move);
/* All of its packets are forgotten. */
void message_move_drop(struct message_move *move);
/* One of its packets is with the lower no more. more: others may follow. */
void message_move_sent(struct message_move *move, bool more);
/* The move or the taker of what a handle names. */
struct message_move *message_move_of(struct message_handle *handle);
static inline struct message_taker *message_taker_of(struct message_handle *handle)
{
    switch (handle->kind) {
    case MESSAGE_INBOUND: return &object_of(handle, struct message_inbound, handle)->taker;
    case MESSAGE_WRITTEN: return &object_of(handle, struct message_access, handle)->taker;
    default: return &object_of(handle, struct message_op, handle)->taker;
    }
}
/* A taker of bytes from `got` on, up to want, of which those up to `asked` come unasked; then they
 * are asked for from request `from` of the peer. */
void message_take(struct message_taker *taker, struct message_handle *handle, uint32_t from,
                  size_t got, size_t asked, size_t want);
void message_take_stop(struct message_taker *taker);
const char *message_take_bytes(struct message_taker *taker, size_t offset, const uint8_t *bytes,
                               size_t len);
/* Takes bytes that lie in several places. */
const char *message_take_parts(struct message_taker *taker, size_t offset,
                               const struct iovec *parts, size_t count);
/* The same of bytes for one segment, behind which more are on their way. False: it is otherwise, or
 * wrong, and nothing was done. */
static inline bool message_take_more(struct message_taker *taker, size_t offset,
                                     const uint8_t *bytes, size_t len)
{
    const struct iovec *iov = taker->iov;
    size_t got = taker->got + len;

    if (__builtin_expect(!taker->handle || taker->alive || taker->iov_count != 1, 0) ||
        __builtin_expect(len > taker->asked - taker->got || got >= taker->pull_at, 0) ||
        __builtin_expect(offset > iov->iov_len || len > iov->iov_len - offset, 0) ||
        __builtin_expect(got >= taker->want || offset + len > taker->want, 0))
        return false;
    taker->got = got;
    memcpy((char *)iov->iov_base + offset, bytes, len);
    return true;
}

/* ---- Messages ---- */

extern struct fi_ops_srx_peer message_source_ops;
/* As match_entry_get. The context is open. */
int message_match(struct message_peer *peer, const struct message_told *told,
                  struct fi_peer_rx_entry **entry);
/* Ends a message, and gives the entry back. */
void message_deliver(struct message_peer *peer, struct fi_peer_rx_entry *entry,
                     const struct message_told *told, int err);
/* The same, in few instructions, of a whole message of len bytes, without data, for the endpoint's
 * own context: false, and nothing has happened, where it has no receive, or that is not a usual one
 * (match_quick.h). */
bool message_deliver_brief(struct message_peer *peer, bool tagged, uint64_t tag,
                           const uint8_t *bytes, size_t len);
/* Adds one of zeroed memory, which has told and receipt, to its peer. */
void message_inbound_add(struct message_inbound *inbound, struct message_peer *peer, size_t saved);
/* Frees it. */
void message_inbound_put(struct message_inbound *inbound);
/* Queues it with the owner of the receives; NULL: there was no memory for it. */
const char *message_keep(struct message_inbound *inbound, struct fi_peer_rx_entry *entry);
/* It waits for its context to be opened. */
static inline void message_come_early(struct message_inbound *inbound)
{
    inbound->early = true;
}

/* A context was opened: messages that came early meet its receives. Or is being closed: those under
 * way end without a report. */
void message_context_opened(struct message_context *context);
void message_context_abandon(struct message_context *context);
/* It is whole, as far as its receive has room, or lost. */
void message_inbound_end(struct message_inbound *inbound, int err);
/* All that came from the peer ends with err; or, at fi_close, stays with an upper's context. */
void message_inbounds_fail(struct message_peer *peer, int err);

/* ---- Accesses, at their target ---- */

const char *message_remote(struct message_peer *peer, const struct message_request *request);
/* Takes the remote's regions over, in any case. NULL without memory. */
struct message_access *message_access_begin(struct message_peer *peer,
                                            const struct message_request *request,
                                            struct remote *remote);
void message_access_put(struct message_access *access);
/* It was carried out: its requester, and what counts it, are told; then message_access_put. */
void message_access_end(struct message_access *access);
/* The lower is through with what wire->fetch began: err, or 0. The rest is asked for then. */
void message_access_fetched(struct message_access *access, int err);
/* It was carried out: counters of its regions, and of the endpoint. */
void message_access_count(struct message_peer *peer, const struct message_request *request,
                          const struct remote *remote);
void message_remote_fail(struct message_peer *peer);

#endif

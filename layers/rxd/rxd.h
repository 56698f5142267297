/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of rxd: messages, remote memory and atomics over reliable packets. docs/design/rxd.md has
 * the whole.
 *
 *   rxd_ep      the life of endpoints          rxd_post     operations become requests
 *   rxd_peer    peers, and their ends          rxd_out      packets out
 *   rxd_in      packets in, in their order     rxd_message  messages meet their receives
 *   rxd_move    bytes that are asked for       rxd_remote   accesses, at their target
 *   rxd_read    bytes that the lower reads
 *   rxd_silence peers that owe an answer
 *
 * Everything is guarded by the lock of the endpoint's progress domain. The lower completes while it
 * is driven; what a completion makes necessary is done behind it, by rxd_run.
 */
#ifndef WEFT_LAYERS_RXD_RXD_H
#define WEFT_LAYERS_RXD_RXD_H

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
#include "core/op/op.h"
#include "core/op/remote.h"
#include "core/part/part.h"
#include "core/progress/wake_timer.h"
#include "layers/rxd/rxd_wire.h"

enum {
    RXD_SIZE = 1024, /* of queues whose size no info names */
    RXD_IOV = 4,     /* local segments of an operation */
    RXD_INJECT = 1024,
    RXD_FIRST = 2048,       /* bytes with the request of what is larger than a packet */
    RXD_CORK = 4,           /* packets with the lower, behind which small requests are gathered */
    RXD_DIRECT = 1024,      /* bytes of a packet from which on they are not copied into it */
    RXD_LEAST_PACKET = 576, /* bytes of the smallest packets that it stands on */
    RXD_MIN_MULTI_RECV = 64,
    RXD_WINDOW = 128, /* ordered packets that a peer may send beyond those carried out */
    RXD_BUCKETS = 1024,
};

struct rxd_ep;
struct rxd_peer;
struct rxd_move;

/* Records of a packet that has come, and how far they were read. */
struct rxd_records {
    const uint8_t *bytes;
    size_t at, len;
    bool ordered;
};

/* Memory of one packet, out or in. */
struct rxd_packet {
    struct mr_buffer buffer;
    struct rxd_ep *ep;
    struct rxd_peer *peer;        /* NULL: of none, or of one that has ended meanwhile */
    struct list link;             /* out: to be sent, or with the lower; in: held back */
    struct list ops;              /* out: struct rxd_op.in_packet, that are sent with it */
    struct rxd_move *move;        /* out: whose data it is, or NULL */
    struct rxd_inbound *reads;    /* of no bytes: the context of a read for it; or NULL */
    struct fid_mr *mr;            /* that such a read writes to, or NULL */
    struct iovec slices[RXD_IOV]; /* out: of the application's memory, behind the records */
    size_t slice_count;
    bool in, ordered;
    bool fence; /* out: what is under way to the peer ends first */
    bool owed;  /* out: carries what its application takes for sent */
    uint32_t sequence;
    struct rxd_records rest;     /* in */
    size_t len;                  /* out: of records. Deferred: of the packet */
    fi_addr_t src;               /* deferred: as the lower told */
    unsigned tries;              /* deferred: more that there will be */
    uint8_t *records;            /* out */
    _Alignas(8) uint8_t bytes[]; /* the lower's prefix, room for a head, records */
};

/* Bytes that leave for a peer, as it asks for them. */
struct rxd_move {
    struct list link; /* of ep->moving, while there is something to send */
    struct rxd_peer *peer;
    const struct iovec *iov;
    size_t iov_count;
    size_t at, limit; /* sent so far; may be sent */
    uint32_t taker;
    unsigned pending;          /* packets with the lower */
    bool direct;               /* they have the memory itself: its operation ends when they have */
    const struct remote *held; /* whose memory it is, or NULL: the operation's */
    void (*idle)(struct rxd_move *move); /* nothing is left to send or pending */
};

/* Bytes that come from a peer, asked for or not; its number is in ep->takers. */
struct rxd_taker {
    uint64_t id; /* IDS_NONE: it takes nothing */
    struct rxd_peer *peer;
    const struct iovec *iov;
    size_t iov_count;
    size_t got, asked, want; /* all but `got` count from the first byte of the request */
    uint32_t from;           /* the request at the peer that is asked */
    /* All is there. May free it. */
    void (*ended)(struct rxd_taker *taker);
    bool (*alive)(struct rxd_taker *taker); /* its memory is still there; NULL: it is */
};

/* An operation of the application that sends something. */
struct rxd_op {
    struct list of_peer, in_packet;
    struct rxd_peer *peer;
    uint64_t id; /* in ep->requests, where an answer names it; or IDS_NONE */
    void *context;
    uint64_t kind;
    bool wanted, sent, answered; /* it ends when it is both sent and answered */
    bool early;                  /* sent is when the lower has its packet, not when the peer has */
    int err;
    size_t len;
    struct rxd_move move;
    struct rxd_taker taker;
    struct fid_mr *lent; /* the peer may read it, or NULL */
    size_t iov_count;
    struct iovec iov[RXD_IOV];
};

/* A message that is not delivered with its packet. */
struct rxd_inbound {
    struct rxd_taker taker;
    struct list link; /* of the peer */
    struct fi_peer_rx_entry *entry;
    uint8_t flags;
    bool matched;
    bool lost;    /* its sender is gone, with the rest of it */
    bool reading; /* the lower writes to its receive */
    uint32_t id;
    uint64_t tag, data, addr, key;
    size_t size, first; /* all of it; bytes that are in `bytes` */
    uint8_t bytes[];
};

struct rxd_peer {
    union {
        struct match_source source;
        struct match_forward forward; /* its owner is an upper's context, or NULL */
    };
    struct rxd_ep *ep;
    struct rxd_peer *next; /* of the bucket */
    struct rxd_name name;  /* an own one is behind this struct */
    fi_addr_t lower;       /* in the lower's AV */
    struct list attended;  /* in ep->attention or ep->stalled */
    struct list broken;    /* in ep->broken */
    int err;
    /* Who is who */
    uint64_t number;             /* that the peer uses; of ep->numbers */
    uint64_t epoch, their_epoch; /* 0: the peer has not said it yet */
    uint64_t forgotten;          /* epochs to here are over */
    uint32_t theirs;             /* the number that we use; 0: not known yet */
    bool introduced;             /* the peer uses our number */
    bool answer;                 /* the peer does not know its number */
    /* Out */
    struct list ops, out, urgent, flying; /* operations; packets */
    unsigned in_flight;                   /* packets in `flying` */
    uint32_t next_out, acked;
    /* In */
    struct list held, inbounds, accesses;
    uint32_t next_in, told;
    unsigned busy;  /* accesses that the next request waits for */
    unsigned takes; /* takers that are owed something */
    bool heard;     /* since it was last looked for */
    bool gone;      /* it has ended, and has said nothing since */
};

struct rxd_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct progress *progress;
    struct lower_domain *domain;
    struct match *match; /* NULL with an upper's context */
    struct fi_info *info, *lower_info;
    struct fid_ep *lower;
    struct op_target target; /* of the lower */
    struct fid_av *lower_av;
    struct lower_source cq;
    struct fid_peer_cq sink;
    struct av_watch watch;
    struct rxd_name name; /* an own one is in own_name */
    uint8_t own_name[RXD_OWN_MAX];
    bool top, user_ids, source_err, running, closing;
    uint32_t close_ms;   /* that fi_close waits for peers */
    bool driven;         /* the lower is enabled, and not being closed: progress may drive it */
    size_t prefix;       /* in front of packets */
    size_t heads, room;  /* bytes for heads, for records */
    bool gathers;        /* the lower takes packets from the application's memory */
    bool reads;          /* it reads memory of peers, */
    size_t read_max;     /* and so many bytes at once */
    uint64_t last_key;   /* that was asked for, of regions with the lower */
    struct list reading; /* struct rxd_packet, contexts of reads */
    unsigned ahead;      /* packets of data that a taker asks for in advance */
    struct mr_pool packets;
    struct pool ops;
    struct ids numbers, requests, takers;
    struct peer_map map;
    struct rxd_peer **buckets;
    struct list attention, stalled, broken, moving;
    struct list deferred;      /* struct rxd_packet: of peers for which there was no memory */
    unsigned posted, receives; /* with the lower; as many as there should be */
    unsigned flying;           /* sends with the lower */
    size_t outgoing;           /* packets that have not been sent, or are with the lower */
    size_t owed;               /* of these: rxd_packet.owed */
    size_t used;               /* operations of the application */
    size_t takes;              /* takers */
    struct wake_timer timer;   /* ends sleeps at ask_ms */
    long long ask_ms;          /* when silent peers are asked next; 0: none owes anything */
    unsigned polls;
    size_t saved, saved_limit;
    bool saved_said;
    uint64_t last_epoch;
    long long told_ms, full_ms; /* when the log was told of a bad packet, of full memory; or 0 */
};

/* 0 is no number of any table: its place is taken for ever. */
static inline void *rxd_find(const struct ids *ids, uint32_t id)
{
    return id ? ids_find(ids, id) : NULL;
}

/* ---- rxd_info.c, rxd_domain.c, rxd_ep.c ---- */

int rxd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);
int rxd_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info);
/* Bytes of the largest head over that lower. */
size_t rxd_heads(const struct fi_info *lower);
/* Bytes of one operand of an atomic in packets of max bytes, with heads of so many. */
size_t rxd_operand_size(size_t max, size_t heads);
int rxd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);
int rxd_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
/* Does what is to be done: requests in their order, packets, data. */
void rxd_run(struct rxd_ep *ep);

/* ---- rxd_peer.c ---- */

/* The peer of an address of the application's AV: 0, -FI_EINVAL, -FI_ENOMEM. */
int rxd_peer_at(struct rxd_ep *ep, fi_addr_t addr, struct rxd_peer **peer);
/* The peer of an address, or NULL. */
struct rxd_peer *rxd_peer_find(struct rxd_ep *ep, const struct rxd_name *name);
/* The same, made if need be; NULL without memory, or where the lower refuses it. */
struct rxd_peer *rxd_peer_of(struct rxd_ep *ep, const struct rxd_name *name);
/* It has another epoch now, or has begun: what was under way ends with err. */
void rxd_peer_reset(struct rxd_peer *peer, int err);
/* The same with the next rxd_run; why: for the log, or NULL. */
void rxd_peer_break(struct rxd_peer *peer, int err, const char *why);
void rxd_peer_attend(struct rxd_peer *peer);
void rxd_peers_take_changes(struct rxd_ep *ep);
/* Is something under way to a peer that may be there? */
bool rxd_peers_await(const struct rxd_ep *ep);
/* Tells all peers that there is nothing more to expect, as far as they can be told at once. */
void rxd_peers_bye(struct rxd_ep *ep);
void rxd_peers_finish(struct rxd_ep *ep);
/* As completions report it. */
fi_addr_t rxd_peer_source(const struct rxd_peer *peer);

/* ---- rxd_post.c ---- */

ssize_t rxd_post(struct ep *ep, struct op *op);
int rxd_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count);
/* Ends it if nothing of it is outstanding. */
void rxd_op_settle(struct rxd_op *op);
/* Its end, whatever is outstanding; reports unless the endpoint is being closed. */
void rxd_op_end(struct rxd_op *op, int err);
void rxd_op_done(struct rxd_op *op, int err);

/* ---- rxd_out.c ---- */

/* Where a record, with `payload` bytes, is written; NULL without memory. It is sent with the next
 * flush. */
struct rxd_packet *rxd_out_ordered(struct rxd_peer *peer, size_t bytes, bool fence);
struct rxd_packet *rxd_out_urgent(struct rxd_peer *peer, size_t bytes);
/* The short way of a message that nothing waits before, in one packet: false, and nothing has
 * happened, where the lower does not take it now. */
bool rxd_out_alone(struct rxd_peer *peer, const struct rxd_record *record, const struct op *post);
/* A record of no payload. Breaks the peer without memory. */
void rxd_out_control(struct rxd_peer *peer, const struct rxd_record *record);
void rxd_out_done(struct rxd_peer *peer, uint32_t id, int err);
/* Sends what the lower and the window take; more: other packets follow at once. */
void rxd_out_flush(struct rxd_peer *peer, bool more);
/* A request was added: sends it, unless so much is on its way that it may wait for others, until
 * its packet is full or the endpoint is driven. more: another one follows at once. */
void rxd_out_added(struct rxd_peer *peer, bool more);
/* A packet is with the lower no more. */
void rxd_out_sent(struct rxd_packet *packet, int err);
void rxd_packet_put(struct rxd_packet *packet);

/* ---- rxd_in.c ---- */

/* Posts receives to the lower; its error. */
int rxd_in_fill(struct rxd_ep *ep);
void rxd_in_packet(struct rxd_packet *packet, size_t len, fi_addr_t src);
/* The lower's reader (OPT_READER). */
bool rxd_in_read(void *ep, const uint8_t *bytes, size_t len, uint64_t src);
/* Looks again at packets whose peers there was no memory for. */
void rxd_in_deferred(struct rxd_ep *ep);
/* Carries out what is next. */
void rxd_in_run(struct rxd_peer *peer);

/* ---- rxd_move.c ---- */

void rxd_move_start(struct rxd_move *move, size_t limit);
void rxd_move_run(struct rxd_ep *ep);
/* All of its packets are forgotten. */
void rxd_move_drop(struct rxd_move *move);
/* A taker of bytes from `got` on, up to want; they are asked for from request `from` of the peer
 * unless that is 0. -FI_ENOMEM. */
int rxd_take(struct rxd_taker *taker, struct rxd_peer *peer, uint32_t from, size_t got,
             size_t want);
void rxd_take_stop(struct rxd_taker *taker);
const char *rxd_take_data(struct rxd_peer *peer, const struct rxd_record *record);
/* The segments of len bytes from byte `at` on, of at most RXD_IOV: how many. */
size_t rxd_slice(const struct iovec *iov, size_t count, size_t at, size_t len,
                 struct iovec slices[RXD_IOV]);

/* ---- rxd_read.c ---- */

/* Peers may read the op's memory: fills in where, and *ret_mr. False: they must ask for it. */
bool rxd_read_lend(struct rxd_ep *ep, const struct op *op, struct rxd_record *record,
                   struct fid_mr **ret_mr);
/* Reads `want` bytes of a message, but for its first, into its receive; rxd_message_read when that
 * is over, which may be before this returns. False: it does not. */
bool rxd_read_start(struct rxd_inbound *inbound, size_t want);
/* The lower is through with a read. */
void rxd_read_done(struct rxd_packet *packet, int err);
/* The endpoint is being closed: what is read is nobody's any more. */
void rxd_read_forget(struct rxd_inbound *inbound);
/* The lower is closed. */
void rxd_read_finish(struct rxd_ep *ep);

/* ---- rxd_silence.c ---- */

/* Asks peers that owe something and are silent, when it is time to. */
void rxd_silence_run(struct rxd_ep *ep);
/* 0: a sleep that begins now ends when that is; -FI_EAGAIN: no sleep. */
int rxd_silence_sleep(struct rxd_ep *ep);

/* ---- rxd_message.c ---- */

const char *rxd_message(struct rxd_peer *peer, const struct rxd_record *record);
/* A read has ended, with err or 0. */
void rxd_message_read(struct rxd_inbound *inbound, int err);
/* The peer has ended, with err; or (closing) the endpoint. */
void rxd_messages_fail(struct rxd_peer *peer, int err);
extern struct fi_ops_srx_peer rxd_source_ops;

/* ---- rxd_remote.c ---- */

const char *rxd_remote(struct rxd_peer *peer, const struct rxd_record *record);
void rxd_remote_fail(struct rxd_peer *peer);

#endif

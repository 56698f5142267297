/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of srd: messages, remote memory and atomics over reliable packets, on the wire of
 * libfabric's efa. docs/design/srd.md has the whole.
 *
 *   srd_ep      the life of endpoints          srd_post     operations become requests
 *   srd_peer    peers, and their ends          srd_out      packets out
 *   srd_in      packets in                     srd_message  messages meet their receives
 *   srd_move    bytes that are asked for       srd_remote   accesses, at their target
 *   srd_silence peers that owe an answer
 *
 * Everything is guarded by the lock of the endpoint's progress domain. The lower completes while it
 * is driven; what a completion makes necessary is done behind it, by srd_run.
 */
#ifndef WEFT_LAYERS_SRD_SRD_H
#define WEFT_LAYERS_SRD_SRD_H

#include "core/av/av_watch.h"
#include "core/av/peer_map.h"
#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/base/iov.h"
#include "core/base/pool.h"
#include "core/base/reorder.h"
#include "core/domain/mr_pool.h"
#include "core/ep/endpoint.h"
#include "core/layer/lower_domain.h"
#include "core/layer/lower_source.h"
#include "core/match/match_forward.h"
#include "core/op/op.h"
#include "core/op/remote.h"
#include "core/part/part.h"
#include "core/progress/wake_timer.h"
#include "layers/srd/srd_name.h"
#include "layers/srd/srd_wire.h"

enum {
    SRD_SIZE = 1024, /* of queues whose size no info names */
    SRD_IOV = 4,     /* local segments of an operation */
    SRD_INJECT = 4096,
    SRD_LEAST_PACKET = 576, /* bytes of the smallest packets that it stands on */
    SRD_MIN_MULTI_RECV = 64,
    SRD_AHEAD = 64, /* packets of one operation with the lower */
    SRD_BUCKETS = 1024,
    SRD_FORGOTTEN = 4, /* former connids of a peer that are remembered */
};

/* prov_errno of what libfabric's efa calls so, as SRD_PEER_ERROR carries it. */
enum srd_error {
    SRD_ERR_OTHER = 4096,
    SRD_ERR_NO_MEMORY = 4105,
    SRD_ERR_ADDRESS = 4111, /* no such key, or right */
    SRD_ERR_SIZE = 4115,    /* beyond the end of its memory */
    SRD_ERR_DATATYPE = 4118,
    SRD_ERR_ABORTED = 4127,
};

struct srd_ep;
struct srd_peer;
struct srd_move;

/* What a peer names by a number that it was given: only this peer, and only as this kind. */
enum srd_kind {
    SRD_OF_MESSAGE, /* struct srd_op: sends */
    SRD_OF_WRITE,
    SRD_OF_READ,
    SRD_OF_ATOMIC,
    SRD_OF_INBOUND, /* struct srd_inbound */
    SRD_OF_WRITTEN, /* struct srd_access, of a peer's write */
    SRD_OF_BEING_READ,
    SRD_KINDS,
};

struct srd_handle {
    enum srd_kind kind;
    struct srd_peer *peer;
    uint64_t id; /* of ep->ids, or IDS_NONE */
};

/* Memory of one packet, out or in. */
struct srd_packet {
    struct mr_buffer buffer;
    struct srd_ep *ep;
    struct srd_peer *peer; /* out; NULL: of one that has ended meanwhile */
    struct list link;      /* out: to be sent, or with the lower; in: held back */
    struct srd_move *move; /* out: whose bytes it is about, or NULL */
    bool in;
    size_t len;     /* with the lower's prefix */
    fi_addr_t src;  /* deferred: as the lower told */
    unsigned tries; /* deferred: more that there will be */
    _Alignas(8) uint8_t bytes[];
};

/* Bytes that leave for a peer: with the request, and then as the peer asks for them. */
struct srd_move {
    struct list link; /* of ep->moving, while there is something to send */
    struct srd_peer *peer;
    const struct iovec *iov;
    size_t iov_count;
    size_t at, limit, total; /* sent so far; may be sent; all */
    uint32_t taker;
    unsigned pending;                    /* packets that are queued, or with the lower */
    const struct remote *held;           /* whose memory it is, or NULL: the operation's */
    void (*idle)(struct srd_move *move); /* nothing is pending any more */
};

/* Bytes that come from a peer. */
struct srd_taker {
    struct srd_handle *handle;
    const struct iovec *iov;
    size_t iov_count; /* what is beyond them is dropped */
    size_t got, granted, want;
    uint32_t from; /* the request at the peer that is asked */
    bool reads;    /* it is asked as the source of a read */
    /* All is there. May free it. */
    void (*ended)(struct srd_taker *taker);
    bool (*alive)(struct srd_taker *taker); /* its memory is still there; NULL: it is */
};

/* An operation of the application that sends something. */
struct srd_op {
    struct srd_handle handle;
    struct list of_peer;
    void *context;
    uint64_t kind;
    bool wanted, answered;
    int err, prov_errno;
    size_t len;
    uint32_t msg_id;
    struct srd_move move;
    struct srd_taker taker;
    size_t iov_count;
    struct iovec iov[SRD_IOV];
};

/* Bytes of a message without a receive. */
struct srd_piece {
    struct srd_piece *next;
    size_t offset, len;
    uint8_t bytes[];
};

/* A message that is not delivered with its first packet. */
struct srd_inbound {
    struct srd_handle handle;
    struct srd_taker taker;
    UT_hash_handle hh; /* of peer->partial, by msg_id, while packets of it are to come */
    struct list link;  /* of the peer */
    struct fi_peer_rx_entry *entry;
    struct srd_piece *pieces;
    size_t saved;
    bool matched;
    bool lost;    /* its sender is gone, with the rest of it */
    bool partial; /* it is in peer->partial */
    bool receipt; /* its sender waits for one */
    uint8_t type;
    uint16_t flags;
    uint32_t msg_id, send_id;
    uint64_t tag, data;
    size_t size, runt; /* all of it; bytes of it that come without being asked for */
};

/* What a peer is told of when it has said that it understands it. */
struct srd_refusal {
    struct srd_refusal *next;
    uint32_t id;
    int error;
};

struct srd_peer {
    union {
        struct match_source source;
        struct match_forward forward; /* its owner is an upper's context, or NULL */
    };
    struct srd_ep *ep;
    struct srd_peer *next; /* of the bucket */
    struct srd_name name;
    fi_addr_t lower;      /* in the lower's AV */
    struct list attended; /* in ep->attention or ep->stalled */
    struct list broken;   /* in ep->broken */
    int err, dead;        /* dead: nothing goes any more until it starts again */
    /* Who is who */
    bool known; /* connid is */
    uint32_t connid, forgotten[SRD_FORGOTTEN];
    unsigned forgotten_count; /* of all */
    bool greeted;             /* our HANDSHAKE was sent */
    bool forced;              /* it was asked for its */
    bool introduced;          /* it has sent it: `features` */
    uint64_t features;
    struct srd_refusal *refusals; /* until then */
    /* Out */
    struct list ops, out, flying; /* operations; packets */
    uint32_t next_msg;
    /* In */
    struct reorder early; /* struct srd_packet.link: ahead of their turn */
    size_t early_bytes;
    struct srd_inbound *partial;
    struct list inbounds, accesses;
    unsigned takes; /* takers that are owed something */
    bool heard;     /* since it was last looked for */
    bool gone;      /* it has ended, and has said nothing since */
};

struct srd_ep {
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
    uint8_t name[SRD_ADDR_SIZE]; /* as packets carry it, with the connid */
    uint32_t connid;
    uint32_t salt; /* of the numbers on the wire, so that those of another life mean nothing */
    bool top, user_ids, source_err, ordered, running, closing;
    bool efa;       /* addresses are EFA's: a connid is of an address */
    bool driven;    /* the lower is enabled, and not being closed: progress may drive it */
    size_t prefix;  /* in front of packets */
    size_t mtu;     /* bytes of a packet without it */
    size_t window;  /* bytes that one CTS grants */
    size_t credits; /* packets of it */
    size_t medium;  /* bytes of the largest message that is sent without being asked for */
    struct mr_pool packets;
    struct pool ops;
    struct ids ids;
    struct peer_map map, by_lower; /* by the application's addresses, and by the lower's */
    struct srd_peer **buckets;
    struct list attention, stalled, broken, moving;
    struct list deferred;      /* struct srd_packet: of peers for which there was no memory */
    unsigned posted, receives; /* with the lower; as many as there should be */
    unsigned flying;           /* sends with the lower */
    size_t outgoing;           /* packets that have not been sent, or are with the lower */
    size_t used;               /* operations of the application */
    size_t takes;              /* takers */
    struct wake_timer timer;   /* ends sleeps at ask_ms */
    long long ask_ms;          /* when silent peers are asked next; 0: none owes anything */
    unsigned polls;
    size_t saved, saved_limit;
    bool saved_said;
    long long told_ms; /* when the log was told of a bad packet last; 0: never */
};

/* ---- srd_info.c, srd_domain.c, srd_ep.c ---- */

int srd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);
int srd_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info);
/* Bytes of one operand of an atomic in packets of so many bytes. */
size_t srd_operand_size(size_t mtu);
int srd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);
int srd_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
/* Does what is to be done: packets, data. */
void srd_run(struct srd_ep *ep);

/* ---- srd_peer.c ---- */

/* The peer of an address of the application's AV: 0, -FI_EINVAL, -FI_ENOMEM. */
int srd_peer_at(struct srd_ep *ep, fi_addr_t addr, struct srd_peer **peer);
/* The peer of an address, or NULL. */
struct srd_peer *srd_peer_find(struct srd_ep *ep, const struct srd_name *name);
/* The same, made if need be; NULL without memory, or where the lower refuses it. */
struct srd_peer *srd_peer_of(struct srd_ep *ep, const struct srd_name *name);
/* What was under way ends with err, and both begin anew. */
void srd_peer_reset(struct srd_peer *peer, int err);
/* The same with the next srd_run; why: for the log, or NULL. */
void srd_peer_break(struct srd_peer *peer, int err, const char *why);
void srd_peer_attend(struct srd_peer *peer);
void srd_peers_take_changes(struct srd_ep *ep);
/* Is something under way to a peer that may be there? */
bool srd_peers_await(const struct srd_ep *ep);
void srd_peers_finish(struct srd_ep *ep);
/* As completions report it. */
fi_addr_t srd_peer_source(const struct srd_peer *peer);

/* Numbers of the wire. -FI_ENOMEM. */
int srd_handle_open(struct srd_handle *handle, enum srd_kind kind, struct srd_peer *peer);
void srd_handle_close(struct srd_handle *handle);
uint32_t srd_handle_id(const struct srd_handle *handle);
/* What this peer was given that number for, if it is of one of those kinds (1 << kind), or NULL. */
struct srd_handle *srd_handle_find(const struct srd_peer *peer, uint32_t id, unsigned kinds);

/* ---- srd_post.c ---- */

ssize_t srd_post(struct ep *ep, struct op *op);
int srd_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count);
/* Ends it if nothing of it is outstanding. */
void srd_op_settle(struct srd_op *op);
/* Its end, whatever is outstanding; reports unless the endpoint is being closed. */
void srd_op_end(struct srd_op *op, int err);
/* The peer has answered; err: 0, or a positive FI_E code. */
void srd_op_answered(struct srd_op *op, int err, int prov_errno);

/* ---- srd_out.c ---- */

/* Queues a packet, header->len bytes of which the caller writes where the result says; NULL without
 * memory. Who sends is added to the header. move: it is of that one, or NULL. */
uint8_t *srd_out(struct srd_peer *peer, struct srd_header *header, struct srd_move *move);
/* Bytes of payload that fit a request with this header to the peer as it is known now. */
size_t srd_out_room(const struct srd_peer *peer, const struct srd_header *header);
/* A packet without payload. Breaks the peer without memory. */
void srd_out_control(struct srd_peer *peer, struct srd_header *header);
/* Our HANDSHAKE; and a request for the peer's, which introduces us. */
void srd_out_handshake(struct srd_peer *peer);
void srd_out_force(struct srd_peer *peer);
/* Tells a peer that understands it that its operation has failed, when it has sent its HANDSHAKE,
 * which the request may have overtaken. */
void srd_out_error(struct srd_peer *peer, uint32_t id, int prov_errno);
/* Those that have waited; told: they are sent, if the peer understands them. */
void srd_out_refusals(struct srd_peer *peer, bool told);
/* Sends what the lower takes; more: other packets follow at once. */
void srd_out_flush(struct srd_peer *peer, bool more);
/* A packet is with the lower no more. */
void srd_out_sent(struct srd_packet *packet, int err);
void srd_packet_put(struct srd_packet *packet);

/* ---- srd_in.c ---- */

/* Posts receives to the lower; its error. */
int srd_in_fill(struct srd_ep *ep);
void srd_in_packet(struct srd_packet *packet, size_t len, fi_addr_t src);
/* Looks again at packets whose peers there was no memory for. */
void srd_in_deferred(struct srd_ep *ep);

/* ---- srd_move.c ---- */

void srd_move_run(struct srd_ep *ep);
/* All of its packets are forgotten. */
void srd_move_drop(struct srd_move *move);
/* One of its packets is with the lower no more. */
void srd_move_sent(struct srd_move *move);
/* A packet of the peer's about bytes that move: what is wrong with it, or NULL. */
const char *srd_move_cts(struct srd_peer *peer, const struct srd_header *header);
const char *srd_take_data(struct srd_peer *peer, const struct srd_header *header);
const char *srd_take_response(struct srd_peer *peer, const struct srd_header *header);
/* A taker of bytes from `got` on, up to want, of which `granted` more come unasked; then they are
 * asked for from `from` at the peer. */
void srd_take(struct srd_taker *taker, struct srd_handle *handle, uint32_t from, size_t got,
              size_t granted, size_t want);
void srd_take_stop(struct srd_taker *taker);

/* ---- srd_silence.c ---- */

/* Asks peers that owe something and are silent, when it is time to. */
void srd_silence_run(struct srd_ep *ep);
/* 0: a sleep that begins now ends when that is; -FI_EAGAIN: no sleep. */
int srd_silence_sleep(struct srd_ep *ep);

/* ---- srd_message.c ---- */

/* A packet of a message: the first one, or a further one. What is wrong, or NULL. */
const char *srd_message(struct srd_peer *peer, const struct srd_header *header);
/* Is it a further packet of a message that has begun to come? */
bool srd_message_goes_on(struct srd_peer *peer, const struct srd_header *header);
/* The peer has ended, with err; or (closing) the endpoint. */
void srd_messages_fail(struct srd_peer *peer, int err);
extern struct fi_ops_srx_peer srd_source_ops;

/* ---- srd_remote.c ---- */

const char *srd_remote(struct srd_peer *peer, const struct srd_header *header);
void srd_remote_fail(struct srd_peer *peer);
/* What moves of an access, by its handle. */
struct srd_move *srd_access_move(struct srd_handle *handle);
struct srd_taker *srd_access_taker(struct srd_handle *handle);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of srd: messages, remote memory and atomics over reliable packets, on the wire of
 * libfabric's efa, and with the rooms of core/layer/message_ep.h. docs/design/srd.md has the whole.
 *
 *   srd_ep      endpoints, and the table       srd_post     operations become requests
 *   srd_peer    peers, and their ends          srd_out      packets out
 *   srd_in      packets in                     srd_message  messages meet their receives
 *   srd_move    bytes that are asked for       srd_remote   accesses, at their target
 *   srd_region  regions with the device's keys srd_lend     memory that peers read
 *   srd_transfer  the lower's reads and writes srd_read     what is read of peers
 *   srd_native  accesses by the device         srd_burst    packets of one message out
 *   srd_implicit  peers that the application has not inserted
 *   srd_life    one life of a peer, and ours towards it, after another
 *   srd_device  memory that the CPU does not reach    srd_error  numbers and texts of errors
 */
#ifndef WEFT_LAYERS_SRD_SRD_H
#define WEFT_LAYERS_SRD_SRD_H

#include "core/base/hash.h"
#include "core/base/reorder.h"
#include "core/layer/message_wire.h"
#include "core/part/part.h"
#include "layers/srd/srd_name.h"
#include "layers/srd/srd_wire.h"

enum {
    SRD_INJECT = 4096,
    SRD_PACKET_MOST = 65536, /* bytes of the largest packets that it makes */
    SRD_HEADS_MOST = 168,    /* bytes that libfabric's may have before a message */
    SRD_FORGOTTEN = 4,       /* former connids of a peer that are remembered */
    SRD_GATHER = 256,        /* least bytes that are worth a segment of their own in a packet */
    SRD_BURST = 16,          /* packets that the lower gets in one call */
    SRD_SURE = 2,            /* seconds for which a peer that is not heard is the same */
};

/* prov_errno under the names of libfabric's efa, as SRD_PEER_ERROR carries it. */
enum srd_error {
    SRD_ERR_OTHER = 4096,
    SRD_ERR_NO_MEMORY = 4105,
    SRD_ERR_ADDRESS = 4111, /* no such key, or right */
    SRD_ERR_SIZE = 4115,    /* beyond the end of its memory */
    SRD_ERR_READ = 4117,
    SRD_ERR_DATATYPE = 4118,
    SRD_ERR_UNRESPONSIVE = 4124, /* since its handshake */
    SRD_ERR_UNREACHED = 4126,    /* it has never had one */
    SRD_ERR_ABORTED = 4127,
};

/* Memory of one packet, out or in. */
struct srd_packet {
    struct message_packet base; /* len: with the lower's prefix */
    struct iovec slice;         /* out: the application's memory behind it, or of no bytes */
    void *slice_desc;
    _Alignas(8) uint8_t bytes[];
};

/* Bytes of a message without a receive. */
struct srd_piece {
    struct srd_piece *next;
    size_t offset, len;
    uint8_t bytes[];
};

struct srd_change;
struct srd_transfer;

/* An operation that sends something. */
struct srd_op {
    struct message_op base;
    uint8_t device;                /* a bit for each segment that the CPU does not reach */
    bool gathers;                  /* packets may have its memory */
    void *desc[MESSAGE_IOV];       /* the lower's, of its segments, of those */
    struct srd_transfer *transfer; /* the lower's access, of a native one; or NULL */
    struct srd_lent *lent;         /* the peer reads it; or NULL */
};

/* Memory of an operation that its peer reads. */
struct srd_lent {
    struct srd_header request; /* as it is made again if the peer cannot read; without a sender */
    struct fid_mr *mrs[SRD_PLACES]; /* registered for it alone, or NULL */
};

/* Memory of the peer's that has a message, of all its bytes. */
struct srd_source {
    unsigned count;
    struct fi_rma_iov places[SRD_PLACES];
};

/* Bytes that the lower reads or writes, in one or more requests. */
struct srd_transfer {
    struct message_packet base; /* the context of its requests; peer: never NULL */
    void *owner;                /* NULL: it is gone */
    /* All of it is done, or some has failed and the rest is over. It is freed behind that. */
    void (*ended)(struct srd_transfer *transfer);
    struct iovec local[MESSAGE_IOV];
    void *desc[MESSAGE_IOV];
    struct fid_mr *mrs[MESSAGE_IOV]; /* registered for it alone, or NULL */
    struct fi_rma_iov remote[SRD_PLACES];
    unsigned local_count, remote_count;
    uint64_t kind, data;       /* FI_READ or FI_WRITE; with FI_REMOTE_CQ_DATA of that */
    fi_addr_t to;              /* of the lower's: whose memory the places are */
    struct srd_bounce *bounce; /* which they are then, and which is freed with it; or NULL */
    size_t at, total;          /* asked of the lower; all */
    unsigned left;             /* requests with the lower */
    int err, code;             /* code: the lower's prov_errno, or 0 */
    bool waits;                /* the lower was full */
    bool lost;                 /* its peer has ended */
};

struct srd_inbound {
    struct message_inbound base;
    UT_hash_handle hh; /* of peer->partial, by msg_id, while packets of it are to come */
    struct srd_piece *pieces;
    bool partial; /* it is in peer->partial */
    uint8_t type;
    uint32_t msg_id, send_id;
    size_t runt;                   /* bytes that come without being asked for */
    struct srd_source *source;     /* where the rest is read; NULL: it is sent */
    struct srd_transfer *transfer; /* that reads it, or NULL */
    bool to_device;                /* its receive is memory that the CPU does not reach: */
    bool stuck;                    /* without memory for `bounce`, it ends with its peer */
    struct srd_bounce *bounce;     /* its bytes, on their way there; NULL: there are none */
};

/* A failure that a peer is told of when it has said that it understands it. */
struct srd_refusal {
    struct srd_refusal *next;
    uint32_t id;
    int error;
};

struct srd_peer {
    struct message_peer base;
    int dead; /* nothing goes any more until it starts again */
    /* Identity */
    bool known;    /* connid is */
    bool doubted;  /* another one may be there by now: it is asked before anything is sent */
    bool leaving;  /* it is being closed: its life ends when nothing is with the lower */
    bool left;     /* that was so, and no other life has begun */
    uint32_t mine; /* ours, towards it */
    uint32_t connid, forgotten[SRD_FORGOTTEN];
    unsigned forgotten_count;    /* of all */
    struct srd_change *change;   /* lives that may begin; NULL: none */
    uint32_t heard_in, asked_in; /* of ep->seconds: it has sent something; it was asked to */
    bool greeted;                /* our HANDSHAKE was sent */
    bool forced;                 /* it was asked for its */
    bool introduced;             /* it has sent it: `features` */
    bool awaited;                /* an operation was refused until then */
    int16_t unanswered;          /* what the next such operation fails with: it ended meanwhile */
    uint64_t features;
    struct srd_refusal *refusals; /* until then */
    /* Out */
    uint32_t next_msg;
    uint32_t pause_us;    /* srd_rest.c: 0: none, or the first packet was not taken */
    uint64_t rests_until; /* clock_ns; 0: it has taken all packets */
    /* In */
    struct reorder early; /* struct srd_packet.base.link: ahead of their turn */
    size_t early_bytes;
    struct srd_inbound *partial;
    struct srd_inbound *recent; /* of these, that had a packet last; or NULL */
    struct list implicit;       /* in ep->implicit, while they are limited and it is one */
    uint8_t name_len, name[];   /* as struct srd_name has it */
};

/* Which way messages and accesses go, by their bytes. */
struct srd_limits {
    size_t medium;     /* of the largest message that is sent without being asked for */
    size_t read;       /* of the smallest message that is read by its receiver */
    size_t read_write; /* of the smallest write that is read by its target */
    size_t runt;       /* at the beginning of a message that is read, which are sent */
};

struct srd_ep {
    struct message_ep base;
    uint8_t name[SRD_RAW_MOST]; /* as packets carry it; with the lives of one peer */
    size_t name_len;
    uint32_t connid; /* over EFA */
    bool ordered;
    bool efa;       /* addresses are EFA's: a connid is of an address */
    size_t window;  /* bytes that one CTS grants */
    size_t credits; /* packets of it */
    struct srd_limits limits;
    bool resends; /* what a receiver was not ready for */
    bool rested;  /* there was one */
    uint64_t rest_us, rest_most_us;
    bool reads, writes;       /* the lower accesses peers' memory, and has our regions */
    bool registers;           /* it wants memory registered */
    bool devices;             /* operations may have memory that the CPU does not reach */
    fi_addr_t self;           /* then: ours, in the lower's AV */
    bool gathers;             /* packets may have a segment of the application's memory */
    size_t read_max;          /* bytes of one of its accesses */
    size_t lent_count;        /* messages that peers read */
    struct peer_map by_lower; /* by the lower's addresses */
    size_t implicit_most;     /* peers that the application has not inserted; 0: no limit */
    size_t implicit_count;
    struct list implicit;  /* struct srd_peer, the one that was silent longest first */
    struct peer_map aside; /* those that were put aside, by the lower's addresses */
    struct pool aside_pool;
    bool implicit_said;
    struct pool transfer_pool;
    struct list transfers; /* struct srd_transfer.base.link */
};

/* Kinds of what takes bytes. */
enum {
    SRD_TAKING = 1 << MESSAGE_READ | 1 << MESSAGE_INBOUND | 1 << MESSAGE_WRITTEN
};

static inline struct srd_ep *srd_ep_of(const struct message_ep *ep)
{
    return object_of(ep, struct srd_ep, base);
}

static inline struct srd_peer *srd_peer_of(const struct message_peer *peer)
{
    return object_of(peer, struct srd_peer, base);
}

/* The peer that has that number with the lower, or NULL. */
static inline struct srd_peer *srd_peer_by_lower(const struct srd_ep *ep, fi_addr_t src)
{
    struct message_peer *peer = peer_map_at(&ep->by_lower, src);

    return peer ? srd_peer_of(peer) : NULL;
}

static inline struct srd_packet *srd_packet_of(const struct message_packet *packet)
{
    return object_of(packet, struct srd_packet, base);
}

static inline struct srd_op *srd_op_of(const struct message_op *op)
{
    return object_of(op, struct srd_op, base);
}

static inline struct srd_inbound *srd_inbound_of(const struct message_inbound *inbound)
{
    return object_of(inbound, struct srd_inbound, base);
}

/* ---- srd_info.c, srd_ep.c ---- */

int srd_needs(const struct request *req, struct fi_info **lower_hints);
int srd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);
int srd_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info);
/* Bytes of the largest header of a request over that lower. */
size_t srd_request_head(const struct fi_info *lower);
/* Bytes of one operand of an atomic over that lower. */
size_t srd_operand_size(const struct fi_info *lower);
/* Are regions of such a domain the device's? */
bool srd_has_device_keys(const struct fi_info *info);
int srd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

/* ---- srd_option.c ---- */

extern const struct endpoint_option srd_options[];

/* ---- srd_peer.c: entries of struct message_wire ---- */

uint64_t srd_hash(const void *name);
bool srd_peer_is_named(const struct message_peer *peer, const void *name);
void srd_peer_address(const struct message_peer *peer, uint32_t format, union addr_raw *raw);
char *srd_peer_text(const struct message_peer *peer, char text[ADDR_TEXT_MAX]);
struct message_peer *srd_peer_at(struct message_ep *ep, const void *raw, int *rc);
struct message_peer *srd_peer_new(const void *name);
int srd_peer_open(struct message_peer *peer);
void srd_peer_close(struct message_peer *peer);
void srd_peer_reset(struct message_peer *peer, int err);

/* Ends with err all that has come of a peer's present life; operations go on. */
void srd_peer_turn(struct srd_peer *peer, int err);

/* ---- srd_life.c ---- */

enum srd_hearing {
    SRD_HEARD, /* the packet is of the peer's present life */
    SRD_LATE,  /* it is of another one: nothing is to be done with it */
    SRD_HELD,  /* it is kept until that one begins, and then looked at again: packet->src */
    SRD_AGAIN, /* there is no memory for that */
};

/* A packet with these lives; it may begin one, with which another ends. */
enum srd_hearing srd_life_hear(struct srd_peer *peer, const struct srd_header *header,
                               const struct srd_lives *lives, struct message_packet *packet);
/* A new peer has a life of ours. */
void srd_life_open(struct srd_peer *peer);
/* The present lives end; the next packet of either side begins others. */
void srd_life_end(struct srd_peer *peer);
void srd_life_close(struct srd_peer *peer);
/* The life of the peer's that we know, as packets tell it; 0: none, or it is EFA's affair. */
uint32_t srd_life_view(const struct srd_peer *peer);
/* Has it sent us its HANDSHAKE, and something since not long ago? Another endpoint may have taken
 * its place meanwhile, so it is told who we are, as if it had not. */
static inline bool srd_life_is_sure(const struct srd_peer *peer)
{
    return peer->introduced && peer->base.ep->seconds - peer->heard_in <= SRD_SURE;
}
/* It is not sure: a packet is about to be sent. */
void srd_life_ask(struct srd_peer *peer);
/* Of one that is doubted, or is leaving: -FI_EAGAIN, and it is being found out. */
int srd_life_admit(struct srd_peer *peer);
/* 0 once its HANDSHAKE has come, for which it is asked; -FI_EAGAIN until then. If the peer ends
 * before, the next call has the error, once: then the peer is asked again. */
int srd_life_await(struct srd_peer *peer);
/* Of one that is leaving: true, and its life ends, now or when the lower has nothing for it. */
bool srd_life_is_over(struct srd_peer *peer);
/* Entries of struct message_wire. */
void srd_life_removed(struct message_peer *peer);
void srd_bye(struct message_ep *ep);

/* ---- srd_implicit.c: peers that the application has not inserted ---- */

void srd_implicit_init(struct srd_ep *ep, const struct params *params);
void srd_implicit_finish(struct srd_ep *ep);
/* Entry of struct message_wire. */
void srd_peer_addressed(struct message_peer *peer);
/* It is none of them from now on: the application has an address of it. */
void srd_implicit_end(struct srd_peer *peer);
/* One of them has sent a packet; others may be put aside. */
void srd_implicit_heard(struct srd_peer *peer);
/* The peer that the lower has at `src` and that was put aside, as it was; NULL: there is none.
 * *again: there is no memory for it now. */
struct srd_peer *srd_implicit_return(struct srd_ep *ep, fi_addr_t src, bool *again);
/* A new peer, which is in the lower's AV, goes on where it was put aside. */
void srd_implicit_restore(struct srd_peer *peer);

/* ---- srd_post.c ---- */

ssize_t srd_start(struct message_peer *peer, const struct message_posting *posting);
bool srd_op_is_over(const struct message_op *op);

void srd_op_init(struct message_op *op);
bool srd_op_stays(struct message_op *op, int err);
void srd_op_put(struct message_op *op);
/* A packet with this header and the operation's next len bytes, from move.at on; the header may be
 * used again. any: as srd_out_answer. False without memory. */
bool srd_put_bytes(struct message_op *op, struct srd_header *header, size_t len, bool any);
/* Where the peer tells of failures a write has an id that it can name. */
bool srd_wants_receipt(const struct srd_peer *peer, const struct op *post);

/* ---- srd_quick.c ---- */

/* May srd_start_quick begin that send? */
bool srd_is_quick(const struct srd_peer *peer, const struct op *op);
/* 0 or -FI_ENOMEM. */
ssize_t srd_start_quick(struct srd_peer *peer, const struct message_posting *posting);

/* ---- srd_region.c ---- */

void srd_domain_init(struct lower_domain *domain);
/* The lower's region that has this memory, by the application's descriptor; NULL: there is none. */
struct fid_mr *srd_region_below(const struct message_ep *ep, void *desc, const struct iovec *iov);

/* ---- srd_transfer.c ---- */

/* len bytes of the segments from `skip` on, and of the remote places from there on. desc: of the
 * application's, or NULL. The caller sets data, owner and ended. NULL: the lower cannot. */
struct srd_transfer *srd_transfer_get(struct message_peer *peer, const struct iovec *iov,
                                      size_t count, void *const *desc, size_t skip, size_t len,
                                      uint64_t kind);
void srd_transfer_to(struct srd_transfer *transfer, const struct fi_rma_iov *places, unsigned count,
                     size_t skip);
/* May end it. */
void srd_transfer_start(struct srd_transfer *transfer);
/* Goes on with those of the peer for which the lower was full. */
void srd_transfers_run(struct message_peer *peer);
/* All of the peer's are lost, and end with err. */
void srd_transfers_lose(struct message_peer *peer, int err);
void srd_transfers_finish(struct srd_ep *ep);
/* A packet, or a request of a transfer, is with the lower no more. */
void srd_sent(struct message_packet *packet, int err);

/* ---- srd_device.c: memory that the CPU does not reach ---- */

/* Is a segment of these descriptors such memory? */
bool srd_is_device(const struct srd_ep *ep, void *const *desc, size_t count);
bool srd_op_is_device(const struct srd_ep *ep, const struct op *op);
/* Which of its segments are: a bit for each. */
uint8_t srd_device_segments(const struct srd_ep *ep, const struct op *op);
/* May it be sent to that peer? 0, or the result of the call: -FI_EAGAIN until the peer's HANDSHAKE
 * has come. */
int srd_device_admit(struct srd_peer *peer, const struct op *op);
/* Host memory for the bytes of a message that come in packets, up to `end`; those before `from` are
 * in their place. False without memory. */
bool srd_bounce_open(struct srd_inbound *inbound, size_t from, size_t end);
void srd_bounce_close(struct srd_bounce *bounce);
/* Where they are put: as an array of one segment, or none. */
const struct iovec *srd_bounce_iov(const struct srd_bounce *bounce, size_t *count);
/* All of them are there: the lower brings them into the receive, and the message goes on. */
void srd_bounce_copy(struct srd_inbound *inbound);

/* ---- srd_lend.c ---- */

/* Has the peer read an operation's memory instead: the request has the places then. header: the
 * request so far, as it is for bytes that are asked for; false: it has to be sent. */
bool srd_lend(struct srd_op *op, const struct op *post, struct srd_header *header, uint8_t type);
void srd_lent_put(struct srd_ep *ep, struct srd_lent *lent);
/* From the peer, to the sender. */
const char *srd_take_eor(struct message_peer *peer, const struct srd_header *header);
const char *srd_take_nack(struct message_peer *peer, const struct srd_header *header);

/* ---- srd_error.c ---- */

/* The lower has failed to send the packet: ep->code becomes what it means on this wire. */
void srd_error_refine(struct message_packet *packet);
/* Entries of struct message_wire and struct domain. */
int srd_error_code(const struct message_ep *ep, int err);
const char *srd_error_text(const struct domain *base, int code);

/* ---- srd_read.c ---- */

/* Reads the rest of a message into its receive; false: it cannot be read. */
bool srd_read_message(struct srd_inbound *inbound);
/* A peer's write whose bytes are to be read. */
const char *srd_read_write(struct message_peer *peer, const struct srd_header *header,
                           const struct message_request *request);
/* Has the bytes sent; false: the peer does not know how. */
bool srd_out_nack(struct message_peer *peer, uint32_t send_id, uint32_t recv_id);
void srd_out_eor(struct message_peer *peer, uint32_t send_id, uint32_t recv_id);

/* ---- srd_native.c ---- */

/* Does the device carry out that access? */
bool srd_is_native(const struct srd_peer *peer, const struct op *op);
/* 0: begun; -FI_ENOMEM: it is to be asked for. */
ssize_t srd_start_native(struct srd_peer *peer, const struct message_posting *posting);
/* A peer's device has written, with data. */
void srd_written(struct message_ep *ep, size_t len, uint64_t data, fi_addr_t src);

/* ---- srd_rest.c ---- */

/* Of a packet that its receiver was not ready for: it goes again. False: it ends, since the peer
 * has, or is an operation whose application asked for the error. */
bool srd_rest(struct message_packet *packet);
/* The peer has taken a packet. */
void srd_rest_over(struct srd_peer *peer);
/* The peer is left alone for now. */
bool srd_rests(const struct srd_peer *peer);

/* ---- srd_out.c ---- */

/* Queues a packet, header->len bytes of which the caller writes where the result says; NULL without
 * memory. The sender is added to the header. move: it is of that one, or NULL. */
uint8_t *srd_out(struct message_peer *peer, struct srd_header *header, struct message_move *move);
/* The same of what cannot be refused any more: it may wait for memory that the lower takes packets
 * from (message_packet_get_any). */
uint8_t *srd_out_answer(struct message_peer *peer, struct srd_header *header,
                        struct message_move *move);
/* Of len bytes of the move's, from move->at on: those that one packet takes, since memory that the
 * CPU does not reach goes as a segment behind the header, of which there is one. */
size_t srd_out_most(const struct message_move *move, size_t len);
/* The same with bytes of the move's, from move->at on, which are copied unless they lie in one
 * segment that the lower takes. No more than srd_out_most. any: as srd_out_answer. False without
 * memory. */
bool srd_out_bytes(struct message_peer *peer, struct srd_header *header, struct message_move *move,
                   bool any);
/* Adds who sends it: an address, or the connid. */
void srd_out_sender(const struct srd_peer *peer, struct srd_header *header);
/* Bytes of payload that fit a request with this header to the peer as it is known now. */
size_t srd_out_room(const struct srd_peer *peer, const struct srd_header *header);
/* A packet without payload. Breaks the peer without memory. */
void srd_out_control(struct message_peer *peer, struct srd_header *header);
/* Our HANDSHAKE; and a request for the peer's, which introduces us. */
void srd_out_handshake(struct srd_peer *peer);
void srd_out_force(struct message_peer *peer);
/* The same, with these lives. */
void srd_out_proposal(struct srd_peer *peer, const struct srd_lives *lives);
/* We are being closed. */
void srd_out_bye(struct srd_peer *peer);
void srd_out_receipt(struct message_peer *peer, uint32_t send_id, uint32_t msg_id);
/* Tells a peer that understands it that its operation has failed, when it has sent its HANDSHAKE,
 * which the request may have overtaken. */
void srd_out_error(struct srd_peer *peer, uint32_t id, int prov_errno);
/* Gives back refusals that have waited; told: they are sent, if the peer understands them. */
void srd_out_refusals(struct srd_peer *peer, bool told);
/* Sends what the lower takes; more: other packets follow at once. */
void srd_flush(struct message_peer *peer, bool more);
void srd_run(struct message_peer *peer);
void srd_dropped(struct message_packet *packet);

/* ---- srd_burst.c ---- */

/* Sends a message's bytes from move->at to `end`, `size` of them in each packet, as long as they
 * can go out at once and from their memory; header: of each but for place and length. */
void srd_burst(struct message_move *move, struct srd_header *header, size_t size, size_t end);
/* The same of bytes that the peer has asked for: entry of struct message_wire. */
bool srd_burst_data(struct message_move *move);

/* ---- srd_in.c ---- */

enum message_fate srd_in_packet(struct message_packet *packet, fi_addr_t src);
/* NULL, and the header of a packet; or what is wrong with it. */
const char *srd_in_header(const struct message_packet *packet, struct srd_header *header);
/* Of a peer whose order of packets is lost: a request that waits for an answer gets one. */
void srd_refuse(struct srd_peer *peer, const struct srd_header *header);

/* ---- srd_move.c ---- */

size_t srd_piece_room(const struct message_move *move);
size_t srd_piece(struct message_move *move, size_t len);
void srd_pull(struct message_taker *taker);
/* A packet of the peer's about bytes that move: what is wrong with it, or NULL. */
const char *srd_move_cts(struct message_peer *peer, const struct srd_header *header);
const char *srd_take_data(struct message_peer *peer, const struct srd_header *header);
const char *srd_take_response(struct message_peer *peer, const struct srd_header *header);

/* ---- srd_message.c ---- */

/* A packet of a message: the first one, or a further one. */
const char *srd_message(struct srd_peer *peer, const struct srd_header *header);
/* Is it a further packet of a message that has begun to come? */
bool srd_message_goes_on(struct srd_peer *peer, const struct srd_header *header);
void srd_message_place(struct message_inbound *inbound);
void srd_message_go_on(struct message_inbound *inbound);
/* Has the rest of a message sent that cannot be read. */
void srd_message_ask(struct srd_inbound *inbound);
void srd_message_answer(struct message_inbound *inbound);
/* Tells the senders of all messages that wait for more of them, or for a receipt. */
void srd_messages_refuse(struct srd_peer *peer);
bool srd_message_failing(struct message_inbound *inbound);
void srd_message_put(struct message_inbound *inbound);

/* ---- srd_remote.c ---- */

const char *srd_remote(struct message_peer *peer, const struct srd_header *header);
void srd_access_done(struct message_peer *peer, const struct message_request *request);
void srd_access_refuse(struct message_peer *peer, const struct message_request *request, int err);
const char *srd_access_result(struct message_peer *peer, const struct message_request *request,
                              const uint8_t *bytes, size_t len);
const char *srd_access_read(struct message_peer *peer, const struct message_request *request,
                            struct remote *remote);
const char *srd_access_lost(struct message_access *access);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of rxd: messages, remote memory and atomics over reliable packets, on a wire of its own,
 * and with the rooms of core/layer/message_ep.h. docs/design/rxd.md has the whole.
 *
 *   rxd_ep      endpoints, and the table       rxd_post     operations become requests
 *   rxd_peer    peers, and their ends          rxd_out      packets out
 *   rxd_life    one life of a peer, and ours towards it, after another
 *   rxd_in      packets in, in their order     rxd_message  messages meet their receives
 *   rxd_move    bytes that are asked for       rxd_remote   accesses, at their target
 *   rxd_read    bytes that the lower reads     rxd_lend     reads, whose target lends its memory
 *   rxd_quick   the usual small message, both ways
 *   rxd_owe     answers that there was no memory for
 *   rxd_short   the same, from the application's call on
 */
#ifndef WEFT_LAYERS_RXD_RXD_H
#define WEFT_LAYERS_RXD_RXD_H

#include "core/layer/message_wire.h"
#include "core/part/part.h"
#include "layers/rxd/rxd_wire.h"

enum {
    RXD_INJECT = 1024,
    RXD_FIRST = 2048,        /* bytes with the request of what is larger than a packet */
    RXD_SHORT = 16,          /* a part of a packet that is none: it goes with the request, too */
    RXD_LEAD = 512,          /* the same where others follow in the request's own train */
    RXD_CORK = 4,            /* packets with the lower, behind which small requests are gathered */
    RXD_GATHER = 32 << 10,   /* bytes of them, which then leave by few calls, or by one */
    RXD_PARTS = 64,          /* places that a packet in the lower's memory is in, at most */
    RXD_AHEAD = 2 << 20,     /* bytes asked for in advance, of few packets fewer */
    RXD_DIRECT = 1024,       /* bytes of a packet from which on they are not copied into it */
    RXD_WINDOW = 128,        /* ordered packets that a peer may send beyond those carried out */
    RXD_UNASKED = 255 << 10, /* bytes behind a message that come, or leave, unasked, at most: an
                              * introduction can tell no more */
    RXD_ROOM = 1024, /* packets that a lower may be reading for us: ordered ones are held, up to
                      * RXD_WINDOW, and bytes that were asked for have their places */
    RXD_FIELDS_MOST = 8 + 8 + 4, /* of a message: tag, data, context */
    RXD_WHOLE = 16 << 10,        /* bytes that leave with their request, if need be as a train */
};

/* Records of a packet that has come, and how far they were read. */
struct rxd_records {
    const uint8_t *bytes;
    size_t at, len;
    bool ordered;
};

/* Memory of one packet, out or in. base.len: out: of records. */
struct rxd_packet {
    struct message_packet base;
    /* Out: struct rxd_op.in_packet, that are sent when the peer has it, or (early) when the lower
     * has. */
    struct list ops, early;
    /* base.other: the context of a read, of no bytes: for whom, NULL once that is forgotten; and
     * its memory as the lower wants it, or NULL. */
    struct message_handle *reads;
    struct fid_mr *mr;
    struct mr_watch *watch[REMOTE_SEGMENTS]; /* on regions of the write, or NULL */
    size_t read_len;
    struct iovec slices[MESSAGE_IOV]; /* out: of the application's memory, behind the records */
    size_t slice_count;
    bool ordered;
    bool fence; /* out: all that is under way to the peer ends first */
    bool owed;  /* out: carries what its application takes for sent */
    uint32_t sequence;
    struct rxd_records rest; /* in: in `bytes`, from there on; held packets move */
    size_t start;
    uint8_t *records;            /* out */
    _Alignas(8) uint8_t bytes[]; /* the lower's prefix, room for a head, records */
};

struct rxd_op {
    struct message_op base;
    struct list in_packet;
    bool sent;                        /* it ends when it is both sent and answered */
    unsigned lent_count;              /* the peer may read its segments */
    struct fid_mr *lent[MESSAGE_IOV]; /* so many */
    struct rxd_borrowed *borrowed;    /* by a read, from its target; or NULL */
    bool borrows;                     /* it may be */
    size_t unasked;                   /* from there on bytes left unasked; 0: none did, */
    bool again;                       /* or the peer has asked for them */
    uint8_t owes;  /* RXD_PULL or RXD_DONE, for which there was no memory, to the target's */
    uint32_t loan; /* loan of this number; 0: none */
};

struct rxd_inbound {
    struct message_inbound base;
    bool reading; /* the lower writes to its receive */
    uint32_t id;
    unsigned place_count; /* where it is, for the lower's reads; 0: it must be asked for */
    const struct fi_rma_iov *places;
    size_t fetched;   /* bytes behind `first` that were read */
    uint32_t follows; /* bytes that are still to come unasked */
    bool dropped;     /* those are not kept: they are to be asked for */
    bool owes;        /* it has ended, and there was no memory to tell its sender */
    size_t first;     /* bytes that came so; those of an unmatched one are in `bytes` */
    _Alignas(struct fi_rma_iov) uint8_t bytes[]; /* the places are behind them */
};

/* Bits of rxd_peer.known. */
enum {
    RXD_KNOWS_US = 1, /* it has answered our present life, so packets need no introduction */
    RXD_DOUBTED = 2,  /* its address was removed: another endpoint may be there when we send */
    RXD_LEFT = 4,     /* it has left, and the lower may still have connections to it, which fail */
};

struct rxd_peer {
    struct message_peer base;
    /* Identity */
    struct rxd_past *past; /* of rxd_life.c; or NULL */
    uint32_t number;       /* that the peer uses; of ep->numbers */
    uint32_t mine, life;   /* ours for it; its present one, 0: none is known */
    uint32_t theirs;       /* the number that we use; 0: not known yet */
    uint8_t known;         /* one value, so that a quick message looks once */
    bool answer : 1;       /* the peer does not know its number */
    bool lends : 1;        /* it knows RXD_LENT, RXD_BORROWS, RXD_SEGMENTS */
    bool trains : 1;       /* it takes DATA of more bytes than a packet of its lower has */
    bool owes : 1;         /* answers that there was no memory for: rxd_pay */
    uint8_t own_len;       /* of the name; 0: it is an IP address */
    uint8_t unasked;       /* bytes that it takes so, in RXD_UNASKED_UNIT */
    /* Out. base.out has packets without an order. */
    struct list ordered;
    unsigned in_flight; /* packets in base.flying */
    uint32_t next_out, acked;
    uint32_t seen_out; /* next_out a second ago, over a lower without sessions */
    /* In */
    uint32_t following; /* bytes that it has announced, which come before any other request */
    struct list held;
    uint32_t next_in, told;
    uint32_t begun; /* bytes of records of the next packet that were carried out: it comes again */
    /* Its name, which has no more bytes than it needs: the memory of a peer counts. */
    _Alignas(union addr) uint8_t name[];
};

struct rxd_ep {
    struct message_ep base;
    struct rxd_name name; /* an own one is in own_name */
    uint8_t own_name[ADDR_OWN_MAX];
    size_t heads, room;  /* bytes for heads, for records */
    bool in_place;       /* packets are read in the lower's memory */
    bool gathers;        /* the lower takes packets from the application's memory */
    bool reads;          /* it reads memory of peers, */
    bool stops;          /* and stops when it is told to, */
    size_t read_max;     /* and so many bytes at once */
    uint64_t last_key;   /* that was asked for, of regions with the lower */
    struct list reading; /* struct rxd_packet, contexts of reads */
    struct list owing;   /* struct rxd_inbound.base.link */
    struct ids numbers;
    uint32_t salt;    /* numbers on the wire are xored with it */
    long long met_ms; /* when the address vector was looked through for a peer; or 0 */
};

static inline struct rxd_ep *rxd_ep_of(const struct message_ep *ep)
{
    return object_of(ep, struct rxd_ep, base);
}

static inline struct rxd_peer *rxd_peer_of(const struct message_peer *peer)
{
    return object_of(peer, struct rxd_peer, base);
}

static inline struct rxd_packet *rxd_packet_of(const struct message_packet *packet)
{
    return object_of(packet, struct rxd_packet, base);
}

static inline struct rxd_op *rxd_op_of(const struct message_op *op)
{
    return object_of(op, struct rxd_op, base);
}

static inline struct rxd_inbound *rxd_inbound_of(const struct message_inbound *inbound)
{
    return object_of(inbound, struct rxd_inbound, base);
}

/* ---- rxd_info.c, rxd_ep.c ---- */

int rxd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);
int rxd_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info);
/* Bytes of the largest head over that lower. */
size_t rxd_heads(const struct fi_info *lower);
/* Bytes of one operand of an atomic over that lower. */
size_t rxd_operand_size(const struct fi_info *lower);
int rxd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

/* ---- rxd_peer.c: entries of struct message_wire ---- */

uint64_t rxd_hash(const void *name);
bool rxd_peer_is_named(const struct message_peer *peer, const void *name);
void rxd_peer_address(const struct message_peer *peer, uint32_t format, union addr_raw *raw);
char *rxd_peer_text(const struct message_peer *peer, char text[ADDR_TEXT_MAX]);
struct message_peer *rxd_peer_at(struct message_ep *ep, const void *raw, int *rc);
struct message_peer *rxd_peer_new(const void *name);
int rxd_peer_open(struct message_peer *peer);
/* Other lives begin. */
void rxd_peer_reset(struct message_peer *peer, int err);
void rxd_peer_ask(struct message_peer *peer);
void rxd_dropped(struct message_packet *packet);
void rxd_bye(struct message_ep *ep);

/* ---- rxd_life.c ---- */

enum rxd_hearing {
    RXD_HEARD,  /* it counts in the peer's present life */
    RXD_LATE,   /* it is dropped */
    RXD_HELD,   /* it may be of a life that begins: rxd_life_hold */
    RXD_UNTOLD, /* there is no memory for it */
};

void rxd_life_salt(struct rxd_ep *ep);
/* -FI_ENOMEM. */
int rxd_life_open(struct rxd_peer *peer);
/* The present lives are over. ours: the peer, which is there, does not know that. */
void rxd_life_end(struct rxd_peer *peer, bool ours);
void rxd_life_close(struct message_peer *peer);
/* Is there something to tell by a packet of no records? */
bool rxd_life_tells(const struct rxd_peer *peer);
/* The introduction of a packet, which tells that, or not; but for what every one has. */
void rxd_life_put(const struct rxd_peer *peer, bool tells, struct rxd_head *head);
/* The packet has left. */
void rxd_life_told(struct rxd_peer *peer);
/* An introduction has come. content: in a packet with records, or in the order. */
enum rxd_hearing rxd_life_hear(struct rxd_peer *peer, const struct rxd_head *head, bool content);
/* Is there room for one more that is RXD_HELD? */
bool rxd_life_may_hold(struct rxd_peer *peer);
/* Takes the packet over; it comes again when a life begins. */
void rxd_life_hold(struct rxd_peer *peer, struct message_packet *packet, fi_addr_t src);
/* The peer says that it leaves; that it is here. */
void rxd_life_left(struct rxd_peer *peer);
void rxd_life_here(struct rxd_peer *peer, uint32_t id);
/* An entry of struct message_wire; an operation for a peer that is RXD_DOUBTED or RXD_LEFT:
 * -FI_EAGAIN. */
void rxd_life_removed(struct message_peer *peer);
ssize_t rxd_life_admit(struct rxd_peer *peer);
/* A second has passed, over a lower without sessions. */
void rxd_life_second(struct message_ep *ep);

/* ---- rxd_post.c ---- */

ssize_t rxd_start(struct message_peer *peer, const struct message_posting *posting);
bool rxd_op_is_over(const struct message_op *op);
bool rxd_op_stays(struct message_op *op, int err);
void rxd_op_put(struct message_op *op);
void rxd_op_give_up(struct message_op *op);

/* An operation's record, ready for a packet. early: it ends when the lower has that; brief then. */
struct rxd_op *rxd_op_get(struct rxd_peer *peer, const struct message_posting *posting,
                          enum message_kind kind, bool answered, bool early);

/* ---- rxd_quick.c ---- */

/* A message that is in one packet is ours when that is written. So unless its application asks for
 * more (FI_TRANSMIT_COMPLETE) its end does not depend on when the peer looks: one that has what it
 * waited for may not look for long. Whether there is a peer at all is waited for. */
static inline bool rxd_ends_early(const struct rxd_peer *peer, const struct op *op)
{
    const uint64_t more =
        FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE | OP_DELIVERED;

    return peer->known == RXD_KNOWS_US && !(op->flags & more);
}

/* The usual message: it is in one packet, and ends when the lower has that. */
bool rxd_is_quick(const struct rxd_peer *peer, const struct op *op);
/* Bytes of it, at most. */
static inline size_t rxd_quick_room(const struct rxd_ep *ep)
{
    return ep->room - RXD_RECORD_SIZE - RXD_FIELDS_MOST;
}
/* Sends it, of the endpoint's own context, if it can leave at once. False: nothing has happened. */
bool rxd_send_short(struct rxd_peer *peer, const void *buf, size_t len, bool tagged, uint64_t tag,
                    void *context);
ssize_t rxd_start_quick(struct rxd_peer *peer, const struct message_posting *posting);
/* The next record, if it is such a message and its receive a usual one: carried out, in few
 * instructions. False: nothing has happened. */
bool rxd_take_quick(struct rxd_peer *peer, struct rxd_records *records);

/* ---- rxd_short.c ---- */

void rxd_short_enable(struct rxd_ep *ep);

/* ---- rxd_out.c ---- */

/* Where a record, with its payload, is written; NULL without memory. It is sent with the next
 * flush. */
struct rxd_packet *rxd_out_ordered(struct rxd_peer *peer, size_t bytes, bool fence);
/* any: it cannot be refused any more, so it may wait for memory that the lower takes packets from
 * (message_packet_get_any). */
struct rxd_packet *rxd_out_urgent(struct rxd_peer *peer, size_t bytes, bool any);
/* An ordered one for a request that is longer than a packet of the lower's, and leaves as several;
 * NULL without memory. */
struct rxd_packet *rxd_out_long(struct rxd_peer *peer, size_t bytes, bool fence);
/* That packet becomes an ordered one behind all others. */
struct rxd_packet *rxd_out_behind(struct rxd_peer *peer, struct message_packet *base);
/* An entry of struct message_wire. */
void rxd_packet_copy(struct message_packet *to, const struct message_packet *from);
/* A packet for a message that nothing waits before, in no queue; NULL without memory. */
struct rxd_packet *rxd_out_lone(struct rxd_peer *peer);
/* Sends it, of which nothing else is remembered: false, and it is gone, where the lower does not
 * take it now and nothing has come behind it meanwhile. */
bool rxd_out_send_lone(struct rxd_packet *packet);
/* An answer, whose payload goes where the result says, as rxd_out_urgent; NULL: there is no memory
 * at all. */
uint8_t *rxd_out_record(struct rxd_peer *peer, const struct rxd_record *record);
/* The same of no payload. False: there is no memory, so it is owed, or is not to be. */
bool rxd_out_try(struct rxd_peer *peer, const struct rxd_record *record);
/* The same for what has just come, when spare packets were there: the peer breaks without memory.
 */
void rxd_out_control(struct rxd_peer *peer, const struct rxd_record *record);
void rxd_out_done(struct message_peer *peer, uint32_t id, int err);
void rxd_out_gone(struct message_peer *peer, uint32_t taker);
/* Sends what the lower and the window take; more: other packets follow at once. */
void rxd_flush(struct message_peer *peer, bool more);
/* A request was added: sends it, unless so much is on its way that it may wait for others, until
 * its packet is full or the endpoint is driven. more: another one follows at once. */
void rxd_out_added(struct rxd_peer *peer, bool more);
void rxd_sent(struct message_packet *packet, int err);
/* Packets that the peer has carried out, as it says, are sent, before the lower says so. */
void rxd_out_acked(struct rxd_peer *peer);

/* ---- rxd_owe.c ---- */

/* An answer of a message, an access or an operation of the peer's, which remembers it, waits for
 * memory; so does a packet of the peer's. */
void rxd_owe(struct rxd_peer *peer);
/* Tries all of that again. */
void rxd_pay(struct rxd_peer *peer);
/* The peer's life is over. */
void rxd_owe_nothing(struct rxd_peer *peer);
/* An entry of struct message_wire. */
bool rxd_message_stays(struct message_inbound *inbound);

/* ---- rxd_in.c ---- */

enum message_fate rxd_in_packet(struct message_packet *packet, fi_addr_t src);
/* The lower's reader (OPT_READER). */
bool rxd_in_read(void *ep, const uint8_t *bytes, size_t len, uint64_t src);
bool rxd_in_read_parts(void *ep, const struct iovec *parts, size_t count, uint64_t src);
/* Carries out what is next, and sends. */
void rxd_run(struct message_peer *peer);

/* ---- rxd_move.c ---- */

size_t rxd_piece_room(const struct message_move *move);
size_t rxd_piece(struct message_move *move, size_t len);
void rxd_pull(struct message_taker *taker);
/* Do messages of several packets leave together, to that peer? */
bool rxd_makes_trains(const struct rxd_peer *peer);

/* Bytes that leave behind a message, unasked. */
struct rxd_follow {
    size_t most; /* 0: none do */
    size_t room; /* of a packet, if they are all that it has */
    bool trains; /* such packets are trains, the first of which begins with the request */
};

/* Bytes that may leave so behind a message that is posted. */
struct rxd_follow rxd_may_follow(const struct rxd_peer *peer, const struct op *post);
/* How many do, of `left` that are behind a request of so many bytes. */
size_t rxd_follow_len(const struct rxd_follow *follow, size_t request, size_t left);
/* Packets for so many, into an empty list. False: there is no memory for them. */
bool rxd_follow_reserve(struct rxd_peer *peer, const struct rxd_follow *follow, size_t request,
                        size_t len, struct list *packets);
/* Queues them, with bytes from op's move on, behind its request, which is the last packet. */
void rxd_follow(struct rxd_op *op, const struct rxd_follow *follow, size_t len,
                struct list *packets);
/* DATA, whose payload is in the record, or in several places. */
const char *rxd_take_data(struct rxd_peer *peer, const struct rxd_record *record);
const char *rxd_take_parts(struct rxd_peer *peer, const struct rxd_record *record,
                           const struct iovec *parts, size_t count);
void rxd_take_gone(struct rxd_peer *peer, const struct rxd_record *record);
/* The segments of len bytes from byte `at` on, as many as iov has at most: how many. */
size_t rxd_slice(const struct iovec *iov, size_t count, size_t at, size_t len,
                 struct iovec *slices);

/* ---- rxd_read.c ---- */

/* Memory of a requester's that its peer may read. */
struct rxd_lent {
    unsigned count;
    struct fid_mr *mr[RXD_PLACES];
    struct fi_rma_iov place[RXD_PLACES];
};

/* The peer may read the op's memory: fills in where, and *lent, as whose place record->segments may
 * lie. False: it must ask for it, and lent->count is 0. */
bool rxd_read_lend(struct rxd_peer *peer, const struct op *op, struct rxd_record *record,
                   struct rxd_lent *lent);
void rxd_take_back(struct fid_mr **mr, unsigned count);
/* fi_close of a region of the access calls `closed`. False: one is closed, or there is no memory;
 * those that were opened are the caller's to close. */
bool rxd_watch(struct mr_watch *watch[REMOTE_SEGMENTS], const struct remote *remote,
               struct progress *progress, void (*closed)(void *arg), void *arg);
void rxd_unwatch(struct mr_watch *watch[REMOTE_SEGMENTS]);
/* May it? Under a layer no lock keeps fi_close of a region from driving us meanwhile. */
bool rxd_may_watch(const struct rxd_ep *ep);

/* Bytes of a peer's that the lower reads into one piece of memory. */
struct reading {
    struct message_handle *handle; /* what they are for */
    bool goes_on;                  /* pieces before it were read */
    struct fi_rma_iov from;
    struct iovec to;
};

/* Sets the piece that begins with byte `at` of `size`, of memory of ours and places of the peer's.
 * False: they are too many, or too small, and packets are better. */
bool rxd_read_piece(struct reading *reading, const struct iovec *iov, size_t count,
                    const struct fi_rma_iov *places, unsigned place_count, size_t at, size_t size);
/* `flag` is set, before the lower may be through. remote: memory that may be closed, or NULL. */
bool rxd_read_begin(const struct reading *reading, const struct remote *remote, bool *flag);
/* Where the bytes of a message or write may be read, as its record says: how many places. */
unsigned rxd_read_places(const struct rxd_record *record, struct fi_rma_iov places[RXD_PLACES]);
/* Reads the next of `want` bytes of a message, but for its first, into its receive;
 * rxd_message_read when that is over, which may be before this returns. False: it does not. */
bool rxd_read_start(struct rxd_inbound *inbound, size_t want);
/* Entries of struct message_wire: the rest of a peer's write, into its region. */
bool rxd_read_write(struct message_access *access);
void rxd_unread_write(struct message_access *access);
/* The lower is through with a read. */
void rxd_read_done(struct rxd_packet *packet, int err);
/* The endpoint is being closed: nothing has that read any more. */
void rxd_read_forget(struct message_handle *handle);
/* The lower is closed. */
void rxd_read_finish(struct rxd_ep *ep);

/* ---- rxd_lend.c ---- */

/* Memory that the peer's lower may read, registered with ours. */
bool rxd_lend_segment(struct rxd_ep *ep, const struct iovec *iov, struct fid_mr **ret_mr,
                      struct fi_rma_iov *ret_place);
/* The target's: lends what an access reads; true: it ends when the loan is back. */
bool rxd_lend(struct message_access *access);
void rxd_loan_end(struct message_access *access);
/* A record of the requester's: it has read all, or not. It asks for packets: false, and there is no
 * such loan. */
void rxd_loan_back(struct message_peer *peer, const struct rxd_record *record);
bool rxd_loan_pulled(struct message_peer *peer, const struct rxd_record *record);
/* The requester's: may it have that read? */
bool rxd_may_borrow(const struct rxd_peer *peer, const struct op *post);
const char *rxd_borrow(struct rxd_peer *peer, const struct rxd_record *record);
bool rxd_is_reading(const struct rxd_op *op);
void rxd_borrowed_read(struct message_op *op, size_t len, int err);
void rxd_borrowed_over(struct rxd_op *op);
void rxd_borrowed_gone(struct message_op *op);
/* Its question, or its loan that goes back, had no memory: once more. */
void rxd_borrowed_pay(struct rxd_op *op);
void rxd_borrowed_put(struct rxd_op *op);

/* ---- rxd_message.c ---- */

const char *rxd_message(struct rxd_peer *peer, const struct rxd_record *record);
/* Bytes behind it. */
const char *rxd_message_more(struct rxd_peer *peer, const struct rxd_record *record,
                             const struct iovec *parts, size_t count);
/* A read of `len` bytes has ended, with err or 0. */
void rxd_message_read(struct rxd_inbound *inbound, size_t len, int err);
void rxd_message_place(struct message_inbound *inbound);
void rxd_message_go_on(struct message_inbound *inbound);
void rxd_message_answer(struct message_inbound *inbound);
bool rxd_message_failing(struct message_inbound *inbound);

/* ---- rxd_remote.c ---- */

const char *rxd_remote(struct rxd_peer *peer, const struct rxd_record *record);
void rxd_access_done(struct message_peer *peer, const struct message_request *request);
void rxd_access_refuse(struct message_peer *peer, const struct message_request *request, int err);
const char *rxd_access_result(struct message_peer *peer, const struct message_request *request,
                              const uint8_t *bytes, size_t len);
const char *rxd_access_read(struct message_peer *peer, const struct message_request *request,
                            struct remote *remote);
const char *rxd_access_lost(struct message_access *access);

#endif

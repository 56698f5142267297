/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tags=emulate: reliable datagrams in rxm's own packets, over connections without tags. Shared
 * by its rooms; docs/design/rxm.md has the whole.
 *
 *   msgproto_post     the application's calls           msgproto_conn    what a connection has more
 *   msgproto_send     messages out: eager, segments     msgproto_op      operations of the lower
 *   msgproto_plain    the same, small and without wishes
 *   msgproto_recv     packets in; messages in           msgproto_rma     remote memory
 *   msgproto_rndv     rendezvous, both ends         msgproto_move    memory to memory, in pieces
 *
 * Everything is guarded by the progress domain's lock. The lower calls back while it is driven, and
 * from inside of posts: a completion may have come before the post returns.
 */
#ifndef WEFT_LAYERS_RXM_MSGPROTO_MSGPROTO_H
#define WEFT_LAYERS_RXM_MSGPROTO_MSGPROTO_H

#include "core/base/ids.h"
#include "core/base/iov.h"
#include "core/base/pool.h"
#include "core/domain/mr.h"
#include "core/op/op.h"
#include "layers/rxm/conn/rxm_conn.h"
#include "layers/rxm/msgproto/msgproto_conn.h"
#include "core/domain/mr_pool.h"
#include "layers/rxm/msgproto/rxm_credit.h"
#include "layers/rxm/msgproto/rxm_packet.h"

enum {
    MSGPROTO_INJECT = 512,   /* bytes that an operation has room for */
    MSGPROTO_SMALL = 192,    /* of payload that are copied behind the header, not gathered */
    MSGPROTO_IOV = 4,        /* local segments of an operation */
    MSGPROTO_ANSWERS = 1024, /* that may wait to be sent to a peer that we still read from */
};

/* The context of the lower's completions. */
struct rxm_context {
    /* error: NULL is success, then len counts. */
    void (*done)(struct rxm_context *context, size_t len, const struct fi_cq_err_entry *error);
};

/*
 * One operation of the lower, one of the application, or both. One of the application that takes
 * several of the lower has them as children, and ends when it has `posted` them all and none is
 * pending. `step` posts what is still to be posted: 0, -FI_EAGAIN (it is called again, in order
 * with the others that stall), or another error that ends the connection.
 */
struct rxm_op {
    struct mr_buffer buffer;
    struct rxm_context context;
    struct list link;    /* of the connection's operations */
    struct list stalled; /* of those whose step answered -FI_EAGAIN */
    struct rxm_conn *conn;
    struct rxm_op *parent;
    int (*step)(struct rxm_op *op);
    void (*end)(struct rxm_op *op, int err); /* all is done, or the connection has ended */
    /* For its completion */
    void *user;
    uint64_t flags;
    bool wanted, is_inject;
    bool counted; /* one of the application's */
    bool answer;  /* a packet that answers one of the peer's */
    bool reads;   /* remote memory, for the application */
    bool posted;  /* nothing is left to post */
    bool has_desc;
    bool flush;   /* its end is the answer to a flush */
    uint8_t kind; /* enum binding_kind */
    uint8_t state;
    unsigned pending;
    int err;
    uint64_t lower_flags;
    /* The memory that it works on */
    struct rxm_packet packet; /* head of a message, or of an answer */
    struct rxm_inbound *inbound;
    size_t len, at;
    uint64_t id; /* in msgproto->ids, where it waits for an answer; or IDS_NONE */
    unsigned iov_count, place_count, place;
    size_t place_at;
    struct iovec iov[MSGPROTO_IOV];
    void *desc[MSGPROTO_IOV];
    struct rxm_place places[RXM_PLACES];
    struct fid_mr *mrs[MSGPROTO_IOV];
    void *bounce;      /* an item of msgproto->bounces, or NULL */
    size_t byte_count; /* of `bytes`, for a packet of one piece */
    uint8_t bytes[RXM_PACKET_SIZE + MSGPROTO_INJECT];
};

/* A received packet's memory. */
struct rxm_packet_buffer {
    struct mr_buffer buffer;
    struct rxm_context context;
    struct rxm_conn *conn;
    struct list held; /* of the messages that the lower keeps for us, or of posted receives */
    struct fi_peer_rx_entry entry;
    struct iovec iov;
    struct ep_receive receive; /* as it is posted */
    uint8_t bytes[];
};

/* A piece of a message that waits for its receive. */
struct rxm_piece {
    struct rxm_piece *next;
    size_t len;
    uint8_t bytes[];
};

enum rxm_inbound_kind {
    RXM_IN_SAVED,    /* complete */
    RXM_IN_SEGMENTS, /* in pieces, some of them still to come */
    RXM_IN_READ,     /* at its sender; to be read */
    RXM_IN_WRITE,    /* at its sender, which writes it when told where */
};

/* A message that is not delivered with its first packet. */
struct rxm_inbound {
    struct list link;               /* of the connection; */
    struct rxm_conn *conn;          /* NULL: the connection is closed */
    struct fi_peer_rx_entry *entry; /* ours from `matched` on, else the engine's */
    struct rxm_packet head;
    uint8_t kind; /* enum rxm_inbound_kind */
    bool pooled;  /* matched at once; else its own memory, which may outlive the endpoint */
    bool matched;
    bool discarded; /* no receive wants it */
    bool lost;      /* the connection ended before it had all come */
    uint32_t next_segment;
    size_t got;  /* bytes that have come */
    size_t room; /* of the receive */
    size_t cost; /* counted in msgproto->saved */
    struct rxm_piece *pieces, **pieces_end;
    unsigned place_count;
    struct rxm_place places[RXM_PLACES];
    unsigned mr_count;
    struct fid_mr *mrs[MSGPROTO_IOV];
};

/* How packets get their memory. */
enum rxm_feed {
    RXM_FEED_ASKED,  /* the lower asks for it, packet by packet (FI_PEER) */
    RXM_FEED_POSTED, /* receives are posted to each connection */
};

/* An endpoint's part of tags=emulate. */
struct msgproto {
    struct rxm_ep *ep;
    struct fid_peer_cq sink; /* the lower's sink */
    struct mr_pool ops, packets, bounces;
    struct rxm_op *plain; /* of msgproto_plain.h, ready to be sent (buffer.next) */
    struct pool inbounds;
    struct ids ids;      /* of operations that wait for an answer */
    struct list stalled; /* connections (msgproto_conn.stalled) with operations that stall */
    struct list broken;  /* connections to be ended (msgproto_conn.broken) */
    struct list held;    /* struct rxm_packet_buffer: messages that the lower keeps */
    uint64_t next_message;
    size_t used, limit; /* operations of the application */
    size_t saved, saved_limit;
    bool saved_said; /* the bound was reached, and said */
    bool refill;     /* there may be room again */
    enum rxm_feed feed;
    unsigned queue;   /* receives posted to a connection, at most */
    uint8_t flow;     /* enum rxm_flow */
    bool lower_waits; /* a sender waits in the lower while there is no receive (FI_RM_ENABLED) */
    bool write_rndv;  /* own rendezvous are written, not read */
    bool virt_addr, prov_key;
    bool local_mr;  /* the lower must know the memory that it works on (FI_MR_LOCAL), */
    bool registers; /* and the application does not see to that */
    bool in_turn;   /* the lower tells us of packets before it does what comes behind them */
    bool delivers;  /* the lower has FI_DELIVERY_COMPLETE */
    bool data_takes_receive; /* a write with CQ data costs its target one (FI_RX_CQ_DATA) */
    size_t eager_limit, segment_limit;
    bool limit_said; /* by sar_limit; else the lower is asked */
    size_t inject;   /* bytes that a post copies */
    size_t lower_inject, lower_iov, lower_rma_iov, lower_max;
    uint64_t mr_flags; /* of regions of our own */
    uint64_t key;      /* the last one chosen */
    uint64_t key_mask; /* of what fits the lower's keys */
};

/* Levels that say more than that the peer's device has it. */
#define MSGPROTO_LATE (FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE)

/* Flags of a post as the lower may be given them: where it does not have FI_DELIVERY_COMPLETE, a
 * flush sees to that (msgproto_flush). */
static inline uint64_t msgproto_lower_flags(const struct msgproto *msgproto, uint64_t flags)
{
    if (__builtin_expect(msgproto->delivers || !(flags & MSGPROTO_LATE), 1))
        return flags;
    return (flags & ~MSGPROTO_LATE) | FI_TRANSMIT_COMPLETE;
}

/* ---- msgproto.c ---- */

/* Of an endpoint with its infos; sets ep->msgproto. */
int msgproto_open(struct rxm_ep *ep);
void msgproto_close(struct rxm_ep *ep); /* of an endpoint without connections */
/* ep, not connected yet, is one of the lower: sets what only it tells. */
void msgproto_ask(struct msgproto *msgproto, struct fid_ep *ep);
/* Ends broken connections, goes on with what stalls. */
void msgproto_run(struct msgproto *msgproto);
/* There may be room again: receives are to be posted, or packets taken from the lower. */
static inline void msgproto_set_refill(struct msgproto *msgproto)
{
    msgproto->refill = true;
    msgproto->ep->attend = true;
}
/* After a change of stalled, broken or refill to more, ep->attend is set. */
static inline bool msgproto_busy(const struct msgproto *msgproto)
{
    return !list_empty(&msgproto->stalled) || !list_empty(&msgproto->broken) || msgproto->refill;
}
/* 0 when it is safe to sleep. */
int msgproto_trywait(const struct msgproto *msgproto);

/* ---- msgproto_conn.c ---- */

/* There may be room again for what was left with the lower. */
void msgproto_refill(struct msgproto *msgproto);
static inline bool msgproto_full(const struct msgproto *msgproto)
{
    return msgproto->saved > msgproto->saved_limit;
}

/* No more is taken from the peer for now. */
static inline bool msgproto_stopped(const struct rxm_conn *conn)
{
    return msgproto_full(conn->owner->msgproto) || conn->msgproto.answers > MSGPROTO_ANSWERS;
}

struct rxm_packet_buffer *rxm_packet_buffer_get(struct rxm_conn *conn); /* NULL without memory */
void rxm_packet_buffer_put(struct rxm_packet_buffer *buffer);

/* ---- msgproto_posted.c ---- */

/* Completions of receives, where each connection has a queue of its own; by enum rxm_feed. */
extern struct fi_ops_cq_owner msgproto_rx_ops[];
/* As msgproto_conn_fill, while the connection is in use; and grants what that allows. */
void msgproto_post_more(struct rxm_conn *conn);
void msgproto_post_up(struct rxm_conn *conn);
/* The lower's endpoint is closed. */
void msgproto_post_end(struct rxm_conn *conn);
/* A peer has written, with CQ data. conn: NULL when the lower's queue does not tell; context: of
 * the receive that it took, where it takes one. */
void msgproto_written(struct msgproto *msgproto, struct rxm_conn *conn, struct rxm_context *context,
                      uint64_t flags, size_t len, uint64_t data);

/* ---- msgproto_op.c ---- */

/* Reports what the application waits for, and frees. */
void rxm_op_report(struct rxm_op *op, int err);
/* Sets what says how an operation goes. */
static inline void rxm_op_init(struct rxm_op *op)
{
    op->parent = NULL;
    op->inbound = NULL;
    op->bounce = NULL;
    op->id = IDS_NONE;
    op->end = rxm_op_report;
    op->mrs[0] = NULL;
    op->counted = false;
    op->answer = false;
    op->reads = false;
    op->posted = false;
    op->is_inject = true;
    op->wanted = false;
    op->state = 0;
    op->pending = 0;
    op->err = 0;
    op->flush = false;
    op->lower_flags = 0;
    op->at = 0;
    op->packet.type = RXM_EAGER; /* nothing that goes first, until it is said */
    list_init(&op->stalled);
    list_init(&op->link);
}

/* Sets what the report of a post says and depends on; len: bytes of the completion. */
static inline void rxm_op_fill(struct rxm_op *op, const struct op *post, enum binding_kind kind,
                               size_t len)
{
    op->user = post->context;
    op->flags = post->kind;
    op->is_inject = op_is_inject(post);
    op->wanted = !op_is_inject(post) &&
                 completion_wanted(op->conn->owner->base.binding.tx_selective, post->flags);
    op->kind = kind;
    op->len = len;
}

/* An operation of a connection; NULL without memory. Fields from `user` on are undefined, but for
 * those that say how it goes (counted, posted, pending, err, bounce, inbound, mrs). */
struct rxm_op *rxm_op_get(struct rxm_conn *conn);
/* One that answers the peer. */
struct rxm_op *rxm_op_get_answer(struct rxm_conn *conn);
/* One of the application; NULL at the limit too. */
struct rxm_op *rxm_op_get_counted(struct rxm_conn *conn);
void rxm_op_put(struct rxm_op *op);
/* A child has ended, or everything was posted: ends the operation if that was the last. */
void rxm_op_settle(struct rxm_op *op);
/* A child of op, whose end counts there. */
struct rxm_op *rxm_op_child(struct rxm_op *parent);
/* Runs the step, or queues it behind those that stall. May have freed it. */
void rxm_op_start(struct rxm_op *op);
/* Goes on with the operations of a connection that stall. */
void rxm_op_resume(struct rxm_conn *conn);
void rxm_op_report_error(struct rxm_op *op, const struct fi_cq_err_entry *error);
/* Posts the packet in op->bytes, counting credits. Returns as fi_sendmsg. */
ssize_t rxm_op_send_bytes(struct rxm_op *op);
/* Steps that do so: of a packet that is complete, and of an answer, which lacks the peer's id. */
int rxm_op_step_bytes(struct rxm_op *op);
int rxm_op_step_answer(struct rxm_op *op);
/* The done of any operation: its lower has completed one more. */
void rxm_op_done(struct rxm_context *context, size_t len, const struct fi_cq_err_entry *error);
/* Sends a packet of ours, sooner or later; payload may be NULL. */
void rxm_send_control(struct rxm_conn *conn, const struct rxm_packet *packet, const void *payload,
                      size_t len);
/* Registers memory with the lower, one region for each segment, and fills in its places (or NULL).
 */
int msgproto_register(struct msgproto *msgproto, const struct iovec *iov, size_t count,
                      uint64_t access, struct fid_mr **mrs, struct rxm_place *places);
void msgproto_unregister(struct fid_mr **mrs, size_t count);
/* The part of iov from `at` on, `len` bytes or as much as fits `limit` segments; returns the count
 * and the bytes. */
size_t rxm_iov_slice(const struct iovec *iov, void *const *desc, size_t count, size_t at,
                     size_t *len, struct iovec *out, void **out_desc, size_t limit);

/* ---- msgproto_move.c ---- */

/* Sets op's memory: the segments that are not empty. */
void rxm_op_set_memory(struct rxm_op *op, const struct iovec *iov, void *const *desc, size_t count);
/* Registers op's memory for its own use, until rxm_op_put. */
int msgproto_register_local(struct rxm_op *op, uint64_t access);
/*
 * A step: posts what is left between op's memory and its places, reading or writing, with op's
 * lower_flags; FI_REMOTE_CQ_DATA, for packet.data, goes with the last access.
 */
int msgproto_move(struct rxm_op *op, bool read);

/* ---- msgproto_send.c ---- */

ssize_t msgproto_send(struct rxm_conn *conn, const struct op *post);

/* ---- msgproto_rma.c ---- */

ssize_t msgproto_rma(struct rxm_conn *conn, const struct op *post);

/* ---- msgproto_atomic.c ---- */

ssize_t msgproto_atomic(struct rxm_conn *conn, const struct op *post);
/* As atomic_count; and fi_query_atomic. */
int msgproto_atomic_count(struct rxm_ep *ep, enum fi_datatype datatype, enum fi_op op,
                          uint64_t function, size_t *count);
int msgproto_query_atomic(const struct params *params, enum fi_datatype datatype, enum fi_op op,
                          struct fi_atomic_attr *attr, uint64_t flags);
/* Must the post be followed by a flush, since the lower has no FI_DELIVERY_COMPLETE? */
static inline bool msgproto_flushes(const struct msgproto *msgproto, uint64_t flags)
{
    return __builtin_expect(flags & MSGPROTO_LATE && !msgproto->delivers, 0);
}
/* op has ended and the peer's device has its bytes, sent or written to places[0] (else: zeros).
 * Asks the peer's library, which answers when it has them; op is reported then. */
void msgproto_flush(struct rxm_op *op, int err);
/* Packets of atomics. NULL, or what is wrong with it. */
const char *msgproto_atomic_request(struct rxm_conn *conn, const struct rxm_packet *packet,
                                    const uint8_t *payload);
const char *msgproto_atomic_done(struct rxm_conn *conn, const struct rxm_packet *packet,
                                 const uint8_t *payload);

/* ---- msgproto_recv.c ---- */

/* A packet has come. */
void msgproto_packet(struct rxm_conn *conn, const uint8_t *raw, size_t len);
/* A tagged message without a packet around it; data: of the CQ, or NULL. */
void msgproto_bare(struct rxm_conn *conn, const uint8_t *payload, size_t len, uint64_t tag,
                   const uint64_t *data);
/* Of a message that is complete, or never will be: its receive ends, unless the application
 * discarded it, and its memory is given back. */
void rxm_inbound_end(struct rxm_inbound *inbound, int err);
/* The connection has ended: messages under way end in error, unmatched ones that have not come
 * whole will. */
void msgproto_recv_fail(struct rxm_conn *conn, int err);
/* The connection is freed: what waits with an upper's receive context stays there without it. */
void msgproto_recv_orphan(struct rxm_conn *conn);
extern struct fi_ops_srx_peer msgproto_source_ops;

/* ---- msgproto_rndv.c ---- */

ssize_t rxm_rndv_send(struct rxm_conn *conn, const struct op *post, size_t len);
/* A message at its sender was matched (or discarded): fetches it. */
void rxm_rndv_start(struct rxm_inbound *inbound);
/* Packets of a rendezvous. NULL, or what is wrong with it. */
const char *rxm_rndv_read(struct rxm_conn *conn, const struct rxm_packet *packet);
const char *rxm_rndv_place(struct rxm_conn *conn, const struct rxm_packet *packet,
                           const uint8_t *payload);
const char *rxm_rndv_written(struct rxm_conn *conn, const struct rxm_packet *packet);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tags=emulate: reliable datagrams in rxm's own packets, over connections without tags. What its
 * rooms share; docs/design/rxm.md has the whole.
 *
 *   rxm_emu_post     the application's calls           rxm_emu_link    what a connection has more
 *   rxm_emu_send     messages out: eager, segments     rxm_emu_op      operations of the lower
 *   rxm_emu_recv     packets in; messages in           rxm_emu_rma     remote memory
 *   rxm_emu_rndv     rendezvous, both ends
 *
 * Everything is guarded by the unit's lock. The lower calls back while it is driven, and from
 * inside of posts: a completion may have come before the post returns.
 */
#ifndef WEFT_LAYERS_RXM_EMU_H
#define WEFT_LAYERS_RXM_EMU_H

#include "core/iov.h"
#include "core/mr.h"
#include "core/pool.h"
#include "core/post.h"
#include "layers/rxm/rxm_buffers.h"
#include "layers/rxm/rxm_credit.h"
#include "layers/rxm/rxm_emu_link.h"
#include "layers/rxm/rxm_link.h"
#include "layers/rxm/rxm_packet.h"

enum {
    RXM_EMU_INJECT = 512,   /* bytes that a post copies */
    RXM_EMU_IOV = 4,        /* local segments of an operation */
    RXM_EMU_ANSWERS = 1024, /* that may wait to be sent to a peer who is still listened to */
};

/* What the lower's completions carry as context. */
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
    struct rxm_buffer buffer;
    struct rxm_context context;
    struct list link;    /* of the connection's operations */
    struct list stalled; /* of those whose step answered -FI_EAGAIN */
    struct rxm_link *conn;
    struct rxm_op *parent;
    int (*step)(struct rxm_op *op);
    void (*end)(struct rxm_op *op, int err); /* all is done, or the connection has ended */
    /* What is reported */
    void *user;
    uint64_t flags;
    bool wanted, silent;
    bool counted; /* one of the application's */
    bool answer;  /* a packet that answers one of the peer's */
    bool posted;  /* nothing is left to post */
    bool has_desc;
    uint8_t kind; /* enum report_kind */
    uint8_t state;
    unsigned pending;
    int err;
    uint64_t lower_flags;
    /* What it works on */
    struct rxm_packet packet; /* head of a message, or of an answer */
    struct rxm_inbound *inbound;
    size_t len, at;
    uint64_t id; /* in emu->ids; of one that waits for an answer */
    unsigned iov_count, place_count, place;
    size_t place_at;
    struct iovec iov[RXM_EMU_IOV];
    void *desc[RXM_EMU_IOV];
    struct rxm_place places[RXM_PLACES];
    struct fid_mr *mrs[RXM_EMU_IOV];
    void *bounce;      /* an item of emu->bounces, or NULL */
    size_t byte_count; /* of `bytes`: what a packet of one piece has */
    uint8_t bytes[RXM_PACKET_SIZE + RXM_EMU_INJECT];
};

/* A received packet's memory. */
struct rxm_packet_buffer {
    struct rxm_buffer buffer;
    struct rxm_context context;
    struct rxm_link *conn;
    struct list held; /* of the messages that the lower keeps for us, or of posted receives */
    struct fi_peer_rx_entry entry;
    struct iovec iov;
    uint8_t bytes[];
};

/* What messages waited for their receive are made of. */
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
    struct rxm_link *conn;          /* NULL: the connection is closed */
    struct fi_peer_rx_entry *entry; /* ours from `matched` on, else the engine's */
    struct rxm_packet head;
    uint8_t kind; /* enum rxm_inbound_kind */
    bool pooled;  /* matched at once; else its own memory, which may outlive the endpoint */
    bool matched;
    bool discarded; /* nobody wants it */
    bool lost;      /* the connection ended before it had all come */
    uint32_t next_segment;
    size_t got;  /* bytes that have come */
    size_t room; /* of the receive */
    size_t cost; /* counted in emu->saved */
    struct rxm_piece *pieces, **pieces_end;
    unsigned place_count;
    struct rxm_place places[RXM_PLACES];
    unsigned mr_count;
    struct fid_mr *mrs[RXM_EMU_IOV];
};

/* Items by number; the number changes with each use. */
struct rxm_ids {
    struct rxm_id_slot *slots;
    uint32_t count, free;
};

/* How packets get their memory. */
enum rxm_feed {
    RXM_FEED_ASKED,  /* the lower asks for it, packet by packet (FI_PEER) */
    RXM_FEED_POSTED, /* receives are posted to each connection */
};

/* What the mode adds to an endpoint. */
struct rxm_emu {
    struct rxm_ep *ep;
    struct fid_peer_cq sink; /* what the lower completes to */
    struct rxm_buffers ops, packets, bounces;
    struct pool inbounds;
    struct rxm_ids ids;
    struct list stalled; /* connections (rxm_emu_link.stalled) with operations that stall */
    struct list broken;  /* connections to be ended (rxm_emu_link.broken) */
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
    bool data_takes_receive; /* a write with CQ data costs its target one (FI_RX_CQ_DATA) */
    size_t eager_limit, segment_limit;
    bool limit_said; /* by sar_limit; else the lower is asked */
    size_t lower_inject, lower_iov, lower_max;
    uint64_t mr_flags; /* of regions of our own */
    uint64_t key;      /* the last one chosen */
    uint64_t key_mask; /* of what fits the lower's keys */
};

/* ---- rxm_emu.c ---- */

/* Of an endpoint with its infos; sets ep->emu. */
int rxm_emu_open(struct rxm_ep *ep);
void rxm_emu_close(struct rxm_ep *ep); /* of an endpoint without connections */
/* ep, not connected yet, is one of the lower: sets what only it tells. */
void rxm_emu_ask(struct rxm_emu *emu, struct fid_ep *ep);
/* Ends broken connections, goes on with what stalls. */
void rxm_emu_run(struct rxm_emu *emu);
static inline bool rxm_emu_busy(const struct rxm_emu *emu)
{
    return !list_empty(&emu->stalled) || !list_empty(&emu->broken) || emu->refill;
}
/* 0 when it is safe to sleep. */
int rxm_emu_trywait(const struct rxm_emu *emu);

uint64_t rxm_ids_add(struct rxm_ids *ids, void *item); /* UINT64_MAX without memory */
void *rxm_ids_find(const struct rxm_ids *ids, uint64_t id);
void rxm_ids_remove(struct rxm_ids *ids, uint64_t id);

/* ---- rxm_emu_link.c ---- */

/* There may be room again for what was left with the lower. */
void rxm_emu_refill(struct rxm_emu *emu);
/* No more is taken from the peer for now. */
bool rxm_emu_stopped(const struct rxm_link *link);
struct rxm_packet_buffer *rxm_packet_buffer_get(struct rxm_link *link); /* NULL without memory */
void rxm_packet_buffer_put(struct rxm_packet_buffer *buffer);

/* ---- rxm_emu_posted.c ---- */

/* A packet has come, or not (error). */
void rxm_emu_received(struct rxm_context *context, size_t len, const struct fi_cq_err_entry *error);
/* A message of a lower that has tags, in place of a packet; data: of the CQ, or NULL. */
void rxm_emu_received_bare(struct rxm_link *link, struct rxm_context *context, const void *buf,
                           size_t len, uint64_t tag, const uint64_t *data);
/* As rxm_emu_link_fill, while the connection is in use; and grants what that allows. */
void rxm_emu_post_more(struct rxm_link *link);
void rxm_emu_post_up(struct rxm_link *link);
/* The lower's endpoint is closed. */
void rxm_emu_post_end(struct rxm_link *link);
/* A peer has written, with CQ data. link: NULL when the lower's queue does not tell; context: of
 * the receive that it took, where it takes one. */
void rxm_emu_written(struct rxm_emu *emu, struct rxm_link *link, struct rxm_context *context,
                     uint64_t flags, size_t len, uint64_t data);

/* ---- rxm_emu_op.c ---- */

/* An operation of a connection; NULL without memory. Fields from `user` on are undefined, but for
 * those that say how it goes (counted, posted, pending, err, bounce, inbound, mrs). */
struct rxm_op *rxm_op_get(struct rxm_link *link);
/* One that answers the peer. */
struct rxm_op *rxm_op_get_answer(struct rxm_link *link);
/* One of the application; NULL at the limit too. */
struct rxm_op *rxm_op_get_counted(struct rxm_link *link);
void rxm_op_put(struct rxm_op *op);
/* A child has ended, or everything was posted: ends the operation if that was the last. */
void rxm_op_settle(struct rxm_op *op);
/* A child of op, whose end counts there. */
struct rxm_op *rxm_op_child(struct rxm_op *parent);
/* Runs the step, or queues it behind those that stall. May have freed it. */
void rxm_op_start(struct rxm_op *op);
/* Goes on with the operations of a connection that stall. */
void rxm_op_resume(struct rxm_link *link);
/* Reports what the application waits for, and frees. */
void rxm_op_report(struct rxm_op *op, int err);
void rxm_op_report_error(struct rxm_op *op, const struct fi_cq_err_entry *error);
/* Is the answer of a post one to try again? Another ends the connection. */
bool rxm_op_again(ssize_t rc);
/* Posts the packet in op->bytes, counting credits. What fi_sendmsg answers. */
ssize_t rxm_op_send_bytes(struct rxm_op *op);
/* Sends a packet of ours, sooner or later; payload may be NULL. */
void rxm_send_control(struct rxm_link *link, const struct rxm_packet *packet, const void *payload,
                      size_t len);
/* Registers op's memory with the lower, one region for each segment, and fills in its places. */
int rxm_emu_register(struct rxm_emu *emu, const struct iovec *iov, size_t count, uint64_t access,
                     struct fid_mr **mrs, struct rxm_place *places);
void rxm_emu_unregister(struct fid_mr **mrs, size_t count);
/* The part of iov from `at` on, `len` bytes or as much as fits `limit` segments; returns the count
 * and the bytes. */
size_t rxm_iov_slice(const struct iovec *iov, void *const *desc, size_t count, size_t at,
                     size_t *len, struct iovec *out, void **out_desc, size_t limit);

/* ---- rxm_emu_send.c ---- */

ssize_t rxm_emu_send(struct rxm_link *link, const struct post *post);

/* ---- rxm_emu_rma.c ---- */

ssize_t rxm_emu_rma(struct rxm_link *link, const struct post *post);

/* ---- rxm_emu_atomic.c ---- */

ssize_t rxm_emu_atomic(struct rxm_link *link, const struct post_atomic *post);
/* As atomic_count; and fi_query_atomic. */
int rxm_emu_atomic_count(struct rxm_ep *ep, enum fi_datatype datatype, enum fi_op op,
                         uint64_t function, size_t *count);
int rxm_emu_query_atomic(const struct params *params, enum fi_datatype datatype, enum fi_op op,
                         struct fi_atomic_attr *attr, uint64_t flags);
/* Packets of atomics. NULL, or what is wrong with it. */
const char *rxm_emu_atomic_request(struct rxm_link *link, const struct rxm_packet *packet,
                                   const uint8_t *payload);
const char *rxm_emu_atomic_done(struct rxm_link *link, const struct rxm_packet *packet,
                                const uint8_t *payload);

/* ---- rxm_emu_recv.c ---- */

/* A packet has come. */
void rxm_emu_packet(struct rxm_link *link, const uint8_t *raw, size_t len);
/* A tagged message without a packet around it; data: of the CQ, or NULL. */
void rxm_emu_bare(struct rxm_link *link, const uint8_t *payload, size_t len, uint64_t tag,
                  const uint64_t *data);
/* Ends a message: reports it, and gives the entry back. */
void rxm_emu_deliver(struct rxm_link *link, struct fi_peer_rx_entry *entry,
                     const struct rxm_packet *head, int err);
void rxm_inbound_put(struct rxm_inbound *inbound);
/* The connection has ended: messages under way end in error, unmatched ones that have not come
 * whole will. */
void rxm_emu_recv_fail(struct rxm_link *link, int err);
/* The connection is freed: what waits with an upper's receive context stays there without it. */
void rxm_emu_recv_orphan(struct rxm_link *link);
extern struct fi_ops_srx_peer rxm_emu_source_ops;

/* ---- rxm_emu_rndv.c ---- */

ssize_t rxm_rndv_send(struct rxm_link *link, const struct post *post, size_t len);
/* A message at its sender was matched (or discarded): fetches it. */
void rxm_rndv_start(struct rxm_inbound *inbound);
/* Packets of a rendezvous. NULL, or what is wrong with it. */
const char *rxm_rndv_read(struct rxm_link *link, const struct rxm_packet *packet);
const char *rxm_rndv_place(struct rxm_link *link, const struct rxm_packet *packet,
                           const uint8_t *payload);
const char *rxm_rndv_written(struct rxm_link *link, const struct rxm_packet *packet);

/* ---- rxm_emu_post.c ---- */

extern struct fi_ops_msg rxm_emu_msg_ops, rxm_emu_msg_tx_ops;
extern struct fi_ops_tagged rxm_emu_tagged_ops, rxm_emu_tagged_tx_ops;
extern struct fi_ops_rma rxm_emu_rma_ops;
extern struct fi_ops_atomic rxm_emu_atomic_ops;
/* With its own flags, whatever the defaults of the endpoint are. */
ssize_t rxm_emu_atomic_post(struct rxm_ep *ep, const struct post_atomic *post);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations that take more than one message, with the numbers that stand for them on the wire, and
 * the formats of messages. Progress domain locked.
 */
#ifndef WEFT_SHM_OP_H
#define WEFT_SHM_OP_H

#include <rdma/fi_atomic.h>

#include "transports/shm/shm_ep.h"

enum {
    SHM_IOV_LIMIT = 4,
    SHM_PIECES = SHM_IOV_LIMIT * SHM_IOV_LIMIT, /* of memory regions with several segments */
    SHM_SIZE = 4096,
    SHM_INJECT = 4096,
    SHM_INLINE = 112,
    SHM_ATOMIC_MAX = SHM_CHUNK / 2, /* bytes of operands; those to compare with come beside them */
    SHM_MIN_MULTI_RECV = 16384,
    SHM_MOST_WAITING = 65536, /* messages of a peer, whose tx_size is not larger */
    /* Operations of his, and answers to him: a FIN of his may be behind what he asks for next. */
    SHM_MOST_SERVED = 2 * SHM_MOST_WAITING,
};

/*
 * Bodies are 64-bit words in the order given, then payload. With SHM_IN_BULK the payload is
 * instead the words pos, len. Segments are (addr, len) of the sender's memory, for attaching.
 */
enum shm_wire {
    SHM_MSG = 1, /* [tag] [data] [number] payload */
    SHM_RTS,     /* [tag] [data] number|segments<<32 len segments...: a message waits there */
    SHM_CTS,     /* your number, my number, len: stream it */
    SHM_DATA,    /* your number, payload */
    SHM_FIN,     /* 32-bit numbers: these operations are done */
    SHM_ERROR,   /* your number, err */
    SHM_WRITE,   /* number|remote<<32 [data] (addr, len, key)... payload */
    SHM_FETCH,   /* number|remote<<32|segments<<40 [data] (addr, len, key)... segments...: a write
                    waits there */
    SHM_READ,    /* number|remote<<32|ask<<40 (addr, len, key)...; ask 1: tell me where it is */
    SHM_ATOMIC,  /* number|remote<<32 op|datatype<<8|way<<16 (addr, len, key)... operands, values
                    to compare with; the result comes as data */
    SHM_WHERE,   /* your number|segments<<32 my number segments...: what you read; CTS or FIN */
};

enum {
    SHM_TAGGED = 1,  /* has a tag */
    SHM_CQ_DATA = 2, /* has data */
    SHM_IN_BULK = 4,
    SHM_ANSWER = 8, /* has a number, and wants a FIN */
};

enum shm_role {
    SHM_OUT,     /* a send or write; ends with the peer's FIN; may be asked to stream */
    SHM_IN,      /* a read: data comes, or the peer puts it there and says FIN */
    SHM_FETCHER, /* gets an announced message or write */
    SHM_GIVER,   /* answers a read */
};

/* Numbers on the wire: struct ids. */
enum {
    SHM_INDEX_BITS = 20,
    SHM_ID_BITS = 32,
};

struct shm_op {
    struct list link_ops, work;
    struct shm_link *link;
    uint32_t id, remote;
    void *context;
    uint64_t flags;
    /* The second cache line; a small operation needs no more of it. */
    enum shm_role role;
    enum binding_kind kind;
    /* From here to `total` all is zero at first. */
    uint64_t behind; /* its part of the link's */
    bool wanted, message, has_data, streaming;
    bool timed;   /* for the choice of a way */
    bool asks;    /* a read that waits for the address to attach to */
    bool revoked; /* a region was closed meanwhile; further data is dropped */
    bool stamped; /* behind the last bytes that were attached to was the stamp of the link */
    uint8_t way;  /* enum shm_way, where one was chosen */
    uint8_t count, there_count, mr_count;
    size_t at, len;       /* bytes moved, to move */
    size_t index, offset; /* where in iov the next byte is */
    void *own;            /* memory of its own, that iov means: the result of an atomic operation */
    struct fi_peer_rx_entry *entry; /* of a message that is fetched */
    size_t total;                   /* its full length */
    uint64_t data;
    struct iovec iov[SHM_PIECES];      /* own memory */
    struct iovec there[SHM_IOV_LIMIT]; /* the peer's memory */
    struct mr *mrs[SHM_IOV_LIMIT];
};

/* An atomic operation in the making: post.iov are the operands, then what to compare with. */
struct shm_atomic {
    struct op post; /* its segments in bytes: iov and rma */
    const struct iovec *result;
    size_t result_count;
    size_t bytes; /* of the target */
};

/* way in a message. */
enum {
    SHM_WAY_FETCH = 1,
    SHM_WAY_COMPARE = 2,
};

/* An operation as it was asked for, and one in bytes. */
ssize_t shm_post_elements(struct shm_ep *ep, const struct op *asked);
ssize_t shm_post_atomic(struct shm_ep *ep, const struct shm_atomic *atomic);

void shm_ops_init(struct shm_ep *ep);
void shm_ops_finish(struct shm_ep *ep);
/* NULL without memory. */
struct shm_op *shm_op_get(struct shm_link *link, enum shm_role role);
void shm_op_put(struct shm_op *op);
/* By number, when it is one of this link's and in one of two roles; else NULL. */
static inline struct shm_op *shm_op_find(const struct shm_link *link, uint32_t id,
                                         enum shm_role role, enum shm_role other)
{
    struct shm_op *op = ids_find(&link->ep->ids, id);

    if (!op || op->link != link || (op->role != role && op->role != other))
        return NULL;
    return op;
}

/* An operation of the user's ends; err positive or 0. Frees it. */
void shm_op_end(struct shm_op *op, int err);
/* It cannot go on. Frees it. */
void shm_op_abort(struct shm_op *op, int err);

/* ---- shm_transfer.c: moving bytes ---- */

/* A fetcher has its memory, a giver its data: attaches, or asks, or streams. */
void shm_fetch(struct shm_op *op);
void shm_give(struct shm_op *op);
/* A fetcher has everything. */
void shm_fetched(struct shm_op *op);
/* A region of an access was closed meanwhile: no more of its memory is touched. */
bool shm_op_is_revoked(struct shm_op *op);
/* Tells the peer, since no more data will follow. Frees it. */
void shm_op_refuse(struct shm_op *op);
/* Sends as much as there is room for; false when bytes are left. */
bool shm_stream(struct shm_link *link);
/* One message of data; false when there is no room. */
bool shm_send_data(struct shm_link *link, struct shm_op *op);
bool shm_take_data(struct shm_link *link, struct shm_head head, const char *body);
bool shm_take_cts(struct shm_link *link, struct shm_head head, const char *body);

/* ---- shm_cma.c ---- */

/* The side that needs the bytes chooses the method, and copies or has the kernel copy. No process
 * writes into a peer's memory, which may serve another purpose by then (docs/decisions/shm.md). */
void shm_cma_fetch(struct shm_op *op);
bool shm_cma_reads(struct shm_op *op);
/* A giver may say where its memory is. */
bool shm_cma_tells(const struct shm_op *op);
/* A read has been told: attaches, or asks for a stream. */
void shm_cma_read(struct shm_op *op);
/* An operation that is timed has all of its bytes, or ends without. */
void shm_cma_timed(struct shm_op *op, bool done);
/* The giver does not tell, but sends data. */
void shm_cma_declined(struct shm_op *op);
void shm_cma_start(struct shm_op *op);
/* A step of each operation that attaches. */
void shm_cma_step(struct shm_ep *ep);

/* ---- shm_control.c: answers ---- */

void shm_controls_init(struct shm_ep *ep);
void shm_control_cts(struct shm_op *op);
void shm_control_fin(struct shm_link *link, uint32_t remote);
/* Of a giver. */
void shm_control_where(struct shm_op *op);
void shm_control_error(struct shm_link *link, uint32_t remote, int err);
/* Sends the gathered FINs and queued answers; false when something is left. */
bool shm_control_flush(struct shm_link *link);
bool shm_take_fin(struct shm_link *link, struct shm_head head, const char *body);
bool shm_take_error(struct shm_link *link, struct shm_head head, const char *body);
/* The link has something to write: progress sees to it. */
void shm_link_busy(struct shm_link *link);

/* ---- Words of a body. Each shared word is read once. ---- */

struct shm_words {
    const char *at, *end;
    bool bad; /* the body was shorter than it must be */
};

static inline struct shm_words shm_words(const char *body, struct shm_head head)
{
    return (struct shm_words){.at = body, .end = body + head.bytes};
}

static inline uint64_t shm_get(struct shm_words *words)
{
    uint64_t value;

    if (__builtin_expect((size_t)(words->end - words->at) < sizeof(value), 0)) {
        words->bad = true;
        return 0;
    }
    value = __atomic_load_n((const uint64_t *)(const void *)words->at, __ATOMIC_RELAXED);
    words->at += sizeof(value);
    return value;
}

static inline char *shm_put(char *body, uint64_t value)
{
    __builtin_memcpy(body, &value, sizeof(value));
    return body + sizeof(value);
}

/* Where the payload of a message is; NULL: the message is wrong. */
struct shm_payload {
    const char *bytes;
    uint64_t len, pos;
    bool bulk;
};

static inline bool shm_payload(const struct shm_link *link, struct shm_head head,
                               struct shm_words *words, struct shm_payload *payload)
{
    payload->bulk = head.flags & SHM_IN_BULK;
    if (!payload->bulk) {
        payload->bytes = words->at;
        payload->pos = 0;
        payload->len = (uint64_t)(words->end - words->at);
        return !words->bad;
    }
    payload->pos = shm_get(words);
    payload->len = shm_get(words);
    payload->bytes = shm_rx_bulk(&link->rx, payload->pos, payload->len);
    return !words->bad && payload->bytes;
}

/* The message and its payload are copied. */
static inline void shm_taken(struct shm_link *link, struct shm_head head,
                             const struct shm_payload *payload)
{
    if (payload->bulk)
        shm_rx_bulk_done(&link->rx, payload->pos, payload->len);
    shm_rx_consume(&link->rx, head);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving side of a connection: cuts the stream into records, finds where each payload goes
 * before it is read, and reports. All with the progress domain locked.
 */
#ifndef WEFT_TCP_RX_H
#define WEFT_TCP_RX_H

#include <rdma/providers/fi_peer.h>

#include "core/base/list.h"
#include "transports/tcp/tcp_dest.h"
#include "transports/tcp/tcp_tx.h"
#include "transports/tcp/tcp_wire.h"

struct tcp_atomic;
struct tcp_conn;
struct tcp_target;

/* A message that is not received in one go: unexpected, or offered by a rendezvous. It is the
 * peer_context of its entry while the owner of the receive context has that. */
struct tcp_inbound {
    struct list link;  /* of rx->inbounds */
    struct tcp_rx *rx; /* NULL: the endpoint was closed */
    struct fi_peer_rx_entry *entry;
    uint8_t *data; /* the payload saved so far, len bytes of room; NULL: none is saved */
    size_t len;
    uint64_t tag, cq_data;
    uint16_t flags;  /* of the record */
    uint8_t op;      /* TCP_OP_MSG, TCP_OP_TAG, TCP_OP_RTS */
    uint8_t context; /* of the rendezvous */
    bool started;    /* matched; entry is ours again */
    bool discarded;  /* no receive wants it; what still arrives is dropped */
    int error;       /* positive: the connection broke before all had arrived */
    uint8_t bytes[]; /* what data points to, unless room for it was found later */
};

struct tcp_rx {
    struct tcp_conn *conn;
    struct tcp_tx *tx; /* of the same connection: answers */
    struct list inbounds;
    bool tagged;         /* tags match receives with tags */
    uint32_t tags_plain; /* messages with tags take receives without */
    uint64_t left;       /* payload bytes of the current record still to come */
    uint64_t done;       /* payload bytes that have come */
    struct tcp_dest dest;
    struct fi_peer_rx_entry *entry; /* of a matched message */
    struct tcp_inbound *inbound;    /* of any other message */
    struct tcp_target *target;      /* of a write */
    struct tcp_atomic *atomic;      /* of a request to us */
    int status;                     /* of the answer to an atomic of ours */
    struct iovec saved;             /* what dest.iov points to while a payload is saved */
    uint64_t tag, cq_data;
    uint16_t flags;
    uint8_t op;
    bool active;       /* between header and last byte of a record */
    bool paused;       /* the current message waits for its receive: nothing is read */
    bool behind_reads; /* the next record waits until answers to reads have left */
    bool limit_said;
    bool eager; /* records are short: read many at once */
    uint8_t head_len;
    uint8_t head[TCP_WIRE_MAX];
    uint8_t *stash;               /* bytes behind the record that paused: */
    size_t stash_used, stash_len; /* from, to */
    uint8_t *taking;              /* the stash while it is read, else NULL */
    size_t saved_bytes;           /* of inbounds */
};

enum {
    TCP_CHOKE = 1024 /* answers that wait */
};

/* The next record has to wait: more answers wait than a peer that keeps to its limits can cause, or
 * it would find memory older than what those to earlier reads will tell of it. */
static inline bool tcp_rx_choked(const struct tcp_rx *rx)
{
    return rx->tx->urgent.count >= TCP_CHOKE || (rx->behind_reads && rx->tx->from_regions);
}

#endif

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

struct tcp_ep;

/* A message that is not received in one go: unexpected, or offered by a rendezvous. It is the
 * peer_context of its entry while the owner of the receive context has that. */
struct tcp_inbound {
    struct list link;  /* of ep->inbounds */
    struct tcp_ep *ep; /* NULL: the endpoint was closed */
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
    uint64_t left; /* payload bytes of the current record still to come */
    uint64_t done; /* payload bytes that have come */
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
    bool eager;    /* records are short: read many at once */
    bool readable; /* the socket may have more: no event will say so again */
    bool ended;    /* the peer hung up: read until the end */
    uint8_t head_len;
    uint8_t head[TCP_WIRE_MAX];
    uint8_t *stash;               /* bytes behind the record that paused: */
    size_t stash_used, stash_len; /* from, to */
    uint8_t *taking;              /* the stash while it is read, else NULL */
    size_t saved_bytes;           /* of ep->inbounds */
};

void tcp_rx_init(struct tcp_rx *rx);

/* Reads what there is, up to a budget. True when something came. May end in tcp_ep_fail. */
bool tcp_rx_progress(struct tcp_ep *ep);

/* Nothing but a receipt into the set's buffer is due: the caller may do it by itself. */
static inline bool tcp_rx_plain(const struct tcp_rx *rx)
{
    return !rx->active && rx->eager && !rx->paused && !rx->stash;
}
/* The rest of such a progress: got bytes are in the buffer, 0: the end, or a negative errno. */
bool tcp_rx_received(struct tcp_ep *ep, ssize_t got);

/* For receivers by other means (tcp_uring.h): */
/* `got` bytes of the payload are where dest says. 0 or a negative error. */
int tcp_rx_placed(struct tcp_ep *ep, size_t got);
/* Keeps bytes that come behind a stash or a message that waits. -FI_ENOMEM. */
int tcp_rx_keep(struct tcp_rx *rx, const uint8_t *bytes, size_t len);
/* Goes on with the stash, if nothing keeps it. 0 or a negative error. */
int tcp_rx_unstash(struct tcp_ep *ep);
/* The error, negative, that the end of the stream means. */
int tcp_rx_end(const struct tcp_rx *rx);

/* Reads records from bytes (of a stream or a fuzzer). 0, or a negative error after which the
 * connection is of no use. */
int tcp_rx_consume(struct tcp_ep *ep, const uint8_t *bytes, size_t len);

/* Ends what is half received: error entries for what was matched (err positive), or silently (0).
 * A message that has arrived whole stays with the owner of the receive context. */
void tcp_rx_fail(struct tcp_ep *ep, int err);
/* The endpoint is closed: messages still with their owner lose it. */
void tcp_rx_finish(struct tcp_ep *ep);

#endif

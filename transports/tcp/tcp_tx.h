/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending side of a connection: records in the order of their posts, an urgent queue for
 * answers (acks, read responses, clear-to-send) that goes between records and never splits one, and
 * the lists of those that wait for the peer. All with the progress domain locked.
 */
#ifndef WEFT_TCP_TX_H
#define WEFT_TCP_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "transports/tcp/tcp_queue.h"

struct tcp_ep;
struct pcap_flow;

struct tcp_tx {
    struct tcp_op *current; /* has left in part */
    size_t sent;            /* bytes of current that have left */
    struct tcp_queue urgent, normal;
    struct tcp_queue acks;  /* wait for an acknowledgement, in order */
    struct tcp_queue reads; /* and atomics: wait for a response, in order */
    struct tcp_op **rndv;   /* by context, 256 of them; NULL until used */
    unsigned rndv_count, rndv_next;
    unsigned rndv_waiting;  /* those whose request has left */
    unsigned posted, limit; /* operations of the application */
    unsigned reading;       /* of them, reads of memory */
    unsigned from_regions;  /* answers to reads that will leave from their region, uncopied */
    unsigned behind_reads;  /* kinds of records that stay behind those: tcp_order.h */
    uint8_t id;             /* of the next record */
    bool blocked;           /* the socket is full, or seemed so */
    bool promised;          /* it was, and an event tells of room */
    bool flushing;
    struct pcap_flow *flow; /* records the traffic; NULL: off */
    int error; /* positive: nothing can be sent any more; received bytes are still being read */
};

void tcp_tx_init(struct tcp_tx *tx, unsigned limit);

/* Queues an operation and sends what can be sent; more: another post follows at once. */
void tcp_tx_post(struct tcp_ep *ep, struct tcp_op *op, bool more);
void tcp_tx_flush(struct tcp_ep *ep);
/* `sent` bytes, not all, of a record that is in no queue have left. */
void tcp_tx_began(struct tcp_ep *ep, struct tcp_op *op, size_t sent);
/* After a stage was open (tcp_coalesce.h): the queues are the progress domain's again, and records
 * that have left are reported. Before anything is done to them. */
void tcp_tx_reclaim(struct tcp_ep *ep);
/* For the thread of open stages: one system call that takes nothing out of the queues. Bytes that
 * have left, or negative. */
ssize_t tcp_tx_send_ahead(struct tcp_tx *tx, int fd);

/* For senders by other means (tcp_uring.h): */
/* The kernel is done with the memory of records: completions, or the wait for the peer's word. */
void tcp_tx_left(struct tcp_ep *ep, struct tcp_queue *done);

/* Ends everything outstanding, with error entries (err positive) or silently (0). */
void tcp_tx_finish(struct tcp_ep *ep, int err);

#endif

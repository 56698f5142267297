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

#include "transports/tcp/tcp_coalesce.h"
#include "transports/tcp/tcp_queue.h"

struct tcp_conn;

struct tcp_tx {
    struct tcp_conn *conn;
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
    bool flushing;
    struct tcp_coalesce coalesce;
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting records, sending what can be sent, and the end of all of them. Progress domain locked. */
#ifndef WEFT_TCP_SEND_H
#define WEFT_TCP_SEND_H

#include "transports/tcp/tcp_tx.h"

/* limit: operations of the application. */
void tcp_send_init(struct tcp_tx *tx, struct tcp_conn *conn, unsigned limit);

/* Queues an operation and sends what can be sent; more: another post follows at once. */
void tcp_send_post(struct tcp_tx *tx, struct tcp_op *op, bool more);
void tcp_send_flush(struct tcp_tx *tx);
/* `sent` bytes, not all, of a record that is in no queue have left. */
void tcp_send_began(struct tcp_tx *tx, struct tcp_op *op, size_t sent);
/* After a stage was open (tcp_coalesce.h): the queues are the progress domain's again, and records
 * that have left are reported. Before anything is done to them. */
void tcp_send_reclaim(struct tcp_tx *tx);

/* For senders by other means (tcp_uring_io.h): */
/* The kernel is done with the memory of records: completions, or the wait for the peer's word. */
void tcp_send_left(struct tcp_tx *tx, struct tcp_queue *done);

/* Ends everything outstanding, with error entries (err positive) or silently (0). */
void tcp_send_finish(struct tcp_tx *tx, int err);

#endif

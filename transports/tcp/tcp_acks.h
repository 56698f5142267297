/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations that have left and end, or go on, at the word of the peer: acknowledged sends and
 * writes, reads and atomics, tagged sends that have asked first. Progress domain locked. */
#ifndef WEFT_TCP_ACKS_H
#define WEFT_TCP_ACKS_H

#include <stdbool.h>
#include <stdint.h>

struct tcp_tx;
struct tcp_op;
struct tcp_queue;
struct tcp_tx;

/* An acknowledgement has come. 0, or -FI_EPROTO when none is owed. */
int tcp_acks_ack(struct tcp_tx *tx);

/* The read or atomic that the next response is for, or NULL. It is done; or has failed, with what
 * the target says (positive). */
struct tcp_op *tcp_acks_response(struct tcp_tx *tx);
void tcp_acks_done(struct tcp_tx *tx);
void tcp_acks_failed(struct tcp_tx *tx, int err);

/* It has left, and was answered before that was known: then it has ended, and true. */
bool tcp_acks_answered(struct tcp_tx *tx, struct tcp_op *op);

/* Reserves a context for a send that asks first; 0 when all are in use. */
uint8_t tcp_acks_open(struct tcp_tx *tx, struct tcp_op *op);
/* A clear-to-send: the data is queued. 0, or -FI_EPROTO when nothing waits for it. */
int tcp_acks_clear(struct tcp_tx *tx, uint8_t context);

/* Moves all of them behind `all`, and forgets the contexts. */
void tcp_acks_give_up(struct tcp_tx *tx, struct tcp_queue *all);

#endif

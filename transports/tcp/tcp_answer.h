/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to the peer's requests: records of the urgent queue, which leave with the
 * next flush, between the records of the application. Each: 0 or -FI_ENOMEM. Progress domain
 * locked. */
#ifndef WEFT_TCP_ANSWER_H
#define WEFT_TCP_ANSWER_H

#include <stdint.h>

struct tcp_atomic;
struct tcp_target;
struct tcp_tx;
struct tcp_wire;

int tcp_answer_ack(struct tcp_tx *tx);
int tcp_answer_cts(struct tcp_tx *tx, uint8_t context);
/* Takes over target on success. */
int tcp_answer_read(struct tcp_tx *tx, const struct tcp_wire *request, struct tcp_target *target);
/* Sends the status and result of an atomic, which it takes over in any case. */
int tcp_answer_atomic(struct tcp_tx *tx, struct tcp_atomic *atomic);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to the peer's requests: records of the urgent queue, which leave with the
 * next flush, between the records of the application. Each: 0 or -FI_ENOMEM. Progress domain
 * locked. */
#ifndef WEFT_TCP_ANSWER_H
#define WEFT_TCP_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "transports/tcp/tcp_ep.h"

struct tcp_atomic;
struct tcp_target;
struct tcp_wire;

int tcp_answer_ack(struct tcp_ep *ep);
int tcp_answer_cts(struct tcp_ep *ep, uint8_t context);
/* Takes over target on success. */
int tcp_answer_read(struct tcp_ep *ep, const struct tcp_wire *request, struct tcp_target *target);
/* Sends the status and result of an atomic, which it takes over in any case. */
int tcp_answer_atomic(struct tcp_ep *ep, struct tcp_atomic *atomic);

enum {
    TCP_CHOKE = 1024 /* answers that wait */
};

/* The next record has to wait: more answers wait than a peer that keeps to its limits can cause, or
 * it would find memory older than what those to earlier reads will tell of it. */
static inline bool tcp_answer_choked(const struct tcp_ep *ep)
{
    return ep->tx.urgent.count >= TCP_CHOKE || (ep->rx.behind_reads && ep->tx.from_regions);
}

#endif

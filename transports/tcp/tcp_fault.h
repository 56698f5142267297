/* SPDX-License-Identifier: BSD-2-Clause */
/* A send that the kernel refused: finds the cause, and ends the operation or the connection.
 * Progress domain locked. */
#ifndef WEFT_TCP_FAULT_H
#define WEFT_TCP_FAULT_H

#include <stdbool.h>

#include "transports/tcp/tcp_gather.h"

/*
 * None of the gathered bytes has left, because of err (positive). True when sending goes on: the
 * one gathered record cannot be read from its memory (FI_EFAULT), the peer neither has nor awaits a
 * part of it, and its operation has ended in error. Else false: the queued records leave later, or
 * the connection ends, with tx.error. A broken socket is first read to its end, since the peer's
 * bytes still count; any other as far as progress gets.
 */
bool tcp_fault_send(struct tcp_tx *tx, const struct tcp_gather *gather, int err);
/* There are answers to reads that will leave from their regions: when one of these was closed, the
 * connection ends likewise, and this is true. */
bool tcp_fault_regions(struct tcp_tx *tx);
/* A region that the peer reads or writes was closed: the connection ends likewise. */
void tcp_fault_closed(struct tcp_tx *tx);

#endif

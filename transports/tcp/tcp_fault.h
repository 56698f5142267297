/* SPDX-License-Identifier: BSD-2-Clause */
/* A send that the kernel refused: finds the cause, and ends the operation or the connection.
 * Progress domain locked. */
#ifndef WEFT_TCP_FAULT_H
#define WEFT_TCP_FAULT_H

#include <stdbool.h>

#include "transports/tcp/tcp_gather.h"

/*
 * Nothing of what was gathered has left, because of err (positive). True when sending goes on: the
 * one record gathered cannot be read from its memory (FI_EFAULT), the peer has heard and waits for
 * nothing of it, and its operation has ended in error. Else it is false: what is queued leaves
 * later, or the connection ends, with tx.error. Of a socket that has broken all is read before,
 * since what the peer sent still counts; of any other as much as progress finds.
 */
bool tcp_fault_send(struct tcp_ep *ep, const struct tcp_gather *gather, int err);

#endif

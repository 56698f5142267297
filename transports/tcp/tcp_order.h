/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which records wait for what was posted before them. The stream keeps every order but one by
 * itself: the target answers a read from its memory when it sends, and may have taken later records
 * by then. Orders of something after a read are kept here, where they were asked: the record waits
 * until the reads before it have their data.
 */
#ifndef WEFT_TCP_ORDER_H
#define WEFT_TCP_ORDER_H

#include "transports/tcp/tcp_tx.h"

/* Offered where the hints ask: otherwise every write and send behind a read would cost a round
 * trip. */
#define TCP_ORDERS_ASKED ((uint64_t)(FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR))

/* The kinds of records, a bit each, that stay behind reads when msg_order was asked. */
unsigned tcp_order_behind_reads(uint64_t msg_order);

/* The condition that op, of its final kind and just being posted with flags, waits for. */
static inline uint8_t tcp_order_fence(const struct tcp_tx *tx, const struct tcp_op *op,
                                      uint64_t flags)
{
    if (flags & FI_FENCE)
        return TCP_FENCE_ALL;
    if (__builtin_expect(tx->behind_reads >> op->kind & 1, 0) && tx->reading)
        return TCP_FENCE_READS;
    return TCP_FENCE_NONE;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Orders that an application asks for (fi_endpoint(3), msg_order), by operation: one that no order
 * names takes any PDC and loses no time when a packet before it is lost. Operations that an order
 * names share the ordered PDC of their peer, so both of its sides are found here.
 */
#include "core/op/op.h"
#include "transports/uet/uet.h"

#define SENDS (FI_ORDER_SAS | FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_RAS | FI_ORDER_WAS)
#define READS (FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR | FI_ORDER_SAR)
#define WRITES (FI_ORDER_WAW | FI_ORDER_WAR | FI_ORDER_WAS | FI_ORDER_RAW | FI_ORDER_SAW)
#define RMA_READS (FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR)
#define RMA_WRITES (FI_ORDER_RMA_WAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_RAW)
#define ATOMICS                                                                                    \
    (FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

bool uet_is_ordered(uint64_t orders, const struct op *op)
{
    if (op->group == OP_GROUP_ATOMIC) /* one of a tag is a send, too */
        return orders & (READS | WRITES | ATOMICS | (op->flags & FI_TAGGED ? SENDS : 0));
    if (op->group != OP_GROUP_RMA)
        return orders & SENDS;
    return orders & (op->kind & FI_READ ? READS | RMA_READS : WRITES | RMA_WRITES);
}

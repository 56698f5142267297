/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_order.h"

#include <rdma/fi_endpoint.h>

static unsigned bit(enum tcp_op_kind kind)
{
    return 1u << kind;
}

unsigned tcp_order_behind_reads(uint64_t msg_order)
{
    unsigned kinds = 0;

    if (msg_order & FI_ORDER_SAR)
        kinds |= bit(TCP_KIND_SEND) | bit(TCP_KIND_RTS);
    if (msg_order & FI_ORDER_WAR)
        kinds |= bit(TCP_KIND_WRITE) | bit(TCP_KIND_ATOMIC);
    if (msg_order & FI_ORDER_RMA_WAR)
        kinds |= bit(TCP_KIND_WRITE);
    return kinds;
}

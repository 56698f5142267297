/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets by the public functions of the connection's endpoint, which a lower may have made shorter
 * than its `post` (core/base/table.h): over verbs an op costs 240 instructions more. Progress
 * domain locked.
 */
#ifndef WEFT_LAYERS_RXM_MSGPROTO_MSGPROTO_SHORT_H
#define WEFT_LAYERS_RXM_MSGPROTO_MSGPROTO_SHORT_H

#include <rdma/fi_endpoint.h>

#include "layers/rxm/conn/rxm_conn.h"

/* With the lower endpoint's own flags. */
static inline ssize_t msgproto_short_send(const struct rxm_conn *conn, const void *bytes,
                                          size_t len, void *desc, void *context)
{
    return fi_send(conn->ep, bytes, len, desc, FI_ADDR_UNSPEC, context);
}

static inline ssize_t msgproto_short_inject(const struct rxm_conn *conn, const void *bytes,
                                            size_t len)
{
    return fi_inject(conn->ep, bytes, len, FI_ADDR_UNSPEC);
}

#endif

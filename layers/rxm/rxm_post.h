/* SPDX-License-Identifier: BSD-2-Clause */
/* struct ep.post of an endpoint, in each mode, and struct ep.atomic_valid. */
#ifndef WEFT_LAYERS_RXM_RXM_POST_H
#define WEFT_LAYERS_RXM_RXM_POST_H

#include "layers/rxm/conn/rxm_conn.h"

/* Of an endpoint that has just been enabled: the public functions of the plainest receives. */
void rxm_quick_enable(struct rxm_ep *ep);
/* Its default flags of transmissions have changed. Progress domain locked. */
void rxm_quick_tx_flags(struct rxm_ep *ep);

ssize_t rxm_post(struct ep *base, struct op *op);
ssize_t msgproto_post(struct ep *base, struct op *op);
int rxm_atomic_valid(struct ep *base, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count);

/* With tags=emulate, of an op with final flags, on its connection. Progress domain locked. */
ssize_t msgproto_post_conn(struct rxm_conn *conn, const struct op *op);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control path of an endpoint: its listener and event queue on the lower, the connection
 * manager's events and actions, timers, and changes of the AV. Progress domain locked, but for
 * open, start and close.
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_CONTROL_H
#define WEFT_LAYERS_RXM_CONN_RXM_CONTROL_H

#include <rdma/fi_eq.h>

#include "layers/rxm/rxm_ep.h"

enum {
    RXM_PRIVATE_DATA_MAX = 256 /* bytes of an event beyond its entry */
};

/* The EQ and the listener, which has its address from then on (if the lower gives it so early). */
int rxm_control_open(struct rxm_ep *ep);
/* Listens. Progress domain unlocked; all of the endpoint is set up but this. */
int rxm_control_start(struct rxm_ep *ep);
/* Closes every connection and what open made; takes what was never started, or opened. */
void rxm_control_close(struct rxm_ep *ep);

/* A request that the listener has got, with len bytes of data; takes entry->info. */
void rxm_control_request(struct rxm_ep *ep, struct fi_eq_cm_entry *entry, size_t len);

#endif

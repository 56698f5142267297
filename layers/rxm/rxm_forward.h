/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives of a context that is the upper's (FI_PEER): the lower's questions go on to the owner
 * with the source added, and the owner's to the connection that a message waits in. Unit locked.
 *
 * An entry carries the context that it belongs to and the lower's own pointer. Both are exchanged
 * at every crossing; a message that waits with the owner has a record in between, which outlives
 * its connection.
 */
#ifndef WEFT_LAYERS_RXM_FORWARD_H
#define WEFT_LAYERS_RXM_FORWARD_H

#include "layers/rxm/rxm_link.h"

/* What the owner calls for messages that wait: peer_ops of its context. */
extern struct fi_ops_srx_peer rxm_forward_peer_ops;

/* Makes link->source ask owner. */
void rxm_forward_init(struct rxm_link *link, struct fid_peer_srx *owner, fi_addr_t addr);
/* The source has an address now: the owner is told. */
void rxm_forward_resolve(struct rxm_link *link, fi_addr_t addr);
/* The connection is closed; what waits with the owner stays there without it. */
void rxm_forward_finish(struct rxm_link *link);

#endif

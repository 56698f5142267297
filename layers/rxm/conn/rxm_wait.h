/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations that were posted before their connection was there, or (tags=emulate) while it took
 * no more. They wait at their peer, in order (core/ep/op_queue.h), and are posted when it is up;
 * when it cannot be made, or ends, each ends in its error. As long as one waits, peer->up is NULL,
 * so that no later post overtakes it. An endpoint keeps as many as its transmit size says; beyond
 * them a post is -FI_EAGAIN. So is one with FI_INJECT from the first on: its caller may never call
 * again. The post itself starts the connection. Progress domain locked.
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_WAIT_H
#define WEFT_LAYERS_RXM_CONN_RXM_WAIT_H

#include "layers/rxm/rxm_ep.h"

/* Keeps the operation, with a copy of the arrays that the caller may reuse (segments and
 * descriptors), after the checks that need no connection. 0, or as fi_sendmsg; with FI_INJECT never
 * 0, but the error when no connection can be made. */
ssize_t rxm_wait_add(struct rxm_ep *ep, struct op *op);

/* The state of the peer's connection has changed: the next run looks at what waits for it. */
void rxm_wait_wake(struct rxm_ep *ep, struct rxm_peer *peer);
/* Posts, or ends, what can be. True: there was something. */
bool rxm_wait_run(struct rxm_ep *ep);

/* Ends all that waits for the peer in error; why: a sentence, or NULL for the error's own. */
void rxm_wait_fail(struct rxm_ep *ep, struct rxm_peer *peer, int err, const char *why);

#endif

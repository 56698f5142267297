/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations that were posted before their connection was there. They wait at their peer, in order,
 * and are posted when it is up; when it cannot be made, each ends in the error. As long as one
 * waits, peer->up is NULL, so that nothing overtakes it. An endpoint keeps as many as its transmit
 * size says; beyond them a post is -FI_EAGAIN. Unit locked.
 */
#ifndef WEFT_LAYERS_RXM_WAIT_H
#define WEFT_LAYERS_RXM_WAIT_H

#include "core/post.h"
#include "layers/rxm/rxm_ep.h"

/* Keeps a copy of what the caller may take back (segments, descriptors, and payloads with
 * FI_INJECT), after the checks that need no connection. 0, or as fi_sendmsg. */
ssize_t rxm_wait_add(struct rxm_ep *ep, const struct post *post);
ssize_t rxm_wait_add_atomic(struct rxm_ep *ep, const struct post_atomic *post);

/* The state of the peer's connection has changed: the next run looks at what waits for it. */
void rxm_wait_wake(struct rxm_ep *ep, struct rxm_peer *peer);
/* Posts, or ends, what can be. True: there was something. */
bool rxm_wait_run(struct rxm_ep *ep);

/* Ends all that waits for the peer in error; why: a sentence, or NULL for the error's own. */
void rxm_wait_fail(struct rxm_ep *ep, struct rxm_peer *peer, int err, const char *why);
/* Ends the oldest of that context with FI_ECANCELED, or -FI_ENOENT. */
int rxm_wait_cancel(struct rxm_ep *ep, const void *context);
/* Forgets all without a word. */
void rxm_wait_drop(struct rxm_ep *ep);

/* Every form of a post, for endpoints whose own tables find no connection; locked already. */
extern struct fi_ops_msg rxm_wait_msg;
extern struct fi_ops_tagged rxm_wait_tagged;
extern struct fi_ops_rma rxm_wait_rma;

#endif

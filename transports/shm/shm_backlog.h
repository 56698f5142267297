/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posts that are accepted, and wait: for room in the ring, or for what they are to stay behind. All
 * later ones of the link wait behind them. Each counts as outstanding (tx_attr->size), so that as
 * many are accepted as the attribute says, whatever the peer does. Progress domain of the endpoint
 * locked.
 */
#ifndef WEFT_SHM_BACKLOG_H
#define WEFT_SHM_BACKLOG_H

#include "transports/shm/shm_op.h"

void shm_backlog_init(struct shm_ep *ep);
void shm_backlog_finish(struct shm_ep *ep);

/* 0, or -FI_EAGAIN: as many as may be are outstanding, or there is no memory. atomic: what post is
 * of, or NULL. */
ssize_t shm_backlog_add(struct shm_link *link, const struct op *post,
                        const struct shm_atomic *atomic, size_t len);
/* Posts what it can; false when something is left. */
bool shm_backlog_post(struct shm_link *link);
/* The link is dead: all end with its error. */
void shm_backlog_fail(struct shm_link *link);
/* Nothing is reported. */
void shm_backlog_drop(struct shm_link *link);
/* The endpoint closes: for the application, operations without a completion are done, so peers that
 * still take messages get the time to take these. */
void shm_backlog_linger(struct shm_ep *ep);

/* ---- shm_post.c ---- */

/* Posts one of the backlog, whose turn it is: 0 or -FI_EAGAIN. */
ssize_t shm_post_again(struct shm_link *link, const struct op *post,
                       const struct shm_atomic *atomic, size_t len);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* An operation that waits: of the rooms rxm_wait, rxm_wait_copy and rxm_wait_run. */
#ifndef WEFT_LAYERS_RXM_WAIT_COPY_H
#define WEFT_LAYERS_RXM_WAIT_COPY_H

#include "core/post.h"
#include "layers/rxm/rxm_ep.h"

/* One operation; its segments, and what was injected, follow it in memory. */
struct rxm_wait {
    struct list of_peer; /* in peer->waiting */
    struct list of_ep;   /* in ep->waits.all, oldest first */
    bool is_atomic;
    union {
        struct post post;
        struct post_atomic atomic;
    };
};

/* With copies of the segments and descriptors, and of a payload with FI_INJECT: len bytes, or the
 * elements of an atomic. NULL without memory. */
struct rxm_wait *rxm_wait_copy_post(const struct post *post, size_t len);
struct rxm_wait *rxm_wait_copy_atomic(const struct post_atomic *post, size_t elements);
void rxm_wait_free(struct rxm_wait *wait);

/* Out of the lists of its peer and its endpoint. */
void rxm_wait_take(struct rxm_wait *wait);
/* It was posted, or ends in error: freed, and reported. why: as for rxm_wait_fail. */
void rxm_wait_end(struct rxm_ep *ep, struct rxm_wait *wait);
void rxm_wait_end_failed(struct rxm_ep *ep, struct rxm_wait *wait, int err, const char *why);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device's locks are left out where a progress domain has none: its application, or the layer
 * above, sees to it that one thread at a time posts, polls, opens and closes. Then its completion
 * queues are made for a single thread, and its queue pairs belong to a thread domain, if device and
 * library have those.
 */
#ifndef WEFT_VERBS_SINGLE_H
#define WEFT_VERBS_SINGLE_H

#include "transports/verbs/verbs_cq.h"

/* A queue of that many entries for one thread; NULL: it must be made as for several. */
struct ibv_cq *verbs_single_cq(struct verbs_cq *cq, const struct progress *progress, size_t size);
/* Sets cq->td and cq->pd, for the queue pairs that report to it, or leaves them NULL. */
void verbs_single_open(struct verbs_cq *cq, const struct progress *progress);
/* After its queue pairs. Takes one without. */
void verbs_single_close(struct verbs_cq *cq);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that were posted with FI_MORE: they wait for the one that comes without, so that the
 * device gets them in one post, with one doorbell. They also go with the next poll, and when there
 * are VERBS_CHAIN of them: FI_MORE is a hint. All with the progress domain locked.
 */
#ifndef WEFT_VERBS_CHAIN_H
#define WEFT_VERBS_CHAIN_H

#include "core/base/list.h"
#include "core/net/verbs_lib.h"

enum {
    VERBS_CHAIN = 16
};

struct verbs_ep;
struct verbs_cq;

struct verbs_chain {
    struct list link; /* of the completion queue's, while it is not empty */
    struct verbs_ep *ep;
    uint32_t count;
    struct ibv_send_wr wrs[VERBS_CHAIN];
    struct ibv_sge sges[]; /* tx_iov_limit of each */
};

/* Of an endpoint that is enabled. -FI_ENOMEM. */
int verbs_chain_open(struct verbs_ep *ep);
void verbs_chain_close(struct verbs_ep *ep); /* takes one without */

static inline bool verbs_chain_waits(const struct verbs_chain *chain)
{
    return chain && chain->count;
}

/* Adds a request, whose place in the ring of transmissions is filled, and takes that place; posts
 * all unless more are to come. An error is that of this request, which then has no place. Of
 * requests accepted before, the device's refusal is reported to their queue. */
ssize_t verbs_chain_add(struct verbs_ep *ep, const struct ibv_send_wr *wr, bool more);
/* Posts what waits. -FI_EAGAIN: the device has no room, and some wait still. */
ssize_t verbs_chain_flush(struct verbs_ep *ep);
/* The same of all endpoints of the queue. */
void verbs_chain_flush_all(struct verbs_cq *cq);
/* fi_cancel: takes the first with that context out, and reports its end. 0, or -FI_ENOENT. */
int verbs_chain_cancel(struct verbs_ep *ep, const void *context);

#endif

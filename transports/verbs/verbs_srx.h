/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive contexts: a shared receive queue (SRQ) of the device. Its receives are taken by
 * whichever endpoint a message comes for, and complete in any order. An entry of the completion
 * queue names the receive; the queue pair that took it is known by its number.
 *
 * A receive that an endpoint had taken as its connection broke is posted again: it is the
 * context's.
 */
#ifndef WEFT_VERBS_SRX_H
#define WEFT_VERBS_SRX_H

#include <pthread.h>

#include "core/ep/srx.h"
#include "transports/verbs/verbs_domain.h"

struct verbs_ep;
struct verbs_cq;

/* A receive that the device has; free ones are a list. */
struct verbs_shared_recv {
    void *context, *buf;
    uint64_t flags; /* of the operation */
    uint32_t next;  /* free */
    int segments;
};

struct verbs_srx {
    struct srx base; /* without a matching engine */
    struct ibv_srq *ibv;
    size_t iov_limit;
    uint64_t op_flags;
    pthread_mutex_t mutex; /* of all below; inside of a progress domain's lock */
    struct verbs_shared_recv *recvs;
    struct ibv_sge *sges; /* iov_limit of each */
    uint32_t size, used, free;
};

/* fi_srx_context. -FI_ENOSYS: the device has none, or the context would be a peer's. */
int verbs_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                   void *context);
static inline struct verbs_srx *verbs_srx_of(struct srx *srx)
{
    return object_of(srx, struct verbs_srx, base);
}

/* A context's endpoint has a queue pair, or has it no longer. -FI_ENOMEM. */
int verbs_srx_join(struct verbs_ep *ep);
void verbs_srx_leave(struct verbs_ep *ep);
/* Of the domain, as it closes. */
void verbs_srx_forget(struct verbs_domain *domain);

/* An entry of cq for a receive of a context. cq's progress domain locked. */
void verbs_srx_received(struct verbs_cq *cq, uint32_t slot, const struct ibv_wc *wc);

#endif

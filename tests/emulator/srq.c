/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "loop.h"
#include "memory.h"
#include "operations.h"
#include "report.h"
#include "settings.h"
#include "srq.h"

static int check_srq(struct ibv_pd *pd, const struct ibv_srq_attr *attr)
{
    const struct limits *limits = &settings()->limits;

    if (attr->max_wr == 0 || attr->max_wr > (uint32_t)limits->max_srq_wr ||
        attr->max_sge > (uint32_t)limits->max_srq_sge)
        return EINVAL;
    if (object_count("shared receive queue") >= (unsigned)limits->max_srq)
        return ENOMEM;
    return context_gone(pd->context) ? EIO : 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    static uint32_t next;
    struct srq *srq = calloc(1, sizeof(*srq));

    loop_lock();
    int rc = srq ? check_srq(pd, &attr->attr) : ENOMEM;
    if (!rc && !recv_queue_init(&srq->queue, attr->attr.max_wr, attr->attr.max_sge))
        rc = ENOMEM;
    if (rc) {
        loop_unlock();
        report_why("create_srq of %u receives, %u segments: %s", attr->attr.max_wr,
                   attr->attr.max_sge, strerror(rc));
        free(srq);
        errno = rc;
        return NULL;
    }
    srq->srq.context = pd->context;
    srq->srq.srq_context = attr->srq_context;
    srq->srq.pd = pd;
    srq->srq.handle = next++;
    pthread_mutex_init(&srq->srq.mutex, NULL);
    pthread_cond_init(&srq->srq.cond, NULL);
    pd_use(pd, 1);
    object_add(&srq->object, "shared receive queue", srq->srq.handle);
    loop_unlock();
    return &srq->srq;
}

int ibv_modify_srq(struct ibv_srq *public, struct ibv_srq_attr *attr, int mask)
{
    struct srq *srq = srq_of(public);
    int rc = 0;

    loop_lock();
    /* No IBV_DEVICE_SRQ_RESIZE. */
    if ((mask & ~IBV_SRQ_LIMIT) || attr->srq_limit > srq->queue.size)
        rc = EINVAL;
    else if (mask & IBV_SRQ_LIMIT)
        srq->limit = attr->srq_limit;
    loop_unlock();
    return rc;
}

int ibv_query_srq(struct ibv_srq *public, struct ibv_srq_attr *attr)
{
    struct srq *srq = srq_of(public);

    loop_lock();
    attr->max_wr = srq->queue.size;
    attr->max_sge = srq->queue.max_sge;
    attr->srq_limit = srq->limit;
    loop_unlock();
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *public)
{
    struct srq *srq = srq_of(public);

    loop_lock();
    int rc = srq->users ? EBUSY : 0;
    if (!rc) {
        context_forget(public->context, srq);
        pd_use(public->pd, -1);
        object_remove(&srq->object);
    }
    loop_unlock();
    if (rc)
        return rc;
    recv_queue_finish(&srq->queue);
    free(srq);
    return 0;
}

int srq_number(struct ibv_srq *srq, uint32_t *number)
{
    return EOPNOTSUPP;
}

int srq_post(struct ibv_srq *public, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    loop_lock();
    int rc = recv_queue_post(&srq_of(public)->queue, wr, bad);
    loop_unlock();
    return rc;
}

const struct recv_wr *srq_take(struct srq *srq)
{
    const struct recv_wr *wr = recv_queue_take(&srq->queue);

    if (srq->limit && srq->queue.count < srq->limit) {
        srq->limit = 0;
        context_report(srq->srq.context, IBV_EVENT_SRQ_LIMIT_REACHED, srq, 0);
    }
    return wr;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_cq.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/no.h"

static void source_progress(struct unit_source *source)
{
    lower_cq_progress(object_of(source, struct rxm_lower_cq, source)->cq);
}

static int source_trywait(struct unit_source *source)
{
    struct rxm_lower_cq *lower_cq = object_of(source, struct rxm_lower_cq, source);

    return lower_cq_trywait(lower_cq->lower, lower_cq->cq);
}

int rxm_lower_cq_open(struct rxm_lower_cq *lower_cq, struct rxm_domain *domain, size_t size,
                      struct fid_peer_cq *sink, struct unit *unit)
{
    struct fi_cq_attr attr = {.size = size};
    int rc;

    if (lower_cq->cq)
        return 0;
    lower_cq->lower = domain->fabric->lower;
    rc = lower_cq_open(lower_cq->lower, domain->lower, &attr, true, sink, &lower_cq->cq);
    if (rc)
        return rc;
    lower_cq->source.progress = source_progress;
    lower_cq->source.trywait = source_trywait;
    lower_cq_watch(lower_cq->cq, &lower_cq->source);
    list_init(&lower_cq->source.link);
    unit_lock(unit);
    rc = unit_attach(unit, &lower_cq->source);
    unit_unlock(unit);
    if (rc) {
        lower_cq_close(lower_cq->cq);
        lower_cq->cq = NULL;
    }
    return rc;
}

int rxm_lower_cq_close(struct rxm_lower_cq *lower_cq, struct unit *unit)
{
    int rc;

    if (!lower_cq->cq)
        return 0;
    unit_lock(unit);
    unit_detach(unit, &lower_cq->source);
    unit_unlock(unit);
    rc = lower_cq_close(lower_cq->cq);
    if (!rc)
        lower_cq->cq = NULL;
    return rc;
}

static int cq_close(struct fid *fid)
{
    struct rxm_cq *cq = object_of(fid, struct rxm_cq, cq.fid.fid);
    int rc = cq_close_check(&cq->cq);

    if (!rc)
        rc = rxm_lower_cq_close(&cq->lower, cq->cq.unit);
    if (rc)
        return rc;
    cq_finish(&cq->cq);
    free(cq);
    return 0;
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(cq_fid_ops),
    .close = cq_close,
    .bind = no_bind,
    .control = cq_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

int rxm_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **ret_cq,
                void *context)
{
    struct rxm_cq *cq = calloc(1, sizeof(*cq));
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    rc = cq_init(&cq->cq, &rxm_domain_of(fid)->base, attr, &cq_fid_ops, context);
    if (rc) {
        free(cq);
        return rc;
    }
    *ret_cq = &cq->cq.fid;
    return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and counters of a layer base, and the lower's writes into them. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/layer/layer.h"

/* ---- Completions ---- */

static ssize_t inner_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct layer_cq *cq = object_of(peer, struct layer_cq, inner);
    struct layer_domain *domain = cq->domain;

    if (domain->items.used && pool_owns(&domain->items, context)) {
        const struct layer_done done = {.context = context,
                                        .flags = flags,
                                        .data = data,
                                        .tag = tag,
                                        .len = len,
                                        .buf = buf,
                                        .src = src,
                                        .cq = cq};

        domain->ops->completed(domain, &done);
        return 0;
    }
    if (cq->mute)
        return 0;
    return cq->cq.sink->owner_ops->write(cq->cq.sink, context, flags, len, buf, data, tag, src);
}

static ssize_t inner_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    struct layer_cq *cq = object_of(peer, struct layer_cq, inner);
    struct layer_domain *domain = cq->domain;

    if (domain->items.used && pool_owns(&domain->items, entry->op_context)) {
        const struct layer_done done = {.context = entry->op_context,
                                        .flags = entry->flags,
                                        .data = entry->data,
                                        .tag = entry->tag,
                                        .len = entry->len,
                                        .buf = entry->buf,
                                        .src = FI_ADDR_NOTAVAIL,
                                        .error = entry,
                                        .cq = cq};

        domain->ops->completed(domain, &done);
        return 0;
    }
    return cq->mute ? 0 : cq->cq.sink->owner_ops->writeerr(cq->cq.sink, entry);
}

static struct fi_ops_cq_owner inner_cq_ops = {
    .size = sizeof(inner_cq_ops),
    .write = inner_write,
    .writeerr = inner_writeerr,
};

/* ---- Completion queues ---- */

static struct layer_cq *cq_of_source(struct progress_source *source)
{
    return object_of(source, struct layer_cq, base.lower.source);
}

static void source_progress(struct progress_source *source)
{
    struct layer_cq *cq = cq_of_source(source);

    lower_cq_progress(cq->base.lower.cq);
    if (cq->domain->ops->pump)
        cq->domain->ops->pump(cq->domain);
}

static int source_trywait(struct progress_source *source)
{
    struct layer_cq *cq = cq_of_source(source);
    struct layer_domain *domain = cq->domain;

    if (domain->ops->busy && domain->ops->busy(domain))
        return -FI_EAGAIN;
    return lower_cq_trywait(cq->base.lower.lower, cq->base.lower.cq);
}

static int open_lower(struct layer_cq *cq)
{
    struct layer_domain *domain = cq->domain;
    int rc = progress_merge(domain->progress, cq->cq.progress);

    fid_init(&cq->inner.fid, FI_CLASS_PEER_CQ, cq, NULL);
    cq->inner.owner_ops = &inner_cq_ops;
    cq->base.lower.source.poll = source_progress;
    cq->base.lower.source.trywait = source_trywait;
    return rc ? rc
              : lower_source_open(&cq->base.lower, domain->hook->fabric->hold, domain->hook->lower,
                                  cq->cq.size, &cq->inner, domain->progress);
}

static int create_cq(struct layer_domain *domain, const struct fi_cq_attr *attr, void *context,
                     struct layer_cq **ret_cq)
{
    struct layer_cq *cq = calloc(1, sizeof(*cq));
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    cq->domain = domain;
    rc = peer_cq_init(&cq->base, &domain->base, attr, context);
    if (rc) {
        free(cq);
        return rc;
    }
    rc = open_lower(cq);
    if (rc) {
        cq_finish(&cq->cq);
        free(cq);
        return rc;
    }
    *ret_cq = cq;
    return 0;
}

int layer_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **ret_cq,
                  void *context)
{
    struct layer_cq *cq;
    int rc = create_cq(layer_domain_of(fid), attr, context, &cq);

    if (!rc)
        *ret_cq = &cq->cq.fid;
    return rc;
}

struct layer_cq *layer_cq_mute(struct layer_domain *domain)
{
    const struct fi_cq_attr attr = {.size = 1, .wait_obj = FI_WAIT_NONE};
    struct layer_cq *cq;

    if (create_cq(domain, &attr, NULL, &cq))
        return NULL;
    cq->mute = true;
    return cq;
}

struct layer_cq *layer_cq_of(struct layer_domain *domain, struct fid *fid)
{
    struct cq *cq = cq_of(fid);

    return cq && cq->domain == &domain->base ? object_of(cq, struct layer_cq, cq) : NULL;
}

/* ---- Counters ---- */

static void inner_inc(struct fid_peer_cntr *peer)
{
    struct layer_cntr *cntr = object_of(peer, struct layer_cntr, inner);

    if (cntr->quiet) {
        cntr->quiet--;
        return;
    }
    cntr_add_one(&cntr->cntr);
    if (cntr->domain->ops->counted)
        cntr->domain->ops->counted(cntr);
}

static void inner_incerr(struct fid_peer_cntr *peer)
{
    struct layer_cntr *cntr = object_of(peer, struct layer_cntr, inner);

    if (cntr->quiet_errors) {
        cntr->quiet_errors--;
        return;
    }
    cntr_add_error(&cntr->cntr);
    if (cntr->domain->ops->counted)
        cntr->domain->ops->counted(cntr);
}

static struct fi_ops_cntr_owner inner_cntr_ops = {
    .size = sizeof(inner_cntr_ops),
    .inc = inner_inc,
    .incerr = inner_incerr,
};

/* Work that waits for the counter keeps it open. */
static int cntr_close(struct fid *fid)
{
    struct layer_cntr *cntr = object_of(fid, struct layer_cntr, cntr.fid.fid);
    bool busy;

    progress_lock(cntr->domain->progress);
    busy = !list_empty(&cntr->waiting);
    progress_unlock(cntr->domain->progress);
    return busy ? -FI_EBUSY : peer_cntr_close(fid);
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(cntr_fid_ops),
    .close = cntr_close,
    .bind = enosys_bind,
    .control = cntr_control,
    NO_FID_TABLES,
};

static int open_lower_cntr(struct layer_cntr *cntr)
{
    struct progress *progress = cntr->domain->progress;
    struct fid_cntr *lower;
    int rc = progress_merge(progress, cntr->cntr.progress);

    if (rc)
        return rc;
    fid_init(&cntr->inner.fid, FI_CLASS_PEER_CNTR, cntr, NULL);
    cntr->inner.owner_ops = &inner_cntr_ops;
    progress_lock(progress);
    rc = peer_cntr_lower(&cntr->base, cntr->domain->hook->lower, &cntr->inner, &lower);
    progress_unlock(progress);
    return rc;
}

int layer_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **ret_cntr,
                    void *context)
{
    struct layer_cntr *cntr = calloc(1, sizeof(*cntr));
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    cntr->domain = layer_domain_of(fid);
    list_init(&cntr->waiting);
    rc = peer_cntr_init(&cntr->base, &cntr->domain->base, attr, context);
    if (rc) {
        free(cntr);
        return rc;
    }
    cntr->cntr.fid.fid.ops = &cntr_fid_ops;
    cntr->cntr.changed = cntr->domain->ops->changed;
    rc = open_lower_cntr(cntr);
    if (rc) {
        cntr_finish(&cntr->cntr);
        free(cntr);
        return rc;
    }
    *ret_cntr = &cntr->cntr.fid;
    return 0;
}

struct layer_cntr *layer_cntr_of(struct layer_domain *domain, struct fid *fid)
{
    struct cntr *cntr = cntr_of(fid);

    return cntr && cntr->domain == &domain->base ? object_of(cntr, struct layer_cntr, cntr) : NULL;
}

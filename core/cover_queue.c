/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and counters of a cover, and what the lower writes into them. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/cover.h"
#include "core/log.h"
#include "core/lower.h"
#include "core/no.h"

/* ---- Completions ---- */

static ssize_t inner_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct cover_cq *cq = object_of(peer, struct cover_cq, inner);
    struct cover_domain *domain = cq->domain;

    if (domain->items.used && pool_owns(&domain->items, context)) {
        const struct cover_done done = {.context = context,
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
    struct cover_cq *cq = object_of(peer, struct cover_cq, inner);
    struct cover_domain *domain = cq->domain;

    if (domain->items.used && pool_owns(&domain->items, entry->op_context)) {
        const struct cover_done done = {.context = entry->op_context,
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

static void source_progress(struct unit_source *source)
{
    struct cover_cq *cq = object_of(source, struct cover_cq, source);

    lower_cq_progress(cq->lower);
    if (cq->domain->ops->pump)
        cq->domain->ops->pump(cq->domain);
}

static int source_trywait(struct unit_source *source)
{
    struct cover_cq *cq = object_of(source, struct cover_cq, source);
    struct cover_domain *domain = cq->domain;

    if (domain->ops->busy && domain->ops->busy(domain))
        return -FI_EAGAIN;
    return lower_cq_trywait(domain->pass->fabric->hold, cq->lower);
}

static int open_lower(struct cover_cq *cq)
{
    struct cover_domain *domain = cq->domain;
    struct fi_cq_attr attr = {.size = cq->cq.size};
    int rc;

    fid_init(&cq->inner.fid, FI_CLASS_PEER_CQ, cq, NULL);
    cq->inner.owner_ops = &inner_cq_ops;
    unit_lock(domain->unit);
    rc = lower_cq_open(domain->pass->fabric->hold, domain->pass->lower, &attr, true, &cq->inner,
                       &cq->lower);
    unit_unlock(domain->unit);
    if (rc)
        return rc;
    cq->source.progress = source_progress;
    cq->source.trywait = source_trywait;
    lower_cq_watch(cq->lower, &cq->source);
    list_init(&cq->source.link);
    rc = unit_merge(domain->unit, cq->cq.unit);
    if (!rc) {
        unit_lock(domain->unit);
        rc = unit_attach(domain->unit, &cq->source);
        unit_unlock(domain->unit);
    }
    if (rc) {
        unit_lock(domain->unit);
        lower_cq_close(cq->lower);
        unit_unlock(domain->unit);
    }
    return rc;
}

int cover_cq_finish(struct cover_cq *cq)
{
    struct unit *unit = cq->domain->unit;
    int rc = cq_close_check(&cq->cq);

    if (rc)
        return rc;
    unit_lock(unit);
    unit_detach(unit, &cq->source);
    rc = lower_cq_close(cq->lower);
    if (rc && unit_attach(unit, &cq->source))
        LOG_WARN(cq->domain->base.fabric->part, FI_LOG_CQ,
                 "a completion queue that cannot be closed is not driven any more");
    unit_unlock(unit);
    if (rc)
        return rc;
    cq_finish(&cq->cq);
    free(cq);
    return 0;
}

static int cq_close(struct fid *fid)
{
    return cover_cq_finish(object_of(fid, struct cover_cq, cq.fid.fid));
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

static int create_cq(struct cover_domain *domain, const struct fi_cq_attr *attr, void *context,
                     struct cover_cq **ret_cq)
{
    struct cover_cq *cq = calloc(1, sizeof(*cq));
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    cq->domain = domain;
    rc = cq_init(&cq->cq, &domain->base, attr, &cq_fid_ops, context);
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

int cover_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **ret_cq,
                  void *context)
{
    struct cover_cq *cq;
    int rc = create_cq(cover_domain_of(fid), attr, context, &cq);

    if (!rc)
        *ret_cq = &cq->cq.fid;
    return rc;
}

struct cover_cq *cover_cq_mute(struct cover_domain *domain)
{
    const struct fi_cq_attr attr = {.size = 1, .wait_obj = FI_WAIT_NONE};
    struct cover_cq *cq;

    if (create_cq(domain, &attr, NULL, &cq))
        return NULL;
    cq->mute = true;
    return cq;
}

struct cover_cq *cover_cq_of(struct cover_domain *domain, struct fid *fid)
{
    struct cq *cq = cq_of(fid);

    return cq && cq->domain == &domain->base ? object_of(cq, struct cover_cq, cq) : NULL;
}

/* ---- Counters ---- */

static void inner_inc(struct fid_peer_cntr *peer)
{
    struct cover_cntr *cntr = object_of(peer, struct cover_cntr, inner);

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
    struct cover_cntr *cntr = object_of(peer, struct cover_cntr, inner);

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

static int cntr_close(struct fid *fid)
{
    struct cover_cntr *cntr = object_of(fid, struct cover_cntr, cntr.fid.fid);
    struct unit *unit = cntr->domain->unit;
    int rc = cntr_close_check(&cntr->cntr);

    if (rc)
        return rc;
    unit_lock(unit);
    rc = list_empty(&cntr->waiting) ? fi_close(&cntr->lower->fid) : -FI_EBUSY;
    unit_unlock(unit);
    if (rc)
        return rc;
    cntr_finish(&cntr->cntr);
    free(cntr);
    return 0;
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(cntr_fid_ops),
    .close = cntr_close,
    .bind = no_bind,
    .control = cntr_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static int open_lower_cntr(struct cover_cntr *cntr)
{
    struct fi_peer_cntr_context down = {.size = sizeof(down), .cntr = &cntr->inner};
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .flags = FI_PEER};
    struct unit *unit = cntr->domain->unit;
    int rc;

    attr.wait_obj = FI_WAIT_NONE;
    fid_init(&cntr->inner.fid, FI_CLASS_PEER_CNTR, cntr, NULL);
    cntr->inner.owner_ops = &inner_cntr_ops;
    unit_lock(unit);
    rc = fi_cntr_open(cntr->domain->pass->lower, &attr, &cntr->lower, &down);
    unit_unlock(unit);
    if (rc)
        return rc;
    rc = unit_merge(unit, cntr->cntr.unit);
    if (rc) {
        unit_lock(unit);
        fi_close(&cntr->lower->fid);
        unit_unlock(unit);
    }
    return rc;
}

int cover_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **ret_cntr,
                    void *context)
{
    struct cover_cntr *cntr = calloc(1, sizeof(*cntr));
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    cntr->domain = cover_domain_of(fid);
    list_init(&cntr->waiting);
    rc = cntr_init(&cntr->cntr, &cntr->domain->base, attr, &cntr_fid_ops, context);
    if (rc) {
        free(cntr);
        return rc;
    }
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

struct cover_cntr *cover_cntr_of(struct cover_domain *domain, struct fid *fid)
{
    struct cntr *cntr = cntr_of(fid);

    return cntr && cntr->domain == &domain->base ? object_of(cntr, struct cover_cntr, cntr) : NULL;
}

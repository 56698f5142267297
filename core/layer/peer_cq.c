/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/peer_cq.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"

static int cq_close(struct fid *fid)
{
    struct peer_cq *cq = object_of(fid, struct peer_cq, cq.fid.fid);
    int rc = cq_close_check(&cq->cq);

    if (!rc && cq->close_lowers)
        rc = cq->close_lowers(cq);
    if (!rc)
        rc = lower_source_close(&cq->lower, cq->cq.progress);
    if (rc)
        return rc;
    cq_finish(&cq->cq);
    free(cq);
    return 0;
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(cq_fid_ops),
    .close = cq_close,
    .bind = enosys_bind,
    .control = cq_control,
    NO_FID_TABLES,
};

int peer_cq_init(struct peer_cq *cq, struct domain *domain, const struct fi_cq_attr *attr,
                 void *context)
{
    cq->lower.part = domain->fabric->part;
    return cq_init(&cq->cq, domain, attr, &cq_fid_ops, context);
}

int peer_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **ret_cq,
                 void *context)
{
    struct peer_cq *cq = calloc(1, sizeof(*cq));
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    rc = peer_cq_init(cq, object_of(fid, struct domain, fid), attr, context);
    if (rc) {
        free(cq);
        return rc;
    }
    *ret_cq = &cq->cq.fid;
    return 0;
}

/* ---- Discarded completions ---- */

static ssize_t drop_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    return 0;
}

static ssize_t drop_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    return 0;
}

static struct fi_ops_cq_owner drop_ops = {
    .size = sizeof(drop_ops),
    .write = drop_write,
    .writeerr = drop_writeerr,
};

void peer_cq_drop(struct fid_peer_cq *peer, void *context)
{
    fid_init(&peer->fid, FI_CLASS_PEER_CQ, context, NULL);
    peer->owner_ops = &drop_ops;
}

/* ---- Counters ---- */

int peer_cntr_close(struct fid *fid)
{
    struct peer_cntr *cntr = object_of(fid, struct peer_cntr, cntr.fid.fid);
    int rc = cntr_close_check(&cntr->cntr);

    if (!rc && (cntr->lower || cntr->close_lowers)) {
        progress_lock(cntr->cntr.progress);
        rc = cntr->close_lowers ? cntr->close_lowers(cntr) : fi_close(&cntr->lower->fid);
        progress_unlock(cntr->cntr.progress);
    }
    if (rc)
        return rc;
    cntr_finish(&cntr->cntr);
    free(cntr);
    return 0;
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(cntr_fid_ops),
    .close = peer_cntr_close,
    .bind = enosys_bind,
    .control = cntr_control,
    NO_FID_TABLES,
};

int peer_cntr_init(struct peer_cntr *cntr, struct domain *domain, const struct fi_cntr_attr *attr,
                   void *context)
{
    return cntr_init(&cntr->cntr, domain, attr, &cntr_fid_ops, context);
}

int peer_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **ret_cntr,
                   void *context)
{
    struct peer_cntr *cntr = calloc(1, sizeof(*cntr));
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    rc = peer_cntr_init(cntr, object_of(fid, struct domain, fid), attr, context);
    if (rc) {
        free(cntr);
        return rc;
    }
    *ret_cntr = &cntr->cntr.fid;
    return 0;
}

int peer_cntr_lower_at(struct fid_cntr **lower, struct fid_domain *domain,
                       struct fid_peer_cntr *sink)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .flags = FI_PEER};
    struct fi_peer_cntr_context context = {.size = sizeof(context), .cntr = sink};

    attr.wait_obj = FI_WAIT_NONE;
    return *lower ? 0 : fi_cntr_open(domain, &attr, lower, &context);
}

int peer_cntr_lower(struct peer_cntr *cntr, struct fid_domain *domain, struct fid_peer_cntr *sink,
                    struct fid_cntr **lower)
{
    int rc = peer_cntr_lower_at(&cntr->lower, domain, sink);

    if (!rc)
        *lower = cntr->lower;
    return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/binding.h"

#include <string.h>

#include <rdma/fi_errno.h>

static const uint64_t kind_flags[BIND_KINDS] = {
    [BIND_SEND] = FI_SEND,
    [BIND_RECV] = FI_RECV,
    [BIND_READ] = FI_READ,
    [BIND_WRITE] = FI_WRITE,
    [BIND_REMOTE_READ] = FI_REMOTE_READ,
    [BIND_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

bool binding_is_late(const struct fid *fid)
{
    const struct cntr *cntr = cntr_of((struct fid *)(uintptr_t)fid);

    return cntr ? !cntr->early : fid->fclass == FI_CLASS_CNTR || fid->fclass == FI_CLASS_STX_CTX;
}

/* The report's progress domain and the object's become one. */
static int join_progress(struct binding *binding, struct domain *domain, struct progress *progress)
{
    struct domain_reports *reports = &domain->reports;
    int rc = 0;

    if (binding->progress)
        return progress_merge(binding->progress, progress);
    pthread_mutex_lock(&reports->mutex);
    if (reports->common)
        rc = progress_merge(reports->common, progress);
    if (!rc) {
        progress_hold(progress);
        binding->progress = progress;
        binding->domain = domain;
        list_attach(&binding->link, &reports->list);
    }
    pthread_mutex_unlock(&reports->mutex);
    return rc;
}

int binding_join(struct binding *binding, struct domain *domain, struct progress *progress)
{
    return join_progress(binding, domain, progress);
}

int binding_share(struct domain *domain, struct progress *progress)
{
    struct domain_reports *reports = &domain->reports;
    int rc = 0;

    pthread_mutex_lock(&reports->mutex);
    if (reports->common) {
        rc = progress_merge(reports->common, progress);
    } else {
        progress_hold(progress);
        reports->common = progress;
        list_for_each (pos, &reports->list) {
            if (!rc)
                rc = progress_merge(progress, list_item(pos, struct binding, link)->progress);
        }
    }
    pthread_mutex_unlock(&reports->mutex);
    return rc;
}

static int bind_cq(struct binding *binding, struct domain *domain, struct cq *cq, uint64_t flags)
{
    bool selective = flags & FI_SELECTIVE_COMPLETION;
    int rc;

    if (!cq || cq->domain != domain || !(flags & (FI_TRANSMIT | FI_RECV)) ||
        flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) ||
        (flags & FI_TRANSMIT && binding->tx) || (flags & FI_RECV && binding->rx))
        return -FI_EINVAL;
    rc = join_progress(binding, domain, cq->progress);
    if (rc)
        return rc;
    if (flags & FI_TRANSMIT) {
        binding->tx = cq;
        binding->tx_selective = selective;
        children_hold(&cq->children);
    }
    if (flags & FI_RECV) {
        binding->rx = cq;
        binding->rx_selective = selective;
        children_hold(&cq->children);
    }
    return 0;
}

static int bind_cntr(struct binding *binding, struct domain *domain, struct cntr *cntr,
                     uint64_t flags)
{
    uint64_t known = 0;
    int rc;

    for (int kind = 0; kind < BIND_KINDS; kind++) {
        known |= kind_flags[kind];
        if (flags & kind_flags[kind] && binding->cntr[kind])
            return -FI_EINVAL;
    }
    if (!cntr || cntr->domain != domain || !flags || flags & ~known)
        return -FI_EINVAL;
    rc = join_progress(binding, domain, cntr->progress);
    if (rc)
        return rc;
    /* The endpoint may be at work. */
    progress_lock(binding->progress);
    for (int kind = 0; kind < BIND_KINDS; kind++) {
        if (!(flags & kind_flags[kind]))
            continue;
        binding->cntr[kind] = cntr;
        children_hold(&cntr->children);
    }
    progress_unlock(binding->progress);
    return 0;
}

int binding_add(struct binding *binding, struct domain *domain, struct fid *fid, uint64_t flags)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ: return bind_cq(binding, domain, cq_of(fid), flags);
    case FI_CLASS_CNTR: return bind_cntr(binding, domain, cntr_of(fid), flags);
    default: return -FI_EINVAL;
    }
}

void binding_finish(struct binding *binding)
{
    if (binding->tx)
        children_release(&binding->tx->children);
    if (binding->rx)
        children_release(&binding->rx->children);
    for (int kind = 0; kind < BIND_KINDS; kind++) {
        if (binding->cntr[kind])
            children_release(&binding->cntr[kind]->children);
    }
    if (binding->progress) {
        pthread_mutex_lock(&binding->domain->reports.mutex);
        list_detach(&binding->link);
        pthread_mutex_unlock(&binding->domain->reports.mutex);
        progress_release(binding->progress);
    }
    memset(binding, 0, sizeof(*binding));
}

void complete_error(struct binding *binding, enum binding_kind kind,
                    const struct fi_cq_err_entry *entry)
{
    struct cq *cq = binding_cq(binding, kind);

    if (cq)
        cq_write_error(cq, entry);
    if (binding->cntr[kind])
        cntr_add_error(binding->cntr[kind]);
}

bool binding_is_top(const struct binding *binding)
{
    for (int kind = 0; kind < BIND_KINDS; kind++) {
        if (binding->cntr[kind] && binding->cntr[kind]->sink != &binding->cntr[kind]->peer)
            return false;
    }
    return (!binding->tx || binding->tx->sink == &binding->tx->peer) &&
           (!binding->rx || binding->rx->sink == &binding->rx->peer);
}

void binding_drive_others(const struct binding *binding)
{
    if (progress_root(binding->progress)->locked || binding_is_top(binding))
        progress_drive_others(binding->progress, true);
}

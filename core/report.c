/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report.h"

#include <string.h>

#include <rdma/fi_errno.h>

static const uint64_t kind_flags[REPORT_KINDS] = {
    [REPORT_SEND] = FI_SEND,
    [REPORT_RECV] = FI_RECV,
    [REPORT_READ] = FI_READ,
    [REPORT_WRITE] = FI_WRITE,
    [REPORT_REMOTE_READ] = FI_REMOTE_READ,
    [REPORT_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

/* The report's unit and the object's become one. */
static int join_unit(struct report *report, struct domain *domain, struct unit *unit)
{
    struct domain_reports *reports = &domain->reports;
    int rc = 0;

    if (report->unit)
        return unit_merge(report->unit, unit);
    pthread_mutex_lock(&reports->mutex);
    if (reports->common)
        rc = unit_merge(reports->common, unit);
    if (!rc) {
        unit_hold(unit);
        report->unit = unit;
        report->domain = domain;
        list_attach(&report->link, &reports->list);
    }
    pthread_mutex_unlock(&reports->mutex);
    return rc;
}

int report_bind_unit(struct report *report, struct domain *domain, struct unit *unit)
{
    return join_unit(report, domain, unit);
}

int report_share(struct domain *domain, struct unit *unit)
{
    struct domain_reports *reports = &domain->reports;
    int rc = 0;

    pthread_mutex_lock(&reports->mutex);
    if (reports->common) {
        rc = unit_merge(reports->common, unit);
    } else {
        unit_hold(unit);
        reports->common = unit;
        list_for_each (pos, &reports->list) {
            if (!rc)
                rc = unit_merge(unit, list_item(pos, struct report, link)->unit);
        }
    }
    pthread_mutex_unlock(&reports->mutex);
    return rc;
}

static int bind_cq(struct report *report, struct domain *domain, struct cq *cq, uint64_t flags)
{
    bool selective = flags & FI_SELECTIVE_COMPLETION;
    int rc;

    if (!cq || cq->domain != domain || !(flags & (FI_TRANSMIT | FI_RECV)) ||
        flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) ||
        (flags & FI_TRANSMIT && report->tx) || (flags & FI_RECV && report->rx))
        return -FI_EINVAL;
    rc = join_unit(report, domain, cq->unit);
    if (rc)
        return rc;
    if (flags & FI_TRANSMIT) {
        report->tx = cq;
        report->tx_selective = selective;
        children_hold(&cq->children);
    }
    if (flags & FI_RECV) {
        report->rx = cq;
        report->rx_selective = selective;
        children_hold(&cq->children);
    }
    return 0;
}

static int bind_cntr(struct report *report, struct domain *domain, struct cntr *cntr,
                     uint64_t flags)
{
    uint64_t known = 0;
    int rc;

    for (int kind = 0; kind < REPORT_KINDS; kind++) {
        known |= kind_flags[kind];
        if (flags & kind_flags[kind] && report->cntr[kind])
            return -FI_EINVAL;
    }
    if (!cntr || cntr->domain != domain || !flags || flags & ~known)
        return -FI_EINVAL;
    rc = join_unit(report, domain, cntr->unit);
    if (rc)
        return rc;
    for (int kind = 0; kind < REPORT_KINDS; kind++) {
        if (!(flags & kind_flags[kind]))
            continue;
        report->cntr[kind] = cntr;
        children_hold(&cntr->children);
    }
    return 0;
}

int report_bind(struct report *report, struct domain *domain, struct fid *fid, uint64_t flags)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ: return bind_cq(report, domain, cq_of(fid), flags);
    case FI_CLASS_CNTR: return bind_cntr(report, domain, cntr_of(fid), flags);
    default: return -FI_EINVAL;
    }
}

void report_finish(struct report *report)
{
    if (report->tx)
        children_release(&report->tx->children);
    if (report->rx)
        children_release(&report->rx->children);
    for (int kind = 0; kind < REPORT_KINDS; kind++) {
        if (report->cntr[kind])
            children_release(&report->cntr[kind]->children);
    }
    if (report->unit) {
        pthread_mutex_lock(&report->domain->reports.mutex);
        list_detach(&report->link);
        pthread_mutex_unlock(&report->domain->reports.mutex);
        unit_release(report->unit);
    }
    memset(report, 0, sizeof(*report));
}

void report_failed(struct report *report, enum report_kind kind,
                   const struct fi_cq_err_entry *entry)
{
    struct cq *cq = report_cq(report, kind);

    if (cq)
        cq_write_error(cq, entry);
    if (report->cntr[kind])
        cntr_add_error(report->cntr[kind]);
}

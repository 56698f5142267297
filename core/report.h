/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an endpoint is bound to for the ends of its operations: its queues and counters, selective
 * completion, and the unit that binding makes them share. Embedded in endpoints of parts whose
 * operations end there (tcp, loop). Source: fi_endpoint(3), fi_cq(3), fi_cntr(3).
 */
#ifndef WEFT_CORE_REPORT_H
#define WEFT_CORE_REPORT_H

#include "core/cntr.h"
#include "core/cq.h"

enum report_kind {
    REPORT_SEND,
    REPORT_RECV,
    REPORT_READ,
    REPORT_WRITE,
    REPORT_REMOTE_READ,
    REPORT_REMOTE_WRITE,
    REPORT_KINDS,
};

struct report {
    struct cq *tx, *rx;
    bool tx_selective, rx_selective;
    struct cntr *cntr[REPORT_KINDS];
    struct unit *unit; /* NULL until something is bound; holds a reference */
    struct domain *domain;
    struct list link; /* in domain->reports, while unit is set */
};

/* Binds a CQ (flags FI_TRANSMIT, FI_RECV, FI_SELECTIVE_COMPLETION) or counter (FI_SEND, FI_RECV,
 * FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE) that belongs to `domain`, as fi_ep_bind.
 * -FI_EINVAL for a foreign domain or fid, bad flags or a second one of the same direction. */
int report_bind(struct report *report, struct domain *domain, struct fid *fid, uint64_t flags);
/* Nothing that is reported, only who drives: for what has neither queue nor counter. */
int report_bind_unit(struct report *report, struct domain *domain, struct unit *unit);
/* Lets go of all of it; the report is then as at the start. */
void report_finish(struct report *report);
/* Who drives unit drives every endpoint of the domain, those to come too: unit has a counter that
 * is bound to a memory region, which any of them may change. Units unlocked. -FI_ENOMEM. */
int report_share(struct domain *domain, struct unit *unit);

/* Does an operation posted with op_flags (defaults already merged) want a completion? */
static inline bool report_wanted(bool selective, uint64_t op_flags)
{
    return !selective || (op_flags & FI_COMPLETION);
}

/* Where operations of that kind complete; NULL when nothing is bound there. */
static inline struct cq *report_cq(const struct report *report, enum report_kind kind)
{
    return kind == REPORT_SEND || kind == REPORT_READ || kind == REPORT_WRITE ? report->tx
                                                                              : report->rx;
}

/* Success: counter of `kind`, and a completion to tx (SEND, READ, WRITE) or rx when `wanted`. */
static inline void report_done(struct report *report, enum report_kind kind, bool wanted,
                               void *context, uint64_t flags, size_t len, void *buf, uint64_t data,
                               uint64_t tag, fi_addr_t src)
{
    struct cq *cq = report_cq(report, kind);

    if (wanted && cq)
        cq_write(cq, context, flags, len, buf, data, tag, src);
    if (report->cntr[kind])
        cntr_add_one(report->cntr[kind]);
}

/* Error: error counter and an error entry, wanted or not. err is a positive FI_E code. */
void report_failed(struct report *report, enum report_kind kind,
                   const struct fi_cq_err_entry *entry);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Triggered operations and deferred work (fi_trigger(3)) through a transparent part: both name
 * endpoints and counters in memory of the application's, which are exchanged for the lower's.
 *
 * Endpoints that were opened with FI_TRIGGER get tables that stand before the part's own: nothing
 * else pays for it. A triggered operation's counter is exchanged in its context, which has to go
 * down as itself because it is what completes. It is put back when the operation is refused; after
 * a success the context is the lower's until it completes, and what it holds then is undefined. A
 * fid that is none of ours goes down as it is, so a context that is used again as it came back
 * names the same counter.
 *
 * Deferred work goes down as a copy, which lives until its work is cancelled, its struct is queued
 * again, or the domain closes: that work has ended is not told to us. The application's structs
 * are only read, and only while it is queued.
 */
#ifndef WEFT_CORE_PASS_TRIGGER_H
#define WEFT_CORE_PASS_TRIGGER_H

#include <rdma/fi_trigger.h>

#include "core/pass.h"

/* The tables of one fabric. The first of each kind looks at the flags of *msg calls; the others
 * are of aliases, on which all calls of a direction are triggered. */
struct pass_triggers {
    struct fi_ops_msg msg, tx_msg, rx_msg;
    struct fi_ops_tagged tagged, tx_tagged, rx_tagged;
    struct fi_ops_rma rma, tx_rma;
    struct fi_ops_atomic atomic, tx_atomic;
};

/* The tables for endpoints with these; NULL without memory. */
struct pass_triggers *pass_triggers_create(const struct pass_ops *ops);

/* After ep has its tables, which are those of its fabric or of core/no.h: those that the lower has
 * are exchanged. */
void pass_triggers_set(struct pass_ep *ep);
/* The same of an alias with these flags. */
void pass_triggers_set_alias(struct pass_ep *ep, uint64_t flags);

/* The lower's of an endpoint or counter of ours, others as they are. NULL for NULL. */
struct fid *pass_trigger_down(const struct pass_fabric *fabric, struct fid *fid);

/* FI_QUEUE_WORK, FI_CANCEL_WORK and FI_FLUSH_WORK of a domain of a transparent part. */
int pass_work_queue(struct pass_domain *domain, const struct fi_deferred_work *work);
int pass_work_cancel(struct pass_domain *domain, struct fi_deferred_work *work);
int pass_work_flush(struct pass_domain *domain, struct fid_cntr *cntr);
/* With the domain. */
void pass_works_init(struct pass_domain *domain);
void pass_works_finish(struct pass_domain *domain);

#endif

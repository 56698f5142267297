/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Triggered operations and deferred work (fi_trigger(3)) through a transparent part: both name
 * endpoints and counters in memory of the application's, which are exchanged for the lower's.
 *
 * Endpoints that were opened with FI_TRIGGER get a post that stands before the part's own: no other
 * endpoint pays for it. A triggered operation's counter is exchanged in its context, which has to
 * go down as itself because it is what completes. It is put back when the operation is refused;
 * after a success the context is the lower's until it completes, and its contents are undefined
 * then. A fid that is none of ours goes down as it is, so a context that is used again as it came
 * back names the same counter.
 *
 * Deferred work goes down as a copy, which lives until its work is cancelled, its struct is queued
 * again, or the domain closes: no report of its end reaches a hook. The application's structs are
 * only read, and only while it is queued.
 */
#ifndef WEFT_CORE_HOOK_HOOK_TRIGGER_H
#define WEFT_CORE_HOOK_HOOK_TRIGGER_H

#include <rdma/fi_trigger.h>

#include "core/hook/hook.h"

/* struct ep.post of endpoints that were opened with FI_TRIGGER: the part's own, with the counter
 * exchanged for the lower's. */
ssize_t hook_trigger_post(struct ep *ep, struct op *op);

/* Is the operation triggered, by its own flags or by those of an alias? Injects have no context,
 * and never are. */
bool hook_is_triggered(const struct hook_ep *ep, const struct op *op);

/* The lower's of an endpoint or counter of ours, others as they are. NULL for NULL. */
struct fid *hook_trigger_down(const struct hook_fabric *fabric, struct fid *fid);

/* FI_QUEUE_WORK, FI_CANCEL_WORK and FI_FLUSH_WORK of a domain of a transparent part. */
int hook_work_queue(struct hook_domain *domain, const struct fi_deferred_work *work);
int hook_work_cancel(struct hook_domain *domain, struct fi_deferred_work *work);
int hook_work_flush(struct hook_domain *domain, struct fid_cntr *cntr);
/* With the domain. */
void hook_works_init(struct hook_domain *domain);
void hook_works_finish(struct hook_domain *domain);

#endif

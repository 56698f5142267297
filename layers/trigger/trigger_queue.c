/* SPDX-License-Identifier: BSD-2-Clause */
/* Deferred work: fi_control of a domain. */
#include <rdma/fi_errno.h>

#include "layers/trigger/trigger.h"

/* What would complete more than once, or not by the buffer that is given. */
#define REFUSED_FLAGS (FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD | FI_TRIGGER)

struct cover_cntr *trigger_cntr_find(struct cover_domain *domain, struct fid_cntr *fid)
{
    struct cover_cntr *cntr = fid ? cover_cntr_of(domain, &fid->fid) : NULL;

    return cntr && cntr->cntr.sink == &cntr->cntr.peer ? cntr : NULL;
}

/* The operation, by type; the endpoint, or NULL. */
static struct fid_ep *take_operation(struct trigger_work *work, const struct fi_deferred_work *from)
{
    switch (from->op_type) {
    case FI_OP_RECV:
    case FI_OP_SEND:
        work->msg = from->op.msg->msg;
        work->flags = from->op.msg->flags;
        work->user_context = work->msg.context;
        return from->op.msg->ep;
    case FI_OP_TRECV:
    case FI_OP_TSEND:
        work->tagged = from->op.tagged->msg;
        work->flags = from->op.tagged->flags;
        work->user_context = work->tagged.context;
        return from->op.tagged->ep;
    case FI_OP_READ:
    case FI_OP_WRITE:
        work->rma = from->op.rma->msg;
        work->flags = from->op.rma->flags;
        work->user_context = work->rma.context;
        return from->op.rma->ep;
    case FI_OP_ATOMIC:
        work->atomic = from->op.atomic->msg;
        work->flags = from->op.atomic->flags;
        work->user_context = work->atomic.context;
        return from->op.atomic->ep;
    case FI_OP_FETCH_ATOMIC:
        work->atomic = from->op.fetch_atomic->msg;
        work->fetch = from->op.fetch_atomic->fetch;
        work->flags = from->op.fetch_atomic->flags;
        work->user_context = work->atomic.context;
        return from->op.fetch_atomic->ep;
    default:
        work->atomic = from->op.compare_atomic->msg;
        work->fetch = from->op.compare_atomic->fetch;
        work->compare = from->op.compare_atomic->compare;
        work->flags = from->op.compare_atomic->flags;
        work->user_context = work->atomic.context;
        return from->op.compare_atomic->ep;
    }
}

static bool changes_counter(enum fi_op_type type)
{
    return type == FI_OP_CNTR_SET || type == FI_OP_CNTR_ADD;
}

static int fill_counter(struct trigger_domain *domain, struct trigger_work *work,
                        const struct fi_deferred_work *from)
{
    if (from->completion_cntr)
        return -FI_EINVAL;
    work->target = trigger_cntr_find(&domain->cover, from->op.cntr->cntr);
    work->value = from->op.cntr->value;
    return work->target ? 0 : -FI_EINVAL;
}

static int fill_transfer(struct trigger_domain *domain, struct trigger_work *work,
                         const struct fi_deferred_work *from)
{
    struct fid_ep *ep = take_operation(work, from);

    work->ep = ep ? trigger_ep_find(&domain->cover, ep) : NULL;
    if (!work->ep)
        return -FI_EINVAL;
    if (!trigger_ep_does(work->ep->hook, work->type))
        return -FI_ENOSYS;
    if (!((struct cover_ep *)work->ep->hook)->enabled)
        return -FI_EOPBADSTATE;
    if (work->flags & REFUSED_FLAGS)
        return -FI_ENOSYS;
    work->wanted = work->flags & FI_COMPLETION;
    if (!from->completion_cntr)
        return 0;
    work->target = trigger_cntr_find(&domain->cover, from->completion_cntr);
    return work->target ? 0 : -FI_EINVAL;
}

static int fill(struct trigger_domain *domain, struct trigger_work *work,
                struct fi_deferred_work *from)
{
    int rc;

    work->deferred = from;
    work->type = from->op_type;
    work->threshold = from->threshold;
    work->cntr = trigger_cntr_find(&domain->cover, from->triggering_cntr);
    work->state = TRIGGER_WAITING;
    if (!work->cntr)
        return -FI_EINVAL;
    rc = changes_counter(from->op_type) ? fill_counter(domain, work, from)
                                        : fill_transfer(domain, work, from);
    if (rc)
        work->target = NULL;
    else if (work->target)
        children_hold(&work->target->cntr.children);
    return rc;
}

static int queue(struct trigger_domain *domain, struct fi_deferred_work *from)
{
    struct trigger_work *work;
    int rc;

    if (unit_forked(domain->cover.unit))
        return -FI_EOPBADSTATE;
    if (!from || (unsigned)from->op_type > FI_OP_CNTR_ADD || !from->op.msg)
        return -FI_EINVAL;
    rc = trigger_work_create(domain, &work);
    if (rc)
        return rc;
    rc = fill(domain, work, from);
    if (rc) {
        trigger_work_destroy(domain, work);
        return rc;
    }
    trigger_work_arm(domain, work);
    trigger_pump(&domain->cover);
    return 0;
}

static int cancel(struct trigger_domain *domain, const struct fi_deferred_work *deferred)
{
    list_for_each_safe (pos, after, &domain->all) {
        struct trigger_work *work = list_item(pos, struct trigger_work, all);

        if (work->deferred != deferred || !deferred)
            continue;
        if (work->state == TRIGGER_POSTED)
            return -FI_EBUSY;
        trigger_work_destroy(domain, work);
        return 0;
    }
    return -FI_ENOENT;
}

/* cntr NULL: all that is queued. */
static int flush(struct trigger_domain *domain, struct fid_cntr *fid)
{
    const struct cover_cntr *cntr = trigger_cntr_find(&domain->cover, fid);

    if (fid && !cntr)
        return -FI_EINVAL;
    list_for_each_safe (pos, after, &domain->all) {
        struct trigger_work *work = list_item(pos, struct trigger_work, all);

        if (work->deferred && work->state != TRIGGER_POSTED && (!cntr || work->cntr == cntr))
            trigger_work_destroy(domain, work);
    }
    return 0;
}

int trigger_control(struct fid *fid, int command, void *arg)
{
    struct trigger_domain *domain = *pass_hook(fid);
    bool busy;
    int rc;

    unit_lock(domain->cover.unit);
    switch (command) {
    case FI_QUEUE_WORK: rc = queue(domain, arg); break;
    case FI_CANCEL_WORK: rc = cancel(domain, arg); break;
    case FI_FLUSH_WORK: rc = flush(domain, arg); break;
    default: rc = pass_domain_fid_ops.control(fid, command, arg); break;
    }
    busy = trigger_busy(&domain->cover);
    unit_unlock(domain->cover.unit);
    if (busy)
        unit_wake(domain->cover.unit);
    return rc;
}

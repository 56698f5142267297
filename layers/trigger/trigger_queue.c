/* SPDX-License-Identifier: BSD-2-Clause */
/* Deferred work: fi_control of a domain. */
#include <rdma/fi_errno.h>

#include "core/op/op_build.h"
#include "layers/trigger/trigger.h"

/* Operations that would complete more than once, or not by the buffer that is given. */
#define REFUSED_FLAGS (FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD | FI_TRIGGER)

struct layer_cntr *trigger_cntr_find(struct layer_domain *domain, struct fid_cntr *fid)
{
    struct layer_cntr *cntr = fid ? layer_cntr_of(domain, &fid->fid) : NULL;

    return cntr && cntr->cntr.sink == &cntr->cntr.peer ? cntr : NULL;
}

static struct op_operand results_of(const struct fi_msg_fetch *fetch)
{
    return (struct op_operand){fetch->msg_iov, fetch->desc, fetch->iov_count};
}

/* The operation, by type; the endpoint, or NULL. */
static struct fid_ep *take_atomic(struct op *op, const struct fi_deferred_work *from)
{
    const struct fi_op_fetch_atomic *fetch = from->op.fetch_atomic;
    const struct fi_op_compare_atomic *compare = from->op.compare_atomic;
    const struct fi_op_atomic *plain = from->op.atomic;

    switch (from->op_type) {
    case FI_OP_ATOMIC: op_of_atomic(op, OP_ATOMICMSG, &plain->msg, plain->flags); return plain->ep;
    case FI_OP_FETCH_ATOMIC:
        op_of_atomic(op, OP_FETCH_ATOMICMSG, &fetch->msg, fetch->flags);
        op->result = results_of(&fetch->fetch);
        return fetch->ep;
    default:
        op_of_atomic(op, OP_COMPARE_ATOMICMSG, &compare->msg, compare->flags);
        op->result = results_of(&compare->fetch);
        op->compare = (struct op_operand){compare->compare.msg_iov, compare->compare.desc,
                                          compare->compare.iov_count};
        return compare->ep;
    }
}

static struct fid_ep *take_operation(struct op *op, const struct fi_deferred_work *from)
{
    const struct fi_op_tagged *tagged = from->op.tagged;
    const struct fi_op_msg *msg = from->op.msg;
    const struct fi_op_rma *rma = from->op.rma;

    switch (from->op_type) {
    case FI_OP_RECV: op_of_msg(op, OP_RECVMSG, &msg->msg, msg->flags); return msg->ep;
    case FI_OP_SEND: op_of_msg(op, OP_SENDMSG, &msg->msg, msg->flags); return msg->ep;
    case FI_OP_TRECV: op_of_tagged(op, OP_TRECVMSG, &tagged->msg, tagged->flags); return tagged->ep;
    case FI_OP_TSEND: op_of_tagged(op, OP_TSENDMSG, &tagged->msg, tagged->flags); return tagged->ep;
    case FI_OP_READ: op_of_rma(op, OP_READMSG, &rma->msg, rma->flags); return rma->ep;
    case FI_OP_WRITE: op_of_rma(op, OP_WRITEMSG, &rma->msg, rma->flags); return rma->ep;
    default: return take_atomic(op, from);
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
    struct fid_ep *ep = take_operation(&work->op, from);

    work->user_context = work->op.context;
    work->ep = ep ? trigger_ep_find(&domain->cover, ep) : NULL;
    if (!work->ep)
        return -FI_EINVAL;
    if (!trigger_ep_does(work->ep->own, work->type))
        return -FI_ENOSYS;
    if (!((struct layer_ep *)work->ep->own)->enabled)
        return -FI_EOPBADSTATE;
    if (work->op.flags & REFUSED_FLAGS)
        return -FI_ENOSYS;
    work->wanted = work->op.flags & FI_COMPLETION;
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

    if (progress_forked(domain->cover.progress))
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
    const struct layer_cntr *cntr = trigger_cntr_find(&domain->cover, fid);

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
    struct trigger_domain *domain = *hook_own(fid);
    bool busy;
    int rc;

    progress_lock(domain->cover.progress);
    switch (command) {
    case FI_QUEUE_WORK: rc = queue(domain, arg); break;
    case FI_CANCEL_WORK: rc = cancel(domain, arg); break;
    case FI_FLUSH_WORK: rc = flush(domain, arg); break;
    default: rc = hook_domain_fid_ops.control(fid, command, arg); break;
    }
    busy = trigger_busy(&domain->cover);
    progress_unlock(domain->cover.progress);
    if (busy)
        progress_wake(domain->cover.progress);
    return rc;
}

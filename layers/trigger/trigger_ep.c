/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations with FI_TRIGGER: copied, and kept until they are due. */
#include <rdma/fi_errno.h>

#include "core/hook/hook_trigger.h"
#include "core/op/op_copy.h"
#include "layers/trigger/trigger.h"

static struct fi_ops fid_ops;

struct hook_ep *trigger_ep_find(struct layer_domain *domain, struct fid_ep *fid)
{
    size_t fclass = fid->fid.fclass;
    struct layer_ep *own;
    struct hook_ep *ep;

    if ((fclass != FI_CLASS_EP && fclass != FI_CLASS_TX_CTX && fclass != FI_CLASS_RX_CTX &&
         fclass != FI_CLASS_SRX_CTX) ||
        fid->fid.ops != &fid_ops)
        return NULL;
    ep = object_of(fid, struct hook_ep, fid);
    own = ep->own;
    return own->domain == domain ? own->hook : NULL;
}

bool trigger_ep_does(const struct layer_ep *ep, enum fi_op_type type)
{
    bool receives = type == FI_OP_RECV || type == FI_OP_TRECV;

    switch (layer_ep_class(ep)) {
    case FI_CLASS_EP: return !receives || ep->info->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT;
    case FI_CLASS_TX_CTX: return !receives;
    case FI_CLASS_RX_CTX: return receives;
    default: return false;
    }
}

/* ---- Copies ---- */

/* Copies the segments of the op into the work. False: too many segments. */
static bool copy_op(const struct op *op, struct trigger_work *work)
{
    if (op_copy_size(op, false) > sizeof(work->memory))
        return false;
    op_copy(op, false, &work->op, work->memory);
    return true;
}

/* ---- Keeping ---- */

static enum fi_op_type type_of(const struct op *op)
{
    switch (op->group) {
    case OP_GROUP_RECV: return FI_OP_RECV;
    case OP_GROUP_SEND: return FI_OP_SEND;
    case OP_GROUP_TRECV: return FI_OP_TRECV;
    case OP_GROUP_TSEND: return FI_OP_TSEND;
    case OP_GROUP_RMA: return op->kind & FI_READ ? FI_OP_READ : FI_OP_WRITE;
    default: break;
    }
    if (op->function == FI_COMPARE_ATOMIC)
        return FI_OP_COMPARE_ATOMIC;
    return op->function ? FI_OP_FETCH_ATOMIC : FI_OP_ATOMIC;
}

static int keep_locked(struct trigger_domain *domain, struct hook_ep *ep, const struct op *op)
{
    struct fi_triggered_context *context = op->context;
    struct layer_cntr *cntr = trigger_cntr_find(&domain->cover, context->trigger.threshold.cntr);
    struct trigger_work *work;
    int rc;

    if (!cntr)
        return -FI_EINVAL;
    rc = trigger_work_create(domain, &work);
    if (rc)
        return rc;
    work->type = type_of(op);
    work->state = TRIGGER_WAITING;
    work->ep = ep;
    work->cntr = cntr;
    work->threshold = context->trigger.threshold.threshold;
    work->user_context = context;
    if (!copy_op(op, work)) {
        trigger_work_destroy(domain, work);
        return -FI_EINVAL;
    }
    work->op.flags &= ~FI_TRIGGER;
    trigger_work_arm(domain, work);
    trigger_pump(&domain->cover);
    return 0;
}

static ssize_t keep(struct layer_ep *own, const struct op *op)
{
    struct trigger_domain *domain = trigger_domain_of(own->domain);
    const struct fi_triggered_context *context = op->context;
    bool busy;
    int rc;

    if (!(own->info->caps & FI_TRIGGER))
        return -FI_EOPNOTSUPP;
    if (!trigger_ep_does(own, type_of(op)))
        return -FI_ENOSYS;
    if (!own->enabled || progress_forked(own->domain->progress))
        return -FI_EOPBADSTATE;
    /* A buffer that may be used again at once would have to be copied. */
    if (op->flags & FI_INJECT || !context || context->event_type != FI_TRIGGER_THRESHOLD)
        return context && context->event_type == FI_TRIGGER_THRESHOLD ? -FI_ENOSYS : -FI_EINVAL;
    progress_lock(domain->cover.progress);
    rc = keep_locked(domain, own->hook, op);
    busy = trigger_busy(&domain->cover);
    progress_unlock(domain->cover.progress);
    if (busy)
        progress_wake(domain->cover.progress);
    return rc;
}

/* struct ep.post of its endpoints. */
static ssize_t ep_post(struct ep *base, struct op *op)
{
    struct hook_ep *hook = hook_ep_of(base);

    if (!hook_is_triggered(hook, op) || op->group == OP_GROUP_COLLECTIVE)
        return layer_post(base, op);
    op_make_message(op, hook->trigger_flags & ~(FI_TRANSMIT | FI_RECV));
    return keep(hook->own, op);
}

/* Work that still waits ends here, the rest in the lower. */
static bool cancel_waiting(struct trigger_domain *domain, struct layer_ep *own, void *context)
{
    list_for_each (pos, &domain->all) {
        struct trigger_work *work = list_item(pos, struct trigger_work, all);

        if (work->deferred || !work->ep || work->ep->own != own || work->user_context != context)
            continue;
        trigger_work_failed(domain, work, FI_ECANCELED);
        return true;
    }
    return false;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct layer_ep *own = *hook_own(fid);
    bool cancelled;

    progress_lock(own->domain->progress);
    cancelled = cancel_waiting(trigger_domain_of(own->domain), own, context);
    progress_unlock(own->domain->progress);
    return cancelled ? 0 : layer_ep_ops.cancel(fid, context);
}

/* The lower's alias does not know of FI_TRIGGER. */
static int open_alias(struct fid *fid, struct fi_alias *theirs)
{
    struct fi_alias down = {.fid = theirs->fid, .flags = theirs->flags & ~FI_TRIGGER};
    int rc = layer_ep_fid_ops.control(fid, FI_ALIAS, &down);

    if (!rc)
        object_of(*theirs->fid, struct hook_ep, fid.fid)->trigger_flags = theirs->flags;
    return rc;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct fi_alias *alias = arg;

    if (command == FI_ALIAS && alias->flags & FI_TRIGGER)
        return open_alias(fid, alias);
    return layer_ep_fid_ops.control(fid, command, arg);
}

static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .control = ep_control};
static struct fi_ops_ep ep_ops = {.size = sizeof(ep_ops), .cancel = ep_cancel};
static struct fi_ops domain_fid_ops = {.size = sizeof(domain_fid_ops), .control = trigger_control};

const struct hook_ops trigger_tables = {
    .ep_fid = &fid_ops,
    .ep = &ep_ops,
    .domain_fid = &domain_fid_ops,
    .post = ep_post,
};

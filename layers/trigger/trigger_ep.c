/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations with FI_TRIGGER: copied, and kept until they are due. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/trigger/trigger.h"

static struct fi_ops_msg msg_ops, cover_msg;
static struct fi_ops_tagged tagged_ops, cover_tagged;
static struct fi_ops_rma rma_ops, cover_rma;
static struct fi_ops_atomic atomic_ops, cover_atomic;
static struct fi_ops_ep ep_ops, *cover_ep_ops;
static struct fi_ops fid_ops, *cover_fid_ops;

struct pass_ep *trigger_ep_find(struct cover_domain *domain, struct fid_ep *fid)
{
    size_t fclass = fid->fid.fclass;
    struct cover_ep *own;
    struct pass_ep *ep;

    if ((fclass != FI_CLASS_EP && fclass != FI_CLASS_TX_CTX && fclass != FI_CLASS_RX_CTX &&
         fclass != FI_CLASS_SRX_CTX) ||
        fid->fid.ops != &fid_ops)
        return NULL;
    ep = object_of(fid, struct pass_ep, fid);
    own = ep->hook;
    return own->domain == domain ? own->pass : NULL;
}

bool trigger_ep_does(const struct cover_ep *ep, enum fi_op_type type)
{
    bool receives = type == FI_OP_RECV || type == FI_OP_TRECV;

    switch (cover_ep_class(ep)) {
    case FI_CLASS_EP: return !receives || ep->info->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT;
    case FI_CLASS_TX_CTX: return !receives;
    case FI_CLASS_RX_CTX: return receives;
    default: return false;
    }
}

/* ---- Copies ---- */

static bool copy_array(void *to, const void *from, size_t count, size_t size)
{
    if (count > TRIGGER_IOV_MAX)
        return false;
    if (count && from)
        memcpy(to, from, count * size);
    return true;
}

/* desc: where it is kept; *field: where the message names it. */
static void copy_desc(void **desc, void ***field, size_t count)
{
    if (!*field)
        return;
    memcpy(desc, *field, count * sizeof(*desc));
    *field = desc;
}

static bool copy_iov(struct trigger_work *work, const struct iovec **iov, void ***desc,
                     size_t count)
{
    if (!copy_array(work->arrays.iov, *iov, count, sizeof(**iov)))
        return false;
    *iov = work->arrays.iov;
    copy_desc(work->arrays.desc, desc, count);
    return true;
}

static bool copy_ioc(struct fi_ioc *kept, void **kept_desc, const struct fi_ioc **iov, void ***desc,
                     size_t count)
{
    if (!copy_array(kept, *iov, count, sizeof(**iov)))
        return false;
    *iov = kept;
    copy_desc(kept_desc, desc, count);
    return true;
}

/* ---- Keeping ---- */

/* Of one call: what there is, by type. */
struct call_args {
    enum fi_op_type type;
    const struct fi_msg *msg;
    const struct fi_msg_tagged *tagged;
    const struct fi_msg_rma *rma;
    const struct fi_msg_atomic *atomic;
    struct fi_msg_fetch fetch;
    struct fi_msg_compare compare;
};

static bool copy_atomic(struct trigger_work *work, const struct call_args *args)
{
    struct trigger_arrays *kept = &work->arrays;

    work->atomic = *args->atomic;
    work->fetch = args->fetch;
    work->compare = args->compare;
    if (!copy_ioc(kept->ioc, kept->desc, &work->atomic.msg_iov, &work->atomic.desc,
                  work->atomic.iov_count) ||
        !copy_ioc(kept->compare, kept->compare_desc, &work->compare.msg_iov, &work->compare.desc,
                  work->compare.iov_count) ||
        !copy_array(kept->result, work->fetch.msg_iov, work->fetch.iov_count,
                    sizeof(*kept->result)) ||
        !copy_array(kept->rma_ioc, work->atomic.rma_iov, work->atomic.rma_iov_count,
                    sizeof(*kept->rma_ioc)))
        return false;
    work->fetch.msg_iov = kept->result;
    copy_desc(kept->result_desc, &work->fetch.desc, work->fetch.iov_count);
    work->atomic.rma_iov = kept->rma_ioc;
    return true;
}

static bool copy_rma(struct trigger_work *work, const struct call_args *args)
{
    work->rma = *args->rma;
    if (!copy_iov(work, &work->rma.msg_iov, &work->rma.desc, work->rma.iov_count) ||
        !copy_array(work->arrays.rma_iov, work->rma.rma_iov, work->rma.rma_iov_count,
                    sizeof(*work->arrays.rma_iov)))
        return false;
    work->rma.rma_iov = work->arrays.rma_iov;
    return true;
}

/* False: too many segments. */
static bool copy_args(struct trigger_work *work, const struct call_args *args)
{
    switch (args->type) {
    case FI_OP_RECV:
    case FI_OP_SEND:
        work->msg = *args->msg;
        return copy_iov(work, &work->msg.msg_iov, &work->msg.desc, work->msg.iov_count);
    case FI_OP_TRECV:
    case FI_OP_TSEND:
        work->tagged = *args->tagged;
        return copy_iov(work, &work->tagged.msg_iov, &work->tagged.desc, work->tagged.iov_count);
    case FI_OP_READ:
    case FI_OP_WRITE: return copy_rma(work, args);
    default: return copy_atomic(work, args);
    }
}

static void *context_of(const struct call_args *args)
{
    switch (args->type) {
    case FI_OP_RECV:
    case FI_OP_SEND: return args->msg->context;
    case FI_OP_TRECV:
    case FI_OP_TSEND: return args->tagged->context;
    case FI_OP_READ:
    case FI_OP_WRITE: return args->rma->context;
    default: return args->atomic->context;
    }
}

static int keep_locked(struct trigger_domain *domain, struct pass_ep *ep,
                       const struct call_args *args, uint64_t flags)
{
    struct fi_triggered_context *context = context_of(args);
    struct cover_cntr *cntr =
        context ? trigger_cntr_find(&domain->cover, context->trigger.threshold.cntr) : NULL;
    struct trigger_work *work;
    int rc;

    if (!cntr)
        return -FI_EINVAL;
    rc = trigger_work_create(domain, &work);
    if (rc)
        return rc;
    work->type = args->type;
    work->state = TRIGGER_WAITING;
    work->ep = ep;
    work->cntr = cntr;
    work->threshold = context->trigger.threshold.threshold;
    work->flags = flags & ~FI_TRIGGER;
    work->user_context = context;
    if (!copy_args(work, args)) {
        trigger_work_destroy(domain, work);
        return -FI_EINVAL;
    }
    trigger_work_arm(domain, work);
    trigger_pump(&domain->cover);
    return 0;
}

static ssize_t keep(struct fid_ep *fid, const struct call_args *args, uint64_t flags)
{
    struct cover_ep *own = cover_ep_of(fid);
    struct trigger_domain *domain = trigger_domain_of(own->domain);
    const struct fi_triggered_context *context = context_of(args);
    bool busy;
    int rc;

    if (!(own->info->caps & FI_TRIGGER))
        return -FI_EOPNOTSUPP;
    if (!trigger_ep_does(own, args->type))
        return -FI_ENOSYS;
    if (!own->enabled || unit_forked(own->domain->unit))
        return -FI_EOPBADSTATE;
    /* A buffer that may be used again at once would have to be copied. */
    if (flags & FI_INJECT || !context || context->event_type != FI_TRIGGER_THRESHOLD)
        return context && context->event_type == FI_TRIGGER_THRESHOLD ? -FI_ENOSYS : -FI_EINVAL;
    unit_lock(domain->cover.unit);
    rc = keep_locked(domain, own->pass, args, flags);
    busy = trigger_busy(&domain->cover);
    unit_unlock(domain->cover.unit);
    if (busy)
        unit_wake(domain->cover.unit);
    return rc;
}

/* ---- Calls ---- */

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return flags & FI_TRIGGER ? keep(ep, &(struct call_args){FI_OP_RECV, .msg = msg}, flags)
                              : cover_msg.recvmsg(ep, msg, flags);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return flags & FI_TRIGGER ? keep(ep, &(struct call_args){FI_OP_SEND, .msg = msg}, flags)
                              : cover_msg.sendmsg(ep, msg, flags);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return flags & FI_TRIGGER ? keep(ep, &(struct call_args){FI_OP_TRECV, .tagged = msg}, flags)
                              : cover_tagged.recvmsg(ep, msg, flags);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return flags & FI_TRIGGER ? keep(ep, &(struct call_args){FI_OP_TSEND, .tagged = msg}, flags)
                              : cover_tagged.sendmsg(ep, msg, flags);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return flags & FI_TRIGGER ? keep(ep, &(struct call_args){FI_OP_READ, .rma = msg}, flags)
                              : cover_rma.readmsg(ep, msg, flags);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return flags & FI_TRIGGER ? keep(ep, &(struct call_args){FI_OP_WRITE, .rma = msg}, flags)
                              : cover_rma.writemsg(ep, msg, flags);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    return flags & FI_TRIGGER ? keep(ep, &(struct call_args){FI_OP_ATOMIC, .atomic = msg}, flags)
                              : cover_atomic.writemsg(ep, msg, flags);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *result, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
    const struct call_args args = {
        .type = FI_OP_FETCH_ATOMIC, .atomic = msg, .fetch = {result, result_desc, result_count}};

    return flags & FI_TRIGGER
               ? keep(ep, &args, flags)
               : cover_atomic.readwritemsg(ep, msg, result, result_desc, result_count, flags);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *compare, void **compare_desc,
                                   size_t compare_count, struct fi_ioc *result, void **result_desc,
                                   size_t result_count, uint64_t flags)
{
    const struct call_args args = {.type = FI_OP_COMPARE_ATOMIC,
                                   .atomic = msg,
                                   .fetch = {result, result_desc, result_count},
                                   .compare = {compare, compare_desc, compare_count}};

    return flags & FI_TRIGGER
               ? keep(ep, &args, flags)
               : cover_atomic.compwritemsg(ep, msg, compare, compare_desc, compare_count, result,
                                           result_desc, result_count, flags);
}

/* What still waits ends here, the rest in the lower. */
static bool cancel_waiting(struct trigger_domain *domain, struct cover_ep *own, void *context)
{
    list_for_each (pos, &domain->all) {
        struct trigger_work *work = list_item(pos, struct trigger_work, all);

        if (work->deferred || !work->ep || work->ep->hook != own || work->user_context != context)
            continue;
        trigger_work_failed(domain, work, FI_ECANCELED);
        return true;
    }
    return false;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct cover_ep *own = *pass_hook(fid);
    bool cancelled;

    unit_lock(own->domain->unit);
    cancelled = cancel_waiting(trigger_domain_of(own->domain), own, context);
    unit_unlock(own->domain->unit);
    return cancelled ? 0 : cover_ep_ops->cancel(fid, context);
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct fi_alias *alias = arg;

    if (command == FI_ALIAS && alias->flags & FI_TRIGGER)
        return trigger_alias_open(fid, alias, cover_fid_ops->control);
    return cover_fid_ops->control(fid, command, arg);
}

/* The alias goes away with its object, and the endpoint only after all of them. */
static int ep_close(struct fid *fid)
{
    struct trigger_ep *ep = *pass_hook(fid);
    const struct pass_ep *pass = object_of(fid, struct pass_ep, fid.fid);
    bool alias = ep->cover.pass != pass;
    int rc = cover_fid_ops->close(fid);

    if (!rc && alias)
        trigger_alias_close(ep, pass);
    return rc;
}

void trigger_ep_tables(struct pass_ops *tables)
{
    cover_fid_ops = tables->ep_fid;
    fid_ops = *cover_fid_ops;
    fid_ops.control = ep_control;
    fid_ops.close = ep_close;
    tables->ep_fid = &fid_ops;
    msg_ops = cover_msg = *tables->msg;
    msg_ops.recvmsg = msg_recvmsg;
    msg_ops.sendmsg = msg_sendmsg;
    tagged_ops = cover_tagged = *tables->tagged;
    tagged_ops.recvmsg = tagged_recvmsg;
    tagged_ops.sendmsg = tagged_sendmsg;
    rma_ops = cover_rma = *tables->rma;
    rma_ops.readmsg = rma_readmsg;
    rma_ops.writemsg = rma_writemsg;
    atomic_ops = cover_atomic = *tables->atomic;
    atomic_ops.writemsg = atomic_writemsg;
    atomic_ops.readwritemsg = atomic_readwritemsg;
    atomic_ops.compwritemsg = atomic_compwritemsg;
    cover_ep_ops = tables->ep;
    ep_ops = *cover_ep_ops;
    ep_ops.cancel = ep_cancel;
    tables->msg = &msg_ops;
    tables->tagged = &tagged_ops;
    tables->rma = &rma_ops;
    tables->atomic = &atomic_ops;
    tables->ep = &ep_ops;
    trigger_alias_tables(tables);
}

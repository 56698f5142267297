/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work from its counter to its end. A counter that moves, which it does from inside the lower,
 * puts what it fires into one list; the pump, outside, posts that in order. Work that the lower
 * refuses with -FI_EAGAIN stays, and so does later work of the same endpoint.
 */
#include "layers/trigger/trigger.h"

#include <rdma/fi_errno.h>

#include "core/base/list.h"

/* ---- Memory ---- */

int trigger_work_create(struct trigger_domain *domain, struct trigger_work **ret_work)
{
    struct pool *items = &domain->cover.items;
    struct trigger_work *work = items->used < TRIGGER_WORK_MAX ? pool_get(items) : NULL;

    if (!work)
        return -FI_EAGAIN;
    list_init(&work->link);
    list_init(&work->all);
    work->deferred = NULL;
    work->ep = NULL;
    work->target = NULL;
    list_attach(&work->all, &domain->all);
    *ret_work = work;
    return 0;
}

static void leave(struct trigger_domain *domain, struct trigger_work *work)
{
    if (work->state == TRIGGER_WAITING && !list_empty(&work->link))
        atomic_fetch_sub(&domain->waiting, 1);
    list_detach(&work->link);
}

void trigger_work_destroy(struct trigger_domain *domain, struct trigger_work *work)
{
    leave(domain, work);
    list_detach(&work->all);
    if (work->target)
        children_release(&work->target->cntr.children);
    pool_put(&domain->cover.items, work);
}

/* ---- Counters ---- */

static bool is_due(const struct trigger_work *work)
{
    const struct cntr *cntr = &work->cntr->cntr;
    uint64_t value = atomic_load(&cntr->value);

    /* fi_trigger(3): of deferred work it is the sum. */
    if (work->deferred)
        value += atomic_load(&cntr->errors);
    return value >= work->threshold;
}

static void fire(struct trigger_domain *domain, struct trigger_work *work)
{
    leave(domain, work);
    work->state = TRIGGER_FIRED;
    list_attach(&work->link, &domain->fired);
}

/* Fires what is due, by threshold. */
static void look_at(struct trigger_domain *domain, struct layer_cntr *cntr)
{
    list_for_each_safe (pos, after, &cntr->waiting) {
        struct trigger_work *work = list_item(pos, struct trigger_work, link);

        if (is_due(work))
            fire(domain, work);
    }
}

void trigger_counted(struct layer_cntr *cntr)
{
    if (!list_empty(&cntr->waiting))
        look_at(trigger_domain_of(cntr->domain), cntr);
}

void trigger_changed(struct cntr *base)
{
    struct layer_cntr *cntr = object_of(base, struct layer_cntr, cntr);
    struct trigger_domain *domain = trigger_domain_of(cntr->domain);

    if (!atomic_load(&domain->waiting))
        return;
    progress_lock(domain->cover.progress);
    look_at(domain, cntr);
    trigger_pump(&domain->cover);
    progress_unlock(domain->cover.progress);
    if (!list_empty(&domain->fired))
        progress_wake(domain->cover.progress);
}

/* Behind those of its threshold. The count goes up before the counter is looked at, so that
 * the thread that changes it now sees that work waits. */
void trigger_work_arm(struct trigger_domain *domain, struct trigger_work *work)
{
    struct list *waiting = &work->cntr->waiting, *place = waiting->next;

    while (place != waiting &&
           list_item(place, struct trigger_work, link)->threshold <= work->threshold)
        place = place->next;
    work->state = TRIGGER_WAITING;
    list_attach_before(&work->link, place);
    atomic_fetch_add(&domain->waiting, 1);
    look_at(domain, work->cntr);
}

/* ---- Ends ---- */

static enum binding_kind kind_of(enum fi_op_type type)
{
    switch (type) {
    case FI_OP_RECV:
    case FI_OP_TRECV: return BIND_RECV;
    case FI_OP_SEND:
    case FI_OP_TSEND: return BIND_SEND;
    case FI_OP_WRITE:
    case FI_OP_ATOMIC: return BIND_WRITE;
    default: return BIND_READ;
    }
}

static struct layer_ep *cover_of(const struct trigger_work *work)
{
    return work->ep->own;
}

static void count(struct trigger_work *work, bool error)
{
    if (!work->target)
        return;
    if (error)
        cntr_add_error(&work->target->cntr);
    else
        cntr_add_one(&work->target->cntr);
    trigger_counted(work->target);
}

/* Writes the end of deferred work without another completion to the queue. */
static void tell_error(struct trigger_work *work, const struct fi_cq_err_entry *entry)
{
    struct cq *cq = binding_cq(&cover_of(work)->binding, kind_of(work->type));
    struct fi_cq_err_entry own = *entry;

    own.op_context = work->user_context;
    if (cq && (work->wanted || !work->target))
        cq_write_error(cq, &own);
    count(work, true);
}

void trigger_work_failed(struct trigger_domain *domain, struct trigger_work *work, int err)
{
    struct fi_cq_err_entry entry = {
        .op_context = work->user_context,
        .flags = work->op.kind,
        .err = err,
        .prov_errno = err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    if (work->deferred)
        tell_error(work, &entry);
    else
        complete_error(&cover_of(work)->binding, kind_of(work->type), &entry);
    trigger_work_destroy(domain, work);
}

/* Which of the endpoint's counters the lower is about to raise. */
static enum binding_kind counted_as(const struct trigger_work *work, uint64_t flags)
{
    if (flags & FI_RECV)
        return BIND_RECV;
    if (flags & FI_SEND)
        return BIND_SEND;
    if (flags & FI_READ)
        return BIND_READ;
    return flags & FI_WRITE ? BIND_WRITE : kind_of(work->type);
}

void trigger_completed(struct layer_domain *cover, const struct layer_done *done)
{
    struct trigger_work *work = done->context;
    struct layer_ep *ep = cover_of(work);
    struct cq *cq = binding_cq(&ep->binding, kind_of(work->type));

    layer_uncounted(ep, counted_as(work, done->flags), done->error);
    if (done->error) {
        tell_error(work, done->error);
    } else {
        if (work->wanted && cq)
            cq_write(cq, work->user_context, done->flags, done->len, done->buf, done->data,
                     done->tag, done->src);
        count(work, false);
    }
    trigger_work_destroy(trigger_domain_of(cover), work);
}

/* ---- The pump ---- */

static void change_counter(struct trigger_work *work)
{
    struct cntr *cntr = &work->target->cntr;

    if (work->type == FI_OP_CNTR_SET)
        atomic_store(&cntr->value, work->value);
    else
        atomic_fetch_add(&cntr->value, work->value);
    wait_signal(&cntr->wait);
    trigger_counted(work->target);
}

static ssize_t post_lower(const struct trigger_work *work)
{
    struct op op = work->op; /* the lower may change it, and the work may end meanwhile */

    op.context = work->deferred ? (void *)(uintptr_t)work : work->user_context;
    if (work->deferred)
        op.flags |= FI_COMPLETION;
    return op_post(&work->ep->target, &op);
}

/* False: to be tried again. The lower may complete it before it returns, and then it is gone. */
static bool post(struct trigger_domain *domain, struct trigger_work *work)
{
    struct trigger_ep *ep = work->ep->own;
    bool deferred = work->deferred;
    ssize_t rc;

    list_detach(&work->link);
    work->state = TRIGGER_POSTED;
    rc = post_lower(work);
    if (rc == -FI_EAGAIN) {
        work->state = TRIGGER_FIRED;
        ep->blocked = true;
        return false;
    }
    if (rc)
        trigger_work_failed(domain, work, (int)-rc);
    else if (!deferred)
        trigger_work_destroy(domain, work);
    return true;
}

static bool is_blocked(const struct trigger_work *work)
{
    return work->ep && ((struct trigger_ep *)work->ep->own)->blocked;
}

static void take(struct trigger_domain *domain, struct list *refused)
{
    struct trigger_work *work = list_item(domain->fired.next, struct trigger_work, link);

    if (is_blocked(work)) {
        list_detach(&work->link);
        list_attach(&work->link, refused);
        return;
    }
    if (!work->ep) {
        change_counter(work);
        trigger_work_destroy(domain, work);
        return;
    }
    if (!post(domain, work))
        list_attach(&work->link, refused);
}

void trigger_pump(struct layer_domain *cover)
{
    struct trigger_domain *domain = trigger_domain_of(cover);
    struct list refused;

    if (domain->pumping)
        return;
    domain->pumping = true;
    list_init(&refused);
    while (!list_empty(&domain->fired))
        take(domain, &refused);
    list_for_each (pos, &refused)
        ((struct trigger_ep *)list_item(pos, struct trigger_work, link)->ep->own)->blocked = false;
    list_join(&refused, &domain->fired);
    domain->pumping = false;
}

bool trigger_busy(struct layer_domain *cover)
{
    return !list_empty(&trigger_domain_of(cover)->fired);
}

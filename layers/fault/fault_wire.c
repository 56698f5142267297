/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of messages between this layer and its lower. A lost message ends here, in
 * success. Changed, doubled and late messages go down as copies, with the copy as their context, so
 * that the user's buffer is free again at the completion, which then has the user's context.
 *
 * A message that is to be overtaken waits in `held` for the next of its endpoint, or for a
 * waiter: a queue that was read HELD_READS times for nothing, a blocking read, fi_trywait.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "layers/fault/fault.h"

enum {
    COPIES = 1024,         /* that are under way in a fabric */
    COPIED_LEN = 16 << 20, /* longer ones only get lost, */
    COPIED_RMA = 8,        /* and those with more segments */
};

struct fault_copy {
    struct fi_context2 room; /* first: the lower's, if it asks for FI_CONTEXT2 */
    struct list link;        /* in copies, held or done of the plan */
    struct hook_ep *ep;
    struct fault_ep *own;
    void *user; /* the context of the operation that it copies */
    bool wanted, doubled;
    struct op op;                      /* for the lower: a *msg call, of `iov` */
    struct fi_rma_iov rma[COPIED_RMA]; /* of a write */
    struct fid_mr *mr;
    void *desc;
    struct iovec iov;
    char bytes[];
};

/* ---- Copies ---- */

static void copy_destroy(struct fault_copy *copy)
{
    list_detach(&copy->link);
    copy->own->plan->copy_count--;
    if (copy->mr)
        fi_close(&copy->mr->fid);
    free(copy);
}

/* A queue tells us of their ends from where regions may not be closed. Plan locked. */
static void reap(struct fault_plan *plan)
{
    list_for_each_safe (pos, after, &plan->done)
        copy_destroy(list_item(pos, struct fault_copy, link));
}

static uint64_t flags_of(const struct fault_ep *own, const struct op *op)
{
    return op_final_flags(op, own->tx_op_flags);
}

static bool is_wanted(const struct fault_ep *own, const struct op *op)
{
    return !op_is_inject(op) && own->tx && (!own->selective || flags_of(own, op) & FI_COMPLETION);
}

/* Descriptors are of the buffers that were copied, so the copy is registered by itself. */
static int copy_register(struct fault_copy *copy)
{
    struct fid_domain *domain = copy->ep->domain->lower;

    if (!copy->own->registers || !copy->iov.iov_len)
        return 0;
    if (fi_mr_reg(domain, copy->bytes, copy->iov.iov_len, FI_SEND | FI_WRITE, 0,
                  (uint64_t)(uintptr_t)copy, 0, &copy->mr, NULL)) {
        copy->mr = NULL;
        return -FI_ENOMEM;
    }
    copy->desc = fi_mr_desc(copy->mr);
    return 0;
}

static void copy_op(struct fault_copy *copy, const struct op *op)
{
    size_t rma_count = op->group == OP_GROUP_RMA ? op->rma_count : 0;

    copy->op = *op;
    op_make_message(&copy->op, copy->own->tx_op_flags);
    if (op_is_inject(op) && rma_count)
        copy->op.flags |= FI_DELIVERY_COMPLETE; /* as counters count it: binding_inject_flags */
    copy->op.flags = (copy->op.flags & ~FI_INJECT) | FI_COMPLETION;
    copy->op.context = &copy->room;
    copy->iov = (struct iovec){copy->bytes, op->len};
    iov_copy(&copy->iov, 1, op->iov, op->count);
    copy->op.iov = &copy->iov;
    copy->op.desc = &copy->desc;
    copy->op.count = 1;
    if (rma_count)
        memcpy(copy->rma, op->rma, rma_count * sizeof(*op->rma));
    copy->op.rma = copy->rma;
    copy->op.rma_count = rma_count;
}

/* Without a queue nothing would say when it can go. Plan locked; in no list. */
static struct fault_copy *copy_create(struct hook_ep *ep, const struct op *op)
{
    struct fault_ep *own = ep->own;
    struct fault_copy *copy;

    reap(own->plan);
    if (!own->tx || op->len > COPIED_LEN ||
        (op->group == OP_GROUP_RMA && op->rma_count > COPIED_RMA) ||
        own->plan->copy_count >= COPIES)
        return NULL;
    copy = calloc(1, sizeof(*copy) + op->len);
    if (!copy)
        return NULL;
    list_init(&copy->link);
    copy->ep = ep;
    copy->own = own;
    copy->user = op->context;
    copy->wanted = is_wanted(own, op);
    copy_op(copy, op);
    own->plan->copy_count++;
    if (copy_register(copy)) {
        copy_destroy(copy);
        return NULL;
    }
    return copy;
}

/* ---- To the lower ---- */

/* Plan locked on entry and return, not while the lower works: it may end other copies meanwhile. */
static ssize_t copy_send(struct fault_copy *copy)
{
    const struct op_target *target = &copy->ep->target;
    struct fault_ep *own = copy->own;
    struct op op = copy->op; /* the lower may change it, and may be done with the copy at once */
    ssize_t rc;

    list_detach(&copy->link);
    list_attach(&copy->link, &own->plan->copies);
    own->busy++;
    pthread_mutex_unlock(&own->plan->mutex);
    rc = op_post(target, &op);
    pthread_mutex_lock(&own->plan->mutex);
    own->busy--;
    return rc;
}

/* Which held messages are meant: each that is not NULL narrows it. */
struct held_of {
    const struct hook_ep *ep;
    const struct hook_cq *cq; /* its endpoint is bound to it */
    const struct hook_domain *domain;
};

static bool is_of(const struct fault_copy *copy, struct held_of of)
{
    return (!of.ep || copy->ep == of.ep) &&
           (!of.cq || copy->own->tx == of.cq || copy->own->rx == of.cq) &&
           (!of.domain || copy->ep->domain == of.domain);
}

static struct fault_copy *first_held(const struct fault_plan *plan, struct held_of of)
{
    list_for_each (pos, &plan->held) {
        struct fault_copy *copy = list_item(pos, struct fault_copy, link);

        if (!copy->own->closing && is_of(copy, of))
            return copy;
    }
    return NULL;
}

/* A message that the lower cannot take now waits on; any other error
 * is a message that got lost. Plan locked. */
static void send_held(struct fault_plan *plan, struct held_of of)
{
    struct fault_copy *copy;

    while ((copy = first_held(plan, of))) {
        struct fault_copy seen = *copy;
        ssize_t rc = copy_send(copy);
        int err;

        if (rc == -FI_EAGAIN) {
            list_detach(&copy->link);
            list_attach_before(&copy->link, plan->held.next);
            return;
        }
        if (!rc)
            continue;
        copy_destroy(copy);
        pthread_mutex_unlock(&plan->mutex);
        err = fault_lost_error(seen.op.kind, seen.op.flags);
        fault_lost_end(seen.own, seen.wanted || err, seen.user, seen.op.kind, err);
        pthread_mutex_lock(&plan->mutex);
    }
}

void fault_wire_flush_cq(struct fault_plan *plan, const struct hook_cq *cq)
{
    pthread_mutex_lock(&plan->mutex);
    send_held(plan, (struct held_of){.cq = cq});
    pthread_mutex_unlock(&plan->mutex);
}

void fault_wire_flush(struct fault_plan *plan, const struct hook_domain *domain)
{
    pthread_mutex_lock(&plan->mutex);
    send_held(plan, (struct held_of){.domain = domain});
    pthread_mutex_unlock(&plan->mutex);
}

/* ---- What happens to one ---- */

/* One bit of one byte. */
static void damage(struct fault_copy *copy, uint64_t random)
{
    if (copy->iov.iov_len)
        copy->bytes[(random >> 8) % copy->iov.iov_len] ^= (char)(1 << (random & 7));
}

static ssize_t send_damaged(struct hook_ep *ep, struct op *op, uint64_t n)
{
    struct fault_ep *own = ep->own;
    struct fault_plan *plan = own->plan;
    struct fault_copy *copy;
    ssize_t rc;

    pthread_mutex_lock(&plan->mutex);
    copy = copy_create(ep, op);
    if (copy) {
        damage(copy, fault_plan_random(plan, own->number, n));
        rc = copy_send(copy);
        if (rc)
            copy_destroy(copy);
    }
    pthread_mutex_unlock(&plan->mutex);
    return copy ? rc : op_post(&ep->target, op);
}

/* False: it cannot wait. */
static bool hold(struct hook_ep *ep, const struct op *op)
{
    struct fault_plan *plan = ((struct fault_ep *)ep->own)->plan;
    struct fault_copy *copy;

    pthread_mutex_lock(&plan->mutex);
    copy = copy_create(ep, op);
    if (copy)
        list_attach(&copy->link, &plan->held);
    pthread_mutex_unlock(&plan->mutex);
    return copy != NULL;
}

static void count_extra(const struct fault_copy *copy, int64_t more)
{
    struct hook_cntr *counts = fault_cntr_of(copy->own, copy->op.kind);
    struct fault_cntr *cntr = counts ? counts->own : NULL;

    if (cntr)
        atomic_fetch_add(&cntr->extra, (uint_fast64_t)more);
}

/* The double of a message, made while the buffer is ours to read; NULL: there is none. */
static struct fault_copy *make_double(struct hook_ep *ep, const struct op *op)
{
    struct fault_ep *own = ep->own;
    struct fault_copy *copy;

    pthread_mutex_lock(&own->plan->mutex);
    copy = copy_create(ep, op);
    if (copy) {
        copy->wanted = false;
        copy->doubled = true;
    }
    pthread_mutex_unlock(&own->plan->mutex);
    return copy;
}

static void finish_double(struct fault_copy *copy, bool send)
{
    struct fault_ep *own = copy->own;

    pthread_mutex_lock(&own->plan->mutex);
    if (send)
        count_extra(copy, 1);
    if (!send || copy_send(copy)) {
        if (send)
            count_extra(copy, -1);
        copy_destroy(copy);
    }
    pthread_mutex_unlock(&own->plan->mutex);
}

/* A message that waited goes behind the one that overtook it. */
static ssize_t send_ahead(struct hook_ep *ep, struct op *op, uint64_t n)
{
    struct fault_ep *own = ep->own;
    const struct fault_plan *plan = own->plan;
    struct fault_copy *doubled =
        fault_plan_happens(plan, FAULT_DUP, own->number, n) ? make_double(ep, op) : NULL;
    ssize_t rc = fault_plan_happens(plan, FAULT_CORRUPT, own->number, n) ? send_damaged(ep, op, n)
                                                                         : op_post(&ep->target, op);

    if (doubled)
        finish_double(doubled, !rc);
    if (rc)
        return rc;
    pthread_mutex_lock(&own->plan->mutex);
    send_held(own->plan, (struct held_of){.ep = ep});
    pthread_mutex_unlock(&own->plan->mutex);
    return 0;
}

/* A lower may overtake messages, and yet keep writes in order with them. */
static ssize_t write_in_order(struct hook_ep *ep, struct op *op)
{
    struct fault_plan *plan = ((struct fault_ep *)ep->own)->plan;
    bool waits;

    pthread_mutex_lock(&plan->mutex);
    send_held(plan, (struct held_of){.ep = ep});
    waits = first_held(plan, (struct held_of){.ep = ep}) != NULL;
    pthread_mutex_unlock(&plan->mutex);
    return waits ? -FI_EAGAIN : op_post(&ep->target, op);
}

static int lose(const struct fault_ep *own, const struct op *op)
{
    int err = op_is_inject(op) ? 0 : fault_lost_error(op->kind, flags_of(own, op));

    return fault_lost_end(own, is_wanted(own, op) || (err && own->tx), op->context, op->kind, err);
}

/* One that is accepted, and is the n-th. */
static ssize_t send_one(struct hook_ep *ep, struct op *op, uint64_t n)
{
    const struct fault_ep *own = ep->own;

    if (fault_plan_happens(own->plan, FAULT_DROP, own->number, n))
        return lose(own, op);
    if (op->kind & FI_RMA && !own->loose)
        return write_in_order(ep, op);
    if (fault_plan_happens(own->plan, FAULT_REORDER, own->number, n) && hold(ep, op))
        return 0;
    return send_ahead(ep, op, n);
}

ssize_t fault_wire_post(struct hook_ep *ep, struct op *op)
{
    struct fault_ep *own = ep->own;
    enum op_class class = op_class(op->call);
    ssize_t rc = fault_call_enter(ep, class);

    if (!rc)
        rc = own ? send_one(ep, op, atomic_load_explicit(&own->messages, memory_order_relaxed))
                 : op_post(&ep->target, op);
    if (rc || !own)
        return rc;
    atomic_fetch_add_explicit(&own->messages, 1, memory_order_relaxed);
    fault_call_accepted(ep, class);
    return 0;
}

/* ---- Ends ---- */

bool fault_wire_done(struct fault_plan *plan, void **context, bool failed, bool *wanted)
{
    bool found = false;

    pthread_mutex_lock(&plan->mutex);
    list_for_each (pos, &plan->copies) {
        struct fault_copy *copy = list_item(pos, struct fault_copy, link);

        if (*context != &copy->room)
            continue;
        *context = copy->user;
        *wanted = copy->wanted || (failed && !copy->doubled);
        list_detach(&copy->link);
        list_attach(&copy->link, &plan->done);
        found = true;
        break;
    }
    pthread_mutex_unlock(&plan->mutex);
    return found;
}

static void drop_of(const struct fault_ep *own, struct list *list)
{
    list_for_each_safe (pos, after, list) {
        struct fault_copy *copy = list_item(pos, struct fault_copy, link);

        if (copy->own == own)
            copy_destroy(copy);
    }
}

void fault_wire_closing(struct fault_ep *own, bool closing)
{
    pthread_mutex_lock(&own->plan->mutex);
    own->closing = closing;
    while (closing && own->busy) {
        pthread_mutex_unlock(&own->plan->mutex);
        sched_yield();
        pthread_mutex_lock(&own->plan->mutex);
    }
    pthread_mutex_unlock(&own->plan->mutex);
}

void fault_wire_closed(const struct fault_ep *own)
{
    pthread_mutex_lock(&own->plan->mutex);
    drop_of(own, &own->plan->copies);
    drop_of(own, &own->plan->held);
    drop_of(own, &own->plan->done);
    pthread_mutex_unlock(&own->plan->mutex);
}

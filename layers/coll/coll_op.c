/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collectives on their way. One goes on when all messages of its round have ended: the end of the
 * last one, which comes from inside the lower, puts it on the domain's list, and the pump, which is
 * called outside, takes it from there.
 *
 * A collective that fails ends when the lower has returned all its messages, so that no buffer is
 * touched after its completion. Members that wait for a failed join get empty messages in place of
 * its own.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/ep/ep_post.h"
#include "core/op/atomic.h"
#include "layers/coll/coll.h"
#include "layers/coll/coll_tag.h"

enum going {
    GO_ON,
    WAIT,
    OVER, /* the operation is no more */
};

static struct coll_domain *domain_of(const struct coll_op *op)
{
    return op->group->domain;
}

/* ---- Memory ---- */

static int take_scratch(struct coll_op *op, size_t bytes)
{
    struct coll_group *group = op->group;

    if (!bytes)
        return 0;
    if (group->scratch && group->scratch_size >= bytes) {
        op->scratch = group->scratch;
        op->scratch_size = group->scratch_size;
        group->scratch = NULL;
        group->scratch_size = 0;
        return 0;
    }
    op->scratch = malloc(bytes);
    op->scratch_size = bytes;
    return op->scratch ? 0 : -FI_ENOMEM;
}

/* The larger one stays with the group. */
static void give_scratch(struct coll_op *op)
{
    struct coll_group *group = op->group;

    if (op->scratch_size <= group->scratch_size) {
        free(op->scratch);
        return;
    }
    free(group->scratch);
    group->scratch = op->scratch;
    group->scratch_size = op->scratch_size;
}

/* ---- The end ---- */

static void binding(const struct coll_op *op, struct coll_ep *ep)
{
    struct fi_cq_err_entry error = {
        .op_context = op->context,
        .flags = FI_COLLECTIVE,
        .err = op->err,
        .prov_errno = op->err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };

    if (op->err)
        complete_error(&ep->cover.binding, BIND_WRITE, &error);
    else
        complete(&ep->cover.binding, BIND_WRITE, op->wanted, op->context, FI_COLLECTIVE, 0, NULL, 0,
                 0, FI_ADDR_NOTAVAIL);
}

static void op_destroy(struct coll_op *op)
{
    struct coll_domain *domain = domain_of(op);

    list_detach(&op->link);
    list_detach(&op->todo);
    list_detach(&op->all);
    give_scratch(op);
    coll_group_release(op->group);
    pool_put(&domain->ops, op);
}

static enum going finish(struct coll_op *op)
{
    struct coll_group *group = op->group;

    if (op->join)
        coll_joined(group, op->err);
    else
        binding(op, group->ep);
    if (op->err && !op->join)
        coll_group_break(group, op->err, true);
    op_destroy(op);
    return OVER;
}

void coll_op_discard(struct coll_op *op)
{
    list_for_each_safe (pos, after, &op->items) {
        list_detach(pos);
        pool_put(&domain_of(op)->cover.items, list_item(pos, struct coll_item, link));
    }
    op_destroy(op);
}

/* ---- Steps ---- */

static char *at(const struct coll_op *op, struct coll_place place)
{
    char *base = place.space == COLL_IN    ? (char *)(uintptr_t)op->in
                 : place.space == COLL_OUT ? op->out
                                           : op->scratch;

    return base ? base + place.at * op->element : NULL;
}

static void *desc_of(const struct coll_op *op, struct coll_place place)
{
    return place.space == COLL_IN ? op->in_desc : place.space == COLL_OUT ? op->out_desc : NULL;
}

static void compute(const struct coll_op *op, const struct coll_step *step)
{
    char *to = at(op, step->to), *from = at(op, step->from);
    size_t bytes = step->count * op->element;

    switch (step->kind) {
    case COLL_COPY:
        if (to != from)
            memmove(to, from, bytes);
        break;
    case COLL_FOLD: atomic_apply(op->op, op->datatype, to, from, NULL, NULL, step->count); break;
    default: /* the left operand is always scratch */
        atomic_apply(op->op, op->datatype, from, to, NULL, NULL, step->count);
        memcpy(to, from, bytes);
        break;
    }
}

static ssize_t transfer(struct coll_op *op, const struct coll_step *step, struct coll_item *item)
{
    struct coll_group *group = op->group;
    bool send = step->kind == COLL_SEND;
    struct coll_place place = send ? step->from : step->to;
    struct iovec iov = {.iov_base = at(op, place), .iov_len = item->len};
    void *desc = desc_of(op, place);
    uint32_t sender = send ? group->rank : step->peer;
    uint16_t receiver = send && !op->join ? (uint16_t)group->words[step->peer] : group->id;
    struct fi_msg_tagged msg = {
        .msg_iov = &iov,
        .desc = &desc,
        .iov_count = 1,
        .addr = send ? group->members[step->peer] : FI_ADDR_UNSPEC,
        .context = item,
    };

    msg.tag = (op->join ? coll_tag_join(group->hash, sender)
                        : coll_tag_group(receiver, (uint16_t)op->tag, sender)) |
              (op->round & COLL_ROUND_MASK);
    return op_post_tagged(&group->ep->cover.hook->target, send ? OP_TSENDMSG : OP_TRECVMSG, &msg,
                          FI_COMPLETION);
}

static enum going post(struct coll_op *op, const struct coll_step *step)
{
    struct coll_domain *domain = domain_of(op);
    struct coll_item *item = pool_get(&domain->cover.items);
    ssize_t rc = -FI_ENOMEM;

    if (item) {
        item->kind = step->kind == COLL_SEND ? COLL_ITEM_SEND : COLL_ITEM_RECV;
        item->op = op;
        item->peer = step->peer;
        item->cancelled = false;
        item->len = op->poison ? 0 : step->count * op->element;
        list_init(&item->link);
        list_init(&item->todo);
        list_attach(&item->link, &op->items);
        op->pending++;
        rc = transfer(op, step, item);
    }
    if (!rc) {
        op->next++;
        return GO_ON;
    }
    if (item) {
        op->pending--;
        list_detach(&item->link);
        pool_put(&domain->cover.items, item);
    }
    if (rc == -FI_EAGAIN) {
        list_attach(&op->todo, &domain->stalled);
        return WAIT;
    }
    if (op->poison)
        op->next++;
    else
        op->err = (int)-rc;
    return GO_ON;
}

static enum going next_step(struct coll_op *op)
{
    const struct coll_step *step = &op->steps[op->next];

    if (step->kind == COLL_SEND || (step->kind == COLL_RECV && !op->poison))
        return post(op, step);
    if (!op->poison)
        compute(op, step);
    op->next++;
    return GO_ON;
}

static enum going next_round(struct coll_op *op)
{
    if (op->round + 1 == coll_plan_rounds(&op->plan))
        return finish(op);
    op->round++;
    op->count = coll_plan_round(&op->plan, op->round, op->steps);
    op->next = 0;
    op->since_ms = clock_ms();
    op->pause_ms = COLL_PING_MS;
    return GO_ON;
}

static struct coll_item *next_receive(struct coll_op *op)
{
    list_for_each (pos, &op->items) {
        struct coll_item *item = list_item(pos, struct coll_item, link);

        if (item->kind == COLL_ITEM_RECV && !item->cancelled)
            return item;
    }
    return NULL;
}

/* A cancelled receive may end at once, and leave the list. */
static void cancel_receives(struct coll_op *op)
{
    struct coll_item *item;

    op->cancelled = true;
    while ((item = next_receive(op))) {
        item->cancelled = true;
        fi_cancel(&op->group->ep->cover.hook->lower->fid, item);
    }
}

static enum going give_up(struct coll_op *op)
{
    if (!op->cancelled)
        cancel_receives(op);
    if (op->pending)
        return WAIT;
    if (!op->join)
        return finish(op);
    op->poison = true;
    return GO_ON;
}

static enum going go(struct coll_op *op)
{
    if (op->err && !op->poison)
        return give_up(op);
    if (op->next < op->count)
        return next_step(op);
    return op->pending ? WAIT : next_round(op);
}

static void advance(struct coll_op *op)
{
    enum going going;

    op->running = true;
    do
        going = go(op);
    while (going == GO_ON);
    if (going == WAIT)
        op->running = false;
}

/* For op->todo: by the next pump it goes on. */
static void set_ready(struct coll_op *op)
{
    if (op->running)
        return;
    list_detach(&op->todo);
    list_attach(&op->todo, &domain_of(op)->ready);
}

void coll_op_fail(struct coll_op *op, int err)
{
    if (!op->err)
        op->err = err;
    set_ready(op);
}

/* ---- The start ---- */

static void fill(struct coll_op *op, struct coll_group *group, const struct coll_request *request)
{
    *op = (struct coll_op){
        .group = group,
        .plan = request->plan,
        .element = request->element,
        .datatype = request->datatype,
        .op = request->op,
        .in = request->in,
        .out = request->out,
        .in_desc = request->in_desc,
        .out_desc = request->out_desc,
        .tag = request->tag,
        .context = request->context,
        .wanted = request->wanted,
        .join = request->join,
        .since_ms = clock_ms(),
        .pause_ms = COLL_PING_MS,
    };
    list_init(&op->link);
    list_init(&op->todo);
    list_init(&op->all);
    list_init(&op->items);
}

int coll_op_start(struct coll_group *group, const struct coll_request *request)
{
    struct coll_domain *domain = group->domain;
    struct coll_op *op;
    int rc = coll_timer_open(domain);

    if (rc)
        return rc;
    op = pool_get(&domain->ops);
    if (!op)
        return -FI_EAGAIN;
    fill(op, group, request);
    rc = take_scratch(op, coll_plan_scratch(&op->plan) * op->element);
    if (rc) {
        pool_put(&domain->ops, op);
        return rc;
    }
    group->refs++;
    list_attach(&op->link, &group->ops);
    list_attach(&op->all, &domain->active);
    op->count = coll_plan_round(&op->plan, 0, op->steps);
    coll_timer_arm(domain);
    advance(op);
    if (coll_busy(&domain->cover))
        progress_wake(domain->cover.progress);
    return 0;
}

/* ---- From the lower, and the pump ---- */

static void transfer_completed(struct coll_item *item, const struct layer_done *done)
{
    struct coll_op *op = item->op;
    bool recv = item->kind == COLL_ITEM_RECV;
    int err = 0;

    if (done->error)
        err = done->error->err ? done->error->err : FI_EIO;
    else if (recv && done->len != item->len)
        err = done->len ? FI_EINVAL : FI_ECONNABORTED;
    if (err && !op->err)
        op->err = err;
    layer_uncounted(&op->group->ep->cover, recv ? BIND_RECV : BIND_SEND, done->error);
    list_detach(&item->link);
    pool_put(&domain_of(op)->cover.items, item);
    op->pending--;
    if (!op->pending || op->err)
        set_ready(op);
}

void coll_completed(struct layer_domain *domain, const struct layer_done *done)
{
    struct coll_item *item = done->context;

    if (item->kind == COLL_ITEM_SEND || item->kind == COLL_ITEM_RECV)
        transfer_completed(item, done);
    else
        coll_control_completed(item, done);
}

static void listen_all(struct coll_domain *domain)
{
    list_for_each_safe (pos, after, &domain->deaf) {
        if (coll_listen(list_item(pos, struct coll_ep, todo)))
            list_detach(pos);
    }
}

void coll_pump(struct layer_domain *cover)
{
    struct coll_domain *domain = (struct coll_domain *)cover;

    listen_all(domain);
    coll_groups_break(domain);
    coll_controls_post(domain);
    list_join(&domain->stalled, &domain->ready);
    while (!list_empty(&domain->ready)) {
        struct coll_op *op = list_item(domain->ready.next, struct coll_op, todo);

        list_detach(&op->todo);
        advance(op);
    }
}

bool coll_busy(struct layer_domain *cover)
{
    struct coll_domain *domain = (struct coll_domain *)cover;

    return !list_empty(&domain->ready) || !list_empty(&domain->stalled) ||
           !list_empty(&domain->controls) || !list_empty(&domain->breaking) ||
           !list_empty(&domain->deaf);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of messages between this layer and its lower. One that is lost ends here, in
 * success. What the lower gets changed, twice or late is a copy, with the copy as its context, so
 * that the buffer is the user's again when he sees the completion, which then has his context.
 *
 * A message that is to be overtaken waits in `held` for the next of its endpoint, or for somebody
 * who waits: a queue that was read HELD_READS times for nothing, a blocking read, fi_trywait.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/post.h"
#include "layers/fault/fault.h"

enum {
    COPIES = 1024,         /* that are under way in a fabric */
    COPIED_LEN = 16 << 20, /* longer ones only get lost, */
    COPIED_RMA = 8,        /* and those with more segments */
};

struct fault_copy {
    struct fi_context2 room; /* first: the lower's, if it asks for FI_CONTEXT2 */
    struct list link;        /* in copies, held or done of the plan */
    struct pass_ep *ep;
    struct fault_ep *own;
    void *user;
    bool wanted, doubled;
    uint64_t kind, flags, tag, data;
    fi_addr_t peer;
    struct fi_rma_iov rma[COPIED_RMA]; /* of a write */
    size_t rma_count;
    struct fid_mr *mr;
    size_t len;
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

static bool is_wanted(const struct fault_ep *own, const struct post *post)
{
    return !post->silent && own->tx && (!own->selective || post->flags & FI_COMPLETION);
}

/* Without a queue nothing would say when it can go. Plan locked; in no list. */
static struct fault_copy *copy_create(struct pass_ep *ep, const struct post *post)
{
    struct fault_ep *own = ep->hook;
    size_t len = call_total_len(post->iov, post->count), at = 0;
    struct fault_copy *copy;

    reap(own->plan);
    if (!own->tx || len > COPIED_LEN || post->rma_count > COPIED_RMA ||
        own->plan->copy_count >= COPIES)
        return NULL;
    copy = calloc(1, sizeof(*copy) + len);
    if (!copy)
        return NULL;
    list_init(&copy->link);
    copy->ep = ep;
    copy->own = own;
    copy->user = post->context;
    copy->wanted = is_wanted(own, post);
    copy->kind = post->kind;
    copy->flags = (post->flags & ~FI_INJECT) | FI_COMPLETION;
    copy->tag = post->tag;
    copy->data = post->data;
    copy->peer = post->peer;
    copy->rma_count = post->rma_count;
    if (post->rma_count)
        memcpy(copy->rma, post->rma, post->rma_count * sizeof(*post->rma));
    copy->len = len;
    for (size_t i = 0; i < post->count; at += post->iov[i++].iov_len)
        if (post->iov[i].iov_len)
            memcpy(copy->bytes + at, post->iov[i].iov_base, post->iov[i].iov_len);
    own->plan->copy_count++;
    if (own->registers && len &&
        fi_mr_reg(ep->domain->lower, copy->bytes, len, FI_SEND | FI_WRITE, 0,
                  (uint64_t)(uintptr_t)copy, 0, &copy->mr, NULL)) {
        copy->mr = NULL;
        copy_destroy(copy);
        return NULL;
    }
    return copy;
}

/* ---- To the lower ---- */

static ssize_t pass_silent(struct fid_ep *lower, const struct post *post)
{
    const void *buf = post->iov->iov_base;
    size_t len = post->iov->iov_len;

    if (post->kind & FI_RMA)
        return post->flags & FI_REMOTE_CQ_DATA
                   ? fi_inject_writedata(lower, buf, len, post->data, post->peer, post->rma->addr,
                                         post->rma->key)
                   : fi_inject_write(lower, buf, len, post->peer, post->rma->addr, post->rma->key);
    if (post->kind & FI_TAGGED)
        return post->flags & FI_REMOTE_CQ_DATA
                   ? fi_tinjectdata(lower, buf, len, post->data, post->peer, post->tag)
                   : fi_tinject(lower, buf, len, post->peer, post->tag);
    return post->flags & FI_REMOTE_CQ_DATA ? fi_injectdata(lower, buf, len, post->data, post->peer)
                                           : fi_inject(lower, buf, len, post->peer);
}

static ssize_t pass_post(struct fid_ep *lower, const struct post *post)
{
    if (post->silent)
        return pass_silent(lower, post);
    if (post->kind & FI_RMA)
        return fi_writemsg(lower,
                           &(struct fi_msg_rma){.msg_iov = post->iov,
                                                .desc = post->desc,
                                                .iov_count = post->count,
                                                .addr = post->peer,
                                                .rma_iov = post->rma,
                                                .rma_iov_count = post->rma_count,
                                                .context = post->context,
                                                .data = post->data},
                           post->flags);
    if (post->kind & FI_TAGGED)
        return fi_tsendmsg(lower,
                           &(struct fi_msg_tagged){.msg_iov = post->iov,
                                                   .desc = post->desc,
                                                   .iov_count = post->count,
                                                   .addr = post->peer,
                                                   .tag = post->tag,
                                                   .context = post->context,
                                                   .data = post->data},
                           post->flags);
    return fi_sendmsg(lower,
                      &(struct fi_msg){.msg_iov = post->iov,
                                       .desc = post->desc,
                                       .iov_count = post->count,
                                       .addr = post->peer,
                                       .context = post->context,
                                       .data = post->data},
                      post->flags);
}

/* Plan locked on entry and return, not while the lower works: it may end other copies meanwhile. */
static ssize_t copy_send(struct fault_copy *copy)
{
    const struct iovec iov = {copy->bytes, copy->len};
    void *desc = copy->mr ? fi_mr_desc(copy->mr) : NULL;
    const struct post post = {.kind = copy->kind,
                              .iov = &iov,
                              .desc = &desc,
                              .count = 1,
                              .rma = copy->rma,
                              .rma_count = copy->rma_count,
                              .peer = copy->peer,
                              .tag = copy->tag,
                              .data = copy->data,
                              .flags = copy->flags,
                              .context = &copy->room};
    struct fault_ep *own = copy->own;
    struct fid_ep *lower = copy->ep->lower;
    ssize_t rc;

    list_detach(&copy->link);
    list_attach(&copy->link, &own->plan->copies);
    own->busy++;
    pthread_mutex_unlock(&own->plan->mutex);
    rc = pass_post(lower, &post);
    pthread_mutex_lock(&own->plan->mutex);
    own->busy--;
    return rc;
}

static struct fault_copy *first_held(const struct fault_plan *plan, const struct pass_ep *ep)
{
    list_for_each (pos, &plan->held) {
        struct fault_copy *copy = list_item(pos, struct fault_copy, link);

        if (!copy->own->closing && (!ep || copy->ep == ep))
            return copy;
    }
    return NULL;
}

/* Of one endpoint, or of all. What the lower cannot take now waits on; what goes wrong otherwise is
 * a message that got lost. Plan locked. */
static void send_held(struct fault_plan *plan, const struct pass_ep *ep)
{
    struct fault_copy *copy;

    while ((copy = first_held(plan, ep))) {
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
        err = fault_lost_error(seen.kind, seen.flags);
        fault_lost_end(seen.own, seen.wanted || err, seen.user, seen.kind, err);
        pthread_mutex_lock(&plan->mutex);
    }
}

void fault_wire_flush(struct fault_plan *plan)
{
    pthread_mutex_lock(&plan->mutex);
    send_held(plan, NULL);
    pthread_mutex_unlock(&plan->mutex);
}

/* ---- What happens to one ---- */

/* One bit of one byte. */
static void damage(struct fault_copy *copy, uint64_t random)
{
    if (copy->len)
        copy->bytes[(random >> 8) % copy->len] ^= (char)(1 << (random & 7));
}

static ssize_t send_damaged(struct pass_ep *ep, const struct post *post, uint64_t n)
{
    struct fault_ep *own = ep->hook;
    struct fault_plan *plan = own->plan;
    struct fault_copy *copy;
    ssize_t rc;

    pthread_mutex_lock(&plan->mutex);
    copy = copy_create(ep, post);
    if (copy) {
        damage(copy, fault_plan_random(plan, own->number, n));
        rc = copy_send(copy);
        if (rc)
            copy_destroy(copy);
    }
    pthread_mutex_unlock(&plan->mutex);
    return copy ? rc : pass_post(ep->lower, post);
}

/* False: it cannot wait. */
static bool hold(struct pass_ep *ep, const struct post *post)
{
    struct fault_plan *plan = ((struct fault_ep *)ep->hook)->plan;
    struct fault_copy *copy;

    pthread_mutex_lock(&plan->mutex);
    copy = copy_create(ep, post);
    if (copy)
        list_attach(&copy->link, &plan->held);
    pthread_mutex_unlock(&plan->mutex);
    return copy != NULL;
}

static void count_extra(const struct fault_copy *copy, int64_t more)
{
    struct pass_cntr *counts = fault_cntr_of(copy->own, copy->kind);
    struct fault_cntr *cntr = counts ? counts->hook : NULL;

    if (cntr)
        atomic_fetch_add(&cntr->extra, (uint_fast64_t)more);
}

/* The double of a message, made while the buffer is ours to read; NULL: there is none. */
static struct fault_copy *make_double(struct pass_ep *ep, const struct post *post)
{
    struct fault_ep *own = ep->hook;
    struct fault_copy *copy;

    pthread_mutex_lock(&own->plan->mutex);
    copy = copy_create(ep, post);
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

/* What waited goes behind what has overtaken it. */
static ssize_t send_ahead(struct pass_ep *ep, const struct post *post, uint64_t n)
{
    struct fault_ep *own = ep->hook;
    const struct fault_plan *plan = own->plan;
    struct fault_copy *doubled =
        fault_plan_happens(plan, FAULT_DUP, own->number, n) ? make_double(ep, post) : NULL;
    ssize_t rc = fault_plan_happens(plan, FAULT_CORRUPT, own->number, n)
                     ? send_damaged(ep, post, n)
                     : pass_post(ep->lower, post);

    if (doubled)
        finish_double(doubled, !rc);
    if (rc)
        return rc;
    pthread_mutex_lock(&own->plan->mutex);
    send_held(own->plan, ep);
    pthread_mutex_unlock(&own->plan->mutex);
    return 0;
}

/* A lower may overtake messages, and yet keep writes in order with them. */
static ssize_t write_in_order(struct pass_ep *ep, const struct post *post)
{
    struct fault_plan *plan = ((struct fault_ep *)ep->hook)->plan;
    bool waits;

    pthread_mutex_lock(&plan->mutex);
    send_held(plan, ep);
    waits = first_held(plan, ep) != NULL;
    pthread_mutex_unlock(&plan->mutex);
    return waits ? -FI_EAGAIN : pass_post(ep->lower, post);
}

static int lose(const struct fault_ep *own, const struct post *post)
{
    int err = post->silent ? 0 : fault_lost_error(post->kind, post->flags);

    return fault_lost_end(own, is_wanted(own, post) || (err && own->tx), post->context, post->kind,
                          err);
}

/* One that is accepted, and is the n-th. */
static ssize_t send_one(struct pass_ep *ep, const struct post *post, uint64_t n)
{
    const struct fault_ep *own = ep->hook;

    if (fault_plan_happens(own->plan, FAULT_DROP, own->number, n))
        return lose(own, post);
    if (post->kind & FI_RMA && !own->loose)
        return write_in_order(ep, post);
    if (fault_plan_happens(own->plan, FAULT_REORDER, own->number, n) && hold(ep, post))
        return 0;
    return send_ahead(ep, post, n);
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    struct pass_ep *ep = object_of(fid, struct pass_ep, fid);
    struct fault_ep *own = ep->hook;
    enum call_class class = post->kind & FI_RMA ? CALL_CLASS_WRITE : CALL_CLASS_SEND;
    ssize_t rc = fault_call_enter(ep, class);

    if (!rc)
        rc = own ? send_one(ep, post, atomic_load_explicit(&own->messages, memory_order_relaxed))
                 : pass_post(ep->lower, post);
    if (rc || !own)
        return rc;
    atomic_fetch_add_explicit(&own->messages, 1, memory_order_relaxed);
    fault_call_accepted(ep, class);
    return 0;
}

/* Reads get lost as calls do, in fault_lost.c. */
static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    return post_send(fid, post);
}

static uint64_t tx_flags(struct fid_ep *fid)
{
    const struct fault_ep *own = object_of(fid, struct pass_ep, fid)->hook;

    return own ? own->tx_op_flags : 0;
}

#include "core/post_send.inc"
#include "core/post_tsend.inc"
#include "core/post_rma.inc"

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

static struct fi_ops_msg msg_ops;
static struct fi_ops_tagged tagged_ops;
static struct fi_ops_rma rma_ops;

void fault_wire_ops(struct pass_ops *ops)
{
    static const struct fi_ops_msg sends = {POST_SEND};
    static const struct fi_ops_tagged tagged_sends = {POST_TSEND};
    static const struct fi_ops_rma writes = {POST_RMA};

    msg_ops = sends;
    msg_ops.size = sizeof(msg_ops);
    msg_ops.recv = ops->msg->recv;
    msg_ops.recvv = ops->msg->recvv;
    msg_ops.recvmsg = ops->msg->recvmsg;
    tagged_ops = tagged_sends;
    tagged_ops.size = sizeof(tagged_ops);
    tagged_ops.recv = ops->tagged->recv;
    tagged_ops.recvv = ops->tagged->recvv;
    tagged_ops.recvmsg = ops->tagged->recvmsg;
    rma_ops = writes;
    rma_ops.size = sizeof(rma_ops);
    rma_ops.read = ops->rma->read;
    rma_ops.readv = ops->rma->readv;
    rma_ops.readmsg = ops->rma->readmsg;
    ops->rma = &rma_ops;
    ops->msg = &msg_ops;
    ops->tagged = &tagged_ops;
}

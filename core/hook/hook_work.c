/* SPDX-License-Identifier: BSD-2-Clause */
/* Deferred work: copies with the lower's endpoints and counters, found by the application's. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/hook/hook_trigger.h"

enum {
    BUCKETS = 4096
};

struct work_copy {
    struct work_copy *next; /* of the bucket; the newest first */
    const struct fi_deferred_work *theirs;
    int calls;    /* of the lower with it, under way: its address stays its own while it is used */
    bool dropped; /* taken out: the last call frees it */
    struct fi_deferred_work work;
    union {
        struct fid *fid; /* the first of each is an endpoint or a counter */
        struct fi_op_msg msg;
        struct fi_op_tagged tagged;
        struct fi_op_rma rma;
        struct fi_op_atomic atomic;
        struct fi_op_fetch_atomic fetch_atomic;
        struct fi_op_compare_atomic compare_atomic;
        struct fi_op_cntr cntr;
    } op;
};

/* ---- The copies of a domain; its mutex is held ---- */

static struct work_copy **bucket_of(const struct hook_domain *domain,
                                    const struct fi_deferred_work *theirs)
{
    uint64_t hash = (uintptr_t)theirs / sizeof(void *) * 0x9e3779b97f4a7c15u;

    return &domain->works[hash >> 52];
}

static struct work_copy *find(const struct hook_domain *domain,
                              const struct fi_deferred_work *theirs)
{
    struct work_copy *copy = domain->works ? *bucket_of(domain, theirs) : NULL;

    while (copy && copy->theirs != theirs)
        copy = copy->next;
    return copy;
}

static void drop(struct work_copy *copy)
{
    copy->dropped = true;
    if (!copy->calls)
        free(copy);
}

/* Nothing, if another call has done that. The caller is one that `leave`s it, and frees it then. */
static void take_out(const struct hook_domain *domain, struct work_copy *copy)
{
    struct work_copy **link = bucket_of(domain, copy->theirs);

    if (copy->dropped)
        return;
    while (*link != copy)
        link = &(*link)->next;
    *link = copy->next;
    copy->dropped = true;
}

/* The lower has been called with it. */
static void leave(struct work_copy *copy)
{
    copy->calls--;
    if (copy->dropped && !copy->calls)
        free(copy);
}

/* Their struct has been queued again, so the work of older copies has ended. */
static void drop_older(struct work_copy *copy)
{
    struct work_copy **link = &copy->next, *older;

    while ((older = *link)) {
        if (older->theirs != copy->theirs) {
            link = &older->next;
            continue;
        }
        *link = older->next;
        drop(older);
    }
}

void hook_works_init(struct hook_domain *domain)
{
    pthread_mutex_init(&domain->work_mutex, NULL);
}

void hook_works_finish(struct hook_domain *domain)
{
    for (size_t i = 0; domain->works && i < BUCKETS; i++) {
        while (domain->works[i]) {
            struct work_copy *copy = domain->works[i];

            domain->works[i] = copy->next;
            free(copy);
        }
    }
    free(domain->works);
    pthread_mutex_destroy(&domain->work_mutex);
}

/* ---- Making one ---- */

/* 0: there is no such operation. */
static size_t op_size(enum fi_op_type type)
{
    switch (type) {
    case FI_OP_RECV:
    case FI_OP_SEND: return sizeof(struct fi_op_msg);
    case FI_OP_TRECV:
    case FI_OP_TSEND: return sizeof(struct fi_op_tagged);
    case FI_OP_READ:
    case FI_OP_WRITE: return sizeof(struct fi_op_rma);
    case FI_OP_ATOMIC: return sizeof(struct fi_op_atomic);
    case FI_OP_FETCH_ATOMIC: return sizeof(struct fi_op_fetch_atomic);
    case FI_OP_COMPARE_ATOMIC: return sizeof(struct fi_op_compare_atomic);
    case FI_OP_CNTR_SET:
    case FI_OP_CNTR_ADD: return sizeof(struct fi_op_cntr);
    default: return 0;
    }
}

static void exchange_cntr(const struct hook_fabric *fabric, struct fid_cntr **cntr)
{
    if (*cntr)
        *cntr = object_of(hook_trigger_down(fabric, &(*cntr)->fid), struct fid_cntr, fid);
}

static int copy_work(const struct hook_fabric *fabric, const struct fi_deferred_work *theirs,
                     struct work_copy **ret_copy)
{
    size_t size = theirs ? op_size(theirs->op_type) : 0;
    struct work_copy *copy;

    if (!size || !theirs->op.msg)
        return -FI_EINVAL;
    copy = calloc(1, sizeof(*copy));
    if (!copy)
        return -FI_ENOMEM;
    copy->theirs = theirs;
    copy->calls = 1;
    copy->work.threshold = theirs->threshold;
    copy->work.triggering_cntr = theirs->triggering_cntr;
    copy->work.completion_cntr = theirs->completion_cntr;
    copy->work.op_type = theirs->op_type;
    copy->work.op.msg = &copy->op.msg;
    memcpy(&copy->op, theirs->op.msg, size);
    exchange_cntr(fabric, &copy->work.triggering_cntr);
    exchange_cntr(fabric, &copy->work.completion_cntr);
    copy->op.fid = hook_trigger_down(fabric, copy->op.fid);
    *ret_copy = copy;
    return 0;
}

/* ---- Calls ---- */

/* Before the call: another thread may see the work end, and queue its struct again, before it
 * returns. */
static int put_in(struct hook_domain *domain, struct work_copy *copy)
{
    struct work_copy **bucket;
    int rc = 0;

    pthread_mutex_lock(&domain->work_mutex);
    if (!domain->works)
        domain->works = calloc(BUCKETS, sizeof(struct work_copy *));
    if (domain->works) {
        bucket = bucket_of(domain, copy->theirs);
        copy->next = *bucket;
        *bucket = copy;
    } else {
        rc = -FI_ENOMEM;
    }
    pthread_mutex_unlock(&domain->work_mutex);
    return rc;
}

static void queued(struct hook_domain *domain, struct work_copy *copy, int rc)
{
    pthread_mutex_lock(&domain->work_mutex);
    if (rc)
        take_out(domain, copy);
    else if (!copy->dropped)
        drop_older(copy);
    leave(copy);
    pthread_mutex_unlock(&domain->work_mutex);
}

int hook_work_queue(struct hook_domain *domain, const struct fi_deferred_work *theirs)
{
    struct work_copy *copy;
    int rc = copy_work(domain->fabric, theirs, &copy);

    if (rc)
        return rc;
    rc = put_in(domain, copy);
    if (rc) {
        free(copy);
        return rc;
    }
    rc = fi_control(&domain->lower->fid, FI_QUEUE_WORK, &copy->work);
    queued(domain, copy, rc);
    return rc;
}

/* Unknown work goes down as it is: the lower refuses it. */
int hook_work_cancel(struct hook_domain *domain, struct fi_deferred_work *theirs)
{
    struct work_copy *copy;
    int rc;

    pthread_mutex_lock(&domain->work_mutex);
    copy = find(domain, theirs);
    if (copy)
        copy->calls++;
    pthread_mutex_unlock(&domain->work_mutex);
    rc = fi_control(&domain->lower->fid, FI_CANCEL_WORK, copy ? &copy->work : theirs);
    if (!copy)
        return rc;
    pthread_mutex_lock(&domain->work_mutex);
    if (!rc)
        take_out(domain, copy);
    leave(copy);
    pthread_mutex_unlock(&domain->work_mutex);
    return rc;
}

int hook_work_flush(struct hook_domain *domain, struct fid_cntr *cntr)
{
    exchange_cntr(domain->fabric, &cntr);
    return fi_control(&domain->lower->fid, FI_FLUSH_WORK, cntr);
}

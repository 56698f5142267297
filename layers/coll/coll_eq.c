/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Joins that have ended, reported by the lower's event queue: a mark in it, which has the number of
 * the event, keeps the order and wakes waiters. Its group is in a list of ours, so that the group
 * can be closed before the event is read, and can have an error, which cannot be written to the
 * lower's queue. Reading the queue drives the endpoints that join.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/coll/coll.h"

enum {
    MARK = 0x434f4c4c, /* the event's number */
    SLICE_MS = 1,
};

struct coll_eq {
    pthread_mutex_t mutex; /* nothing is taken inside */
    struct list joining, done, failed;
    uint64_t serial;
    struct children bound; /* endpoints */
};

/* As large as what stands for it, for the checks of the lower. */
union mark {
    struct fi_eq_entry entry;
    uint64_t serial;
};

static struct coll_eq *own_of(struct fid_eq *fid)
{
    return object_of(fid, struct hook_eq, fid)->own;
}

void coll_eq_bind(struct coll_ep *ep, struct hook_eq *eq)
{
    if (ep->eq)
        children_release(&((struct coll_eq *)ep->eq->own)->bound);
    if (eq)
        children_hold(&((struct coll_eq *)eq->own)->bound);
    ep->eq = eq;
}

/* ---- From the group ---- */

int coll_event_begin(struct coll_group *group, struct hook_eq *eq)
{
    struct coll_eq *own = eq ? eq->own : NULL;

    if (!own)
        return -FI_ENOEQ;
    pthread_mutex_lock(&own->mutex);
    group->event.fid = &group->mc.fid;
    group->event.serial = ++own->serial;
    group->event.driven = group->ep->cover.top;
    list_attach(&group->event.link, &own->joining);
    pthread_mutex_unlock(&own->mutex);
    return 0;
}

/* Without memory for the mark the event could not be reported: then it is an error that the list
 * holds. */
void coll_event_end(struct coll_group *group, int err)
{
    struct hook_eq *eq = group->ep->eq;
    struct coll_eq *own = eq->own;
    union mark mark = {.serial = group->event.serial};
    ssize_t rc;

    pthread_mutex_lock(&own->mutex);
    if (list_empty(&group->event.link)) {
        pthread_mutex_unlock(&own->mutex);
        return;
    }
    group->event.err = err;
    list_detach(&group->event.link);
    list_attach(&group->event.link, &own->done);
    pthread_mutex_unlock(&own->mutex);
    rc = fi_eq_write(eq->lower, MARK, &mark, sizeof(mark), 0);
    if (rc >= 0)
        return;
    pthread_mutex_lock(&own->mutex);
    group->event.err = err ? err : FI_ENOMEM;
    list_detach(&group->event.link);
    list_attach(&group->event.link, &own->failed);
    pthread_mutex_unlock(&own->mutex);
}

void coll_event_forget(struct coll_group *group)
{
    struct coll_eq *own = group->event.serial && group->ep ? group->ep->eq->own : NULL;

    if (!own)
        return;
    pthread_mutex_lock(&own->mutex);
    list_detach(&group->event.link);
    pthread_mutex_unlock(&own->mutex);
}

/* ---- From the application ---- */

/* One of the domains in which an endpoint joins, kept open; NULL: none. */
static struct layer_domain *hold_joining(struct coll_eq *own)
{
    struct layer_domain *domain = NULL;

    pthread_mutex_lock(&own->mutex);
    list_for_each (pos, &own->joining) {
        struct coll_group *group = list_item(pos, struct coll_group, event.link);

        if (!group->event.driven)
            continue;
        domain = &group->domain->cover;
        children_hold(&domain->base.children);
        break;
    }
    pthread_mutex_unlock(&own->mutex);
    return domain;
}

/* True while it takes the caller to make progress. */
static bool drive(struct coll_eq *own)
{
    struct layer_domain *domain = own ? hold_joining(own) : NULL;
    bool threaded;

    if (!domain)
        return false;
    threaded = progress_has_thread(domain->progress);
    if (!progress_forked(domain->progress)) {
        progress_lock(domain->progress);
        progress_poll(domain->progress);
        progress_unlock(domain->progress);
    }
    children_release(&domain->base.children);
    return !threaded;
}

static struct coll_event *find(struct coll_eq *own, uint64_t serial)
{
    list_for_each (pos, &own->done) {
        struct coll_event *event = list_item(pos, struct coll_event, link);

        if (event->serial == serial)
            return event;
    }
    return NULL;
}

/* The event that a mark in buf stands for. 0: none any more. */
static ssize_t translate(struct coll_eq *own, uint32_t *event, void *buf, uint64_t flags)
{
    struct fi_eq_entry entry = {0};
    struct coll_event *found;
    union mark mark;
    ssize_t rc = 0;

    memcpy(&mark, buf, sizeof(mark));
    pthread_mutex_lock(&own->mutex);
    found = find(own, mark.serial);
    if (found) {
        entry = (struct fi_eq_entry){.fid = found->fid, .context = found->context};
        rc = found->err ? -FI_EAVAIL : (ssize_t)sizeof(entry);
        if (!(flags & FI_PEEK) || found->err)
            list_detach(&found->link);
        if (found->err)
            list_attach(&found->link, &own->failed);
    }
    pthread_mutex_unlock(&own->mutex);
    if (rc > 0) {
        *event = FI_JOIN_COMPLETE;
        memcpy(buf, &entry, sizeof(entry));
    }
    return rc;
}

static bool any_failed(struct coll_eq *own)
{
    bool any;

    pthread_mutex_lock(&own->mutex);
    any = !list_empty(&own->failed);
    pthread_mutex_unlock(&own->mutex);
    return any;
}

/* One that was looked at only, and is of no use there any more. */
static void take_mark(struct fid_eq *fid)
{
    union mark mark;
    uint32_t number;

    hook_eq_ops.read(fid, &number, &mark, sizeof(mark), 0);
}

/* timeout 0: does not wait. */
static ssize_t read_once(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
                         uint64_t flags)
{
    struct coll_eq *own = own_of(fid);

    for (;;) {
        uint32_t number = 0;
        ssize_t rc;

        if (own && any_failed(own))
            return -FI_EAVAIL;
        rc = timeout ? hook_eq_ops.sread(fid, &number, buf, len, timeout, flags)
                     : hook_eq_ops.read(fid, &number, buf, len, flags);
        if (own && rc == (ssize_t)sizeof(union mark) && number == MARK) {
            rc = translate(own, &number, buf, flags);
            if (rc <= 0 && flags & FI_PEEK)
                take_mark(fid);
            if (!rc)
                continue;
        }
        if (rc >= 0 && event)
            *event = number;
        return rc;
    }
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    drive(own_of(fid));
    return read_once(fid, event, buf, len, 0, flags);
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    struct coll_eq *own = own_of(fid);
    long long start = clock_ms();

    for (;;) {
        int left = wait_left(timeout, start);
        bool slices = drive(own);
        ssize_t rc = read_once(fid, event, buf, len,
                               slices && (left < 0 || left > SLICE_MS) ? SLICE_MS : left, flags);

        if (rc != -FI_EAGAIN || !slices || !left)
            return rc;
    }
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags,
                          ssize_t (*passed)(struct fid_eq *, struct fi_eq_err_entry *, uint64_t))
{
    struct coll_eq *own = own_of(fid);
    struct coll_event *event = NULL;

    if (own) {
        pthread_mutex_lock(&own->mutex);
        if (!list_empty(&own->failed))
            event = list_item(own->failed.next, struct coll_event, link);
        if (event) {
            entry->fid = event->fid;
            entry->context = event->context;
            entry->data = 0;
            entry->err = event->err;
            entry->prov_errno = event->err;
            entry->err_data_size = 0;
            if (!(flags & FI_PEEK))
                list_detach(&event->link);
        }
        pthread_mutex_unlock(&own->mutex);
    }
    return event ? (ssize_t)sizeof(*entry) : passed(fid, entry, flags);
}

static ssize_t own_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
    return eq_readerr(fid, entry, flags, layer_eq_ops.readerr);
}

/* ---- Opening and closing ---- */

static int eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                   void *context)
{
    struct fi_eq_attr writable = attr ? *attr : (struct fi_eq_attr){0};
    struct coll_eq *own = calloc(1, sizeof(*own));
    int rc;

    if (!own)
        return -FI_ENOMEM;
    writable.flags |= FI_WRITE;
    rc = hook_eq_open(fabric, &writable, eq, context);
    if (rc) {
        free(own);
        return rc;
    }
    pthread_mutex_init(&own->mutex, NULL);
    list_init(&own->joining);
    list_init(&own->done);
    list_init(&own->failed);
    object_of(*eq, struct hook_eq, fid)->own = own;
    return 0;
}

static int eq_close(struct fid *fid)
{
    struct coll_eq *own = *hook_own(fid);
    int rc = children_any(&own->bound) ? -FI_EBUSY : hook_eq_fid_ops.close(fid);

    if (rc)
        return rc;
    pthread_mutex_destroy(&own->mutex);
    free(own);
    return 0;
}

struct fi_ops coll_eq_fid_ops = {.size = sizeof(coll_eq_fid_ops), .close = eq_close};
struct fi_ops_eq coll_eq_ops = {
    .size = sizeof(coll_eq_ops), .readerr = own_readerr, .read = eq_read, .sread = eq_sread};
struct fi_ops_fabric coll_fabric_ops = {.size = sizeof(coll_fabric_ops), .eq_open = eq_open};

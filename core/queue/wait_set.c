/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A waiter arms the set, then each member, and then looks at it: a writer that queues an entry
 * after that finds the member armed, and by it the set.
 *
 * Locks, outermost first: the set's mutex (its members, and the waiters that look at them), a
 * member's progress domain.
 */
#include "core/queue/wait_set.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/fork.h"
#include "core/base/log.h"

struct wait_set {
    struct fid_wait fid;
    struct wait wait;
    struct fabric *fabric;
    struct children children;
    pthread_mutex_t mutex; /* of members */
    struct list members;   /* struct wait */
};

static struct wait_set *set_of(struct wait *outer)
{
    return object_of(outer, struct wait_set, wait);
}

/* ---- Waiting ---- */

/* Arms, drives, and looks at every member, after the set is armed; so that none waits for the
 * others to be read. */
static bool look(struct wait_set *set, int *sleep_ms)
{
    bool found = false;

    *sleep_ms = -1;
    pthread_mutex_lock(&set->mutex);
    list_for_each (pos, &set->members) {
        struct wait *wait = list_item(pos, struct wait, link);
        int may_sleep_ms = -1;

        if (wait->member->look(wait, &may_sleep_ms))
            found = true;
        *sleep_ms = clock_shorter(*sleep_ms, may_sleep_ms);
    }
    pthread_mutex_unlock(&set->mutex);
    if (found)
        wait_signal(&set->wait); /* arming took the signal from other sleepers */
    return found;
}

static int set_wait(struct fid_wait *fid, int timeout)
{
    struct wait_set *set = object_of(fid, struct wait_set, fid);
    long long start = clock_ms();

    if (set->wait.forks != fork_generation)
        return -FI_EOPBADSTATE;
    for (;;) {
        int left = wait_left(timeout, start), sleep_ms;
        unsigned armed = wait_arm(&set->wait);

        if (look(set, &sleep_ms))
            return 0;
        if (left == 0)
            return -FI_ETIMEDOUT;
        if (sleep_ms && wait_block(&set->wait, armed, clock_shorter(left, sleep_ms)) == -FI_EINTR)
            return -FI_EINTR;
    }
}

int wait_set_trywait(struct wait *outer)
{
    struct wait_set *set = set_of(outer);
    int rc = 0;

    if (outer->forks != fork_generation)
        return -FI_EOPBADSTATE;
    wait_arm(outer);
    if (!wait_has_mutex(outer))
        pthread_mutex_lock(&set->mutex);
    else if (pthread_mutex_trylock(&set->mutex))
        return -FI_EAGAIN;
    list_for_each (pos, &set->members) {
        struct wait *wait = list_item(pos, struct wait, link);

        if (wait->member->trywait(wait))
            rc = -FI_EAGAIN;
    }
    pthread_mutex_unlock(&set->mutex);
    if (rc && !wait_has_mutex(outer)) /* for other sleepers; those on the condition need none */
        wait_signal(outer);
    return rc;
}

static struct fi_ops_wait wait_ops = {
    .size = sizeof(wait_ops),
    .wait = set_wait,
};

/* ---- Members ---- */

struct wait *wait_set_of(const struct fid *fid)
{
    return fid && fid->fclass == FI_CLASS_WAIT ? fid->context : NULL;
}

int wait_set_hold(struct fid_wait *fid, struct wait **outer)
{
    struct wait *found = wait_set_of(fid ? &fid->fid : NULL);

    if (!found) {
        LOG_WARN("core", FI_LOG_CORE,
                 "FI_WAIT_SET: attr->wait_set is %s; it must be a wait set from fi_wait_open",
                 fid ? "an object of another class" : "NULL");
        return -FI_EINVAL;
    }
    children_hold(&set_of(found)->children);
    *outer = found;
    return 0;
}

void wait_set_release(struct wait *outer)
{
    children_release(&set_of(outer)->children);
}

void wait_set_join(struct wait *wait, const struct wait_member *member)
{
    struct wait_set *set = wait->outer ? set_of(wait->outer) : NULL;

    if (!set)
        return;
    wait->member = member;
    pthread_mutex_lock(&set->mutex);
    list_attach(&wait->link, &set->members);
    pthread_mutex_unlock(&set->mutex);
    wait_signal(&set->wait); /* sleepers have not armed it */
}

void wait_set_leave(struct wait *wait)
{
    struct wait_set *set = wait->outer ? set_of(wait->outer) : NULL;
    /* In a forked child a thread of the parent may have the mutex for ever. */
    bool shared = set && wait->outer->forks == fork_generation;

    if (shared)
        pthread_mutex_lock(&set->mutex);
    list_detach(&wait->link);
    if (shared)
        pthread_mutex_unlock(&set->mutex);
}

/* ---- Opening and closing ---- */

static int set_close(struct fid *fid)
{
    struct wait_set *set = object_of(fid, struct wait_set, fid.fid);

    if (children_any(&set->children))
        return -FI_EBUSY;
    wait_finish(&set->wait);
    pthread_mutex_destroy(&set->mutex);
    children_release(&set->fabric->children);
    free(set);
    return 0;
}

static int set_control(struct fid *fid, int command, void *arg)
{
    struct wait_set *set = object_of(fid, struct wait_set, fid.fid);

    switch (command) {
    case FI_GETWAIT: return arg ? wait_get(&set->wait, arg) : -FI_EINVAL;
    case FI_GETWAITOBJ:
        if (!arg)
            return -FI_EINVAL;
        *(enum fi_wait_obj *)arg = wait_kind(&set->wait);
        return 0;
    default: return -FI_ENOSYS;
    }
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = set_close,
    .bind = enosys_bind,
    .control = set_control,
    NO_FID_TABLES,
};

static int check_attr(const struct fabric *fabric, const struct fi_wait_attr *attr)
{
    if (attr->flags) {
        LOG_WARN(fabric->part, FI_LOG_FABRIC, "fi_wait_open: flags are 0x%llx; they must be 0",
                 (unsigned long long)attr->flags);
        return -FI_EINVAL;
    }
    if (attr->wait_obj == FI_WAIT_NONE || attr->wait_obj == FI_WAIT_SET ||
        attr->wait_obj > FI_WAIT_POLLFD) {
        LOG_WARN(fabric->part, FI_LOG_FABRIC,
                 "fi_wait_open: wait_obj is %d; a wait set is of FI_WAIT_UNSPEC, FI_WAIT_FD, "
                 "FI_WAIT_POLLFD, FI_WAIT_MUTEX_COND or FI_WAIT_YIELD",
                 (int)attr->wait_obj);
        return -FI_EINVAL;
    }
    return 0;
}

int wait_set_open(struct fid_fabric *fabric_fid, struct fi_wait_attr *attr,
                  struct fid_wait **ret_set)
{
    struct fabric *fabric = object_of(fabric_fid, struct fabric, fid);
    const struct fi_wait_attr defaults = {.wait_obj = FI_WAIT_UNSPEC};
    struct wait_set *set;
    int rc = check_attr(fabric, attr ? attr : &defaults);

    if (rc)
        return rc;
    set = calloc(1, sizeof(*set));
    if (!set)
        return -FI_ENOMEM;
    rc = wait_init(&set->wait, attr ? attr->wait_obj : FI_WAIT_UNSPEC, NULL);
    if (rc) {
        free(set);
        return rc;
    }
    fid_init(&set->fid.fid, FI_CLASS_WAIT, &set->wait, &fid_ops);
    set->fid.ops = &wait_ops;
    set->fabric = fabric;
    pthread_mutex_init(&set->mutex, NULL);
    list_init(&set->members);
    children_hold(&fabric->children);
    *ret_set = &set->fid;
    return 0;
}

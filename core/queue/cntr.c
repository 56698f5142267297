/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/cntr.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/queue/wait_set.h"

/* ---- Counting ---- */

static void own_inc(struct fid_peer_cntr *peer)
{
    struct cntr *cntr = object_of(peer, struct cntr, peer);

    atomic_fetch_add(&cntr->value, 1);
    wait_signal(&cntr->wait);
}

static void own_incerr(struct fid_peer_cntr *peer)
{
    struct cntr *cntr = object_of(peer, struct cntr, peer);

    atomic_fetch_add(&cntr->errors, 1);
    wait_signal(&cntr->wait);
}

static struct fi_ops_cntr_owner owner_ops = {
    .size = sizeof(owner_ops),
    .inc = own_inc,
    .incerr = own_incerr,
};

/* The application changed the values. */
static void announce(struct cntr *cntr)
{
    wait_signal(&cntr->wait);
    if (cntr->changed)
        cntr->changed(cntr);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid);

    atomic_fetch_add(&cntr->by_hand, value);
    atomic_fetch_add(&cntr->value, value);
    announce(cntr);
    return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid);

    atomic_fetch_add(&cntr->by_hand, value);
    atomic_fetch_add(&cntr->errors, value);
    announce(cntr);
    return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid);

    atomic_fetch_add(&cntr->by_hand, value - atomic_exchange(&cntr->value, value));
    announce(cntr);
    return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid);

    atomic_fetch_add(&cntr->by_hand, value - atomic_exchange(&cntr->errors, value));
    announce(cntr);
    return 0;
}

/* ---- Reading and waiting ---- */

static void drive(struct cntr *cntr)
{
    if (progress_forked(cntr->progress))
        return;
    progress_lock(cntr->progress);
    progress_poll(cntr->progress);
    progress_unlock(cntr->progress);
}

/* For a counter of the application's: drives the domain's others, too. */
static void drive_domain(struct cntr *cntr)
{
    drive(cntr);
    if (progress_has_others(cntr->progress))
        progress_drive_others(cntr->progress, false);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid);

    drive_domain(cntr);
    return atomic_load(&cntr->value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid);

    drive_domain(cntr);
    return atomic_load(&cntr->errors);
}

/* Where the counter has a wait object of its own, whose fd no other watch has. */
static bool rests(const struct progress_watch *watch)
{
    return wait_rests(&object_of(watch, struct cntr, watch)->wait);
}

/* As for queues: the fds that drive wake sleepers from the first sleep on. Progress domain locked.
 */
static bool watch(struct cntr *cntr)
{
    if (wait_fd(&cntr->wait) < 0 || progress_forked(cntr->progress))
        return false;
    cntr->watch.rests = cntr->wait.outer ? NULL : rests;
    return progress_has_thread(cntr->progress) ||
           !progress_watch_locked(cntr->progress, &cntr->watch, wait_fd(&cntr->wait));
}

/* Drives, and says how long a waiter may sleep in milliseconds (0: not at all, -1: no limit). */
static int drive_before_sleep(struct cntr *cntr)
{
    int sleep_ms;

    progress_lock(cntr->progress);
    bool watched = watch(cntr);
    progress_poll(cntr->progress);
    sleep_ms = progress_reader_sleep_ms(cntr->progress, watched);
    progress_unlock(cntr->progress);
    return sleep_ms;
}

/* The same for the other endpoints of the domain, which it may take this thread to drive. Of a
 * counter whose owner is the upper they are the upper's affair. */
static int look_at_others(struct cntr *cntr, bool bounded)
{
    if (cntr->sink != &cntr->peer || !progress_has_others(cntr->progress))
        return -1;
    return progress_sleeper_look(cntr->progress, &cntr->sleeper, wait_fd(&cntr->wait), bounded);
}

/* Result of a wait for `threshold` that began at `errors`; -FI_EAGAIN: it goes on. */
static int verdict(const struct cntr *cntr, uint64_t threshold, uint64_t errors)
{
    if (atomic_load(&cntr->value) >= threshold)
        return 0;
    return atomic_load(&cntr->errors) != errors ? -FI_EAVAIL : -FI_EAGAIN;
}

/* After a last look. left: milliseconds, negative: no limit. */
static void sleep_once(struct cntr *cntr, uint64_t threshold, uint64_t errors, int left)
{
    unsigned armed = wait_arm_inside(&cntr->wait);
    int sleep_ms = verdict(cntr, threshold, errors) == -FI_EAGAIN ? drive_before_sleep(cntr) : 0;

    if (sleep_ms && verdict(cntr, threshold, errors) == -FI_EAGAIN)
        sleep_ms = clock_shorter(sleep_ms, look_at_others(cntr, true));
    if (sleep_ms && verdict(cntr, threshold, errors) == -FI_EAGAIN)
        wait_block(&cntr->wait, armed, clock_shorter(left, sleep_ms));
    wait_disarm(&cntr->wait);
}

/* The waiter drives once before it arms: a success at that look then costs no signal. */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid);
    uint64_t errors = atomic_load(&cntr->errors);
    long long start = clock_ms();
    int rc;

    if (progress_forked(cntr->progress))
        return -FI_EOPBADSTATE;
    for (;;) {
        int left = wait_left(timeout, start);

        rc = verdict(cntr, threshold, errors);
        if (rc == -FI_EAGAIN) {
            drive(cntr);
            rc = verdict(cntr, threshold, errors);
        }
        if (rc != -FI_EAGAIN)
            break;
        if (left == 0)
            return -FI_ETIMEDOUT;
        sleep_once(cntr, threshold, errors, left);
    }
    /* Another sleeper may have a lower threshold, and this one took the signal. */
    wait_signal(&cntr->wait);
    return rc;
}

static bool changed_since_seen(struct cntr *cntr)
{
    uint64_t now = atomic_load(&cntr->value) + atomic_load(&cntr->errors);

    return atomic_exchange(&cntr->seen, now) != now;
}

/* For the wait set that the counter is in. */
static bool look_for_set(struct wait *wait, int *sleep_ms)
{
    struct cntr *cntr = object_of(wait, struct cntr, wait);

    wait_arm(wait);
    *sleep_ms = drive_before_sleep(cntr);
    if (changed_since_seen(cntr))
        return true;
    if (*sleep_ms)
        *sleep_ms = clock_shorter(*sleep_ms, look_at_others(cntr, true));
    return false;
}

static int trywait(struct wait *wait)
{
    struct cntr *cntr = object_of(wait, struct cntr, wait);
    int rc = 0;

    wait_arm(&cntr->wait);
    if (changed_since_seen(cntr))
        return -FI_EAGAIN;
    if (progress_has_thread(cntr->progress))
        return 0;
    if (!progress_trylock(cntr->progress))
        return -FI_EAGAIN;
    if (!watch(cntr) || progress_sleep_ms(cntr->progress) >= 0)
        rc = -FI_EAGAIN; /* nothing would wake the caller */
    else
        rc = progress_trywait(cntr->progress);
    progress_unlock(cntr->progress);
    return rc || look_at_others(cntr, false) >= 0 ? -FI_EAGAIN : 0;
}

static const struct wait_member member = {.look = look_for_set, .trywait = trywait};

int cntr_trywait(struct cntr *cntr)
{
    return cntr->wait.outer ? wait_set_trywait(cntr->wait.outer) : trywait(&cntr->wait);
}

uint64_t cntr_completed(struct cntr *cntr)
{
    drive_domain(cntr);
    return atomic_load(&cntr->value) + atomic_load(&cntr->errors) - atomic_load(&cntr->by_hand);
}

static struct fi_ops_cntr own_ops = {
    .size = sizeof(own_ops),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

/* Of a counter whose owner is the upper reading drives, and does nothing else: fi_peer(3). */
static uint64_t peer_read(struct fid_cntr *fid)
{
    drive(object_of(fid, struct cntr, fid));
    return 0;
}

static struct fi_ops_cntr peer_ops = {
    .size = sizeof(peer_ops),
    .read = peer_read,
    .readerr = enosys_cntr_readerr,
    .add = enosys_cntr_add,
    .set = enosys_cntr_set,
    .wait = enosys_cntr_wait,
    .adderr = enosys_cntr_adderr,
    .seterr = enosys_cntr_seterr,
};

struct cntr *cntr_of(struct fid *fid)
{
    struct fid_cntr *cntr = object_of(fid, struct fid_cntr, fid);

    if (fid->fclass != FI_CLASS_CNTR ||
        (cntr->ops->wait != cntr_wait && cntr->ops != &peer_ops)) /* which parts keep */
        return NULL;
    return object_of(cntr, struct cntr, fid);
}

/* ---- Opening and closing ---- */

static int check_attr(const struct fi_cntr_attr *attr, const char *part, void *context)
{
    const struct fi_peer_cntr_context *peer = context;

    if (attr->events == FI_CNTR_EVENTS_BYTES) {
        LOG_WARN(part, FI_LOG_CNTR,
                 "fi_cntr_open: FI_CNTR_EVENTS_BYTES is not there: counters count completions, "
                 "FI_CNTR_EVENTS_COMP");
        return -FI_ENOSYS;
    }
    if (attr->events != FI_CNTR_EVENTS_COMP || attr->flags & ~FI_PEER)
        return -FI_EINVAL;
    if (attr->flags & FI_PEER && (!peer || peer->size < sizeof(*peer) || !peer->cntr))
        return -FI_EINVAL;
    return 0;
}

static void fill(struct cntr *cntr, struct domain *domain, bool peer, struct fi_ops *fid_ops,
                 void *context)
{
    memset(cntr, 0, sizeof(*cntr));
    fid_init(&cntr->fid.fid, FI_CLASS_CNTR, peer ? NULL : context, fid_ops);
    cntr->fid.ops = peer ? &peer_ops : &own_ops;
    fid_init(&cntr->peer.fid, FI_CLASS_PEER_CNTR, cntr, fid_ops);
    cntr->peer.owner_ops = &owner_ops;
    cntr->sink = peer ? ((struct fi_peer_cntr_context *)context)->cntr : &cntr->peer;
    cntr->domain = domain;
}

static void wake(struct progress_sleeper *sleeper)
{
    wait_signal(&object_of(sleeper, struct cntr, sleeper)->wait);
}

int cntr_init(struct cntr *cntr, struct domain *domain, const struct fi_cntr_attr *attr,
              struct fi_ops *fid_ops, void *context)
{
    static const struct fi_cntr_attr defaults;
    int rc;

    if (!attr)
        attr = &defaults;
    rc = check_attr(attr, domain->fabric->part, context);
    if (rc)
        return rc;
    fill(cntr, domain, attr->flags & FI_PEER, fid_ops, context);
    rc = wait_init(&cntr->wait, attr->wait_obj, attr->wait_set);
    if (rc)
        return rc;
    rc = progress_create(domain->info->domain_attr, domain->fabric->part, domain->progress_group,
                         &cntr->progress);
    if (rc)
        goto finish_wait;
    progress_sleeper_join(cntr->progress, &cntr->sleeper, wake);
    children_hold(&domain->children);
    wait_set_join(&cntr->wait, &member);
    return 0;

finish_wait:
    wait_finish(&cntr->wait);
    return rc;
}

void cntr_finish(struct cntr *cntr)
{
    wait_set_leave(&cntr->wait);
    progress_unwatch(cntr->progress, &cntr->watch);
    progress_sleeper_leave(cntr->progress, &cntr->sleeper);
    progress_release(cntr->progress);
    wait_finish(&cntr->wait);
    children_release(&cntr->domain->children);
}

int cntr_close_check(const struct cntr *cntr)
{
    return children_any(&cntr->children) ? -FI_EBUSY : 0;
}

int cntr_control(struct fid *fid, int command, void *arg)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid.fid);

    switch (command) {
    case FI_GETWAIT: return wait_get(&cntr->wait, arg);
    case FI_GETWAITOBJ: *(enum fi_wait_obj *)arg = wait_kind(&cntr->wait); return 0;
    default: return -FI_ENOSYS;
    }
}

static int close_default(struct fid *fid)
{
    struct cntr *cntr = object_of(fid, struct cntr, fid.fid);
    int rc = cntr_close_check(cntr);

    if (rc)
        return rc;
    cntr_finish(cntr);
    free(cntr);
    return 0;
}

static struct fi_ops fid_ops_default = {
    .size = sizeof(fid_ops_default),
    .close = close_default,
    .bind = enosys_bind,
    .control = cntr_control,
    NO_FID_TABLES,
};

int cntr_open(struct domain *domain, const struct fi_cntr_attr *attr, struct fid_cntr **ret_cntr,
              void *context)
{
    struct cntr *cntr = malloc(sizeof(*cntr));
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    rc = cntr_init(cntr, domain, attr, &fid_ops_default, context);
    if (rc) {
        free(cntr);
        return rc;
    }
    *ret_cntr = &cntr->fid;
    return 0;
}

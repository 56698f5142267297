/* SPDX-License-Identifier: BSD-2-Clause */
/* Wait sets and poll sets. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/hook/hook_watch.h"

/* ---- Wait sets ---- */

static int set_wait(struct fid_wait *fid, int timeout)
{
    struct fid_wait *lower = object_of(fid, struct hook_wait, fid)->lower;

    return lower->ops->wait(lower, timeout);
}

struct fi_ops_wait hook_wait_ops = {
    .size = sizeof(hook_wait_ops),
    .wait = set_wait,
};

int hook_wait_open(struct fid_fabric *fid, struct fi_wait_attr *attr, struct fid_wait **ret_set)
{
    struct hook_fabric *fabric = hook_fabric_of(fid);
    struct hook_wait *set = calloc(1, sizeof(*set));
    struct hook_opening opening = {.parent = &fid->fid, .wait = attr};
    int rc;

    if (!set)
        return -FI_ENOMEM;
    fid_init(&set->fid.fid, FI_CLASS_WAIT, NULL, fabric->ops.wait_fid);
    set->fid.ops = fabric->ops.wait;
    set->fabric = fabric;
    rc = hook_opening(fabric, &set->fid.fid, &opening);
    if (!rc)
        rc = fabric->lower->ops->wait_open(fabric->lower, attr, &set->lower);
    if (!rc) /* that of all its wrappers: core/queue/wait_set.h */
        set->fid.fid.context = set->lower->fid.context;
    rc = hook_opened(fabric, &fabric->base.children, &set->fid.fid, rc, &opening);
    if (!rc)
        *ret_set = &set->fid;
    return rc;
}

static int wait_close(struct fid *fid)
{
    struct hook_wait *set = object_of(fid, struct hook_wait, fid.fid);
    struct hook_fabric *fabric = set->fabric;
    int rc = fi_close(&set->lower->fid);

    if (rc)
        return rc;
    hook_tell_closed(fabric, fid);
    set->fid.fid.context = NULL; /* a hook's state names no set any more */
    hook_retire(fabric, fid);
    children_release(&fabric->base.children);
    return 0;
}

struct fi_ops hook_wait_fid_ops = {
    .size = sizeof(hook_wait_fid_ops),
    .close = wait_close,
    HOOK_FID_PASSES,
};

/* ---- Poll sets ---- */

static struct fid_poll *lower_poll(struct fid_poll *fid)
{
    return object_of(fid, struct hook_poll, fid)->lower;
}

/* The lower's queues and counters have ours as their contexts. */
static int poll_poll(struct fid_poll *fid, void **context, int count)
{
    struct fid_poll *lower = lower_poll(fid);
    int found = lower->ops->poll(lower, context, count);

    for (int i = 0; i < found; i++)
        context[i] = ((struct fid *)context[i])->context;
    return found;
}

static int poll_add(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
    struct fid_poll *lower = lower_poll(fid);

    return lower->ops->poll_add(lower, hook_down(event_fid), flags);
}

static int poll_del(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
    struct fid_poll *lower = lower_poll(fid);

    return lower->ops->poll_del(lower, hook_down(event_fid), flags);
}

struct fi_ops_poll hook_poll_ops = {
    .size = sizeof(hook_poll_ops),
    .poll = poll_poll,
    .poll_add = poll_add,
    .poll_del = poll_del,
};

int hook_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **ret_set)
{
    struct hook_domain *domain = hook_domain_of(fid);
    struct hook_poll *set = calloc(1, sizeof(*set));
    struct hook_opening opening = {.parent = &fid->fid};
    int rc;

    if (!set)
        return -FI_ENOMEM;
    fid_init(&set->fid.fid, FI_CLASS_POLL, NULL, domain->fabric->ops.poll_fid);
    set->fid.ops = domain->fabric->ops.poll;
    set->domain = domain;
    rc = hook_opening(domain->fabric, &set->fid.fid, &opening);
    if (!rc)
        rc = domain->lower->ops->poll_open(domain->lower, attr, &set->lower);
    rc = hook_opened(domain->fabric, &domain->children, &set->fid.fid, rc, &opening);
    if (!rc)
        *ret_set = &set->fid;
    return rc;
}

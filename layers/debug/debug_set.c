/* SPDX-License-Identifier: BSD-2-Clause */
/* Wait sets and poll sets: the objects that they keep open, and those added to them. */
#include <rdma/fi_errno.h>

#include "layers/debug/debug.h"

/* ---- Wait sets, named by what is opened with FI_WAIT_SET ---- */

/* NULL: none is. */
static struct fid_wait *set_of(const struct hook_opening *opening)
{
    if (opening->cq && opening->cq->wait_obj == FI_WAIT_SET)
        return opening->cq->wait_set;
    if (opening->cntr && opening->cntr->wait_obj == FI_WAIT_SET)
        return opening->cntr->wait_set;
    if (opening->eq && opening->eq->wait_obj == FI_WAIT_SET)
        return opening->eq->wait_set;
    return NULL;
}

int debug_check_set(struct fid *fid, const struct hook_opening *opening)
{
    const char *call = fid->fclass == FI_CLASS_CQ     ? "fi_cq_open"
                       : fid->fclass == FI_CLASS_CNTR ? "fi_cntr_open"
                                                      : "fi_eq_open";
    struct debug_object *parent = debug_of(opening->parent);
    struct fid_wait *set = set_of(opening);

    return set && parent && debug_is_closed(parent, call, &set->fid) ? -FI_EINVAL : 0;
}

/* Sets from elsewhere are not known. */
void debug_hold_set(struct fid *fid, const struct hook_opening *opening)
{
    struct debug_object *user = debug_of(fid);
    struct fid_wait *set = set_of(opening);

    if (set && user && debug_is_open(user->layer, &set->fid))
        debug_used(user, debug_of(&set->fid));
}

/* ---- Poll sets ---- */

static int poll_add(struct fid_poll *set, struct fid *fid, uint64_t flags)
{
    struct debug_object *user = debug_of(&set->fid);
    int rc;

    if (user && debug_is_closed(user, "fi_poll_add", fid))
        return -FI_EINVAL;
    rc = hook_poll_ops.poll_add(set, fid, flags);
    if (!rc && user && debug_of(fid))
        debug_used(user, debug_of(fid));
    return rc;
}

static int poll_del(struct fid_poll *set, struct fid *fid, uint64_t flags)
{
    struct debug_object *user = debug_of(&set->fid);
    int rc;

    if (user && debug_is_closed(user, "fi_poll_del", fid))
        return -FI_EINVAL;
    rc = hook_poll_ops.poll_del(set, fid, flags);
    if (!rc && user && debug_of(fid))
        debug_unused(user, debug_of(fid));
    return rc;
}

static struct fi_ops_poll poll_ops = {
    .size = sizeof(poll_ops), .poll_add = poll_add, .poll_del = poll_del};

void debug_set_ops(struct hook_ops *ops)
{
    ops->poll = &poll_ops;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Wait sets and poll sets: the objects that they keep open, and those added to them. */
#include <rdma/fi_errno.h>

#include "layers/debug/debug.h"

/* ---- Wait sets, named by what is opened with FI_WAIT_SET ---- */

/* The set that is meant, NULL: none. True when it is closed: reported. */
static bool is_bad(struct fid *parent, const char *call, enum fi_wait_obj obj, struct fid_wait *set)
{
    struct debug_object *object = debug_of(parent);

    return obj == FI_WAIT_SET && set && object && debug_is_closed(object, call, &set->fid);
}

/* From now on the set cannot be closed. Sets from elsewhere are not known. */
static void holds(struct fid *fid, enum fi_wait_obj obj, struct fid_wait *set)
{
    struct debug_object *user = debug_of(fid);

    if (obj == FI_WAIT_SET && user && debug_is_open(user->layer, &set->fid))
        debug_used(user, debug_of(&set->fid));
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    int rc;

    if (attr && is_bad(&domain->fid, "fi_cq_open", attr->wait_obj, attr->wait_set))
        return -FI_EINVAL;
    rc = hook_cq_open(domain, attr, cq, context);
    if (!rc && attr)
        holds(&(*cq)->fid, attr->wait_obj, attr->wait_set);
    return rc;
}

static int open_cntr(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                     void *context)
{
    int rc;

    if (attr && is_bad(&domain->fid, "fi_cntr_open", attr->wait_obj, attr->wait_set))
        return -FI_EINVAL;
    rc = hook_cntr_open(domain, attr, cntr, context);
    if (!rc && attr)
        holds(&(*cntr)->fid, attr->wait_obj, attr->wait_set);
    return rc;
}

static int open_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                   void *context)
{
    int rc;

    if (attr && is_bad(&fabric->fid, "fi_eq_open", attr->wait_obj, attr->wait_set))
        return -FI_EINVAL;
    rc = hook_eq_open(fabric, attr, eq, context);
    if (!rc && attr)
        holds(&(*eq)->fid, attr->wait_obj, attr->wait_set);
    return rc;
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
    ops->fabric->eq_open = open_eq;
    ops->domain->cq_open = open_cq;
    ops->domain->cntr_open = open_cntr;
    ops->poll = &poll_ops;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/poll_set.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/queue/cntr.h"
#include "core/queue/cq.h"

struct poll_set {
    struct fid_poll fid;
    struct domain *domain;
    pthread_mutex_t mutex; /* of members; outside of their progress domains' locks */
    struct list members;
};

struct member {
    struct list link;
    struct fid *fid;
    struct cq *cq;     /* or */
    struct cntr *cntr; /* one of both */
    uint64_t seen;     /* the counter's sum at the last report */
};

static struct poll_set *set_of(struct fid_poll *fid)
{
    return object_of(fid, struct poll_set, fid);
}

/* ---- Looking ---- */

static bool has_news(struct member *member)
{
    uint64_t completed;

    if (member->cq)
        return cq_ready(member->cq);
    completed = cntr_completed(member->cntr);
    if (completed == member->seen)
        return false;
    member->seen = completed;
    return true;
}

static int set_poll(struct fid_poll *fid, void **context, int count)
{
    struct poll_set *set = set_of(fid);
    struct list told;
    int found = 0;

    if (count < 0 || (count && !context)) {
        LOG_WARN(set->domain->fabric->part, FI_LOG_DOMAIN,
                 "fi_poll: %d contexts at %p; there must be room for none or more", count,
                 (void *)context);
        return -FI_EINVAL;
    }
    list_init(&told);
    pthread_mutex_lock(&set->mutex);
    list_for_each_safe (pos, after, &set->members) {
        struct member *member = list_item(pos, struct member, link);

        if (found == count) {
            if (member->cq)
                cq_ready(member->cq); /* drives; so does the next */
            else
                cntr_completed(member->cntr);
        } else if (has_news(member)) {
            context[found++] = member->fid->context;
            list_detach(pos);
            list_attach(pos, &told);
        }
    }
    list_join(&told, &set->members); /* those that there was no room for come first now */
    pthread_mutex_unlock(&set->mutex);
    return found;
}

/* ---- Members ---- */

static struct member *find(const struct poll_set *set, const struct fid *fid)
{
    list_for_each (pos, &set->members) {
        struct member *member = list_item(pos, struct member, link);

        if (member->fid == fid)
            return member;
    }
    return NULL;
}

static int refuse(const struct poll_set *set, const char *call, const char *why)
{
    LOG_WARN(set->domain->fabric->part, FI_LOG_DOMAIN, "%s: %s", call, why);
    return -FI_EINVAL;
}

/* The kind of member, apart from its place; false when it can be none. */
static bool describe(const struct poll_set *set, struct fid *fid, struct member *member)
{
    struct cq *cq = fid ? cq_of(fid) : NULL;
    struct cntr *cntr = fid ? cntr_of(fid) : NULL;

    /* With FI_PEER the owner is above, and there is nothing to look at. */
    if (cq && (cq->domain != set->domain || cq->sink != &cq->peer))
        cq = NULL;
    if (cntr && (cntr->domain != set->domain || cntr->sink != &cntr->peer))
        cntr = NULL;
    *member = (struct member){.fid = fid, .cq = cq, .cntr = cntr};
    return cq || cntr;
}

static struct children *children_of(const struct member *member)
{
    return member->cq ? &member->cq->children : &member->cntr->children;
}

static int set_add(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
    struct poll_set *set = set_of(fid);
    struct member *member;
    int rc = 0;

    if (flags)
        return refuse(set, "fi_poll_add", "flags must be 0");
    member = malloc(sizeof(*member));
    if (!member)
        return -FI_ENOMEM;
    if (!describe(set, event_fid, member)) {
        free(member);
        return refuse(set, "fi_poll_add",
                      "the object must be a completion queue or counter of the set's domain");
    }
    pthread_mutex_lock(&set->mutex);
    if (find(set, event_fid)) {
        rc = refuse(set, "fi_poll_add", "the object is in the set already");
    } else {
        children_hold(children_of(member));
        list_attach(&member->link, &set->members);
    }
    pthread_mutex_unlock(&set->mutex);
    if (rc)
        free(member);
    return rc;
}

static int set_del(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
    struct poll_set *set = set_of(fid);
    struct member *member;

    if (flags)
        return refuse(set, "fi_poll_del", "flags must be 0");
    pthread_mutex_lock(&set->mutex);
    member = find(set, event_fid);
    if (member) {
        list_detach(&member->link);
        children_release(children_of(member));
    }
    pthread_mutex_unlock(&set->mutex);
    if (!member)
        return refuse(set, "fi_poll_del", "the object is not in the set");
    free(member);
    return 0;
}

static struct fi_ops_poll poll_ops = {
    .size = sizeof(poll_ops),
    .poll = set_poll,
    .poll_add = set_add,
    .poll_del = set_del,
};

/* ---- Opening and closing ---- */

static int set_close(struct fid *fid)
{
    struct poll_set *set = object_of(fid, struct poll_set, fid.fid);

    if (!list_empty(&set->members))
        return -FI_EBUSY;
    pthread_mutex_destroy(&set->mutex);
    children_release(&set->domain->children);
    free(set);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = set_close,
    FID_CLOSES_ONLY,
};

int poll_set_open(struct domain *domain, const struct fi_poll_attr *attr, struct fid_poll **ret_set)
{
    struct poll_set *set;

    if (attr && attr->flags) {
        LOG_WARN(domain->fabric->part, FI_LOG_DOMAIN,
                 "fi_poll_open: flags are 0x%llx; they must be 0", (unsigned long long)attr->flags);
        return -FI_EINVAL;
    }
    set = calloc(1, sizeof(*set));
    if (!set)
        return -FI_ENOMEM;
    fid_init(&set->fid.fid, FI_CLASS_POLL, NULL, &fid_ops);
    set->fid.ops = &poll_ops;
    set->domain = domain;
    pthread_mutex_init(&set->mutex, NULL);
    list_init(&set->members);
    children_hold(&domain->children);
    *ret_set = &set->fid;
    return 0;
}

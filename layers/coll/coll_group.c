/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups. Each member calls the group by a number of its own, and a join is nothing but an
 * all-gather of these numbers (with the size, to find members that mean another group): members
 * need not agree on one, and no server gives it. Joins of the same members by one endpoint
 * wait for each other, since their messages look the same.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/ep/group.h"
#include "layers/coll/coll.h"

/* fi_mc_addr gives this and the group's number, which coll_addr takes. */
#define GROUP_ADDR (0xc0ull << 56)

static struct coll_group *group_of(struct fid *fid)
{
    return object_of(fid, struct coll_group, mc.fid);
}

struct coll_group *coll_group_find(struct coll_ep *ep, fi_addr_t addr)
{
    uint64_t id = addr ^ GROUP_ADDR;

    return id < ep->id_count ? ep->by_id[id] : NULL;
}

void coll_group_release(struct coll_group *group)
{
    if (--group->refs)
        return;
    list_detach(&group->link);
    list_detach(&group->todo);
    free(group->members);
    free(group->words);
    free(group->scratch);
    free(group);
}

/* ---- Numbers ---- */

static int grow_ids(struct coll_ep *ep)
{
    size_t count = ep->id_count ? 2 * ep->id_count : 16;
    struct coll_group **grown;

    if (ep->id_count == COLL_GROUPS_MAX)
        return -FI_ENOSPC;
    grown = realloc(ep->by_id, count * sizeof(struct coll_group *));
    if (!grown)
        return -FI_ENOMEM;
    memset(grown + ep->id_count, 0, (count - ep->id_count) * sizeof(struct coll_group *));
    ep->next_id = ep->id_count;
    ep->by_id = grown;
    ep->id_count = count;
    return 0;
}

/* Not one that was free just now: messages of its last group may still come. */
static int take_id(struct coll_ep *ep, struct coll_group *group)
{
    int rc;

    for (size_t i = 0; i < ep->id_count; i++) {
        size_t id = (ep->next_id + i) % ep->id_count;

        if (!ep->by_id[id]) {
            ep->by_id[id] = group;
            ep->next_id = id + 1;
            group->id = (uint16_t)id;
            return 0;
        }
    }
    rc = grow_ids(ep);
    return rc ? rc : take_id(ep, group);
}

/* ---- Joining ---- */

static uint32_t word_of(const struct coll_group *group)
{
    return (group->size & 0xffff) << 16 | group->id;
}

static struct coll_group *other_join(struct coll_group *group, bool joining)
{
    list_for_each (pos, &group->ep->groups) {
        struct coll_group *other = list_item(pos, struct coll_group, link);

        if (other != group && other->hash == group->hash && !other->joined && !other->broken &&
            !other->closed && other->joining == joining)
            return other;
    }
    return NULL;
}

static int start_join(struct coll_group *group)
{
    struct coll_request request = {
        .plan = {.algorithm = COLL_ALLGATHER_BRUCK,
                 .rank = group->rank,
                 .size = group->size,
                 .count = 1},
        .element = sizeof(uint32_t),
        .in = &group->words[group->rank],
        .out = group->words,
        .join = true,
    };

    group->words[group->rank] = word_of(group);
    group->joining = true;
    return coll_op_start(group, &request);
}

/* The next one of the same members. */
static void start_waiting(struct coll_group *group)
{
    struct coll_group *next = other_join(group, true) ? NULL : other_join(group, false);
    int rc = next ? start_join(next) : 0;

    if (rc)
        coll_joined(next, rc == -FI_EAGAIN ? FI_ENOMEM : -rc);
}

static int check_words(const struct coll_group *group)
{
    for (uint32_t i = 0; i < group->size; i++) {
        if (group->words[i] >> 16 != (group->size & 0xffff))
            return FI_EINVAL;
    }
    return 0;
}

void coll_joined(struct coll_group *group, int err)
{
    if (!err)
        err = check_words(group);
    group->joining = false;
    group->broken = err;
    group->joined = !err;
    for (uint32_t i = 0; !err && i < group->size; i++)
        group->words[i] &= 0xffff;
    if (!err)
        group->mc.fi_addr = GROUP_ADDR | group->id;
    coll_event_end(group, err);
    start_waiting(group);
}

static int copy_members(struct coll_group *group, const struct coll_set *set)
{
    group->size = (uint32_t)set->count;
    group->members = malloc(set->count * sizeof(*group->members));
    group->words = calloc(set->count, sizeof(*group->words));
    if (!group->members || !group->words)
        return -FI_ENOMEM;
    memcpy(group->members, set->addrs, set->count * sizeof(*group->members));
    group->allowed = set->allowed;
    return 0;
}

static struct fi_ops mc_ops;

static struct coll_group *create(struct coll_ep *ep, void *context)
{
    struct coll_group *group = calloc(1, sizeof(*group));

    if (!group)
        return NULL;
    fid_init(&group->mc.fid, FI_CLASS_MC, context, &mc_ops);
    group->mc.fi_addr = FI_ADDR_NOTAVAIL;
    group->domain = coll_domain_of(ep);
    group->ep = ep;
    group->refs = 1;
    group->event.context = context;
    list_init(&group->link);
    list_init(&group->todo);
    list_init(&group->ops);
    list_init(&group->event.link);
    return group;
}

static int open_group(struct coll_ep *ep, const struct coll_set *set, struct coll_group *group)
{
    int rc = coll_set_rank(set, ep, &group->rank, &group->hash);

    if (!rc)
        rc = copy_members(group, set);
    if (!rc)
        rc = take_id(ep, group);
    if (rc)
        return rc;
    list_attach(&group->link, &ep->groups);
    rc = coll_event_begin(group, ep->eq);
    if (!rc && !other_join(group, true))
        rc = start_join(group);
    if (rc) {
        coll_event_forget(group);
        list_detach(&group->link);
        ep->by_id[group->id] = NULL;
    }
    return rc;
}

static int join_locked(struct coll_ep *ep, const struct coll_set *set, fi_addr_t coll_addr,
                       struct coll_group **ret_group, void *context)
{
    const struct coll_group *parent = coll_group_find(ep, coll_addr);
    struct coll_group *group;
    int rc;

    if (coll_addr != set->addr && !(parent && parent->joined))
        return -FI_EINVAL;
    if (!ep->enabled || progress_forked(ep->cover.domain->progress))
        return -FI_EOPBADSTATE;
    if (!ep->eq)
        return -FI_ENOEQ;
    if (!set->count || set->count > COLL_MEMBERS_MAX)
        return -FI_EINVAL;
    group = create(ep, context);
    if (!group)
        return -FI_ENOMEM;
    rc = open_group(ep, set, group);
    if (rc) {
        coll_group_release(group);
        return rc;
    }
    children_hold(&ep->cover.domain->base.children);
    *ret_group = group;
    return 0;
}

int coll_join(struct fid_ep *fid, const void *addr, uint64_t flags, struct fid_mc **mc,
              void *context)
{
    const struct fi_collective_addr *theirs = addr;
    struct coll_ep *ep = coll_ep_of(fid);
    struct coll_group *group = NULL;
    const struct coll_set *set;
    int rc;

    if (!coll_ep_collects(ep)) {
        LOG_WARN(ep->cover.domain->base.fabric->part, FI_LOG_EP_CTRL,
                 ": a group's member is an endpoint of its own, opened with FI_COLLECTIVE: not a "
                 "scalable one, a context, or one with a shared receive context");
        return -FI_EOPNOTSUPP;
    }
    if (flags & ~(FI_COLLECTIVE | FI_SEND | FI_RECV))
        return -FI_EBADFLAGS;
    set = theirs && theirs->set ? coll_set_of(theirs->set) : NULL;
    if (!set || set->domain != ep->cover.domain)
        return -FI_EINVAL;
    if (theirs->coll_addr == FI_ADDR_NOTAVAIL)
        return -FI_ENOSYS; /* a membership that is managed elsewhere */
    progress_lock(ep->cover.domain->progress);
    rc = join_locked(ep, set, theirs->coll_addr, &group, context);
    progress_unlock(ep->cover.domain->progress);
    if (!rc)
        *mc = &group->mc;
    return rc;
}

/* ---- Leaving ---- */

static void leave(struct coll_group *group)
{
    struct coll_ep *ep = group->ep;

    coll_event_forget(group);
    if (!ep)
        return;
    ep->by_id[group->id] = NULL;
    /* It stays in the endpoint's list, which ends what is under way when it closes. */
    if (list_empty(&group->ops))
        return;
    /* The others wait for what will not come. */
    if (group->joined)
        coll_group_break(group, FI_ECANCELED, true);
    list_for_each (pos, &group->ops)
        coll_op_fail(list_item(pos, struct coll_op, link), FI_ECANCELED);
}

static int mc_close(struct fid *fid)
{
    struct coll_group *group = group_of(fid);
    struct coll_domain *domain = group->domain;

    progress_lock(domain->cover.progress);
    group->closed = true;
    leave(group);
    coll_group_release(group);
    coll_pump(&domain->cover);
    progress_unlock(domain->cover.progress);
    children_release(&domain->cover.base.children);
    return 0;
}

/* For the hooks above (core/ep/group.h). */
static int mc_control(struct fid *fid, int command, void *arg)
{
    const struct coll_group *group = group_of(fid);

    if (command != GROUP_TELL)
        return -FI_ENOSYS;
    *(struct group_facts *)arg = (struct group_facts){
        .size = group->size, .rank = group->rank, .common = group->hash, .members = group->members};
    return 0;
}

static struct fi_ops mc_ops = {
    .size = sizeof(mc_ops),
    .close = mc_close,
    .bind = enosys_bind,
    .control = mc_control,
    NO_FID_TABLES,
};

void coll_groups_orphan(struct coll_ep *ep)
{
    list_for_each_safe (pos, after, &ep->groups) {
        struct coll_group *group = list_item(pos, struct coll_group, link);

        group->refs++;
        list_for_each_safe (op, next, &group->ops)
            coll_op_discard(list_item(op, struct coll_op, link));
        coll_event_forget(group);
        list_detach(&group->link);
        list_detach(&group->todo);
        group->broken = FI_ESHUTDOWN;
        group->ep = NULL;
        coll_group_release(group);
    }
    free(ep->by_id);
    ep->by_id = NULL;
    ep->id_count = 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members that die. A receive does not fail when its sender is gone, but a message to that sender
 * does. So a member that has waited for another for a second sends it an empty message, again after
 * two seconds, and so on; when that fails the group is broken, and the member informs the others.
 * Each endpoint keeps one receive posted for these messages.
 */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/ep/ep_post.h"
#include "layers/coll/coll.h"
#include "layers/coll/coll_tag.h"

/* ---- The timer ---- */

static void look_after(struct coll_op *op, int64_t now)
{
    if (op->err || now - op->since_ms < op->pause_ms)
        return;
    op->since_ms = now;
    op->pause_ms = 2 * op->pause_ms > COLL_PING_MAX_MS ? COLL_PING_MAX_MS : 2 * op->pause_ms;
    list_for_each (pos, &op->items) {
        const struct coll_item *item = list_item(pos, struct coll_item, link);

        if (item->kind == COLL_ITEM_RECV)
            coll_ping(op->group, item->peer);
    }
}

static void timer_progress(struct progress_source *source)
{
    struct coll_domain *domain = object_of(source, struct coll_domain, timer);
    int64_t now;
    uint64_t count;

    if (!domain->due_ms)
        return;
    now = clock_coarse_ms();
    if (now < domain->due_ms)
        return;
    domain->due_ms = 0;
    if (read(source->fd, &count, sizeof(count)) < 0)
        count = 0; /* the coarse clock was ahead of the timer */
    /* Enough operations wait to be posted again. */
    if (list_empty(&domain->controls)) {
        list_for_each (pos, &domain->active)
            look_after(list_item(pos, struct coll_op, all), now);
    }
    if (!list_empty(&domain->active))
        coll_timer_arm(domain);
}

static int timer_trywait(struct progress_source *source)
{
    return 0;
}

int coll_timer_open(struct coll_domain *domain)
{
    int rc;

    if (domain->timer.fd >= 0)
        return 0;
    domain->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (domain->timer.fd < 0)
        return -errno;
    domain->timer.poll = timer_progress;
    domain->timer.trywait = timer_trywait;
    list_init(&domain->timer.link);
    rc = progress_attach(domain->cover.progress, &domain->timer);
    if (rc) {
        close(domain->timer.fd);
        domain->timer.fd = -1;
    }
    return rc;
}

void coll_timer_close(struct coll_domain *domain)
{
    if (domain->timer.fd < 0)
        return;
    progress_detach(domain->cover.progress, &domain->timer);
    close(domain->timer.fd);
    domain->timer.fd = -1;
}

void coll_timer_arm(struct coll_domain *domain)
{
    static const struct itimerspec later = {.it_value = {.tv_sec = COLL_PING_MS / 1000}};

    if (domain->due_ms)
        return;
    domain->due_ms = clock_coarse_ms() + COLL_PING_MS;
    timerfd_settime(domain->timer.fd, 0, &later, NULL);
}

/* ---- Messages about groups ---- */

static struct coll_item *control_item(struct coll_ep *ep, enum coll_item_kind kind)
{
    struct coll_item *item = pool_get(&ep->cover.domain->items);

    if (!item)
        return NULL;
    *item = (struct coll_item){.kind = kind, .ep = ep};
    list_init(&item->todo);
    list_init(&item->link);
    list_attach(&item->link, &ep->controls);
    return item;
}

static void item_free(struct coll_item *item)
{
    struct pool *items = &item->ep->cover.domain->items;

    list_detach(&item->link);
    list_detach(&item->todo);
    if (item->group)
        coll_group_release(item->group);
    pool_put(items, item);
}

bool coll_listen(struct coll_ep *ep)
{
    struct coll_item *item = control_item(ep, COLL_ITEM_LISTEN);
    struct fi_msg_tagged msg = {
        .addr = FI_ADDR_UNSPEC,
        .tag = COLL_TAGS | (uint64_t)COLL_TAG_CONTROL << 61,
        .ignore = COLL_TAG_LOW,
        .context = item,
    };

    if (item && !op_post_tagged(&ep->cover.hook->target, OP_TRECVMSG, &msg, FI_COMPLETION))
        return true;
    if (item)
        item_free(item);
    return false;
}

static void send_control(struct coll_group *group, uint32_t peer, uint64_t tag)
{
    struct coll_item *item = control_item(group->ep, COLL_ITEM_CONTROL);

    if (!item)
        return;
    item->group = group;
    group->refs++;
    item->peer = peer;
    item->tag = tag;
    list_attach(&item->todo, &group->domain->controls);
}

void coll_ping(struct coll_group *group, uint32_t peer)
{
    uint16_t id = group->joined ? (uint16_t)group->words[peer] : 0;

    send_control(group, peer, coll_tag_control(id, 0, group->rank, COLL_PING));
}

static int post_control(struct coll_item *item)
{
    struct fi_msg_tagged msg = {
        .addr = item->group->members[item->peer],
        .tag = item->tag,
        .context = item,
    };

    return (int)op_post_tagged(&item->ep->cover.hook->target, OP_TSENDMSG, &msg, FI_COMPLETION);
}

/* A member that cannot be reached ends the group; a failure to inform it of the end is ignored. */
static void unreachable(struct coll_item *item, int err)
{
    if ((item->tag & COLL_ROUND_MASK) == COLL_PING)
        coll_group_break(item->group, err, true);
    item_free(item);
}

void coll_controls_post(struct coll_domain *domain)
{
    struct list again;

    list_init(&again);
    while (!list_empty(&domain->controls)) {
        struct coll_item *item = list_item(domain->controls.next, struct coll_item, todo);
        int rc;

        list_detach(&item->todo);
        rc = post_control(item);
        if (rc == -FI_EAGAIN)
            list_attach(&item->todo, &again);
        else if (rc)
            unreachable(item, -rc);
    }
    list_join(&again, &domain->controls);
}

static void heard(struct coll_ep *ep, uint64_t tag)
{
    uint16_t id = coll_tag_field(tag, 45), code = coll_tag_field(tag, 29);
    uint32_t sender = coll_tag_field(tag, 13);
    struct coll_group *group = id < ep->id_count ? ep->by_id[id] : NULL;

    if ((tag & COLL_ROUND_MASK) == COLL_ABORT && group && group->joined && sender < group->size)
        coll_group_break(group, code ? code : FI_ECONNABORTED, false);
}

void coll_control_completed(struct coll_item *item, const struct layer_done *done)
{
    struct coll_ep *ep = item->ep;
    bool listens = item->kind == COLL_ITEM_LISTEN;

    layer_uncounted(&ep->cover, listens ? BIND_RECV : BIND_SEND, done->error);
    if (!listens) {
        if (done->error)
            unreachable(item, done->error->err ? done->error->err : FI_EIO);
        else
            item_free(item);
        return;
    }
    if (!done->error)
        heard(ep, done->tag);
    item_free(item);
    if (list_empty(&ep->todo))
        list_attach(&ep->todo, &((struct coll_domain *)ep->cover.domain)->deaf);
}

void coll_controls_discard(struct coll_ep *ep)
{
    list_for_each_safe (pos, after, &ep->controls)
        item_free(list_item(pos, struct coll_item, link));
    list_detach(&ep->todo);
}

/* ---- Groups that break ---- */

void coll_group_break(struct coll_group *group, int err, bool tell)
{
    if (group->broken || group->breaking)
        return;
    group->breaking = err;
    group->tell = tell;
    list_attach(&group->todo, &group->domain->breaking);
}

static void break_group(struct coll_group *group)
{
    group->broken = group->breaking;
    list_for_each (pos, &group->ops)
        coll_op_fail(list_item(pos, struct coll_op, link), group->broken);
    if (!group->tell || !group->joined)
        return;
    for (uint32_t peer = 0; peer < group->size; peer++) {
        if (peer != group->rank)
            send_control(group, peer,
                         coll_tag_control((uint16_t)group->words[peer], (uint16_t)group->broken,
                                          group->rank, COLL_ABORT));
    }
}

void coll_groups_break(struct coll_domain *domain)
{
    while (!list_empty(&domain->breaking)) {
        struct coll_group *group = list_item(domain->breaking.next, struct coll_group, todo);

        list_detach(&group->todo);
        if (group->ep)
            break_group(group);
    }
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "context.h"
#include "cq.h"
#include "loop.h"
#include "operations.h"
#include "report.h"
#include "settings.h"

enum {
    FIRST_ALLOCATION = 64,
};

void cq_use(struct ibv_cq *cq, int change)
{
    cq_of(cq)->users += (unsigned)change;
}

/* The ring grows to what is in it; the program sees the depth that it asked for. */
static bool grow(struct cq *cq)
{
    uint32_t size = cq->allocated ? cq->allocated * 2 : FIRST_ALLOCATION;
    struct completion *larger = malloc(size * sizeof(*larger));

    if (!larger)
        return false;
    for (uint32_t i = 0; i < cq->count; i++)
        larger[i] = cq->ring[(cq->head + i) % cq->allocated];
    free(cq->ring);
    cq->ring = larger;
    cq->allocated = size;
    cq->head = 0;
    return true;
}

static void fail(struct cq *cq, const char *why)
{
    cq->failed = true;
    report_say("completion queue %#x of %d entries: %s", cq->ex.handle, cq->ex.cqe, why);
    context_report(cq->ex.context, IBV_EVENT_CQ_ERR, cq, 0);
}

void cq_push(struct cq *cq, const struct completion *completion, bool solicited)
{
    if (cq->failed)
        return;
    if (cq->count == (uint32_t)cq->ex.cqe) {
        if (!cq->ignores_overrun) {
            fail(cq, "overrun");
            return;
        }
        cq->head = (cq->head + 1) % cq->allocated;
        cq->count--;
    }
    if (cq->count == cq->allocated && !grow(cq)) {
        fail(cq, "no memory");
        return;
    }
    cq->ring[(cq->head + cq->count++) % cq->allocated] = *completion;
    solicited = solicited || completion->wc.status != IBV_WC_SUCCESS;
    if (cq->armed == CQ_ARMED || (cq->armed == CQ_ARMED_SOLICITED && solicited)) {
        cq->armed = CQ_DISARMED;
        loop_add_sleeper(-1);
        channel_raise(cq);
    }
}

bool cq_take(struct cq *cq, struct completion *completion)
{
    if (cq->count == 0)
        return false;
    *completion = cq->ring[cq->head];
    cq->head = (cq->head + 1) % cq->allocated;
    cq->count--;
    *completion->room -= completion->freed;
    return true;
}

void cq_purge(struct cq *cq, const void *owner)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cq->count; i++) {
        struct completion *at = &cq->ring[(cq->head + i) % cq->allocated];
        if (at->owner == owner)
            *at->room -= at->freed;
        else
            cq->ring[(cq->head + kept++) % cq->allocated] = *at;
    }
    cq->count = kept;
}

static int check_cq(struct ibv_context *context, long entries, struct ibv_comp_channel *channel,
                    uint32_t vector)
{
    if (entries < 1 || entries > settings()->limits.max_cqe)
        return EINVAL;
    if (vector >= (uint32_t)context->num_comp_vectors)
        return EINVAL;
    if (channel && channel->context != context)
        return EINVAL;
    if (object_count("completion queue") >= (unsigned)settings()->limits.max_cq)
        return ENOMEM;
    return context_gone(context) ? EIO : 0;
}

static struct cq *create(struct ibv_context *context, long entries, void *cq_context,
                         struct ibv_comp_channel *channel, uint32_t vector)
{
    static uint32_t next;
    struct cq *cq = calloc(1, sizeof(*cq));

    loop_lock();
    int rc = cq ? check_cq(context, entries, channel, vector) : ENOMEM;
    if (rc) {
        loop_unlock();
        report_why("create_cq of %ld entries, vector %u: %s", entries, vector, strerror(rc));
        free(cq);
        errno = rc;
        return NULL;
    }
    cq->ex.context = context;
    cq->ex.channel = channel;
    cq->ex.cq_context = cq_context;
    cq->ex.cqe = (int)entries;
    cq->ex.handle = next++;
    pthread_mutex_init(&cq->ex.mutex, NULL);
    pthread_cond_init(&cq->ex.cond, NULL);
    pthread_mutex_init(&cq->polling, NULL);
    list_init(&cq->pending);
    if (channel)
        channel->refcnt++;
    object_add(&cq->object, "completion queue", cq->ex.handle);
    loop_unlock();
    if (vector)
        report_why("create_cq: completions are told by vector %u", vector);
    return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct cq *cq = create(context, entries, cq_context, channel, (uint32_t)vector);

    return cq ? ibv_cq_ex_to_cq(&cq->ex) : NULL;
}

struct ibv_cq_ex *cq_create_extended(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
    unsigned known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

    if (!settings()->limits.cq_ex ||
        (attr->comp_mask & ~(unsigned)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
        (flags & ~known) || (attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    struct cq *cq = create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
    if (!cq)
        return NULL;
    cq->ignores_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    cq_fill_extended(cq, attr->wc_flags);
    return &cq->ex;
}

int ibv_resize_cq(struct ibv_cq *public, int entries)
{
    struct cq *cq = cq_of(public);
    int rc = 0;

    loop_lock();
    if (entries < 1 || entries > settings()->limits.max_cqe || (uint32_t)entries < cq->count)
        rc = EINVAL;
    else
        cq->ex.cqe = entries;
    loop_unlock();
    return rc;
}

int cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
    /* Moderation decides how many events there are, and none more is allowed always. */
    return attr->attr_mask & ~(unsigned)IBV_CQ_ATTR_MODERATE ? EINVAL : 0;
}

int ibv_destroy_cq(struct ibv_cq *public)
{
    struct cq *cq = cq_of(public);

    loop_lock();
    if (cq->users) {
        loop_unlock();
        report_why("destroy_cq: %u queues complete there", cq->users);
        return EBUSY;
    }
    channel_forget(cq);
    context_forget(public->context, cq);
    if (cq->armed)
        loop_add_sleeper(-1);
    if (public->channel)
    public->channel->refcnt--;
    object_remove(&cq->object);
    loop_unlock();
    pthread_mutex_lock(&public->mutex);
    while (public->comp_events_completed != cq->events_got)
        pthread_cond_wait(&public->cond, &public->mutex);
    pthread_mutex_unlock(&public->mutex);
    free(cq->ring);
    free(cq);
    return 0;
}

int cq_poll(struct ibv_cq *public, int max, struct ibv_wc *wc)
{
    struct cq *cq = cq_of(public);
    struct completion completion;
    int count = 0;

    loop_lock();
    if (cq->count == 0)
        loop_turn_idle();
    while (count < max && cq_take(cq, &completion))
        wc[count++] = completion.wc;
    loop_unlock();
    return count;
}

int cq_request_notify(struct ibv_cq *public, int solicited_only)
{
    struct cq *cq = cq_of(public);
    enum cq_arm armed = solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED;

    if (!public->channel)
        return EINVAL;
    loop_lock();
    if (!cq->armed)
        loop_add_sleeper(1);
    if (cq->armed < armed)
        cq->armed = armed;
    loop_unlock();
    return 0;
}

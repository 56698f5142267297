/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "channel.h"
#include "context.h"
#include "loop.h"
#include "report.h"

struct cq_event {
    struct list link; /* of the channel */
    struct list of_cq;
    struct cq *cq;
};

static struct channel *channel_of(struct ibv_comp_channel *channel)
{
    return list_item(channel, struct channel, channel);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct channel *channel = context_gone(context) ? NULL : calloc(1, sizeof(*channel));

    if (!channel)
        return NULL;
    int rc = event_queue_open(&channel->queue);
    if (rc) {
        free(channel);
        errno = rc;
        return NULL;
    }
    channel->channel.context = context;
    channel->channel.fd = channel->queue.fd;
    loop_lock();
    object_add(&channel->object, "completion channel", (uint32_t)channel->queue.fd);
    loop_unlock();
    return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *public)
{
    struct channel *channel = channel_of(public);

    loop_lock();
    int rc = public->refcnt ? EBUSY : 0;
    if (!rc)
        object_remove(&channel->object);
    loop_unlock();
    if (rc) {
        report_why("destroy_comp_channel: %d completion queues use it", public->refcnt);
        return rc;
    }
    event_queue_close(&channel->queue);
    free(channel);
    return 0;
}

void channel_raise(struct cq *cq)
{
    struct cq_event *event = calloc(1, sizeof(*event));

    if (!event)
        return;
    event->cq = cq;
    list_attach(&event->of_cq, &cq->pending);
    event_push(&channel_of(cq->ex.channel)->queue, &event->link);
}

void channel_forget(struct cq *cq)
{
    while (!list_empty(&cq->pending)) {
        struct cq_event *event = list_item(cq->pending.next, struct cq_event, of_cq);
        list_detach(&event->of_cq);
        event_cancel(&channel_of(cq->ex.channel)->queue, &event->link);
        free(event);
    }
}

int ibv_get_cq_event(struct ibv_comp_channel *public, struct ibv_cq **cq, void **cq_context)
{
    struct list *link = event_take(&channel_of(public)->queue);

    if (!link)
        return -1;
    struct cq_event *event = list_item(link, struct cq_event, link);
    list_detach(&event->of_cq);
    event->cq->events_got++;
    *cq = ibv_cq_ex_to_cq(&event->cq->ex);
    *cq_context = event->cq->ex.cq_context;
    loop_unlock();
    free(event);
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += count;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

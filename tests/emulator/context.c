/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "fault.h"
#include "loop.h"
#include "node.h"
#include "operations.h"
#include "report.h"
#include "settings.h"

#undef ibv_get_device_list

struct async_event {
    struct list link;
    struct ibv_async_event event;
};

static struct list contexts = {&contexts, &contexts};

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    unsigned count;
    struct device *const *all = device_all(&count);
    struct ibv_device **list = calloc(count + 1, sizeof(struct ibv_device *));
    unsigned there = 0;

    if (!list)
        return NULL;
    for (unsigned i = 0; i < count; i++)
        if (!all[i]->removed)
            list[there++] = &all[i]->device;
    if (num_devices)
        *num_devices = (int)there;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
    return (int)device_of(device)->index;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return device_guid(device_of(device));
}

static void fill_context(struct context *context, struct ibv_device *device)
{
    struct ibv_context *public = &context->verbs.context;

    operations_fill(&context->verbs);
    context->verbs.sz = sizeof(context->verbs);
    public->device = device;
    public->cmd_fd = -1;
    public->async_fd = context->async.fd;
    public->num_comp_vectors = 4;
    public->abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&public->mutex, NULL);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct context *context = calloc(1, sizeof(*context));

    if (!context) {
        errno = ENOMEM;
        return NULL;
    }
    context->device = device_of(device);
    context->async.fd = -1;
    loop_lock();
    int rc = context->device->removed ? ENODEV : fault_open(context->device);
    if (!rc)
        rc = node_start();
    if (!rc)
        rc = event_queue_open(&context->async);
    if (!rc) {
        object_add(&context->object, "device context", device_of(device)->index);
        list_attach(&context->link, &contexts);
        fault_start();
    }
    loop_unlock();
    if (rc) {
        report_say("%s cannot be opened: %s", device->name, strerror(rc));
        free(context);
        errno = rc;
        return NULL;
    }
    fill_context(context, device);
    return &context->verbs.context;
}

int ibv_close_device(struct ibv_context *public)
{
    struct context *context = context_of(public);

    loop_lock();
    list_for_each_safe (link, after, &context->async.events) {
        list_detach(link);
        free(list_item(link, struct async_event, link));
    }
    object_remove(&context->object);
    list_detach(&context->link);
    loop_unlock();
    event_queue_close(&context->async);
    pthread_mutex_destroy(&public->mutex);
    free(context);
    return 0;
}

bool context_gone(struct ibv_context *context)
{
    if (!context_device(context)->removed)
        return false;
    errno = EIO;
    return true;
}

void context_report(struct ibv_context *context, enum ibv_event_type type, void *element,
                    int port_number)
{
    struct async_event *event = calloc(1, sizeof(*event));

    if (!event)
        return;
    event->event.event_type = type;
    if (element)
        event->event.element.qp = element;
    else
        event->event.element.port_num = port_number;
    event_push(&context_of(context)->async, &event->link);
}

void context_forget(struct ibv_context *context, const void *element)
{
    struct event_queue *queue = &context_of(context)->async;

    list_for_each_safe (link, after, &queue->events) {
        struct async_event *event = list_item(link, struct async_event, link);
        if (event->event.element.qp != element)
            continue;
        event_cancel(queue, link);
        free(event);
    }
}

void context_report_all(const struct device *device, enum ibv_event_type type, int port_number)
{
    list_for_each (link, &contexts) {
        struct context *context = list_item(link, struct context, link);
        if (context->device == device)
            context_report(&context->verbs.context, type, NULL, port_number);
    }
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *result)
{
    struct list *link = event_take(&context_of(context)->async);

    if (!link)
        return -1;
    loop_unlock();
    struct async_event *event = list_item(link, struct async_event, link);
    *result = event->event;
    free(event);
    return 0;
}

/* Destroying an object does not wait for these: events that were not taken are forgotten. */
void ibv_ack_async_event(struct ibv_async_event *event)
{
    pthread_mutex_t *mutex;
    uint32_t *acked;

    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        mutex = &event->element.cq->mutex;
        acked = &event->element.cq->async_events_completed;
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        mutex = &event->element.srq->mutex;
        acked = &event->element.srq->events_completed;
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_COMM_EST:
        mutex = &event->element.qp->mutex;
        acked = &event->element.qp->events_completed;
        break;
    default: return;
    }
    pthread_mutex_lock(mutex);
    (*acked)++;
    pthread_mutex_unlock(mutex);
}

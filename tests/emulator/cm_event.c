/* SPDX-License-Identifier: BSD-2-Clause */
/* Event channels. As in rdma-core's library, the program's taking of an event changes the
 * identifier: addresses appear in it, and the active side becomes ready. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"
#include "node.h"
#include "report.h"

int cm_result(int rc)
{
    if (!rc)
        return 0;
    errno = rc;
    return -1;
}

static struct cm_channel *channel_of(struct rdma_event_channel *channel)
{
    return (struct cm_channel *)(void *)channel;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct cm_channel *channel = calloc(1, sizeof(*channel));
    unsigned count;

    if (!channel) {
        errno = ENOMEM;
        return NULL;
    }
    device_all(&count);
    int rc = count ? event_queue_open(&channel->queue) : ENODEV;
    loop_lock();
    if (!rc)
        rc = node_start();
    if (!rc)
        rc = cm_watch_forks();
    if (!rc)
        object_add(&channel->object, "rdma_cm channel", (uint32_t)channel->queue.fd);
    loop_unlock();
    if (rc) {
        free(channel);
        errno = rc;
        return NULL;
    }
    channel->channel.fd = channel->queue.fd;
    return &channel->channel;
}

/* rping leaves a thread that asks for the next event, before or after the channel is destroyed: the
 * memory stays, and that thread waits for ever, as it would in the kernel. */
void rdma_destroy_event_channel(struct rdma_event_channel *public)
{
    static struct list gone = {&gone, &gone};
    struct cm_channel *channel = channel_of(public);

    loop_lock();
    object_remove(&channel->object);
    event_queue_close(&channel->queue);
    list_attach(&channel->gone, &gone);
    loop_unlock();
}

static void fill_connection(struct rdma_conn_param *param, const struct cm_message *message,
                            const uint8_t *data)
{
    param->private_data_len = (uint8_t)cm_room(message->kind, false);
    param->private_data = param->private_data_len ? data : NULL;
    /* The peer's initiator depth becomes our responder resources, and the reverse. */
    param->responder_resources = message->initiator_depth;
    param->initiator_depth = message->responder_resources;
    param->flow_control = message->flow_control;
    param->retry_count = message->retry;
    param->rnr_retry_count = message->rnr_retry;
    param->srq = message->srq;
    param->qp_num = message->qpn;
}

static void fill_datagram(struct cm_id *id, struct rdma_ud_param *param,
                          const struct cm_message *message, const uint8_t *data)
{
    param->private_data_len = (uint8_t)cm_room(message->kind, true);
    param->private_data = param->private_data_len ? data : NULL;
    param->qp_num = message->qpn;
    param->qkey = message->qkey;
    param->ah_attr.is_global = 1;
    param->ah_attr.port_num = id->id.port_num;
    param->ah_attr.grh.sgid_index = (uint8_t)id->sgid_index;
    param->ah_attr.grh.hop_limit = 64;
    memcpy(&param->ah_attr.grh.dgid, message->source_gid, 16);
}

static struct cm_event *make_event(struct cm_id *told, struct cm_id *id,
                                   enum rdma_cm_event_type type, int status,
                                   const struct cm_message *message)
{
    struct cm_event *event = calloc(1, sizeof(*event));

    if (!event)
        return NULL;
    event->id = told;
    event->event.id = &id->id;
    event->event.listen_id = told != id ? &told->id : NULL;
    event->event.event = type;
    event->event.status = status;
    if (!message)
        return event;
    memcpy(event->data, message->data, sizeof(event->data));
    if (message->is_datagram)
        fill_datagram(id, &event->event.param.ud, message, event->data);
    else
        fill_connection(&event->event.param.conn, message, event->data);
    return event;
}

void cm_report(struct cm_id *id, enum rdma_cm_event_type type, int status,
               const struct cm_message *message)
{
    struct cm_event *event = make_event(id, id, type, status, message);

    if (event)
        event_push(&channel_of(id->id.channel)->queue, &event->link);
}

void cm_report_request(struct cm_id *listener, struct cm_id *id)
{
    struct cm_event *event = make_event(listener, id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &id->peer);

    if (event)
        event_push(&channel_of(listener->id.channel)->queue, &event->link);
}

void cm_forget_events(struct cm_id *id)
{
    struct event_queue *queue = &channel_of(id->id.channel)->queue;

    list_for_each_safe (link, after, &queue->events) {
        struct cm_event *event = list_item(link, struct cm_event, link);
        if (event->id != id)
            continue;
        event_cancel(queue, link);
        if (event->event.listen_id)
            cm_release(cm_of(event->event.id));
        free(event);
    }
}

/* Changes the identifier as the program takes the event. */
static void apply(struct cm_event *event)
{
    struct cm_id *id = cm_of(event->event.id);
    struct rdma_cm_event *public = &event->event;

    event->id->events_got++;
    switch (public->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: cm_publish(id); break;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        event->id->waiting_requests--;
        if (event->id->synchronous)
            break;
        id->id.channel = event->id->id.channel;
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        if (!id->id.qp)
            break;
        public->status = -cm_confirm(id);
        public->event = public->status ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
        break;
    case RDMA_CM_EVENT_MULTICAST_JOIN: cm_enter_group(id, &public->param.ud); break;
    default: break;
    }
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **result)
{
    if (!channel || !result)
        return cm_result(EINVAL);
    struct list *link = event_take(&channel_of(channel)->queue);
    if (!link)
        return -1;
    struct cm_event *event = list_item(link, struct cm_event, link);
    apply(event);
    loop_unlock();
    *result = &event->event;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *public)
{
    if (!public)
        return cm_result(EINVAL);
    struct cm_event *event = (struct cm_event *)(void *)public;
    struct cm_id *id = event->id;
    pthread_mutex_lock(&id->mutex);
    id->events_acked++;
    pthread_cond_signal(&id->acked);
    pthread_mutex_unlock(&id->mutex);
    free(event);
    return 0;
}

static int error_of(const struct rdma_cm_event *event)
{
    switch (event->event) {
    case RDMA_CM_EVENT_REJECTED: return ECONNREFUSED;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_MULTICAST_ERROR: return event->status < 0 ? -event->status : ETIMEDOUT;
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return ENODEV;
    case RDMA_CM_EVENT_DISCONNECTED: return ECONNRESET;
    default: return EINVAL;
    }
}

int cm_wait(struct cm_id *id, enum rdma_cm_event_type wanted)
{
    if (id->id.event) {
        rdma_ack_cm_event(id->id.event);
        id->id.event = NULL;
    }
    if (rdma_get_cm_event(id->id.channel, &id->id.event))
        return errno;
    return id->id.event->event == wanted ? 0 : error_of(id->id.event);
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
    static const char *const names[] = {
#define NAME(event) [RDMA_CM_EVENT_##event] = "RDMA_CM_EVENT_" #event
        NAME(ADDR_RESOLVED),    NAME(ADDR_ERROR),      NAME(ROUTE_RESOLVED),
        NAME(ROUTE_ERROR),      NAME(CONNECT_REQUEST), NAME(CONNECT_ERROR),
        NAME(CONNECT_RESPONSE), NAME(UNREACHABLE),     NAME(REJECTED),
        NAME(ESTABLISHED),      NAME(DISCONNECTED),    NAME(DEVICE_REMOVAL),
        NAME(MULTICAST_JOIN),   NAME(MULTICAST_ERROR), NAME(ADDR_CHANGE),
        NAME(TIMEWAIT_EXIT)
#undef NAME
    };

    return (unsigned)event < sizeof(names) / sizeof(*names) ? names[event] : "UNKNOWN EVENT";
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections, by the messages of the InfiniBand connection manager:
 *
 *      active  --REQUEST-->  passive          either  --DISCONNECT-->  other
 *              <--REPLY or REJECT--                   <--DISCONNECTED--
 *              --READY-->
 *
 * A datagram identifier has request and reply only. If a process dies, its socket ends, and the
 * other side hears what the kernel would have said for it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cm.h"
#include "context.h"
#include "fault.h"
#include "node.h"
#include "report.h"
#include "settings.h"

enum {
    REPLY_MS = 60000, /* until a request is given up */
    LEAVE_MS = 8000,  /* until a peer that does not answer a disconnect is taken as gone */
    TIMEWAIT_MS = 100,
    FAULT_MS = 200,
};

static bool is_datagram(const struct cm_id *id)
{
    return id->id.qp_type == IBV_QPT_UD;
}

static void fire(struct timer *timer)
{
    struct cm_id *id = list_item(timer, struct cm_id, timer);

    id->on_timer(id);
}

void cm_set_timer(struct cm_id *id, unsigned milliseconds, void (*call)(struct cm_id *id))
{
    id->on_timer = call;
    id->timer.fire = fire;
    loop_set_timer(&id->timer, loop_now() + milliseconds * 1000000ull);
}

void cm_send(struct cm_id *id, struct cm_message *message, enum cm_kind kind)
{
    const struct ibv_gid_entry *gid;

    if (id->watch.fd < 0 || !id->id.verbs)
        return;
    gid = &context_device(id->id.verbs)->ports[id->id.port_num - 1].gids[id->sgid_index];
    message->magic = CM_MAGIC;
    message->kind = (uint8_t)kind;
    message->is_datagram = is_datagram(id);
    message->gid_type = (uint8_t)gid->gid_type;
    message->qpn = id->qpn;
    message->psn = id->psn;
    message->qkey = id->qkey;
    memcpy(message->source_gid, &gid->gid, 16);
    if (send(id->watch.fd, message, sizeof(*message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        report_why("rdma_cm: a message of kind %d did not leave: %s", (int)kind, strerror(errno));
}

static void drop_connection(struct cm_id *id)
{
    if (id->watch.fd < 0)
        return;
    loop_unwatch(&id->watch);
    close(id->watch.fd);
    id->watch.fd = -1;
}

static void end_timewait(struct cm_id *id)
{
    cm_report(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
}

static void disconnected(struct cm_id *id)
{
    bool reported = id->state == CM_LEFT;

    loop_unset_timer(&id->timer);
    if (id->state != CM_LEFT)
        id->state = CM_LEFT;
    if (!reported)
        cm_report(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    cm_set_timer(id, TIMEWAIT_MS, end_timewait);
}

/* Why a step of a connection failed; the identifier can only be destroyed then. */
static void fail(struct cm_id *id, enum rdma_cm_event_type type, int status)
{
    loop_unset_timer(&id->timer);
    drop_connection(id);
    id->state = CM_CLOSED;
    cm_report(id, type, status, NULL);
}

static void request_timed_out(struct cm_id *id)
{
    fail(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

static void request_unreachable(struct cm_id *id)
{
    fail(id, RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH);
}

/* As of a peer that has sent its first bytes, and never got the last word of the exchange. */
static void late_unreachable(struct cm_id *id)
{
    if (id->state == CM_CONNECTED)
        cm_report(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}

static void request_rejected(struct cm_id *id)
{
    fail(id, RDMA_CM_EVENT_REJECTED, CM_REJECT_CONSUMER);
}

static void no_listener(struct cm_id *id)
{
    fail(id, RDMA_CM_EVENT_REJECTED, CM_REJECT_NO_LISTENER);
}

static void peer_gone(struct cm_id *id)
{
    drop_connection(id);
    switch (id->state) {
    case CM_CONNECTING:
    case CM_RESPONDED:
    case CM_REQUESTED: fail(id, RDMA_CM_EVENT_REJECTED, CM_REJECT_CONSUMER); break;
    case CM_ACCEPTED:
        if (is_datagram(id))
            id->state = CM_CLOSED;
        else
            fail(id, RDMA_CM_EVENT_REJECTED, CM_REJECT_CONSUMER);
        break;
    case CM_CONNECTED:
        if (!is_datagram(id))
            disconnected(id);
        break;
    case CM_LEAVING: disconnected(id); break;
    default: break;
    }
}

static void take_reply(struct cm_id *id, const struct cm_message *message)
{
    if (id->state != CM_CONNECTING)
        return;
    loop_unset_timer(&id->timer);
    id->peer = *message;
    if (is_datagram(id)) {
        id->state = CM_CONNECTED;
        cm_report(id, RDMA_CM_EVENT_ESTABLISHED, 0, message);
        return;
    }
    id->state = CM_RESPONDED;
    cm_report(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, message);
}

static void take_reject(struct cm_id *id, const struct cm_message *message)
{
    bool datagram = is_datagram(id);

    if (id->state != CM_CONNECTING && id->state != CM_RESPONDED && id->state != CM_ACCEPTED &&
        id->state != CM_REQUESTED)
        return;
    loop_unset_timer(&id->timer);
    id->state = CM_CLOSED;
    drop_connection(id);
    cm_report(id, datagram ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED, message->status,
              message);
}

static void take_message(struct cm_id *id, const struct cm_message *message)
{
    struct cm_message nothing = {0};

    switch (message->kind) {
    case CM_REPLY: take_reply(id, message); break;
    case CM_REJECT: take_reject(id, message); break;
    case CM_READY:
        if (id->state != CM_ACCEPTED)
            break;
        id->state = CM_CONNECTED;
        cm_report(id, RDMA_CM_EVENT_ESTABLISHED, 0, &nothing);
        break;
    case CM_DISCONNECT:
        if (id->state == CM_LEAVING)
            cm_send(id, &nothing, CM_DISCONNECTED);
        if (id->state == CM_CONNECTED || id->state == CM_LEAVING || id->state == CM_ACCEPTED)
            disconnected(id);
        break;
    case CM_DISCONNECTED:
        if (id->state == CM_LEAVING)
            disconnected(id);
        break;
    default: report_say("rdma_cm: an unexpected message of kind %d", message->kind); break;
    }
}

void cm_receive(struct watch *watch, uint32_t events)
{
    struct cm_id *id = list_item(watch, struct cm_id, watch);
    struct cm_message message;
    char bytes[sizeof(message) + 1];
    const char *why;
    ssize_t count = recv(watch->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0)
        peer_gone(id);
    else if (!cm_decode(bytes, (size_t)count, &message, &why))
        report_say("rdma_cm: a message was dropped: %s", why);
    else if (id->state != CM_CLOSED)
        take_message(id, &message);
}

static int check_param(const struct cm_id *id, const struct rdma_conn_param *param,
                       enum cm_kind kind)
{
    unsigned room = cm_room(kind, is_datagram(id));

    if (param && param->private_data_len > room) {
        report_why("rdma_cm: %u bytes of private data, there is room for %u",
                   param->private_data_len, room);
        return EINVAL;
    }
    return 0;
}

static uint8_t least(unsigned asked, unsigned most)
{
    return (uint8_t)(asked < most ? asked : most);
}

/* Takes the program's parameters, within the limits of the device; RDMA_MAX_... means "all". */
static void take_param(struct cm_id *id, const struct rdma_conn_param *param,
                       struct cm_message *message)
{
    unsigned most = (unsigned)settings()->limits.max_qp_rd_atom;
    struct rdma_conn_param none = {.retry_count = 7, .rnr_retry_count = 7};

    if (!param)
        param = &none;
    id->responder_resources = least(param->responder_resources, most);
    id->initiator_depth = least(param->initiator_depth, most);
    id->qpn = id->id.qp ? id->id.qp->qp_num : param->qp_num & 0xffffff;
    message->responder_resources = id->responder_resources;
    message->initiator_depth = id->initiator_depth;
    message->flow_control = param->flow_control;
    message->retry = param->retry_count & 7;
    message->rnr_retry = param->rnr_retry_count & 7;
    message->srq = id->id.qp ? id->id.qp->srq != NULL : param->srq;
    if (param->private_data_len)
        memcpy(message->data, param->private_data, param->private_data_len);
}

static int connect_socket(const struct cm_id *id)
{
    const struct sockaddr *target = &id->id.route.addr.dst_addr;
    struct sockaddr_un address;
    char name[80];

    for (int any = 0; any < 2; any++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return -1;
        cm_listen_name(name, id->id.ps, target, any);
        socklen_t length = node_address(&address, name);
        if (connect(fd, (struct sockaddr *)&address, length) == 0 && node_peer_trusted(fd))
            return fd;
        close(fd);
    }
    return -1;
}

/* Events of faults and refusals come later, never from within the call. */
static void start_request(struct cm_id *id, struct cm_message *message)
{
    switch (fault_connect(context_device(id->id.verbs), FAULT_CONNECT_NONE)) {
    case FAULT_CONNECT_REJECT: cm_set_timer(id, 0, request_rejected); return;
    case FAULT_CONNECT_TIMEOUT: cm_set_timer(id, FAULT_MS, request_timed_out); return;
    case FAULT_CONNECT_UNREACHABLE: cm_set_timer(id, 0, request_unreachable); return;
    case FAULT_CONNECT_LATE: id->late = true; break;
    default: break;
    }
    id->watch.fd = connect_socket(id);
    id->watch.ready = cm_receive;
    if (id->watch.fd < 0 || loop_watch(&id->watch, EPOLLIN)) {
        cm_set_timer(id, 0, is_datagram(id) ? request_unreachable : no_listener);
        return;
    }
    memcpy(&message->source, &id->id.route.addr.src_addr, sizeof(message->source));
    memcpy(&message->target, &id->id.route.addr.dst_addr, sizeof(message->target));
    memcpy(message->target_gid, &id->id.route.addr.addr.ibaddr.dgid, 16);
    cm_send(id, message, CM_REQUEST);
    cm_set_timer(id, REPLY_MS, request_timed_out);
}

int rdma_connect(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
    struct cm_id *id = cm_of(public);
    struct cm_message message = {0};

    loop_lock();
    int rc = id->state == CM_ROUTE_RESOLVED ? check_param(id, param, CM_REQUEST) : EINVAL;
    if (!rc) {
        take_param(id, param, &message);
        id->retry = message.retry;
        id->state = CM_CONNECTING;
        start_request(id, &message);
    }
    loop_unlock();
    if (!rc && id->synchronous)
        rc = cm_wait(id, RDMA_CM_EVENT_ESTABLISHED);
    return cm_result(rc);
}

int cm_confirm(struct cm_id *id)
{
    struct cm_message message = {.status = CM_REJECT_CONSUMER};

    if (id->state != CM_RESPONDED)
        return EINVAL;
    /* The peer may have granted less than was asked for. */
    id->initiator_depth = least(id->initiator_depth, id->peer.responder_resources);
    id->responder_resources = least(id->responder_resources, id->peer.initiator_depth);
    int rc = cm_qp_to_ready(id);
    if (rc) {
        cm_send(id, &message, CM_REJECT);
        id->state = CM_CLOSED;
        return rc;
    }
    id->state = CM_CONNECTED;
    cm_send(id, &message, CM_READY);
    if (id->late)
        cm_set_timer(id, FAULT_MS, late_unreachable);
    return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
    /* With a queue pair of the identifier the library has done it. */
    if (id->qp)
        return cm_result(EINVAL);
    loop_lock();
    int rc = cm_confirm(cm_of(id));
    loop_unlock();
    return cm_result(rc);
}

int rdma_accept(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
    struct cm_id *id = cm_of(public);
    struct cm_message message = {0};

    loop_lock();
    int rc = id->state == CM_REQUESTED ? check_param(id, param, CM_REPLY) : EINVAL;
    if (!rc) {
        take_param(id, param, &message);
        id->retry = id->peer.retry;
        if (!param) {
            id->responder_resources = id->peer.initiator_depth;
            id->initiator_depth = id->peer.responder_resources;
        }
        id->initiator_depth = least(id->initiator_depth, id->peer.responder_resources);
        id->responder_resources = least(id->responder_resources, id->peer.initiator_depth);
        message.initiator_depth = id->initiator_depth;
        message.responder_resources = id->responder_resources;
        rc = cm_qp_to_ready(id);
    }
    if (!rc) {
        id->state = CM_ACCEPTED;
        cm_send(id, &message, CM_REPLY);
    }
    loop_unlock();
    if (!rc && id->synchronous && !is_datagram(id))
        rc = cm_wait(id, RDMA_CM_EVENT_ESTABLISHED);
    return cm_result(rc);
}

static int reject(struct cm_id *id, const void *data, uint8_t length)
{
    struct cm_message message = {.status = CM_REJECT_CONSUMER};

    if (id->state != CM_REQUESTED && id->state != CM_RESPONDED)
        return EINVAL;
    if (length > cm_room(CM_REJECT, is_datagram(id)))
        return EINVAL;
    if (length)
        memcpy(message.data, data, length);
    cm_send(id, &message, CM_REJECT);
    id->state = CM_CLOSED;
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
    loop_lock();
    int rc = reject(cm_of(id), data, length);
    loop_unlock();
    return cm_result(rc);
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t length)
{
    return rdma_reject(id, data, length);
}

int rdma_notify(struct rdma_cm_id *public, enum ibv_event_type event)
{
    struct cm_id *id = cm_of(public);
    struct cm_message nothing = {0};

    loop_lock();
    int rc = event == IBV_EVENT_COMM_EST ? 0 : EINVAL;
    if (!rc && id->state == CM_ACCEPTED) {
        id->state = CM_CONNECTED;
        cm_report(id, RDMA_CM_EVENT_ESTABLISHED, 0, &nothing);
    }
    loop_unlock();
    return cm_result(rc);
}

int rdma_disconnect(struct rdma_cm_id *public)
{
    struct cm_id *id = cm_of(public);
    struct cm_message message = {0};
    bool wait = false;

    loop_lock();
    int rc = id->state >= CM_REQUESTED && id->state <= CM_LEFT ? cm_qp_to_error(id) : EINVAL;
    if (!rc && (id->state == CM_CONNECTED || id->state == CM_ACCEPTED)) {
        id->state = CM_LEAVING;
        cm_send(id, &message, CM_DISCONNECT);
        cm_set_timer(id, LEAVE_MS, disconnected);
        wait = id->synchronous;
    } else if (!rc && id->state == CM_LEFT) {
        cm_send(id, &message, CM_DISCONNECTED);
        wait = id->synchronous;
    }
    loop_unlock();
    if (!rc && wait)
        rc = cm_wait(id, RDMA_CM_EVENT_DISCONNECTED);
    return cm_result(rc);
}

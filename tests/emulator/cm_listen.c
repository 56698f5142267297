/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cm.h"
#include "context.h"
#include "node.h"
#include "report.h"

enum {
    BACKLOG_MOST = 1024,
};

/* A socket whose request has not come yet. */
struct stranger {
    struct watch watch;
    struct cm_id *listener;
    struct list link;
};

static struct list strangers = {&strangers, &strangers};

static void drop_stranger(struct stranger *stranger)
{
    loop_unwatch(&stranger->watch);
    close(stranger->watch.fd);
    list_detach(&stranger->link);
    free(stranger);
}

void cm_forget_strangers(void)
{
    while (!list_empty(&strangers)) {
        struct stranger *stranger = list_item(strangers.next, struct stranger, link);
        list_detach(&stranger->link);
        close(stranger->watch.fd);
        free(stranger);
    }
}

static int fill_addresses(struct cm_id *id, const struct cm_id *listener,
                          const struct cm_message *message)
{
    struct rdma_addr *addresses = &id->id.route.addr;

    memcpy(&addresses->src_addr, &message->target, sizeof(message->target));
    memcpy(&addresses->dst_addr, &message->source, sizeof(message->source));
    memcpy(&addresses->addr.ibaddr.dgid, message->source_gid, 16);
    if (listener->id.verbs) {
        id->id.verbs = listener->id.verbs;
        id->id.port_num = listener->id.port_num;
        id->sgid_index = listener->sgid_index;
        return 0;
    }
    return cm_bind_device(id);
}

static void refuse(int fd)
{
    struct cm_message message = {
        .magic = CM_MAGIC, .kind = CM_REJECT, .status = CM_REJECT_CONSUMER};

    if (send(fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        report_why("rdma_cm: a request was dropped");
}

/* Makes an identifier of a request; it takes the socket over. */
static bool take_request(struct cm_id *listener, int fd, const struct cm_message *message)
{
    if (message->is_datagram != (listener->id.qp_type == IBV_QPT_UD) ||
        listener->waiting_requests >= (unsigned)listener->backlog)
        return false;
    struct cm_id *id = cm_create(listener->id.channel, listener->id.context, listener->id.ps,
                                 listener->id.qp_type);
    if (!id)
        return false;
    if (fill_addresses(id, listener, message)) {
        cm_release(id);
        return false;
    }
    cm_publish(id);
    id->peer = *message;
    id->watch.fd = fd;
    id->watch.ready = cm_receive;
    if (loop_watch(&id->watch, EPOLLIN)) {
        id->watch.fd = -1;
        cm_release(id);
        return false;
    }
    id->state = CM_REQUESTED;
    listener->waiting_requests++;
    cm_report_request(listener, id);
    return true;
}

static void read_stranger(struct watch *watch, uint32_t events)
{
    struct stranger *stranger = list_item(watch, struct stranger, watch);
    struct cm_id *listener = stranger->listener;
    struct cm_message message;
    char bytes[sizeof(message) + 1];
    const char *why;
    ssize_t count = recv(watch->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0 || !cm_decode(bytes, (size_t)count, &message, &why) ||
        message.kind != CM_REQUEST) {
        drop_stranger(stranger);
        return;
    }
    int fd = dup(watch->fd);
    drop_stranger(stranger);
    if (fd >= 0 && take_request(listener, fd, &message))
        return;
    if (fd >= 0) {
        refuse(fd);
        close(fd);
    }
}

void cm_accept_socket(struct watch *watch, uint32_t events)
{
    struct cm_id *listener = list_item(watch, struct cm_id, watch);
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    struct stranger *stranger = node_peer_trusted(fd) ? calloc(1, sizeof(*stranger)) : NULL;
    if (!stranger) {
        close(fd);
        return;
    }
    stranger->watch.fd = fd;
    stranger->watch.ready = read_stranger;
    stranger->listener = listener;
    list_attach(&stranger->link, &strangers);
    if (loop_watch(&stranger->watch, EPOLLIN))
        drop_stranger(stranger);
}

void cm_stop_listening(struct cm_id *listener)
{
    list_for_each_safe (link, after, &strangers) {
        struct stranger *stranger = list_item(link, struct stranger, link);
        if (stranger->listener == listener)
            drop_stranger(stranger);
    }
}

int rdma_listen(struct rdma_cm_id *public, int backlog)
{
    struct cm_id *id = cm_of(public);

    loop_lock();
    int rc = id->state == CM_BOUND ? 0 : EINVAL;
    id->backlog = backlog > 0 && backlog < BACKLOG_MOST ? backlog : BACKLOG_MOST;
    /* Requests that wait are counted by take_request; a full socket would say "no listener". */
    if (!rc && listen(id->port_fd, BACKLOG_MOST))
        rc = errno;
    if (!rc) {
        id->watch.fd = id->port_fd;
        id->watch.ready = cm_accept_socket;
        id->port_fd = -1;
        rc = loop_watch(&id->watch, EPOLLIN);
        id->state = CM_LISTENING;
    }
    loop_unlock();
    return cm_result(rc);
}

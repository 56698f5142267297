/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"
#include "context.h"
#include "fault.h"
#include "memory.h"
#include "node.h"
#include "report.h"
#include "settings.h"

enum {
    EPHEMERAL_FIRST = 32768,
    EPHEMERAL_COUNT = 28232,
    GROW_TRIES = 4096,
};

static struct list ids = {&ids, &ids};
static struct ibv_context *contexts[DEVICE_MAX];
static struct ibv_pd *pds[DEVICE_MAX];

static void tell_removal(const struct device *device)
{
    list_for_each (link, &ids) {
        struct cm_id *id = list_item(link, struct cm_id, link);
        if (id->id.verbs && context_device(id->id.verbs) == device)
            cm_report(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    }
}

/* One context for each device, which the library keeps: not the program's to close. */
struct ibv_context *cm_context(const struct device *device)
{
    struct ibv_context **context = &contexts[device->index];

    fault_on_removal = tell_removal;
    if (!*context) {
        *context = ibv_open_device((struct ibv_device *)(uintptr_t)&device->device);
        if (*context)
            object_remove(&context_of(*context)->object);
    }
    return *context;
}

struct ibv_pd *cm_default_pd(struct ibv_context *context)
{
    struct ibv_pd **pd = &pds[context_device(context)->index];

    if (!*pd) {
        *pd = ibv_alloc_pd(context);
        if (*pd)
            object_remove(&pd_of(*pd)->object);
    }
    return *pd;
}

/* A child of fork: connections and ports are the parent's. */
static void leave_to_parent(void)
{
    list_for_each (link, &ids) {
        struct cm_id *id = list_item(link, struct cm_id, link);
        if (id->watch.fd >= 0)
            close(id->watch.fd);
        if (id->port_fd >= 0)
            close(id->port_fd);
        id->watch.fd = id->port_fd = -1;
        id->state = CM_CLOSED;
    }
    cm_forget_strangers();
}

int cm_watch_forks(void)
{
    static bool done;
    int rc = done ? 0 : pthread_atfork(NULL, NULL, leave_to_parent);

    done = !rc;
    return rc;
}

struct cm_id *cm_create(struct rdma_event_channel *channel, void *context,
                        enum rdma_port_space space, enum ibv_qp_type type)
{
    static uint32_t next;
    struct cm_id *id = calloc(1, sizeof(*id));

    if (!id)
        return NULL;
    id->id.channel = channel;
    id->id.context = context;
    id->id.ps = space;
    id->id.qp_type = type;
    id->watch.fd = id->port_fd = -1;
    id->qkey = RDMA_UDP_QKEY;
    id->ack_timeout = 14;
    id->psn = settings_random() & 0xffffff;
    pthread_mutex_init(&id->mutex, NULL);
    pthread_cond_init(&id->acked, NULL);
    list_init(&id->groups);
    list_attach(&id->link, &ids);
    object_add(&id->object, "rdma_cm id", next++);
    return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **result, void *context,
                   enum rdma_port_space space)
{
    enum ibv_qp_type type =
        space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
    struct rdma_event_channel *own = channel ? NULL : rdma_create_event_channel();

    if (!channel && !own)
        return -1;
    if (space != RDMA_PS_TCP && space != RDMA_PS_UDP && space != RDMA_PS_IB) {
        report_why("rdma_create_id: no port space %#x", (unsigned)space);
        if (own)
            rdma_destroy_event_channel(own);
        return cm_result(EINVAL);
    }
    loop_lock();
    struct cm_id *id = cm_create(channel ? channel : own, context, space, type);
    if (id)
        id->synchronous = own != NULL;
    loop_unlock();
    if (!id) {
        if (own)
            rdma_destroy_event_channel(own);
        return cm_result(ENOMEM);
    }
    *result = &id->id;
    return 0;
}

static void close_socket(struct cm_id *id)
{
    cm_stop_listening(id);
    if (id->watch.fd >= 0) {
        loop_unwatch(&id->watch);
        close(id->watch.fd);
        id->watch.fd = -1;
    }
    if (id->port_fd >= 0)
        close(id->port_fd);
    id->port_fd = -1;
}

/* Sends the connection manager's last message for an identifier that is destroyed in the middle. */
static void say_goodbye(struct cm_id *id)
{
    struct cm_message message = {.status = CM_REJECT_CONSUMER};

    if (id->state == CM_REQUESTED || id->state == CM_CONNECTING || id->state == CM_RESPONDED)
        cm_send(id, &message, CM_REJECT);
    else if (id->state == CM_CONNECTED || id->state == CM_ACCEPTED)
        cm_send(id, &message, CM_DISCONNECT);
    else if (id->state == CM_LEFT)
        cm_send(id, &message, CM_DISCONNECTED);
}

void cm_release(struct cm_id *id)
{
    say_goodbye(id);
    loop_unset_timer(&id->timer);
    cm_leave_groups(id);
    cm_forget_events(id);
    close_socket(id);
    list_detach(&id->link);
    object_remove(&id->object);
    free(id->id.route.path_rec);
    free(id->qp_attr);
    free(id);
}

int rdma_destroy_id(struct rdma_cm_id *public)
{
    struct cm_id *id = cm_of(public);
    struct rdma_event_channel *own = id->synchronous ? public->channel : NULL;

    if (public->event) {
        rdma_ack_cm_event(public->event);
        public->event = NULL;
    }
    loop_lock();
    /* Nothing comes any more: taken events must be acknowledged. */
    say_goodbye(id);
    id->state = CM_CLOSED;
    loop_unset_timer(&id->timer);
    close_socket(id);
    cm_forget_events(id);
    uint32_t got = id->events_got;
    loop_unlock();
    pthread_mutex_lock(&id->mutex);
    while (id->events_acked != got)
        pthread_cond_wait(&id->acked, &id->mutex);
    pthread_mutex_unlock(&id->mutex);
    loop_lock();
    cm_release(id);
    loop_unlock();
    if (own)
        rdma_destroy_event_channel(own);
    return 0;
}

uint16_t cm_port(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
}

void cm_set_port(struct sockaddr *address, uint16_t port)
{
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
}

static bool is_wildcard(const struct sockaddr *address)
{
    union ibv_gid gid;
    static const uint8_t zeros[16];

    if (!device_address_gid(address, &gid))
        return true;
    if (address->sa_family == AF_INET)
        return memcmp(gid.raw + 12, zeros, 4) == 0;
    return memcmp(gid.raw, zeros, 16) == 0;
}

void cm_listen_name(char name[80], enum rdma_port_space space, const struct sockaddr *address,
                    bool any)
{
    const char *kind = space == RDMA_PS_UDP ? "udp" : "tcp";
    union ibv_gid gid;
    char hex[33];

    device_address_gid(address, &gid);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", gid.raw[i]);
    snprintf(name, 80, "%s-%u-%s", kind, cm_port(address), any ? "any" : hex);
}

static int take_name(int fd, const struct cm_id *id, const struct sockaddr *address)
{
    struct sockaddr_un unix_address;
    char name[80];

    cm_listen_name(name, id->id.ps, address, is_wildcard(address));
    socklen_t length = node_address(&unix_address, name);
    return bind(fd, (struct sockaddr *)&unix_address, length) ? errno : 0;
}

int cm_bind_port(struct cm_id *id)
{
    struct sockaddr *address = &id->id.route.addr.src_addr;
    uint16_t port = cm_port(address);
    int rc = EADDRINUSE;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return errno;
    /* Processes of one seed draw alike: one that follows a dead one has another port, as mostly. */
    unsigned first = settings_random() + (unsigned)getpid();
    for (unsigned i = 0; port == 0 && rc == EADDRINUSE && i < GROW_TRIES; i++) {
        cm_set_port(address, (uint16_t)(EPHEMERAL_FIRST + (first + i) % EPHEMERAL_COUNT));
        rc = take_name(fd, id, address);
    }
    if (port)
        rc = take_name(fd, id, address);
    if (rc) {
        report_why("rdma_bind_addr: port %u: %s", port, strerror(rc));
        cm_set_port(address, port);
        close(fd);
        return rc;
    }
    id->port_fd = fd;
    return 0;
}

int cm_bind_device(struct cm_id *id)
{
    unsigned count;
    struct device *const *all = device_all(&count);

    for (unsigned i = 0; i < count; i++) {
        unsigned port = all[i]->removed ? 0
                                        : device_find_address(all[i], &id->id.route.addr.src_addr,
                                                              &id->sgid_index);
        if (!port)
            continue;
        struct ibv_context *context = cm_context(all[i]);
        if (!context)
            return errno;
        id->id.verbs = context;
        id->id.port_num = (uint8_t)port;
        return 0;
    }
    report_why("rdma_cm: no device has the address");
    return ENODEV;
}

void cm_publish(struct cm_id *id)
{
    struct rdma_ib_addr *ib = &id->id.route.addr.addr.ibaddr;

    if (!id->id.verbs)
        return;
    const struct port *port = &context_device(id->id.verbs)->ports[id->id.port_num - 1];
    ib->sgid = port->gids[id->sgid_index].gid;
    ib->pkey = htons(0xffff);
    id->id.pd = cm_default_pd(id->id.verbs);
}

static socklen_t address_size(const struct sockaddr *address)
{
    switch (address->sa_family) {
    case AF_INET: return sizeof(struct sockaddr_in);
    case AF_INET6: return sizeof(struct sockaddr_in6);
    default: return 0;
    }
}

int rdma_bind_addr(struct rdma_cm_id *public, struct sockaddr *address)
{
    struct cm_id *id = cm_of(public);
    socklen_t size = address_size(address);

    if (!size)
        return cm_result(EAFNOSUPPORT);
    loop_lock();
    int rc = id->state == CM_IDLE ? 0 : EINVAL;
    if (!rc) {
        memcpy(&public->route.addr.src_storage, address, size);
        if (!is_wildcard(address))
            rc = cm_bind_device(id);
        if (rc == ENODEV)
            rc = EADDRNOTAVAIL;
        if (!rc)
            rc = cm_bind_port(id);
        if (rc) {
            memset(&public->route.addr.src_storage, 0, sizeof(public->route.addr.src_storage));
            public->verbs = NULL;
        } else {
            id->state = CM_BOUND;
            cm_publish(id);
        }
    }
    loop_unlock();
    /* The kernel's answer to an address of none of its devices. */
    return cm_result(rc == EADDRNOTAVAIL ? ENODEV : rc);
}

int rdma_migrate_id(struct rdma_cm_id *public, struct rdma_event_channel *channel)
{
    struct cm_id *id = cm_of(public);
    struct rdma_event_channel *own = channel ? NULL : rdma_create_event_channel();

    if (!channel && !own)
        return -1;
    loop_lock();
    struct rdma_event_channel *before = public->channel;
    struct event_queue *from = &((struct cm_channel *)(void *)before)->queue;
    struct rdma_event_channel *to = channel ? channel : own;
    list_for_each_safe (link, after, &from->events) {
        struct cm_event *event = list_item(link, struct cm_event, link);
        if (event->id != id)
            continue;
        event_cancel(from, link);
        event_push(&((struct cm_channel *)(void *)to)->queue, link);
    }
    bool was_own = id->synchronous;
    public->channel = to;
    id->synchronous = own != NULL;
    loop_unlock();
    if (was_own)
        rdma_destroy_event_channel(before);
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t size)
{
    if (level != RDMA_OPTION_ID)
        return cm_result(ENOSYS);
    switch (option) {
    case RDMA_OPTION_ID_TOS: return cm_result(size == 1 ? 0 : EINVAL);
    case RDMA_OPTION_ID_REUSEADDR:
    case RDMA_OPTION_ID_AFONLY: return cm_result(size == sizeof(int) ? 0 : EINVAL);
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        if (size != 1)
            return cm_result(EINVAL);
        cm_of(id)->ack_timeout = *(uint8_t *)value & 31;
        return 0;
    default: return cm_result(ENOSYS);
    }
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return htons(cm_port(&id->route.addr.src_addr));
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return htons(cm_port(&id->route.addr.dst_addr));
}

struct ibv_context **rdma_get_devices(int *number)
{
    unsigned count, there = 0;
    struct device *const *all = device_all(&count);
    struct ibv_context **list = calloc(count + 1, sizeof(*list));

    if (!list)
        return NULL;
    loop_lock();
    for (unsigned i = 0; i < count; i++)
        if (!all[i]->removed && (list[there] = cm_context(all[i])))
            there++;
    loop_unlock();
    if (number)
        *number = (int)there;
    return list;
}

void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection that carries this process's packets to another one. A producer asks link_ready
 * before it makes the next packet of its message, so at most a packet and some answers are kept.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "loop.h"
#include "node.h"
#include "packet.h"
#include "report.h"

enum {
    PIECES = 64,
};

struct kept {
    struct kept *next;
    size_t size;
    char bytes[];
};

struct link {
    struct watch watch;
    unsigned id;
    struct kept *first, **last;
    struct list waiters;
};

static struct link *links[WIRE_NODES];

static void wake_waiters(struct link *link)
{
    struct list all;

    list_init(&all);
    list_join(&link->waiters, &all);
    while (!list_empty(&all)) {
        struct link_waiter *waiter = list_item(all.next, struct link_waiter, link);
        list_detach(&waiter->link);
        waiter->ready(waiter);
    }
}

static void drop_link(struct link *link)
{
    links[link->id] = NULL;
    loop_unwatch(&link->watch);
    close(link->watch.fd);
    while (link->first) {
        struct kept *kept = link->first;
        link->first = kept->next;
        free(kept);
    }
    packet_peer_gone(link->id);
    wake_waiters(link);
    free(link);
}

static void flush_link(struct watch *watch, uint32_t events)
{
    struct link *link = list_item(watch, struct link, watch);

    if (events & (EPOLLHUP | EPOLLERR)) {
        drop_link(link);
        return;
    }
    while (link->first) {
        struct kept *kept = link->first;
        if (send(watch->fd, kept->bytes, kept->size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            if (errno != EAGAIN)
                drop_link(link);
            return;
        }
        link->first = kept->next;
        free(kept);
    }
    link->last = &link->first;
    loop_change(watch, 0);
    wake_waiters(link);
}

static int connect_link(unsigned id)
{
    struct sockaddr_un address;
    char name[16];

    snprintf(name, sizeof(name), "node%u", id);
    socklen_t length = node_address(&address, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    /* A listener whose backlog is full refuses, as if the packets had been lost. */
    if (connect(fd, (struct sockaddr *)&address, length) || !node_peer_trusted(fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

struct link *node_link(unsigned id)
{
    if (id >= WIRE_NODES)
        return NULL;
    if (links[id])
        return links[id];
    struct link *link = calloc(1, sizeof(*link));
    int fd = link ? connect_link(id) : -1;
    if (fd < 0) {
        free(link);
        return NULL;
    }
    link->id = id;
    link->last = &link->first;
    list_init(&link->waiters);
    link->watch.fd = fd;
    link->watch.ready = flush_link;
    if (loop_watch(&link->watch, 0)) {
        close(fd);
        free(link);
        return NULL;
    }
    links[id] = link;
    return link;
}

void link_forget_all(void)
{
    for (unsigned i = 0; i < WIRE_NODES; i++) {
        if (links[i])
            close(links[i]->watch.fd);
        links[i] = NULL;
    }
}

bool link_ready(const struct link *link)
{
    return link->first == NULL;
}

void link_wait(struct link *link, struct link_waiter *waiter)
{
    if (waiter->link.next)
        list_detach(&waiter->link);
    list_attach(&waiter->link, &link->waiters);
}

static void keep(struct link *link, const struct iovec *pieces, int count, size_t size)
{
    struct kept *kept = malloc(sizeof(*kept) + size);
    char *to;

    if (!kept) {
        report_say("no memory for a packet of %zu bytes: it is lost", size);
        return;
    }
    kept->next = NULL;
    kept->size = size;
    to = kept->bytes;
    for (int i = 0; i < count; i++) {
        memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
        to += pieces[i].iov_len;
    }
    if (!link->first)
        loop_change(&link->watch, EPOLLOUT);
    *link->last = kept;
    link->last = &kept->next;
}

void link_send(struct link *link, struct wire_packet *packet, const struct iovec *pieces, int count)
{
    struct iovec all[PIECES + 1];
    struct msghdr message = {.msg_iov = all};
    size_t size = sizeof(*packet) + packet->length;

    wire_finish(packet);
    all[0].iov_base = packet;
    all[0].iov_len = sizeof(*packet);
    if (count)
        memcpy(all + 1, pieces, (size_t)count * sizeof(*pieces));
    message.msg_iovlen = (size_t)count + 1;
    if (!link->first) {
        if (sendmsg(link->watch.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return;
        /* The end of the connection is reported by the loop, not in the middle of a sender. */
        if (errno != EAGAIN && errno != ENOBUFS)
            return;
    }
    keep(link, all, count + 1, size);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "event.h"
#include "loop.h"

int event_queue_open(struct event_queue *queue)
{
    list_init(&queue->events);
    queue->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    return queue->fd < 0 ? errno : 0;
}

void event_queue_close(struct event_queue *queue)
{
    if (queue->fd >= 0)
        close(queue->fd);
    queue->fd = -1;
}

static void add_count(struct event_queue *queue)
{
    uint64_t one = 1;

    if (write(queue->fd, &one, sizeof(one)) < 0)
        return;
}

/* A read that does not wait, whatever the mode of the descriptor. */
static bool take_count(struct event_queue *queue)
{
    struct pollfd poller = {.fd = queue->fd, .events = POLLIN};
    uint64_t one;

    return poll(&poller, 1, 0) == 1 && read(queue->fd, &one, sizeof(one)) == sizeof(one);
}

void event_push(struct event_queue *queue, struct list *link)
{
    list_attach(link, &queue->events);
    add_count(queue);
}

void event_cancel(struct event_queue *queue, struct list *link)
{
    list_detach(link);
    take_count(queue);
}

static struct list *next_event(struct event_queue *queue)
{
    struct list *link = NULL;

    if (!list_empty(&queue->events) && take_count(queue)) {
        link = queue->events.next;
        list_detach(link);
    }
    return link;
}

struct list *event_take(struct event_queue *queue)
{
    for (;;) {
        loop_lock();
        struct list *link = next_event(queue);
        if (link)
            return link;
        loop_add_sleeper(1);
        int fd = queue->fd;
        loop_unlock();
        while (fd < 0)
            pause();
        int flags = fcntl(fd, F_GETFL);
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int rc = flags & O_NONBLOCK ? 0 : poll(&poller, 1, -1);
        int error = rc < 0 ? errno : EAGAIN;
        loop_lock();
        loop_add_sleeper(-1);
        loop_unlock();
        if (rc <= 0) {
            errno = error;
            return NULL;
        }
    }
}

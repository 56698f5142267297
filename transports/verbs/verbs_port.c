/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_port.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/progress/wake_timer.h"
#include "transports/verbs/verbs_ep.h"

/* An event queue's part of a device. */
struct verbs_watch {
    struct list eq_link, all_link;
    struct verbs_eq *eq;
    struct verbs_device *device;
    struct progress_source events; /* of the device */
    struct progress_source word;   /* of those that another event queue took: an eventfd */
    struct list eps;               /* struct verbs_ep. Progress domain of eq locked */
    unsigned seen;
    int64_t due; /* clock_ms: when connections of ports that are still down end; 0: never */
    struct wake_timer timer;
};

enum {
    DOWN_MS = 10000 /* about what a device takes to give a peer up (rdma_cm's timeout, 6 times) */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct list all = {&all, &all};

/* ---- An event ---- */

static void probe(struct verbs_ep *ep)
{
    if (atomic_load(&ep->state) != VERBS_CONNECTED)
        return;
    progress_lock(ep->base.binding.progress);
    verbs_post_probe(ep);
    progress_unlock(ep->base.binding.progress);
}

static bool is_down(const struct verbs_ep *ep)
{
    struct ibv_port_attr attr = {.state = IBV_PORT_ACTIVE};

    return atomic_load(&ep->state) == VERBS_CONNECTED && ep->id &&
           !verbs_lib.query_port(ep->domain->device->context, ep->id->port_num, &attr) &&
           attr.state != IBV_PORT_ACTIVE;
}

/* rdma_rxe tries for ever to send what its own interface does not take. */
static void give_up(struct verbs_watch *watch)
{
    if (clock_ms() < watch->due)
        return;
    watch->due = 0;
    wake_timer_clear(&watch->timer, watch->eq->progress, 0);
    list_for_each (item, &watch->eps) {
        struct verbs_ep *ep = list_item(item, struct verbs_ep, port_link);

        if (!is_down(ep))
            continue;
        LOG_WARN("verbs", FI_LOG_EP_CTRL, "port %d of %s stays down: its connections end",
                 ep->id->port_num, watch->device->name);
        progress_lock(ep->base.binding.progress);
        verbs_ep_end(ep);
        verbs_qp_fail(ep);
        progress_unlock(ep->base.binding.progress);
    }
}

static void look(struct verbs_watch *watch)
{
    unsigned downs = atomic_load(&watch->device->downs);

    if (__builtin_expect(watch->due != 0, 0))
        give_up(watch);
    if (__builtin_expect(watch->seen == downs, 1))
        return;
    watch->seen = downs;
    watch->due = clock_ms() + DOWN_MS;
    list_for_each (item, &watch->eps)
        probe(list_item(item, struct verbs_ep, port_link));
}

static void pass_on(const struct verbs_watch *watch)
{
    uint64_t one = 1;

    pthread_mutex_lock(&mutex);
    list_for_each (item, &all) {
        const struct verbs_watch *other = list_item(item, struct verbs_watch, all_link);

        if (other != watch && other->device == watch->device &&
            write(other->word.fd, &one, sizeof(one)) < 0)
            continue; /* it is full: it is known there */
    }
    pthread_mutex_unlock(&mutex);
}

static void take_events(struct verbs_watch *watch)
{
    struct ibv_async_event event;

    if (progress_forked(watch->eq->progress))
        return;
    while (!verbs_lib.get_async_event(watch->device->context, &event)) {
        enum ibv_event_type type = event.event_type;

        verbs_lib.ack_async_event(&event);
        if (type != IBV_EVENT_PORT_ERR)
            continue;
        atomic_fetch_add(&watch->device->downs, 1);
        pass_on(watch);
    }
    look(watch);
}

/* ---- The sources ---- */

static void poll_events(struct progress_source *source)
{
    take_events(object_of(source, struct verbs_watch, events));
}

static int trywait_events(struct progress_source *source)
{
    struct verbs_watch *watch = object_of(source, struct verbs_watch, events);

    take_events(watch);
    return watch->due && wake_timer_set(&watch->timer, watch->eq->progress, watch->due, clock_ms())
               ? -FI_EAGAIN
               : 0;
}

static void poll_word(struct progress_source *source)
{
    look(object_of(source, struct verbs_watch, word));
}

static int trywait_word(struct progress_source *source)
{
    uint64_t count;

    if (read(source->fd, &count, sizeof(count)) == sizeof(count))
        poll_word(source);
    return 0;
}

/* ---- Their life ---- */

static void destroy(struct verbs_watch *watch)
{
    if (watch->word.fd >= 0)
        close(watch->word.fd);
    free(watch);
}

/* eq's progress domain locked. */
static int attach(struct verbs_watch *watch)
{
    struct progress *progress = watch->eq->progress;
    int rc = progress_attach(progress, &watch->events);

    if (rc)
        return rc;
    rc = progress_attach(progress, &watch->word);
    if (rc) {
        progress_detach(progress, &watch->events);
        return rc;
    }
    list_attach(&watch->eq_link, &watch->eq->watches);
    pthread_mutex_lock(&mutex);
    list_attach(&watch->all_link, &all);
    pthread_mutex_unlock(&mutex);
    return 0;
}

static struct verbs_watch *create(struct verbs_eq *eq, struct verbs_device *device)
{
    struct verbs_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return NULL;
    watch->eq = eq;
    watch->device = device;
    watch->seen = atomic_load(&device->downs);
    list_init(&watch->eps);
    list_init(&watch->events.link);
    list_init(&watch->word.link);
    wake_timer_init(&watch->timer);
    watch->events.poll = poll_events;
    watch->events.trywait = trywait_events;
    watch->events.fd = device->context->async_fd;
    watch->word.poll = poll_word;
    watch->word.trywait = trywait_word;
    watch->word.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (watch->word.fd >= 0 && !attach(watch))
        return watch;
    destroy(watch);
    return NULL;
}

static struct verbs_watch *find(struct verbs_eq *eq, const struct verbs_device *device)
{
    list_for_each (item, &eq->watches) {
        struct verbs_watch *watch = list_item(item, struct verbs_watch, eq_link);

        if (watch->device == device)
            return watch;
    }
    return NULL;
}

int verbs_port_join(struct verbs_ep *ep)
{
    struct verbs_device *device = ep->domain->device;
    struct verbs_watch *watch;

    progress_lock(ep->eq->progress);
    watch = find(ep->eq, device);
    if (!watch)
        watch = create(ep->eq, device);
    if (watch)
        list_attach(&ep->port_link, &watch->eps);
    progress_unlock(ep->eq->progress);
    return watch ? 0 : -FI_ENOMEM;
}

void verbs_port_leave(struct verbs_ep *ep)
{
    list_detach(&ep->port_link);
}

void verbs_port_finish(struct verbs_eq *eq)
{
    list_for_each_safe (item, after, &eq->watches) {
        struct verbs_watch *watch = list_item(item, struct verbs_watch, eq_link);

        progress_lock(eq->progress);
        progress_detach(eq->progress, &watch->events);
        progress_detach(eq->progress, &watch->word);
        wake_timer_finish(&watch->timer, eq->progress);
        list_detach(&watch->eq_link);
        progress_unlock(eq->progress);
        pthread_mutex_lock(&mutex);
        list_detach(&watch->all_link);
        pthread_mutex_unlock(&mutex);
        destroy(watch);
    }
}

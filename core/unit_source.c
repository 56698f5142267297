/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources, and the epoll fds that watch them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/unit_impl.h"

/* A watch of the unit below, for each epoll fd that watches the source. */
struct unit_below {
    struct unit_watch watch;
    struct unit_below *next;
};

static int watch_below(struct unit_source *source, int epoll_fd)
{
    struct unit_below *down = calloc(1, sizeof(*down));
    int rc = down ? unit_watch(source->below, &down->watch, epoll_fd) : -FI_ENOMEM;

    if (rc) {
        free(down);
        return rc;
    }
    down->next = source->downs;
    source->downs = down;
    return 0;
}

/* epoll_fd -1: of all. */
static void unwatch_below(struct unit_source *source, int epoll_fd)
{
    struct unit_below **at = &source->downs;

    while (*at) {
        struct unit_below *down = *at;

        if (epoll_fd >= 0 && down->watch.epoll_fd != epoll_fd) {
            at = &down->next;
            continue;
        }
        *at = down->next;
        unit_unwatch(source->below, &down->watch);
        free(down);
    }
}

static int watch_source(const struct unit_watch *watch, struct unit_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = source->fd};
    int rc = source->below ? watch_below(source, watch->epoll_fd) : 0;

    if (rc || source->fd < 0)
        return rc;
    if (!epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, source->fd, &event))
        return 0;
    rc = -errno;
    unwatch_below(source, watch->epoll_fd);
    return rc;
}

static void unwatch_source(const struct unit_watch *watch, struct unit_source *source)
{
    unwatch_below(source, watch->epoll_fd);
    if (source->fd >= 0)
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}

static void unwatch_all(const struct unit_watch *watch, const struct list *sources,
                        const struct list *end)
{
    for (struct list *pos = sources->next; pos != end; pos = pos->next)
        unwatch_source(watch, list_item(pos, struct unit_source, link));
}

/* All or none. */
static int watch_all(const struct unit_watch *watch, const struct list *sources)
{
    list_for_each (pos, sources) {
        int rc = watch_source(watch, list_item(pos, struct unit_source, link));

        if (rc) {
            unwatch_all(watch, sources, pos);
            return rc;
        }
    }
    return 0;
}

/* Several of a unit's queues may be in one wait set: their watches have one epoll fd, and the first
 * of them acts for all. Looks at the watches before `end`. */
static bool watched_before(const struct list *watches, const struct list *end, int epoll_fd)
{
    for (const struct list *pos = watches->next; pos != end; pos = pos->next)
        if (list_item(pos, struct unit_watch, link)->epoll_fd == epoll_fd)
            return true;
    return false;
}

/* `there`: watches whose epoll fds hold the sources already; may be NULL. */
static bool acts(const struct list *watches, const struct list *pos, const struct list *there)
{
    int epoll_fd = list_item(pos, struct unit_watch, link)->epoll_fd;

    return !watched_before(watches, pos, epoll_fd) &&
           !(there && watched_before(there, there, epoll_fd));
}

static void uncross(const struct list *watches, const struct list *end, const struct list *sources,
                    const struct list *there)
{
    for (struct list *pos = watches->next; pos != end; pos = pos->next)
        if (acts(watches, pos, there))
            unwatch_all(list_item(pos, struct unit_watch, link), sources, sources);
}

int unit_cross(const struct list *watches, const struct list *sources, const struct list *there)
{
    list_for_each (pos, watches) {
        int rc = acts(watches, pos, there)
                     ? watch_all(list_item(pos, struct unit_watch, link), sources)
                     : 0;

        if (!rc)
            continue;
        uncross(watches, pos, sources, there);
        return rc;
    }
    return 0;
}

void unit_uncross(const struct list *watches, const struct list *sources, const struct list *there)
{
    uncross(watches, watches, sources, there);
}

static int add_watch_locked(struct unit_impl *impl, struct unit_watch *watch, int epoll_fd)
{
    bool there = watched_before(&impl->watches, &impl->watches, epoll_fd);
    int rc;

    watch->epoll_fd = epoll_fd;
    rc = there ? 0 : watch_all(watch, &impl->sources);
    if (!rc)
        list_attach(&watch->link, &impl->watches);
    return rc;
}

int unit_watch(struct unit *unit, struct unit_watch *watch, int epoll_fd)
{
    int rc;

    list_init(&watch->link);
    unit_lock(unit);
    rc = add_watch_locked(unit_root(unit)->impl, watch, epoll_fd);
    unit_unlock(unit);
    return rc;
}

int unit_watch_locked(struct unit *unit, struct unit_watch *watch, int epoll_fd)
{
    if (!watch->link.next)
        list_init(&watch->link);
    return list_empty(&watch->link) ? add_watch_locked(unit_root(unit)->impl, watch, epoll_fd) : 0;
}

void unit_unwatch(struct unit *unit, struct unit_watch *watch)
{
    if (!watch->link.next)
        return;
    unit_lock(unit);
    if (!list_empty(&watch->link)) {
        struct unit_impl *impl = unit_root(unit)->impl;

        list_detach(&watch->link);
        /* After fork the epoll instance is the parent's. */
        if (!unit_forked(unit) && !watched_before(&impl->watches, &impl->watches, watch->epoll_fd))
            unwatch_all(watch, &impl->sources, &impl->sources);
    }
    unit_unlock(unit);
}

int unit_own_fd_locked(struct unit *root)
{
    struct unit_impl *impl = root->impl;
    int fd, rc;

    if (impl->own.epoll_fd >= 0)
        return impl->own.epoll_fd;
    fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return -errno;
    rc = add_watch_locked(impl, &impl->own, fd);
    if (rc) {
        impl->own.epoll_fd = -1;
        close(fd);
        return rc;
    }
    return fd;
}

int unit_fd(struct unit *unit)
{
    int fd;

    unit_lock(unit);
    fd = unit_own_fd_locked(unit_root(unit));
    unit_unlock(unit);
    return fd;
}

int unit_attach(struct unit *unit, struct unit_source *source)
{
    struct unit *root = unit_root(unit);
    struct unit_impl *impl = root->impl;
    struct list one;
    int rc;

    list_init(&one);
    list_attach(&source->link, &one);
    rc = unit_cross(&impl->watches, &one, NULL);
    list_detach(&source->link);
    if (rc)
        return rc;
    list_attach(&source->link, &impl->sources);
    impl->blind += source->fd == -1;
    if (atomic_load_explicit(&impl->threaded, memory_order_relaxed))
        rc = unit_thread_start_locked(root);
    if (rc)
        unit_detach(unit, source);
    return rc;
}

void unit_detach(struct unit *unit, struct unit_source *source)
{
    struct unit_impl *impl = unit_root(unit)->impl;

    if (list_empty(&source->link))
        return;
    if (!unit_forked(unit)) {
        list_for_each (pos, &impl->watches)
            unwatch_source(list_item(pos, struct unit_watch, link), source);
    }
    unwatch_below(source, -1);
    if (impl->next == &source->link)
        impl->next = source->link.next;
    list_detach(&source->link);
    impl->blind -= source->fd == -1;
}

void unit_progress(struct unit *unit)
{
    struct unit_impl *impl = unit_root(unit)->impl;

    if (impl->driving)
        return;
    impl->driving = true;
    for (struct list *pos = impl->sources.next; pos != &impl->sources; pos = impl->next) {
        struct unit_source *source = list_item(pos, struct unit_source, link);

        impl->next = pos->next;
        source->progress(source);
    }
    impl->driving = false;
}

int unit_trywait(struct unit *unit)
{
    struct unit_impl *impl = unit_root(unit)->impl;

    list_for_each (pos, &impl->sources) {
        struct unit_source *source = list_item(pos, struct unit_source, link);

        if (source->trywait(source))
            return -FI_EAGAIN;
    }
    return 0;
}

int unit_sleep_ms(const struct unit *unit)
{
    return unit_root(unit)->impl->blind ? 1 : -1;
}

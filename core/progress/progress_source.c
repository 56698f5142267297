/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources, and the epoll fds that watch them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/fid.h"
#include "core/progress/progress_impl.h"

/* A watch of the progress domain below, for each epoll fd that watches the source. */
struct progress_below {
    struct progress_watch watch;
    const struct progress_watch *above;
    struct progress_below *next;
};

static bool rests_above(const struct progress_watch *watch)
{
    const struct progress_watch *above = object_of(watch, struct progress_below, watch)->above;

    return above->rests(above);
}

static int watch_below(struct progress_source *source, const struct progress_watch *above)
{
    struct progress_below *down = calloc(1, sizeof(*down));
    int rc = -FI_ENOMEM;

    if (down) {
        down->above = above;
        down->watch.rests = above->rests ? rests_above : NULL;
        rc = progress_watch(source->below, &down->watch, above->epoll_fd);
    }

    if (rc) {
        free(down);
        return rc;
    }
    down->next = source->downs;
    source->downs = down;
    return 0;
}

/* epoll_fd -1: of all. */
static void unwatch_below(struct progress_source *source, int epoll_fd)
{
    struct progress_below **at = &source->downs;

    while (*at) {
        struct progress_below *down = *at;

        if (epoll_fd >= 0 && down->watch.epoll_fd != epoll_fd) {
            at = &down->next;
            continue;
        }
        *at = down->next;
        progress_unwatch(source->below, &down->watch);
        free(down);
    }
}

static int watch_source(const struct progress_watch *watch, struct progress_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = source->fd};
    int rc = source->below ? watch_below(source, watch) : 0;

    if (rc || source->fd < 0)
        return rc;
    if (!epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, source->fd, &event))
        return 0;
    rc = -errno;
    unwatch_below(source, watch->epoll_fd);
    return rc;
}

static void unwatch_source(const struct progress_watch *watch, struct progress_source *source)
{
    unwatch_below(source, watch->epoll_fd);
    if (source->fd >= 0)
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}

static void unwatch_all(const struct progress_watch *watch, const struct list *sources,
                        const struct list *end)
{
    for (struct list *pos = sources->next; pos != end; pos = pos->next)
        unwatch_source(watch, list_item(pos, struct progress_source, link));
}

/* All or none. */
static int watch_all(const struct progress_watch *watch, const struct list *sources)
{
    list_for_each (pos, sources) {
        int rc = watch_source(watch, list_item(pos, struct progress_source, link));

        if (rc) {
            unwatch_all(watch, sources, pos);
            return rc;
        }
    }
    return 0;
}

/* Several of a progress domain's queues may be in one wait set: their watches have one epoll fd,
 * and the first of them acts for all. Looks at the watches before `end`. */
static bool watched_before(const struct list *watches, const struct list *end, int epoll_fd)
{
    for (const struct list *pos = watches->next; pos != end; pos = pos->next)
        if (list_item(pos, struct progress_watch, link)->epoll_fd == epoll_fd)
            return true;
    return false;
}

/* `there`: watches whose epoll fds hold the sources already; may be NULL. */
static bool acts(const struct list *watches, const struct list *pos, const struct list *there)
{
    int epoll_fd = list_item(pos, struct progress_watch, link)->epoll_fd;

    return !watched_before(watches, pos, epoll_fd) &&
           !(there && watched_before(there, there, epoll_fd));
}

static void uncross(const struct list *watches, const struct list *end, const struct list *sources,
                    const struct list *there)
{
    for (struct list *pos = watches->next; pos != end; pos = pos->next)
        if (acts(watches, pos, there))
            unwatch_all(list_item(pos, struct progress_watch, link), sources, sources);
}

int progress_cross(const struct list *watches, const struct list *sources, const struct list *there)
{
    list_for_each (pos, watches) {
        int rc = acts(watches, pos, there)
                     ? watch_all(list_item(pos, struct progress_watch, link), sources)
                     : 0;

        if (!rc)
            continue;
        uncross(watches, pos, sources, there);
        return rc;
    }
    return 0;
}

void progress_uncross(const struct list *watches, const struct list *sources,
                      const struct list *there)
{
    uncross(watches, watches, sources, there);
}

/* The source at pos, or NULL behind the last. */
static struct progress_source *source_at(const struct progress_impl *impl, struct list *pos)
{
    return pos == &impl->sources ? NULL : list_item(pos, struct progress_source, link);
}

static bool are_apart(const struct progress_source *a, const struct progress_source *b)
{
    return a->leaf || b->leaf || (a->reach && b->reach && a->reach != b->reach);
}

/* The sources that a reader drives past the list. */
static void note_pair(struct progress_impl *impl)
{
    struct list *at = impl->sources.next;
    struct progress_source *first = source_at(impl, at);
    struct progress_source *second = first ? source_at(impl, at->next) : NULL;
    bool more = second && at->next->next != &impl->sources;
    bool meet = second && !are_apart(first, second);

    impl->progress->sole = first && !second && first->leaf ? first : NULL;
    impl->progress->pair[0] = more || meet ? NULL : first;
    impl->progress->pair[1] = more || meet ? NULL : second;
}

void progress_note_change(struct progress_impl *impl)
{
    note_pair(impl);
    impl->progress->watched =
        !list_empty(&impl->watches) || atomic_load_explicit(&impl->threaded, memory_order_relaxed);
}

bool progress_rests(const struct progress *progress)
{
    const struct progress_impl *impl = progress_root(progress)->impl;

    if (atomic_load_explicit(&impl->threaded, memory_order_relaxed))
        return false;
    list_for_each (pos, &impl->watches) {
        const struct progress_watch *watch = list_item(pos, struct progress_watch, link);

        if (!watch->rests || !watch->rests(watch))
            return false;
    }
    return true;
}

static int add_watch_locked(struct progress_impl *impl, struct progress_watch *watch, int epoll_fd)
{
    bool there = watched_before(&impl->watches, &impl->watches, epoll_fd);
    int rc;

    watch->epoll_fd = epoll_fd;
    rc = there ? 0 : watch_all(watch, &impl->sources);
    if (!rc)
        list_attach(&watch->link, &impl->watches);
    progress_note_change(impl);
    return rc;
}

int progress_watch(struct progress *progress, struct progress_watch *watch, int epoll_fd)
{
    int rc;

    list_init(&watch->link);
    progress_lock(progress);
    rc = add_watch_locked(progress_root(progress)->impl, watch, epoll_fd);
    progress_unlock(progress);
    return rc;
}

bool progress_has_sleepers(const struct progress_impl *impl)
{
    list_for_each (pos, &impl->watches) {
        if (!list_item(pos, struct progress_watch, link)->guest)
            return true;
    }
    return false;
}

/* From now on the progress domain has a sleeper of its own. */
static void dismiss_guests(struct progress *progress)
{
    list_for_each_safe (pos, after, &progress_root(progress)->impl->watches) {
        struct progress_watch *watch = list_item(pos, struct progress_watch, link);

        if (watch->guest)
            progress_unwatch_locked(progress, watch);
    }
}

int progress_watch_locked(struct progress *progress, struct progress_watch *watch, int epoll_fd)
{
    int rc;

    if (!watch->link.next)
        list_init(&watch->link);
    if (!list_empty(&watch->link))
        return 0;
    rc = add_watch_locked(progress_root(progress)->impl, watch, epoll_fd);
    if (!rc && !watch->guest)
        dismiss_guests(progress);
    return rc;
}

void progress_unwatch_locked(struct progress *progress, struct progress_watch *watch)
{
    struct progress_impl *impl = progress_root(progress)->impl;

    if (!watch->link.next || list_empty(&watch->link))
        return;
    list_detach(&watch->link);
    progress_note_change(impl);
    /* After fork the epoll instance is the parent's. */
    if (!progress_forked(progress) &&
        !watched_before(&impl->watches, &impl->watches, watch->epoll_fd))
        unwatch_all(watch, &impl->sources, &impl->sources);
}

void progress_unwatch(struct progress *progress, struct progress_watch *watch)
{
    if (!watch->link.next)
        return;
    progress_lock(progress);
    progress_unwatch_locked(progress, watch);
    progress_unlock(progress);
}

int progress_own_fd_locked(struct progress *root)
{
    struct progress_impl *impl = root->impl;
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

int progress_attach(struct progress *progress, struct progress_source *source)
{
    struct progress *root = progress_root(progress);
    struct progress_impl *impl = root->impl;
    struct list one;
    int rc;

    list_init(&one);
    list_attach(&source->link, &one);
    rc = progress_cross(&impl->watches, &one, NULL);
    list_detach(&source->link);
    if (rc)
        return rc;
    list_attach(&source->link, &impl->sources);
    impl->blind += source->fd == -1;
    progress_note_change(impl);
    progress_group_update(impl);
    if (atomic_load_explicit(&impl->threaded, memory_order_relaxed))
        rc = progress_thread_start_locked(root, false);
    if (rc)
        progress_detach(progress, source);
    return rc;
}

void progress_detach(struct progress *progress, struct progress_source *source)
{
    struct progress_impl *impl = progress_root(progress)->impl;

    if (list_empty(&source->link))
        return;
    if (!progress_forked(progress)) {
        list_for_each (pos, &impl->watches)
            unwatch_source(list_item(pos, struct progress_watch, link), source);
    }
    unwatch_below(source, -1);
    if (impl->next == &source->link)
        impl->next = source->link.next;
    list_detach(&source->link);
    impl->blind -= source->fd == -1;
    progress_note_change(impl);
    progress_group_update(impl);
}

_Thread_local struct progress_round progress_own_round __attribute__((tls_model("initial-exec")));

void progress_new_round(void)
{
    progress_own_round.number++;
}

static inline void poll_sources(struct progress *root, struct progress_round *round)
{
    struct progress_impl *impl = root->impl;

    root->driving = true;
    round->depth++;
    for (struct list *pos = impl->sources.next; pos != &impl->sources; pos = impl->next) {
        struct progress_source *source = list_item(pos, struct progress_source, link);

        impl->next = pos->next;
        source->poll(source);
    }
    round->depth--;
    root->driving = false;
}

void progress_drive_root(struct progress *root)
{
    struct progress_round *round = &progress_own_round;

    if (__builtin_expect(root->driving, 0))
        return;
    if (!round->depth)
        round->number++;
    else if (root->round == round->number && root->round_of == round)
        return;
    root->round_of = round;
    root->round = round->number;
    if (root->sole)
        progress_drive_sole(root, root->sole);
    else
        poll_sources(root, round);
}

void progress_poll(struct progress *progress)
{
    struct progress *root = progress_root(progress);

    progress_note_reader(root);
    progress_drive_root(root);
}

void progress_drive(struct progress *progress)
{
    struct progress *root = progress_root(progress);

    atomic_store_explicit(&root->attended, true, memory_order_relaxed);
    progress_drive_root(root);
}

void progress_stand_in_drive(struct progress *progress)
{
    progress_drive_root(progress_root(progress));
}

int progress_trywait(struct progress *progress)
{
    struct progress_impl *impl = progress_root(progress)->impl;

    list_for_each (pos, &impl->sources) {
        struct progress_source *source = list_item(pos, struct progress_source, link);

        if (source->trywait(source))
            return -FI_EAGAIN;
    }
    return 0;
}

void progress_tell_sleepers(struct progress *progress)
{
    if (progress_rests(progress))
        return; /* stand-ins look soon */
    if (progress_trywait(progress))
        progress_thread_wake(progress_root(progress)->impl);
}

int progress_sleep_ms(const struct progress *progress)
{
    return progress_root(progress)->impl->blind ? 1 : -1;
}

int progress_reader_sleep_ms(struct progress *progress, bool watched)
{
    if (progress_has_thread(progress))
        return -1;
    if (progress_trywait(progress))
        return 0;
    return watched ? progress_sleep_ms(progress) : 1; /* neither a thread nor an fd wakes it */
}

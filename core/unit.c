/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Merging links the root of one unit below the root of the other and moves its sources there. Every
 * unit holds its root above, so a unit that somebody references keeps the whole path valid, and
 * unit_lock may walk it without a lock: a root, once found and locked, is checked once more.
 *
 * Locks, outermost first: merging (one merge at a time), a unit's mutex, units_mutex (the list of
 * locked units, for fork only; nothing is taken inside it but by the fork handler, with a
 * deadline).
 */
#include "core/unit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "core/log.h"

struct unit_impl {
    atomic_uint refs;
    unsigned rank; /* height of the tree below this root: linking by rank keeps paths short */
    unsigned forks;
    const char *part;
    struct list all; /* in units, when locked */
    struct list sources;
    struct list *next; /* of the progress loop: who leaves moves it on */
    size_t blind;      /* sources without an fd */
    struct list watches;
    struct unit_watch own; /* for unit_fd and the thread; epoll_fd -1 until then */
    atomic_bool threaded;
    bool running;
    atomic_bool stop;
    pthread_t thread;
    atomic_int wake_fd; /* eventfd of the thread, in own.epoll_fd */
};

static pthread_mutex_t merging = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t units_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list units = {&units, &units};
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

#define FORK_LOCK_NS 20000000L

static struct unit *unit_of(struct list *item);

/*
 * A thread that is in the middle of progress when the process forks would leave the child with a
 * lock that nobody releases and with half-changed lists. So fork waits for it, but not for ever:
 * the thread may itself want something that the forking thread holds. The child then gets new
 * locks.
 */
static bool lock_for_fork(struct unit *unit)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += FORK_LOCK_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    return pthread_mutex_timedlock(&unit->mutex, &until) == 0;
}

static struct list fork_locked = {&fork_locked, &fork_locked};

static void before_fork(void)
{
    pthread_mutex_lock(&units_mutex);
    list_for_each_safe (item, after, &units) {
        if (!lock_for_fork(unit_of(item)))
            continue;
        list_detach(item);
        list_attach(item, &fork_locked);
    }
}

static void after_fork(bool child)
{
    list_for_each (item, &units) {
        if (child)
            pthread_mutex_init(&unit_of(item)->mutex, NULL);
    }
    list_for_each_safe (item, after, &fork_locked) {
        pthread_mutex_unlock(&unit_of(item)->mutex);
        list_detach(item);
        list_attach(item, &units);
    }
    pthread_mutex_unlock(&units_mutex);
}

static void in_parent(void)
{
    after_fork(false);
}

static void in_child(void)
{
    pthread_mutex_init(&merging, NULL);
    after_fork(true);
}

static void on_fork(void)
{
    fork_watch();
    pthread_atfork(before_fork, in_parent, in_child);
}

/* unit and impl are one allocation. */
struct unit_block {
    struct unit unit;
    struct unit_impl impl;
};

static struct unit *unit_of(struct list *item)
{
    return &list_item(item, struct unit_block, impl.all)->unit;
}

static int create(const char *part, bool locked, bool threaded, struct unit **ret_unit)
{
    struct unit_block *block = calloc(1, sizeof(*block));
    struct unit_impl *impl;

    if (!block)
        return -FI_ENOMEM;
    pthread_once(&fork_once, on_fork);
    impl = &block->impl;
    block->unit.root = &block->unit;
    block->unit.locked = locked;
    block->unit.impl = impl;
    pthread_mutex_init(&block->unit.mutex, NULL);
    atomic_init(&impl->refs, 1);
    impl->forks = fork_generation;
    impl->part = part;
    list_init(&impl->all);
    list_init(&impl->sources);
    list_init(&impl->watches);
    list_init(&impl->own.link);
    impl->own.epoll_fd = -1;
    atomic_init(&impl->threaded, threaded);
    atomic_init(&impl->stop, false);
    atomic_init(&impl->wake_fd, -1);
    if (locked) {
        pthread_mutex_lock(&units_mutex);
        list_attach(&impl->all, &units);
        pthread_mutex_unlock(&units_mutex);
    }
    *ret_unit = &block->unit;
    return 0;
}

int unit_create(const struct fi_domain_attr *attr, const char *part, struct unit **unit)
{
    bool threaded = attr->data_progress == FI_PROGRESS_AUTO;
    bool serial = attr->threading == FI_THREAD_DOMAIN || attr->threading == FI_THREAD_COMPLETION;
    bool unified = attr->control_progress == FI_PROGRESS_CONTROL_UNIFIED ||
                   attr->progress == FI_PROGRESS_CONTROL_UNIFIED;

    return create(part, threaded || !serial || !unified, threaded, unit);
}

int unit_create_control(const char *part, struct unit **unit)
{
    return create(part, true, false, unit);
}

void unit_hold(struct unit *unit)
{
    atomic_fetch_add_explicit(&unit->impl->refs, 1, memory_order_relaxed);
}

bool unit_forked(const struct unit *unit)
{
    return unit->impl->forks != fork_generation;
}

bool unit_has_thread(const struct unit *unit)
{
    return atomic_load_explicit(&unit_root(unit)->impl->threaded, memory_order_relaxed);
}

bool unit_watched(const struct unit *unit)
{
    const struct unit_impl *impl = unit_root(unit)->impl;

    return !list_empty(&impl->watches) ||
           atomic_load_explicit(&impl->threaded, memory_order_relaxed);
}

bool unit_trylock(struct unit *unit)
{
    if (!unit->locked)
        return true;
    for (;;) {
        struct unit *root = unit_root(unit);

        if (pthread_mutex_trylock(&root->mutex))
            return false;
        if (__atomic_load_n(&root->root, __ATOMIC_RELAXED) == root)
            return true;
        pthread_mutex_unlock(&root->mutex);
    }
}

/* ---- Sources and the epoll fds that watch them ---- */

static int watch_source(const struct unit_watch *watch, const struct unit_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = source->fd};

    if (source->fd < 0)
        return 0;
    return epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) ? -errno : 0;
}

static void unwatch_source(const struct unit_watch *watch, const struct unit_source *source)
{
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

/* Every watch of `watches` gets every source of `sources`; all or none. */
static int cross(const struct list *watches, const struct list *sources)
{
    list_for_each (pos, watches) {
        int rc = watch_all(list_item(pos, struct unit_watch, link), sources);

        if (!rc)
            continue;
        for (struct list *done = watches->next; done != pos; done = done->next)
            unwatch_all(list_item(done, struct unit_watch, link), sources, sources);
        return rc;
    }
    return 0;
}

static int add_watch_locked(struct unit_impl *impl, struct unit_watch *watch, int epoll_fd)
{
    int rc;

    watch->epoll_fd = epoll_fd;
    rc = watch_all(watch, &impl->sources);
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

void unit_unwatch(struct unit *unit, struct unit_watch *watch)
{
    if (!watch->link.next)
        return;
    unit_lock(unit);
    /* After fork the epoll instance is the parent's. */
    if (!list_empty(&watch->link) && !unit_forked(unit)) {
        struct list *sources = &unit_root(unit)->impl->sources;

        unwatch_all(watch, sources, sources);
    }
    list_detach(&watch->link);
    unit_unlock(unit);
}

static int open_own_locked(struct unit *root)
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
    fd = open_own_locked(unit_root(unit));
    unit_unlock(unit);
    return fd;
}

static int start_thread_locked(struct unit *root);

int unit_attach(struct unit *unit, struct unit_source *source)
{
    struct unit *root = unit_root(unit);
    struct unit_impl *impl = root->impl;
    struct list one;
    int rc;

    list_init(&one);
    list_attach(&source->link, &one);
    rc = cross(&impl->watches, &one);
    list_detach(&source->link);
    if (rc)
        return rc;
    list_attach(&source->link, &impl->sources);
    impl->blind += source->fd < 0;
    if (atomic_load_explicit(&impl->threaded, memory_order_relaxed))
        rc = start_thread_locked(root);
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
    if (impl->next == &source->link)
        impl->next = source->link.next;
    list_detach(&source->link);
    impl->blind -= source->fd < 0;
}

void unit_progress(struct unit *unit)
{
    struct unit_impl *impl = unit_root(unit)->impl;

    for (struct list *pos = impl->sources.next; pos != &impl->sources; pos = impl->next) {
        struct unit_source *source = list_item(pos, struct unit_source, link);

        impl->next = pos->next;
        source->progress(source);
    }
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

/* ---- The thread ---- */

static void *run(void *arg)
{
    struct unit *unit = arg;
    struct unit_impl *impl = unit->impl;
    int wake_fd = atomic_load(&impl->wake_fd);
    struct epoll_event event;
    uint64_t count;

    for (;;) {
        int rc, sleep_ms;

        unit_lock(unit);
        if (atomic_load_explicit(&impl->stop, memory_order_relaxed)) {
            unit_unlock(unit);
            return NULL;
        }
        unit_progress(unit);
        rc = unit_trywait(unit);
        sleep_ms = unit_sleep_ms(unit);
        unit_unlock(unit);
        if (rc) {
            sched_yield();
            continue;
        }
        if (epoll_wait(impl->own.epoll_fd, &event, 1, sleep_ms) == 1 && event.data.fd == wake_fd &&
            read(wake_fd, &count, sizeof(count)) < 0)
            continue; /* somebody else drained it */
    }
}

static int create_thread(struct unit_impl *impl, struct unit *unit)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&impl->thread, NULL, run, unit);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return -rc;
    pthread_setname_np(impl->thread, "weft-progress");
    return 0;
}

static int start_thread_locked(struct unit *root)
{
    struct unit_impl *impl = root->impl;
    struct epoll_event event = {.events = EPOLLIN};
    int rc, epoll_fd, wake_fd;

    if (impl->running || unit_forked(root))
        return 0;
    epoll_fd = open_own_locked(root);
    if (epoll_fd < 0)
        return epoll_fd;
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return -errno;
    event.data.fd = wake_fd;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event)) {
        rc = -errno;
        goto close_wake;
    }
    atomic_store(&impl->wake_fd, wake_fd);
    rc = create_thread(impl, root);
    if (rc)
        goto forget_wake;
    impl->running = true;
    atomic_store(&impl->threaded, true);
    return 0;

forget_wake:
    atomic_store(&impl->wake_fd, -1);
close_wake:
    close(wake_fd);
    LOG_WARN(impl->part, FI_LOG_DOMAIN, ": cannot start the progress thread: %s", fi_strerror(-rc));
    return rc;
}

int unit_start_thread(struct unit *unit)
{
    int rc;

    unit_lock(unit);
    rc = start_thread_locked(unit_root(unit));
    unit_unlock(unit);
    return rc;
}

static void wake_thread(struct unit_impl *impl)
{
    static const uint64_t one = 1;
    int fd = atomic_load(&impl->wake_fd);

    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: readable already */
}

void unit_wake(struct unit *unit)
{
    if (!unit_forked(unit))
        wake_thread(unit_root(unit)->impl);
}

static void stop_thread(struct unit_impl *impl)
{
    if (!impl->running)
        return;
    atomic_store(&impl->stop, true);
    wake_thread(impl);
    pthread_join(impl->thread, NULL);
    impl->running = false;
}

/* ---- Merging, and the end ---- */

/* Both locked (or elided): b's sources and watches become a's, and b points to a. */
static int link_locked(struct unit *a, struct unit *b)
{
    int rc = cross(&a->impl->watches, &b->impl->sources);

    if (rc)
        return rc;
    rc = cross(&b->impl->watches, &a->impl->sources);
    if (rc) {
        list_for_each (pos, &a->impl->watches)
            unwatch_all(list_item(pos, struct unit_watch, link), &b->impl->sources,
                        &b->impl->sources);
        return rc;
    }
    list_join(&b->impl->sources, &a->impl->sources);
    list_join(&b->impl->watches, &a->impl->watches);
    a->impl->blind += b->impl->blind;
    b->impl->blind = 0;
    if (a->impl->rank == b->impl->rank)
        a->impl->rank++;
    if (atomic_load(&b->impl->threaded))
        atomic_store(&a->impl->threaded, true);
    unit_hold(a);
    __atomic_store_n(&b->root, a, __ATOMIC_RELEASE);
    return 0;
}

static int merge_roots(struct unit *a, struct unit *b)
{
    int rc;

    if (a->locked) {
        pthread_mutex_lock(&a->mutex);
        pthread_mutex_lock(&b->mutex);
    }
    rc = b->impl->running ? start_thread_locked(a) : 0;
    if (!rc)
        rc = link_locked(a, b);
    if (a->locked) {
        pthread_mutex_unlock(&b->mutex);
        pthread_mutex_unlock(&a->mutex);
    }
    return rc;
}

int unit_merge(struct unit *a, struct unit *b)
{
    bool linked = false;
    int rc = 0;

    if (a->locked != b->locked)
        return -FI_EINVAL;
    if (a->locked)
        pthread_mutex_lock(&merging);
    a = unit_root(a);
    b = unit_root(b);
    if (a->impl->rank < b->impl->rank) {
        struct unit *swap = a;

        a = b;
        b = swap;
    }
    if (a != b) {
        rc = merge_roots(a, b);
        linked = rc == 0;
    }
    if (a->locked)
        pthread_mutex_unlock(&merging);
    if (linked) {
        stop_thread(b->impl);
        wake_thread(a->impl);
    }
    return rc;
}

static void destroy(struct unit *unit)
{
    struct unit_impl *impl = unit->impl;
    bool forked = unit_forked(unit);

    if (forked)
        impl->running = false;
    stop_thread(impl);
    unit_unwatch(unit, &impl->own);
    if (impl->own.epoll_fd >= 0)
        close(impl->own.epoll_fd);
    if (atomic_load(&impl->wake_fd) >= 0)
        close(atomic_load(&impl->wake_fd));
    if (unit->locked) {
        pthread_mutex_lock(&units_mutex);
        list_detach(&impl->all);
        pthread_mutex_unlock(&units_mutex);
    }
    pthread_mutex_destroy(&unit->mutex);
    free(list_item(unit, struct unit_block, unit));
}

void unit_release(struct unit *unit)
{
    while (unit && atomic_fetch_sub_explicit(&unit->impl->refs, 1, memory_order_acq_rel) == 1) {
        struct unit *above = unit->root == unit ? NULL : unit->root;

        destroy(unit);
        unit = above;
    }
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Merging links the root of one progress domain below the root of the other and moves its sources
 * there. Every progress domain holds its root above, so a reference to any progress domain keeps
 * its whole path valid, and progress_lock may walk it without a lock, then locks the root and
 * checks that it still is the root.
 *
 * Locks, outermost first: progress_merging (one merge at a time), a progress domain's mutex, the
 * mutex of the list in progress_fork.c (nothing is taken inside it but by the fork handler, with a
 * deadline), and that of a group (progress_group.c).
 */
#include "core/progress/progress.h"

#include <stdlib.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/fid.h"
#include "core/base/fork.h"
#include "core/progress/progress_impl.h"

/* progress domain and impl are one allocation. */
struct progress_block {
    struct progress progress;
    struct progress_impl impl;
};

static bool stands_aside(const struct progress_watch *own)
{
    return atomic_load(&object_of(own, struct progress_impl, own)->aside);
}

static int create(const char *part, bool locked, bool threaded, struct progress_group *group,
                  struct progress **ret_progress)
{
    struct progress_block *block = calloc(1, sizeof(*block));
    struct progress_impl *impl;

    if (!block)
        return -FI_ENOMEM;
    progress_fork_watch();
    impl = &block->impl;
    block->progress.root = &block->progress;
    block->progress.locked = locked;
    block->progress.impl = impl;
    pthread_mutex_init(&block->progress.mutex, NULL);
    atomic_init(&impl->refs, 1);
    impl->progress = &block->progress;
    block->progress.forks = fork_generation;
    impl->part = part;
    list_init(&impl->all);
    list_init(&impl->sources);
    list_init(&impl->watches);
    list_init(&impl->own.link);
    impl->own.epoll_fd = -1;
    impl->own.rests = stands_aside;
    atomic_init(&impl->threaded, threaded);
    atomic_init(&impl->stop, false);
    atomic_init(&impl->aside, false);
    block->progress.watched = threaded;
    atomic_init(&impl->wake_fd, -1);
    if (locked)
        progress_fork_add(&block->progress);
    progress_group_join(group, threaded, &block->progress);
    *ret_progress = &block->progress;
    return 0;
}

/* With FI_THREAD_COMPLETION several threads may be in the domain, each of which drives the progress
 * domains of the others at times. */
int progress_create(const struct fi_domain_attr *attr, const char *part,
                    struct progress_group *group, struct progress **progress)
{
    bool threaded = attr->data_progress == FI_PROGRESS_AUTO;
    bool serial = attr->threading == FI_THREAD_DOMAIN;
    bool unified = attr->control_progress == FI_PROGRESS_CONTROL_UNIFIED ||
                   attr->progress == FI_PROGRESS_CONTROL_UNIFIED;

    return create(part, threaded || !serial || !unified, threaded, group, progress);
}

int progress_create_control(const char *part, struct progress **progress)
{
    return create(part, true, false, NULL, progress);
}

void progress_hold(struct progress *progress)
{
    atomic_fetch_add_explicit(&progress->impl->refs, 1, memory_order_relaxed);
}

bool progress_has_thread(const struct progress *progress)
{
    return atomic_load_explicit(&progress_root(progress)->impl->threaded, memory_order_relaxed);
}

/* Threads that wait for a lock, of whichever progress domain. */
static atomic_uint waiting;

_Thread_local unsigned progress_takes __attribute__((tls_model("initial-exec")));

bool progress_others_wait(void)
{
    return atomic_load_explicit(&waiting, memory_order_relaxed);
}

__attribute__((noinline, cold)) static void wait_for(pthread_mutex_t *mutex)
{
    atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
    pthread_mutex_lock(mutex);
    atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
}

static inline void take(pthread_mutex_t *mutex)
{
    if (__builtin_expect(pthread_mutex_trylock(mutex), 0))
        wait_for(mutex);
}

struct progress progress_none = {.root = &progress_none};

struct progress *progress_root_above(struct progress *progress)
{
    for (;;) {
        struct progress *above = __atomic_load_n(&progress->root, __ATOMIC_ACQUIRE);

        if (above == progress)
            return progress;
        progress = above;
    }
}

struct progress *progress_lock_root(struct progress *progress)
{
    for (;;) {
        struct progress *root = progress_root(progress);

        take(&root->mutex);
        if (__builtin_expect(__atomic_load_n(&root->root, __ATOMIC_RELAXED) == root, 1))
            return root;
        pthread_mutex_unlock(&root->mutex);
    }
}

struct progress *progress_enter_slow(struct progress *progress, struct progress *root)
{
    if (root)
        pthread_mutex_unlock(&root->mutex);
    return progress_lock_root(progress);
}

void progress_unlock_root(struct progress *progress)
{
    pthread_mutex_unlock(&progress_root(progress)->mutex);
}

bool progress_trylock(struct progress *progress)
{
    if (!progress->locked)
        return true;
    for (;;) {
        struct progress *root = progress_root(progress);

        if (pthread_mutex_trylock(&root->mutex))
            return false;
        if (__atomic_load_n(&root->root, __ATOMIC_RELAXED) == root)
            return true;
        pthread_mutex_unlock(&root->mutex);
    }
}

/* ---- Merging, and the end ---- */

/* Both locked (or elided): b's sources and watches become a's, and b points to a. */
static int link_locked(struct progress *a, struct progress *b)
{
    int rc = progress_cross(&a->impl->watches, &b->impl->sources, &b->impl->watches);

    if (rc)
        return rc;
    rc = progress_cross(&b->impl->watches, &a->impl->sources, &a->impl->watches);
    if (rc) {
        progress_uncross(&a->impl->watches, &b->impl->sources, &b->impl->watches);
        return rc;
    }
    list_join(&b->impl->sources, &a->impl->sources);
    list_join(&b->impl->watches, &a->impl->watches);
    progress_group_merged(a->impl, b->impl);
    a->impl->blind += b->impl->blind;
    b->impl->blind = 0;
    if (a->impl->rank == b->impl->rank)
        a->impl->rank++;
    if (atomic_load(&b->impl->threaded))
        atomic_store(&a->impl->threaded, true);
    progress_note_change(a->impl);
    progress_note_change(b->impl);
    progress_hold(a);
    __atomic_store_n(&b->root, a, __ATOMIC_RELEASE);
    return 0;
}

static int merge_roots(struct progress *a, struct progress *b)
{
    int rc;

    if (a->locked) {
        pthread_mutex_lock(&a->mutex);
        pthread_mutex_lock(&b->mutex);
    }
    rc = b->impl->running ? progress_thread_start_locked(a, !atomic_load(&b->impl->threaded)) : 0;
    if (!rc)
        rc = link_locked(a, b);
    if (a->locked) {
        pthread_mutex_unlock(&b->mutex);
        pthread_mutex_unlock(&a->mutex);
    }
    return rc;
}

int progress_merge(struct progress *a, struct progress *b)
{
    bool linked = false;
    int rc = 0;

    if (a->locked != b->locked)
        return -FI_EINVAL;
    if (a->locked)
        pthread_mutex_lock(&progress_merging);
    a = progress_root(a);
    b = progress_root(b);
    if (a->impl->rank < b->impl->rank) {
        struct progress *swap = a;

        a = b;
        b = swap;
    }
    if (a != b) {
        rc = merge_roots(a, b);
        linked = rc == 0;
    }
    if (a->locked)
        pthread_mutex_unlock(&progress_merging);
    if (linked) {
        progress_thread_stop(b->impl);
        progress_thread_wake(a->impl);
    }
    return rc;
}

static void destroy(struct progress *progress)
{
    struct progress_impl *impl = progress->impl;
    bool forked = progress_forked(progress);

    if (forked)
        impl->running = false;
    progress_thread_stop(impl);
    progress_unwatch(progress, &impl->own);
    if (impl->own.epoll_fd >= 0)
        close(impl->own.epoll_fd);
    if (atomic_load(&impl->wake_fd) >= 0)
        close(atomic_load(&impl->wake_fd));
    progress_group_leave(progress);
    if (progress->locked)
        progress_fork_remove(progress);
    pthread_mutex_destroy(&progress->mutex);
    free(list_item(progress, struct progress_block, progress));
}

void progress_release(struct progress *progress)
{
    while (progress &&
           atomic_fetch_sub_explicit(&progress->impl->refs, 1, memory_order_acq_rel) == 1) {
        struct progress *above = progress->root == progress ? NULL : progress->root;

        destroy(progress);
        progress = above;
    }
}

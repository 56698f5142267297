/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Merging links the root of one unit below the root of the other and moves its sources there. Every
 * unit holds its root above, so a unit that somebody references keeps the whole path valid, and
 * unit_lock may walk it without a lock: a root, once found and locked, is checked once more.
 *
 * Locks, outermost first: unit_merging (one merge at a time), a unit's mutex, the mutex of the list
 * in unit_fork.c (nothing is taken inside it but by the fork handler, with a deadline).
 */
#include "core/unit.h"

#include <stdlib.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "core/unit_impl.h"

/* unit and impl are one allocation. */
struct unit_block {
    struct unit unit;
    struct unit_impl impl;
};

static int create(const char *part, bool locked, bool threaded, struct unit **ret_unit)
{
    struct unit_block *block = calloc(1, sizeof(*block));
    struct unit_impl *impl;

    if (!block)
        return -FI_ENOMEM;
    unit_fork_watch();
    impl = &block->impl;
    block->unit.root = &block->unit;
    block->unit.locked = locked;
    block->unit.impl = impl;
    pthread_mutex_init(&block->unit.mutex, NULL);
    atomic_init(&impl->refs, 1);
    impl->unit = &block->unit;
    block->unit.forks = fork_generation;
    impl->part = part;
    list_init(&impl->all);
    list_init(&impl->sources);
    list_init(&impl->watches);
    list_init(&impl->own.link);
    impl->own.epoll_fd = -1;
    atomic_init(&impl->threaded, threaded);
    atomic_init(&impl->stop, false);
    atomic_init(&impl->wake_fd, -1);
    if (locked)
        unit_fork_add(&block->unit);
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

/* Threads that wait for a lock, of whichever unit. */
static atomic_uint waiting;

bool unit_others_wait(void)
{
    return atomic_load_explicit(&waiting, memory_order_relaxed);
}

static void take(pthread_mutex_t *mutex)
{
    if (__builtin_expect(!pthread_mutex_trylock(mutex), 1))
        return;
    atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
    pthread_mutex_lock(mutex);
    atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
}

void unit_lock_root(struct unit *unit)
{
    for (;;) {
        struct unit *root = unit_root(unit);

        take(&root->mutex);
        if (__atomic_load_n(&root->root, __ATOMIC_RELAXED) == root)
            return;
        pthread_mutex_unlock(&root->mutex);
    }
}

void unit_unlock_root(struct unit *unit)
{
    pthread_mutex_unlock(&unit_root(unit)->mutex);
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

/* ---- Merging, and the end ---- */

/* Both locked (or elided): b's sources and watches become a's, and b points to a. */
static int link_locked(struct unit *a, struct unit *b)
{
    int rc = unit_cross(&a->impl->watches, &b->impl->sources, &b->impl->watches);

    if (rc)
        return rc;
    rc = unit_cross(&b->impl->watches, &a->impl->sources, &a->impl->watches);
    if (rc) {
        unit_uncross(&a->impl->watches, &b->impl->sources, &b->impl->watches);
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
    rc = b->impl->running ? unit_thread_start_locked(a) : 0;
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
        pthread_mutex_lock(&unit_merging);
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
        pthread_mutex_unlock(&unit_merging);
    if (linked) {
        unit_thread_stop(b->impl);
        unit_thread_wake(a->impl);
    }
    return rc;
}

static void destroy(struct unit *unit)
{
    struct unit_impl *impl = unit->impl;
    bool forked = unit_forked(unit);

    if (forked)
        impl->running = false;
    unit_thread_stop(impl);
    unit_unwatch(unit, &impl->own);
    if (impl->own.epoll_fd >= 0)
        close(impl->own.epoll_fd);
    if (atomic_load(&impl->wake_fd) >= 0)
        close(atomic_load(&impl->wake_fd));
    if (unit->locked)
        unit_fork_remove(unit);
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

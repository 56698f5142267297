/* SPDX-License-Identifier: BSD-2-Clause */
/* Forks: progress domains in the child. */
#include <time.h>

#include "core/base/deadline.h"
#include "core/base/fork.h"
#include "core/progress/progress_impl.h"

pthread_mutex_t progress_merging = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t members_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list members = {&members, &members};

#define FORK_LOCK_NS 20000000L

static struct progress *progress_of(struct list *item)
{
    return list_item(item, struct progress_impl, all)->progress;
}

/*
 * A thread that makes progress while another one forks does not exist in the child, which would
 * inherit its lock, held for ever, and half-changed lists. So the fork handler waits for the lock,
 * but with a deadline: its owner may itself wait for a lock of the forking thread. The child then
 * gets new locks.
 */
static bool lock_for_fork(struct progress *progress)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until = deadline_after(until, FORK_LOCK_NS);
    return pthread_mutex_timedlock(&progress->mutex, &until) == 0;
}

static struct list fork_locked = {&fork_locked, &fork_locked};

static void before_fork(void)
{
    pthread_mutex_lock(&members_mutex);
    list_for_each_safe (item, after, &members) {
        if (!lock_for_fork(progress_of(item)))
            continue;
        list_detach(item);
        list_attach(item, &fork_locked);
    }
}

static void after_fork(bool child)
{
    list_for_each (item, &members) {
        if (child)
            pthread_mutex_init(&progress_of(item)->mutex, NULL);
    }
    list_for_each_safe (item, after, &fork_locked) {
        pthread_mutex_unlock(&progress_of(item)->mutex);
        list_detach(item);
        list_attach(item, &members);
    }
    pthread_mutex_unlock(&members_mutex);
}

static void in_parent(void)
{
    after_fork(false);
}

static void in_child(void)
{
    pthread_mutex_init(&progress_merging, NULL);
    after_fork(true);
}

static void on_fork(void)
{
    fork_watch();
    pthread_atfork(before_fork, in_parent, in_child);
}

void progress_fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, on_fork);
}

void progress_fork_add(struct progress *progress)
{
    pthread_mutex_lock(&members_mutex);
    list_attach(&progress->impl->all, &members);
    pthread_mutex_unlock(&members_mutex);
}

void progress_fork_remove(struct progress *progress)
{
    pthread_mutex_lock(&members_mutex);
    list_detach(&progress->impl->all);
    pthread_mutex_unlock(&members_mutex);
}

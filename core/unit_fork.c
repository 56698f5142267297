/* SPDX-License-Identifier: BSD-2-Clause */
/* Forks: what the child of a process with units gets. */
#include <time.h>

#include "core/fork.h"
#include "core/unit_impl.h"

pthread_mutex_t unit_merging = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t units_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list units = {&units, &units};

#define FORK_LOCK_NS 20000000L

static struct unit *unit_of(struct list *item)
{
    return list_item(item, struct unit_impl, all)->unit;
}

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
    pthread_mutex_init(&unit_merging, NULL);
    after_fork(true);
}

static void on_fork(void)
{
    fork_watch();
    pthread_atfork(before_fork, in_parent, in_child);
}

void unit_fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, on_fork);
}

void unit_fork_add(struct unit *unit)
{
    pthread_mutex_lock(&units_mutex);
    list_attach(&unit->impl->all, &units);
    pthread_mutex_unlock(&units_mutex);
}

void unit_fork_remove(struct unit *unit)
{
    pthread_mutex_lock(&units_mutex);
    list_detach(&unit->impl->all);
    pthread_mutex_unlock(&units_mutex);
}

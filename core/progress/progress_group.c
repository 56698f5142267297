/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress domains of a domain: a reader of a queue of one also drives the others, which may
 * have no reader (docs/decisions/progress.md).
 *
 * Progress domains with sources are in a list. A reader takes the first one whose own readers have
 * not driven it since it was last looked at, and moves what it passes to the end. So each progress
 * domain has its turn, one read costs one progress domain at most, and progress domains that have
 * readers are left alone.
 *
 * A sleeper looks at all of them. It watches the fds of a progress domain only while no reader of
 * that progress domain's own queues does: else each message would wake every sleeper of the domain.
 *
 * Locks: a group's mutex is taken inside of a progress domain's lock, never the other way round; a
 * reader has let its own progress domain go before it takes another one. Progress domains without a
 * lock belong to domains of FI_THREAD_DOMAIN, whose calls the application serialises.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/progress/progress_impl.h"

enum {
    LOOKS = 8,      /* progress domains passed in search for one without readers */
    SKIP = 31,      /* empty reads after a search in vain */
    RECHECK_MS = 10 /* of a sleeper, while a progress domain that it does not watch has readers */
};

struct progress_group {
    atomic_uint refs;
    unsigned forks;        /* fork_generation when it was made: a child does not share it */
    pthread_mutex_t mutex; /* of what follows */
    struct list home;      /* struct progress_impl, those with a thread too */
    unsigned long syncs;   /* that have begun */
    struct list all;       /* struct progress_impl */
    unsigned roots;        /* those that are none other's part */
    struct list members;   /* roots with sources */
    struct list sleepers;  /* struct progress_sleeper */
};

/* A sleeper's watch on a progress domain that is not its own. */
struct guest {
    struct list link;
    struct progress_watch watch;
    struct progress *progress; /* held */
};

/* ---- The group ---- */

int progress_group_create(struct progress_group **ret_group)
{
    struct progress_group *group = calloc(1, sizeof(*group));

    if (!group)
        return -FI_ENOMEM;
    fork_watch();
    group->forks = fork_generation;
    atomic_init(&group->refs, 1);
    pthread_mutex_init(&group->mutex, NULL);
    list_init(&group->home);
    list_init(&group->all);
    list_init(&group->members);
    list_init(&group->sleepers);
    *ret_group = group;
    return 0;
}

void progress_group_release(struct progress_group *group)
{
    if (!group || atomic_fetch_sub_explicit(&group->refs, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_destroy(&group->mutex);
    free(group);
}

/* In a forked child the mutex may be taken for ever, and the list be half changed. */
static bool lives(const struct progress_group *group)
{
    return group && group->forks == fork_generation;
}

/* Mutex taken. */
static void count_roots(struct progress_group *group, int more)
{
    bool before = group->roots > 1;

    group->roots += (unsigned)more;
    if (before == (group->roots > 1))
        return;
    list_for_each (pos, &group->all)
        atomic_store_explicit(&list_item(pos, struct progress_impl, in_group)->progress->others,
                              !before, memory_order_relaxed);
}

void progress_group_join(struct progress_group *group, bool threaded, struct progress *progress)
{
    struct progress_impl *impl = progress->impl;

    impl->home = group;
    impl->group = threaded ? NULL : group;
    list_init(&impl->at_home);
    list_init(&impl->in_group);
    list_init(&impl->drivable);
    impl->is_member = false;
    if (!group)
        return;
    atomic_fetch_add_explicit(&group->refs, 1, memory_order_relaxed);
    if (!lives(group))
        return;
    pthread_mutex_lock(&group->mutex);
    list_attach(&impl->at_home, &group->home);
    impl->synced = group->syncs;
    if (!threaded) {
        list_attach(&impl->in_group, &group->all);
        atomic_init(&progress->others, group->roots > 1);
        count_roots(group, 1);
    }
    pthread_mutex_unlock(&group->mutex);
}

static void wake_sleepers(struct progress_group *group)
{
    list_for_each (pos, &group->sleepers) {
        struct progress_sleeper *sleeper = list_item(pos, struct progress_sleeper, link);

        sleeper->wake(sleeper);
    }
}

void progress_group_update(struct progress_impl *impl)
{
    struct progress_group *group = impl->group;

    if (!lives(group) || impl->is_member != list_empty(&impl->sources))
        return;
    impl->is_member = !impl->is_member;
    pthread_mutex_lock(&group->mutex);
    if (!impl->is_member) {
        list_detach(&impl->drivable);
    } else {
        list_attach(&impl->drivable, &group->members);
        wake_sleepers(group);
    }
    pthread_mutex_unlock(&group->mutex);
}

void progress_group_merged(struct progress_impl *into, struct progress_impl *gone)
{
    if (!lives(gone->group))
        return;
    progress_group_update(gone);
    progress_group_update(into);
    pthread_mutex_lock(&gone->group->mutex);
    count_roots(gone->group, -1);
    pthread_mutex_unlock(&gone->group->mutex);
}

void progress_group_leave(struct progress *progress)
{
    struct progress_group *group = progress->impl->home;

    if (lives(group)) {
        pthread_mutex_lock(&group->mutex);
        list_detach(&progress->impl->at_home);
        list_detach(&progress->impl->drivable);
        list_detach(&progress->impl->in_group);
        if (progress->impl->group && progress->root == progress)
            count_roots(group, -1);
        pthread_mutex_unlock(&group->mutex);
    }
    progress_group_release(group);
}

/* ---- Waiting for all that are inside ---- */

/* False: it is being destroyed, and no thread has it locked. */
static bool hold_live(struct progress_impl *impl)
{
    unsigned refs = atomic_load_explicit(&impl->refs, memory_order_relaxed);

    while (refs)
        if (atomic_compare_exchange_weak_explicit(&impl->refs, &refs, refs + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    return false;
}

/* One that no sync of this number or a later one is past, held, or NULL. Mutex taken. */
static struct progress_impl *next_unsynced(struct progress_group *group, unsigned long number)
{
    list_for_each (pos, &group->home) {
        struct progress_impl *impl = list_item(pos, struct progress_impl, at_home);

        if (impl->synced < number && impl->progress->locked && hold_live(impl))
            return impl;
    }
    return NULL;
}

void progress_group_sync(struct progress_group *group)
{
    struct progress_impl *impl;
    unsigned long number;

    if (!lives(group))
        return;
    pthread_mutex_lock(&group->mutex);
    number = ++group->syncs;
    while ((impl = next_unsynced(group, number))) {
        pthread_mutex_unlock(&group->mutex);
        progress_lock(impl->progress);
        progress_unlock(impl->progress);
        pthread_mutex_lock(&group->mutex);
        if (impl->synced < number)
            impl->synced = number;
        pthread_mutex_unlock(&group->mutex);
        progress_release(impl->progress);
        pthread_mutex_lock(&group->mutex);
    }
    pthread_mutex_unlock(&group->mutex);
}

/* ---- Readers ---- */

/* Its readers have driven it since the last time that this was asked. */
static bool was_driven(struct progress_impl *impl)
{
    atomic_bool *driven = &impl->progress->driven;

    if (!atomic_load_explicit(driven, memory_order_relaxed))
        return false;
    atomic_store_explicit(driven, false, memory_order_relaxed);
    return true;
}

/* The next progress domain that its own readers leave alone, held; NULL: none, or another thread
 * searches. */
static struct progress *next_left_alone(struct progress_group *group,
                                        const struct progress_impl *own)
{
    struct progress_impl *first = NULL, *found = NULL;

    if (pthread_mutex_trylock(&group->mutex))
        return NULL;
    for (int i = 0; i < LOOKS && !found && !list_empty(&group->members); i++) {
        struct progress_impl *impl = list_item(group->members.next, struct progress_impl, drivable);

        if (impl == first)
            break;
        if (!first)
            first = impl;
        list_detach(&impl->drivable);
        list_attach(&impl->drivable, &group->members);
        if (impl != own && !was_driven(impl))
            found = impl;
    }
    if (found)
        progress_hold(found->progress);
    pthread_mutex_unlock(&group->mutex);
    return found ? found->progress : NULL;
}

/* Counts down; true at 0. Threads may lose a step of each other. */
static bool due(atomic_uint *left)
{
    unsigned now = atomic_load_explicit(left, memory_order_relaxed);

    if (now)
        atomic_store_explicit(left, now - 1, memory_order_relaxed);
    return !now;
}

void progress_drive_others(struct progress *progress, bool full)
{
    struct progress_impl *own = progress_root(progress)->impl;
    struct progress *other;

    if (!lives(own->group) || (!full && !due(&own->skip)))
        return;
    other = next_left_alone(own->group, own);
    if (!other) {
        atomic_store_explicit(&own->skip, SKIP, memory_order_relaxed);
        return;
    }
    if (progress_trylock(other)) {
        progress_drive(other);
        progress_unlock(other);
    }
    progress_release(other);
}

/* ---- Sleepers ---- */

void progress_sleeper_join(struct progress *progress, struct progress_sleeper *sleeper,
                           void (*wake)(struct progress_sleeper *sleeper))
{
    struct progress_group *group = progress->impl->group;

    sleeper->wake = wake;
    list_init(&sleeper->link);
    list_init(&sleeper->guests);
    if (!lives(group))
        return;
    pthread_mutex_lock(&group->mutex);
    list_attach(&sleeper->link, &group->sleepers);
    pthread_mutex_unlock(&group->mutex);
}

void progress_sleeper_leave(struct progress *progress, struct progress_sleeper *sleeper)
{
    struct progress_group *group = progress->impl->group;

    if (lives(group)) {
        pthread_mutex_lock(&group->mutex);
        list_detach(&sleeper->link);
        pthread_mutex_unlock(&group->mutex);
    }
    list_for_each_safe (pos, after, &sleeper->guests) {
        struct guest *guest = list_item(pos, struct guest, link);

        progress_unwatch(guest->progress, &guest->watch);
        progress_release(guest->progress);
        free(guest);
    }
}

/* The sleeper's watch on a progress domain that is locked; made if `make` and there is none, NULL
 * without. */
static struct guest *guest_of(struct progress_sleeper *sleeper, struct progress *progress,
                              bool make)
{
    struct progress_group *group = progress->impl->group;
    struct guest *found = NULL;

    pthread_mutex_lock(&group->mutex);
    list_for_each (pos, &sleeper->guests) {
        struct guest *guest = list_item(pos, struct guest, link);

        if (progress_root(guest->progress) == progress_root(progress))
            found = guest;
    }
    if (!found && make && (found = calloc(1, sizeof(*found)))) {
        progress_hold(progress);
        found->progress = progress;
        found->watch.guest = true;
        list_attach(&found->link, &sleeper->guests);
    }
    pthread_mutex_unlock(&group->mutex);
    return found;
}

/* progress_sleeper_look for one progress domain. Locked. */
static int look_at(struct progress_sleeper *sleeper, struct progress *progress, int epoll_fd,
                   bool bounded)
{
    struct progress_impl *impl = progress_root(progress)->impl;
    bool driven = was_driven(impl);
    struct guest *guest = guest_of(sleeper, progress, epoll_fd >= 0 && !(driven && bounded));

    progress_drive(progress);
    if (progress_has_sleepers(impl))
        return -1;
    if (driven && bounded) {
        if (guest)
            progress_unwatch_locked(progress, &guest->watch);
        return RECHECK_MS;
    }
    if (epoll_fd < 0 || !guest || progress_watch_locked(progress, &guest->watch, epoll_fd))
        return 1;
    return progress_trywait(progress) ? 0 : progress_sleep_ms(progress);
}

/* All progress domains of the group, held; NULL without memory, or when there is none. */
static struct progress **all_of(struct progress_group *group, size_t *ret_count)
{
    struct progress **members;
    size_t count = 0;

    pthread_mutex_lock(&group->mutex);
    list_for_each (pos, &group->members)
        count++;
    members = malloc((count + 1) * sizeof(struct progress *));
    count = 0;
    list_for_each (pos, &group->members) {
        if (members)
            members[count++] = list_item(pos, struct progress_impl, drivable)->progress;
    }
    for (size_t i = 0; i < count; i++)
        progress_hold(members[i]);
    pthread_mutex_unlock(&group->mutex);
    *ret_count = count;
    return members;
}

int progress_sleeper_look(struct progress *progress, struct progress_sleeper *sleeper, int epoll_fd,
                          bool bounded)
{
    struct progress_group *group = progress->impl->group;
    struct progress **members;
    size_t count;
    int sleep_ms = -1;

    if (!lives(group))
        return -1;
    members = all_of(group, &count);
    if (!members)
        return 1;
    for (size_t i = 0; i < count; i++) {
        if (progress_root(members[i]) != progress_root(progress)) {
            progress_lock(members[i]);
            sleep_ms = clock_shorter(sleep_ms, look_at(sleeper, members[i], epoll_fd, bounded));
            progress_unlock(members[i]);
        }
        progress_release(members[i]);
    }
    free(members);
    return sleep_ms;
}

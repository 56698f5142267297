/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/av/av_watch.h"

#include <string.h>

void av_watch_init(struct av_watch *watch)
{
    pthread_mutex_init(&watch->mutex, NULL);
}

void av_watch_finish(struct av_watch *watch)
{
    pthread_mutex_destroy(&watch->mutex);
}

static void inserted(struct av_listener *listener, fi_addr_t addr)
{
    struct av_watch *watch = object_of(listener, struct av_watch, listener);

    pthread_mutex_lock(&watch->mutex);
    watch->changes.inserted = true;
    atomic_store(&watch->any, true);
    pthread_mutex_unlock(&watch->mutex);
    progress_wake(listener->progress);
}

static void removed(struct av_listener *listener, fi_addr_t addr)
{
    struct av_watch *watch = object_of(listener, struct av_watch, listener);
    struct av_changes *changes = &watch->changes;

    pthread_mutex_lock(&watch->mutex);
    if (changes->removed_count++ < AV_WATCH_REMOVED)
        changes->removed[changes->removed_count - 1] = addr;
    atomic_store(&watch->any, true);
    pthread_mutex_unlock(&watch->mutex);
    progress_wake(listener->progress);
}

void av_watch_attach(struct av_watch *watch, struct av *av, struct progress *progress)
{
    watch->listener.inserted = inserted;
    watch->listener.removed = removed;
    watch->listener.progress = progress;
    av_attach(av, &watch->listener);
}

void av_watch_detach(struct av_watch *watch)
{
    if (watch->listener.av)
        av_detach(watch->listener.av, &watch->listener);
}

void av_watch_take(struct av_watch *watch, struct av_changes *changes)
{
    pthread_mutex_lock(&watch->mutex);
    atomic_store(&watch->any, false);
    *changes = watch->changes;
    memset(&watch->changes, 0, sizeof(watch->changes));
    pthread_mutex_unlock(&watch->mutex);
}

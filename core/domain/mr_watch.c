/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A watch is told outside of the mutex, which may be taken with a progress domain locked, so a
 * teller holds it: its owner may close it meanwhile. `watched` goes up before `closed` is read, and
 * is read after `closed` was set, so that regions without a watch pay for no mutex.
 */
#include "core/domain/mr_watch.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/progress/progress.h"

struct mr_watch {
    struct list link;
    struct mr *mr;
    struct progress *progress; /* held */
    void (*closed)(void *arg);
    void *arg;
    bool over;     /* its owner has closed it; progress domain locked */
    unsigned refs; /* its owner, a teller; the mutex */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void put(struct mr_watch *watch)
{
    bool last;

    pthread_mutex_lock(&mutex);
    last = !--watch->refs;
    pthread_mutex_unlock(&mutex);
    if (!last)
        return;
    progress_release(watch->progress);
    free(watch);
}

/* False: the region is closed. */
static bool enter(struct mr_watch *watch)
{
    struct mr *mr = watch->mr;
    bool closed;

    pthread_mutex_lock(&mutex);
    atomic_fetch_add(&mr->watched, 1);
    closed = atomic_load(&mr->closed);
    if (closed)
        atomic_fetch_sub(&mr->watched, 1);
    else
        list_attach(&watch->link, &mr->watches);
    pthread_mutex_unlock(&mutex);
    return !closed;
}

struct mr_watch *mr_watch_open(struct mr *mr, struct progress *progress, void (*closed)(void *arg),
                               void *arg)
{
    struct mr_watch *watch = malloc(sizeof(*watch));

    if (!watch)
        return NULL;
    *watch =
        (struct mr_watch){.mr = mr, .progress = progress, .closed = closed, .arg = arg, .refs = 1};
    list_init(&watch->link);
    if (!enter(watch)) {
        free(watch);
        return NULL;
    }
    progress_hold(progress);
    return watch;
}

static void leave_locked(struct mr_watch *watch)
{
    if (list_empty(&watch->link))
        return;
    list_detach(&watch->link);
    atomic_fetch_sub(&watch->mr->watched, 1);
}

void mr_watch_close(struct mr_watch *watch)
{
    if (!watch)
        return;
    watch->over = true;
    pthread_mutex_lock(&mutex);
    leave_locked(watch);
    pthread_mutex_unlock(&mutex);
    put(watch);
}

static struct mr_watch *next_of(struct mr *mr)
{
    struct mr_watch *watch = NULL;

    pthread_mutex_lock(&mutex);
    if (!list_empty(&mr->watches)) {
        watch = list_item(mr->watches.next, struct mr_watch, link);
        leave_locked(watch);
        watch->refs++;
    }
    pthread_mutex_unlock(&mutex);
    return watch;
}

void mr_watches_tell(struct mr *mr)
{
    struct mr_watch *watch;

    while (atomic_load(&mr->watched) && (watch = next_of(mr))) {
        progress_lock(watch->progress);
        if (!watch->over)
            watch->closed(watch->arg);
        progress_unlock(watch->progress);
        put(watch);
    }
}

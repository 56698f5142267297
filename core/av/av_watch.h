/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of an address vector, noted for an endpoint until its progress takes them in. A listener
 * of the AV may not take the progress domain's lock, inside of which the endpoint asks the
 * AV; so it leaves a note here and wakes the progress domain. Locks, outermost first: the AV's,
 * then the watch's; and the progress domain's, then either.
 */
#ifndef WEFT_CORE_AV_AV_WATCH_H
#define WEFT_CORE_AV_AV_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/av/av.h"

enum {
    AV_WATCH_REMOVED = 32 /* most removals that are remembered one by one */
};

/* The changes since the last look. */
struct av_changes {
    bool inserted;        /* addresses that were unknown may be found now */
    size_t removed_count; /* above AV_WATCH_REMOVED: any address may be gone or another's */
    fi_addr_t removed[AV_WATCH_REMOVED];
};

struct av_watch {
    struct av_listener listener;
    atomic_bool any;           /* there are changes; before a sleep read it with atomic_load */
    pthread_mutex_t mutex;     /* of changes; a leaf */
    struct av_changes changes; /* not taken yet */
};

/* Of zeroed memory. */
void av_watch_init(struct av_watch *watch);
/* Not attached any more. */
void av_watch_finish(struct av_watch *watch);

/* Notes changes from now on, and wakes progress for each. Progress domain unlocked. */
void av_watch_attach(struct av_watch *watch, struct av *av, struct progress *progress);
/* Also one that was never attached. Progress domain unlocked. */
void av_watch_detach(struct av_watch *watch);

/* Is there anything to take in? One relaxed load, for the data path. */
static inline bool av_watch_any(const struct av_watch *watch)
{
    return atomic_load_explicit(&watch->any, memory_order_relaxed);
}

/* Moves the changes noted so far to *changes; later ones are noted again. */
void av_watch_take(struct av_watch *watch, struct av_changes *changes);

#endif

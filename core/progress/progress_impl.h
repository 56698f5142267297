/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of core/progress only. */
#ifndef WEFT_CORE_PROGRESS_PROGRESS_IMPL_H
#define WEFT_CORE_PROGRESS_PROGRESS_IMPL_H

#include <stdatomic.h>

#include "core/progress/progress.h"

struct progress_impl {
    struct progress *progress; /* whose it is */
    atomic_uint refs;
    unsigned rank; /* height of the tree below this root: linking by rank keeps paths short */
    const char *part;
    struct list all; /* in progress domains, when locked */
    struct list sources;
    struct list *next; /* of the progress loop: a source that leaves moves it on */
    size_t blind;      /* sources without an fd */
    struct list watches;
    struct progress_watch own; /* for the thread; epoll_fd -1 until then */
    atomic_bool threaded;      /* readers leave the driving to the thread */
    bool running;              /* there is a thread; without `threaded` it stands in */
    atomic_bool stop;
    atomic_bool aside; /* the thread drives nothing: readers do */
    pthread_t thread;
    atomic_int wake_fd;           /* eventfd of the thread, in own.epoll_fd */
    struct progress_group *home;  /* held; NULL: a fabric's */
    struct list at_home;          /* all of them */
    unsigned long synced;         /* the latest progress_group_sync that is past it */
    struct progress_group *group; /* held; NULL: none, or there is a thread */
    struct list in_group;         /* all of them */
    struct list drivable;         /* of the group; others turn it round with its mutex held */
    bool is_member;               /* drivable is in the list: a root with sources */
    atomic_uint skip;             /* empty reads until the next search for one to drive */
};

/* ---- progress_group.c ---- */

/* A new progress domain; group may be NULL. Its readers and others drive each other where no thread
 * drives. */
void progress_group_join(struct progress_group *group, bool threaded, struct progress *progress);
/* It has got its first source, or lost its last. Locked. */
void progress_group_update(struct progress_impl *impl);
/* `gone` has become a part of `into`, which has its sources. Both locked. */
void progress_group_merged(struct progress_impl *into, struct progress_impl *gone);
/* It is destroyed. */
void progress_group_leave(struct progress *progress);

/* ---- progress_fork.c: the list of progress domains that have a lock ---- */

/* From now on forks are seen. Any thread, any number of times. */
void progress_fork_watch(void);
void progress_fork_add(struct progress *progress);
void progress_fork_remove(struct progress *progress);
/* Taken by one merge at a time; a forked child gets a new one. */
extern pthread_mutex_t progress_merging;

/* ---- progress_source.c ---- */

/* Every watch of `watches` gets every source of `sources`; all or none. Not those with the epoll fd
 * of a watch of `there` (NULL: none), which holds the sources already. */
int progress_cross(const struct list *watches, const struct list *sources,
                   const struct list *there);
void progress_uncross(const struct list *watches, const struct list *sources,
                      const struct list *there);
/* A reader of one of its own queues may sleep on it. Locked. */
bool progress_has_sleepers(const struct progress_impl *impl);
void progress_unwatch_locked(struct progress *progress, struct progress_watch *watch);
/* After a change of its sources, watches or thread: `sole` and `watched` of the root. Locked. */
void progress_note_change(struct progress_impl *impl);
/* progress_poll, but not for a reader of its own. */
void progress_drive(struct progress *progress);
/* The same for the thread that stands in for readers. */
void progress_stand_in_drive(struct progress *progress);
/* The root's own epoll fd, made if need be; negative error. */
int progress_own_fd_locked(struct progress *root);

/* ---- progress_thread.c ---- */

/* stands_in: it drives while no reader does; else readers leave that to it. */
int progress_thread_start_locked(struct progress *root, bool stands_in);
void progress_thread_wake(struct progress_impl *impl);
/* Unlocked, and not from the thread itself. */
void progress_thread_stop(struct progress_impl *impl);

#endif

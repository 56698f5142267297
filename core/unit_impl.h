/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the room `unit` share. Nobody else includes this. */
#ifndef WEFT_CORE_UNIT_IMPL_H
#define WEFT_CORE_UNIT_IMPL_H

#include <stdatomic.h>

#include "core/unit.h"

struct unit_impl {
    struct unit *unit; /* whose it is */
    atomic_uint refs;
    unsigned rank; /* height of the tree below this root: linking by rank keeps paths short */
    const char *part;
    struct list all; /* in units, when locked */
    struct list sources;
    struct list *next; /* of the progress loop: who leaves moves it on */
    bool driving;      /* in that loop: what it calls out to does not drive again */
    size_t blind;      /* sources without an fd */
    struct list watches;
    struct unit_watch own; /* for unit_fd and the thread; epoll_fd -1 until then */
    atomic_bool threaded;
    bool running;
    atomic_bool stop;
    pthread_t thread;
    atomic_int wake_fd; /* eventfd of the thread, in own.epoll_fd */
};

/* ---- unit_fork.c: the list of units that have a lock ---- */

/* From now on forks are seen. Any thread, any number of times. */
void unit_fork_watch(void);
void unit_fork_add(struct unit *unit);
void unit_fork_remove(struct unit *unit);
/* Taken by one merge at a time; a forked child gets a new one. */
extern pthread_mutex_t unit_merging;

/* ---- unit_source.c ---- */

/* Every watch of `watches` gets every source of `sources`; all or none. Not those with the epoll fd
 * of a watch of `there` (NULL: none), which holds the sources already. */
int unit_cross(const struct list *watches, const struct list *sources, const struct list *there);
void unit_uncross(const struct list *watches, const struct list *sources, const struct list *there);
/* The root's own epoll fd, made if need be; negative error. */
int unit_own_fd_locked(struct unit *root);

/* ---- unit_thread.c ---- */

int unit_thread_start_locked(struct unit *root);
void unit_thread_wake(struct unit_impl *impl);
/* Unlocked, and not from the thread itself. */
void unit_thread_stop(struct unit_impl *impl);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress units: the endpoints that share a completion queue or counter, with their one lock and,
 * for FI_PROGRESS_AUTO, their one thread (architecture, section 6). Each CQ and counter is opened
 * with a unit of its own; binding an endpoint to several merges them. A fabric (EQ, passive
 * endpoints) has a unit of its own, which is locked before any domain unit.
 *
 * The lock is elided for FI_THREAD_DOMAIN and FI_THREAD_COMPLETION with FI_PROGRESS_CONTROL_UNIFIED
 * and no thread, which is how every lower is opened.
 */
#ifndef WEFT_CORE_UNIT_H
#define WEFT_CORE_UNIT_H

#include <pthread.h>
#include <stdbool.h>

#include <rdma/fabric.h>

#include "core/fork.h"
#include "core/list.h"

struct unit_below;

/* Something that a unit drives. Embedded in its owner, zeroed, who fills the function fields and
 * fd.
 */
struct unit_source {
    struct list link;
    /* Makes what progress can be made without blocking. Unit locked. May detach any source. */
    void (*progress)(struct unit_source *source);
    /* 0 when it is safe to sleep on fd; -FI_EAGAIN when progress has work now. Unit locked. */
    int (*trywait)(struct unit_source *source);
    /* Readable when progress has work; a different one for each source, the same as long as it is
     * attached. -1: none, a waiting caller polls every millisecond. UNIT_NO_FD: none, and nobody
     * waits for what it does. */
    int fd;
    /* A lower's unit without a lock of its own, whose sources show work too, or NULL: their fds are
     * watched where fd is, so that a stack of layers is no chain of epoll fds, of which the kernel
     * allows five. Outlives the source. */
    struct unit *below;
    struct unit_below *downs; /* the watches there */
};

enum {
    UNIT_NO_FD = -2
};

/* An epoll fd outside of the unit that also holds the fds of all sources. */
struct unit_watch {
    struct list link;
    int epoll_fd;
};

struct unit_impl;

struct unit {
    struct unit *root; /* itself, or the unit that it was merged into */
    bool locked;       /* false: the lock is elided */
    unsigned forks;    /* fork_generation when it was made */
    pthread_mutex_t mutex;
    struct unit_impl *impl; /* sources, watches, thread; those of the root count */
};

/* info->domain_attr decides lock and thread. References: unit_hold, unit_release; starts with one.
 */
int unit_create(const struct fi_domain_attr *attr, const char *part, struct unit **unit);
/* For fabrics: always locked, no thread until unit_start_thread. */
int unit_create_control(const char *part, struct unit **unit);
void unit_hold(struct unit *unit);
/* The last release stops the thread and frees. Unit unlocked. */
void unit_release(struct unit *unit);

/* From now on both have one lock, one set of sources, one thread. Both unlocked. -FI_EINVAL when
 * only one of them has a lock; -FI_ENOMEM. */
int unit_merge(struct unit *a, struct unit *b);

/* Starts the progress thread if it is not running (control progress AUTO for a fabric's unit). The
 * thread blocks all signals. Unlocked. Units with FI_PROGRESS_AUTO start theirs at the first
 * source. */
int unit_start_thread(struct unit *unit);
/* There is a thread, or there will be one as soon as there is a source. */
bool unit_has_thread(const struct unit *unit);

static inline struct unit *unit_root(const struct unit *unit)
{
    struct unit *root = __atomic_load_n(&unit->root, __ATOMIC_ACQUIRE);

    for (;;) {
        struct unit *above = __atomic_load_n(&root->root, __ATOMIC_ACQUIRE);

        if (above == root)
            return root;
        root = above;
    }
}

/* The parts of unit_lock and unit_unlock where the lock is not elided. */
void unit_lock_root(struct unit *unit);
void unit_unlock_root(struct unit *unit);

/* Not recursive. The root cannot change while locked. */
static inline void unit_lock(struct unit *unit)
{
    if (unit->locked)
        unit_lock_root(unit);
}

/* False, and nothing locked, when somebody else has the lock. */
bool unit_trylock(struct unit *unit);
/* A thread of the process waits for a lock, of this unit or another: who may hold one, of a layer
 * above, does not give the core away. */
bool unit_others_wait(void);

static inline void unit_unlock(struct unit *unit)
{
    if (unit->locked)
        unit_unlock_root(unit);
}

/* Sources join and leave with the unit locked. source->link must be initialised. */
int unit_attach(struct unit *unit, struct unit_source *source);
void unit_detach(struct unit *unit, struct unit_source *source);

/* The fds of all sources, those to come included, are added to epoll_fd until unit_unwatch: what
 * unit_fd does with one level of epoll less (the kernel allows five). Several watches may have one
 * epoll_fd. Unit unlocked. */
int unit_watch(struct unit *unit, struct unit_watch *watch, int epoll_fd);
/* The same with the unit locked, for who is about to sleep: a zeroed watch joins once. */
int unit_watch_locked(struct unit *unit, struct unit_watch *watch, int epoll_fd);
void unit_unwatch(struct unit *unit, struct unit_watch *watch); /* also for one never watched */

/* Drives all sources once; does nothing when called from inside itself. Unit locked. */
void unit_progress(struct unit *unit);
/* 0 when every source may sleep, else -FI_EAGAIN. Unit locked. */
int unit_trywait(struct unit *unit);
/* The longest sleep that the sources allow, in milliseconds: -1, or 1 when one of them has no fd.
 * Unit locked. */
int unit_sleep_ms(const struct unit *unit);
/* An epoll fd that holds the fds of all sources (they may come and go); owned by the unit. Negative
 * error when it cannot be made. Unit unlocked. */
int unit_fd(struct unit *unit);
/* True when somebody may sleep on the fds of the sources: a wait object, the unit's own fd, a
 * thread. Otherwise a busy source may leave its fd unarmed until trywait. Unit locked. */
bool unit_watched(const struct unit *unit);
/* Wakes the unit's thread, for work that no fd shows. Any lock state. */
void unit_wake(struct unit *unit);

/* True in a process that was forked after the unit was made: its sockets and threads belong to the
 * parent. Posts and reads answer -FI_EOPBADSTATE, close frees memory and fds and touches no wire.
 */
static inline bool unit_forked(const struct unit *unit)
{
    return __builtin_expect(unit->forks != fork_generation, 0);
}

#endif

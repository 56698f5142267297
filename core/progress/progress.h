/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress domains: the endpoints that share a completion queue or counter, with their one
 * lock and, for FI_PROGRESS_AUTO, their one thread (architecture, section 6). Each CQ and counter
 * is opened with a progress domain of its own; binding an endpoint to several merges them. A fabric
 * (EQ, passive endpoints) has a progress domain of its own, which is locked before any domain
 * progress domain.
 *
 * The progress domains of a domain are a group: reading a queue of one moves the others too, for
 * which their locks are taken. The lock is elided for FI_THREAD_DOMAIN with
 * FI_PROGRESS_CONTROL_UNIFIED and no thread, which is how every lower is opened.
 */
#ifndef WEFT_CORE_PROGRESS_PROGRESS_H
#define WEFT_CORE_PROGRESS_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rdma/fabric.h>

#include "core/base/fork.h"
#include "core/base/list.h"

struct progress_below;

/* Something that a progress domain drives. Embedded, zeroed, in its owner, which fills the function
 * fields and fd. */
struct progress_source {
    struct list link;
    /* Makes what progress can be made without blocking. Progress domain locked. May detach any
     * source. */
    void (*poll)(struct progress_source *source);
    /* 0 when it is safe to sleep on fd; -FI_EAGAIN when progress has work now. Progress domain
     * locked. */
    int (*trywait)(struct progress_source *source);
    /* Readable when progress has work; a different one for each source, the same as long as it is
     * attached. -1: none, a waiting caller polls every millisecond. PROGRESS_NO_FD: none, and
     * no thread waits for what it does. */
    int fd;
    /* A lower's progress domain without a lock of its own, whose sources show work too, or NULL:
     * their fds are watched where fd is, so that a stack of layers is no chain of epoll fds, of
     * which the kernel allows five. Outlives the source. */
    struct progress *below;
    struct progress_below *downs; /* the watches there */
    /* Stands for the other progress domains that poll drives: two sources with different ones, none
     * of them NULL, never drive the same progress domain. */
    const void *reach;
    bool leaf; /* poll drives no other progress domain, as a transport's */
};

enum {
    PROGRESS_NO_FD = -2
};

/* An epoll fd outside of the progress domain that also holds the fds of all sources. */
struct progress_watch {
    struct list link;
    int epoll_fd;
    bool guest; /* of a sleeper that reads another progress domain of the group */
    /* No thread sleeps on the fd, nor will before progress_trywait. NULL: one may at any time. Set
     * before it joins, where no other watch has its fd. */
    bool (*rests)(const struct progress_watch *watch);
};

struct progress_impl;

struct progress {
    struct progress *root; /* itself, or the progress domain that it was merged into */
    bool locked;           /* false: the lock is elided */
    atomic_bool others;    /* its group has more than this one */
    unsigned forks;        /* fork_generation when it was made */
    /* Of the root; locked, but for the atomic ones. */
    bool watched;                 /* progress_watched */
    bool driving;                 /* what it calls out to does not drive again */
    atomic_bool driven;           /* by its own readers, since a reader of another one looked */
    atomic_bool attended;         /* a reader has driven since the thread looked */
    struct progress_source *sole; /* its only source, if that is a leaf */
    /* Its only source and NULL, or its only two, where they cannot drive the same other one. */
    struct progress_source *pair[2];
    const void *round_of; /* the thread that drove it last, and in which of its rounds */
    uint64_t round;
    pthread_mutex_t mutex;
    struct progress_impl *impl; /* sources, watches, thread; those of the root count */
};

/* Of one domain. Held by its creator and its progress domains. -FI_ENOMEM. */
struct progress_group;
int progress_group_create(struct progress_group **group);
void progress_group_release(struct progress_group *group); /* takes NULL */
/* Returns when each thread that had one of the domain's progress domains locked has let it go
 * since: what was changed before the call is seen by all that they do from now on. The caller has
 * none of them locked. */
void progress_group_sync(struct progress_group *group);

/* info->domain_attr decides lock and thread; with a thread the progress domain is in no group, nor
 * without one (NULL). References: progress_hold, progress_release; starts with one. */
int progress_create(const struct fi_domain_attr *attr, const char *part,
                    struct progress_group *group, struct progress **progress);
/* For fabrics: always locked, no thread until progress_start_thread. */
int progress_create_control(const char *part, struct progress **progress);
void progress_hold(struct progress *progress);
/* The last release stops the thread and frees. Progress domain unlocked. */
void progress_release(struct progress *progress);

/* From now on both have one lock, one set of sources, one thread. Both unlocked. -FI_EINVAL when
 * only one of them has a lock; -FI_ENOMEM. */
int progress_merge(struct progress *a, struct progress *b);

/* Starts the progress thread if it is not running (control progress AUTO for a fabric's progress
 * domain). The thread blocks all signals. Unlocked. Progress domains with FI_PROGRESS_AUTO start
 * theirs at the first source. */
int progress_start_thread(struct progress *progress);
/* There is a thread, or there will be one as soon as there is a source. */
bool progress_has_thread(const struct progress *progress);

/*
 * From now on a thread drives while no reader does, as for an endpoint whose peers wait for its
 * acknowledgements: an application that has read the completion of a send may make no progress
 * again. The thread stands aside while readers drive, and checks that at most every
 * PROGRESS_ASIDE_MS. No effect where there is a progress thread, or no lock: without a lock only
 * the application's calls drive. Locked.
 */
void progress_stand_in(struct progress *progress);
enum {
    PROGRESS_ASIDE_MS = 16
};

/* Has no lock, sources or thread: the progress domain of endpoints that are not enabled yet, so
 * that their posts may lock without a question. */
extern struct progress progress_none;

/* Out of line: from one that was merged into another on. */
struct progress *progress_root_above(struct progress *progress);

static inline struct progress *progress_root(const struct progress *progress)
{
    struct progress *root = __atomic_load_n(&progress->root, __ATOMIC_ACQUIRE);

    if (__builtin_expect(__atomic_load_n(&root->root, __ATOMIC_ACQUIRE) == root, 1))
        return root;
    return progress_root_above(root);
}

/* True when a thread may sleep on the fds of the sources: a wait object, the progress domain's own
 * fd, a thread. Otherwise a busy source may leave its fd unarmed until trywait. Progress domain
 * locked. */
static inline bool progress_watched(const struct progress *progress)
{
    return progress_root(progress)->watched;
}

/* True when no thread sleeps on the fds of the sources, nor will before it has asked the sources by
 * trywait: each watch says so, of a queue that no thread has armed, of a stand-in that stands
 * aside, of the progress domain above. Progress domain locked. */
bool progress_rests(const struct progress *progress);

enum {
    PROGRESS_LOOKS = 256 /* since trywait, of a source whose fds are armed: it is busy */
};

/* For a source that has looked once more with its fds armed, and counts that; trywait begins at 0.
 * True: it may disarm them. A socket costs each of its packets the kernel's time, at the sender
 * too, while an epoll fd holds it. */
static inline bool progress_may_disarm(const struct progress *progress, unsigned *looks)
{
    if (__builtin_expect(++*looks < PROGRESS_LOOKS, 1))
        return false;
    *looks = 0;
    return progress_rests(progress);
}

/* After a post from outside of progress_poll that has started a deadline: wakes sleepers, so that
 * they take it into account. Locked. */
void progress_tell_sleepers(struct progress *progress);
static inline void progress_posted(struct progress *progress)
{
    if (__builtin_expect(progress_watched(progress), 0))
        progress_tell_sleepers(progress);
}

/* The parts of progress_lock and progress_unlock where the lock is not elided. The root. */
struct progress *progress_lock_root(struct progress *progress);
void progress_unlock_root(struct progress *progress);

/* Not recursive. The root cannot change while locked. */
static inline void progress_lock(struct progress *progress)
{
    if (progress->locked)
        progress_lock_root(progress);
}

/* The rest of the function below: the lock is not free, or (root) was that of one merged since. */
struct progress *progress_enter_slow(struct progress *progress, struct progress *root);

/* The same for the shortest paths, inlined where the lock is free. The root, for progress_leave. */
static inline struct progress *progress_enter_locked(struct progress *progress)
{
    struct progress *root = __atomic_load_n(&progress->root, __ATOMIC_ACQUIRE);

    if (__builtin_expect(pthread_mutex_trylock(&root->mutex), 0))
        return progress_enter_slow(progress, NULL);
    if (__builtin_expect(__atomic_load_n(&root->root, __ATOMIC_RELAXED) == root, 1))
        return root;
    return progress_enter_slow(progress, root);
}

static inline struct progress *progress_enter(struct progress *progress)
{
    return __builtin_expect(progress->locked, 1) ? progress_enter_locked(progress)
                                                 : progress_root(progress);
}

static inline void progress_leave(struct progress *root)
{
    if (__builtin_expect(root->locked, 1))
        pthread_mutex_unlock(&root->mutex);
}

/* The same for a post, which needs no root where the lock is elided: NULL then. */
static inline struct progress *progress_enter_post(struct progress *progress)
{
    return progress->locked ? progress_enter_locked(progress) : NULL;
}

static inline void progress_leave_post(struct progress *root)
{
    if (root)
        pthread_mutex_unlock(&root->mutex);
}

/* False when another thread has the lock. */
bool progress_trylock(struct progress *progress);
/* A thread of the process waits for a lock, of this progress domain or another: a thread that may
 * hold that lock (of a layer above) must not yield its core. */
bool progress_others_wait(void);
/* Rounds of this thread in which a part took a message: while they go on, the thread needs its
 * core, and an idle part does not yield it. */
extern _Thread_local unsigned progress_takes __attribute__((tls_model("initial-exec")));

static inline void progress_unlock(struct progress *progress)
{
    if (progress->locked)
        progress_unlock_root(progress);
}

/* Sources join and leave with the progress domain locked. source->link must be initialised. */
int progress_attach(struct progress *progress, struct progress_source *source);
void progress_detach(struct progress *progress, struct progress_source *source);

/* The fds of all sources, those to come included, are added to epoll_fd until progress_unwatch: one
 * level of epoll less than with an fd of the progress domain's (the kernel allows five). Several
 * watches may have one epoll_fd. A zeroed watch. Progress domain unlocked. */
int progress_watch(struct progress *progress, struct progress_watch *watch, int epoll_fd);
/* The same with the progress domain locked, for a waiter that is about to sleep: a zeroed watch
 * joins once. */
int progress_watch_locked(struct progress *progress, struct progress_watch *watch, int epoll_fd);
void progress_unwatch(struct progress *progress,
                      struct progress_watch *watch); /* also for one never watched */

/* Drives all sources once; does nothing when called from inside itself, nor again from inside of
 * another progress domain's that has driven this one already. Progress domain locked. */
void progress_poll(struct progress *progress);
/*
 * A layer's queues are sources of one progress domain, and each of them drives the lower's, which
 * is one for all of them again: in a stack of n layers with q queues a single read would drive the
 * transport q to the power of n times. So the outermost drive of a thread begins a round, in which
 * each progress domain is driven once.
 */
struct progress_round {
    unsigned depth;
    uint64_t number;
};
extern _Thread_local struct progress_round progress_own_round
    __attribute__((tls_model("initial-exec")));
/* Drives the sources of a root in a round; nothing where they are being driven already. */
void progress_drive_root(struct progress *root);

static inline void progress_note_reader(struct progress *root)
{
    atomic_store_explicit(&root->driven, true, memory_order_relaxed);
    atomic_store_explicit(&root->attended, true, memory_order_relaxed);
}

static inline void progress_drive_sole(struct progress *root, struct progress_source *sole)
{
    root->driving = true;
    sole->poll(sole);
    root->driving = false;
}

/* progress_poll of a root, without a round where its sources are one, or two that cannot drive the
 * same progress domain. */
static inline void progress_poll_root(struct progress *root)
{
    struct progress_source *first = root->pair[0];

    progress_note_reader(root);
    if (__builtin_expect(!first || root->driving, 0)) {
        progress_drive_root(root);
        return;
    }
    root->driving = true;
    first->poll(first);
    if (root->pair[1]) /* the first may have changed that */
        root->pair[1]->poll(root->pair[1]);
    root->driving = false;
}

/* progress_poll from inside of another progress domain's, mostly: of a lower's, without a lock. */
static inline void progress_poll_lower(struct progress *progress)
{
    struct progress *root = progress_root(progress);
    struct progress_source *sole = root->sole;

    atomic_store_explicit(&root->driven, true, memory_order_relaxed);
    if (__builtin_expect(!sole || root->driving || progress_own_round.depth, 0))
        progress_drive_root(root);
    else
        progress_drive_sole(root, sole);
}
/* From inside of a source's poll: the next progress_poll drives, whatever was driven before. */
void progress_new_round(void);
/* The group has progress domains beside this one: of those the two below take care. */
static inline bool progress_has_others(const struct progress *progress)
{
    return __builtin_expect(atomic_load_explicit(&progress->others, memory_order_relaxed), 0);
}
/* After reads of a queue or counter that the application owns: drives one other progress domain of
 * the group that its own readers leave alone, if that is not locked. Called after each read that
 * gave nothing, and after every PROGRESS_FULL-th (`full`) that gave something. No progress domain
 * locked. */
void progress_drive_others(struct progress *progress, bool full);
enum {
    PROGRESS_FULL = 16
};

/* A waiter that may sleep on a queue or counter of the progress domain. `wake`: called, with a
 * progress domain of the group locked, when there is a new one to look at. No progress domain
 * locked in any of these. */
struct progress_sleeper {
    struct list link;
    struct list guests;
    void (*wake)(struct progress_sleeper *sleeper);
};
void progress_sleeper_join(struct progress *progress, struct progress_sleeper *sleeper,
                           void (*wake)(struct progress_sleeper *sleeper));
void progress_sleeper_leave(struct progress *progress, struct progress_sleeper *sleeper);
/* Before it sleeps: drives the other progress domains, and watches in epoll_fd the sources of those
 * that no reader of their own watches (-1: it polls). Says how long it may sleep in milliseconds:
 * -1: no limit; 0: not at all. bounded: it keeps to that; else epoll_fd alone wakes it. */
int progress_sleeper_look(struct progress *progress, struct progress_sleeper *sleeper, int epoll_fd,
                          bool bounded);

/* 0 when every source may sleep, else -FI_EAGAIN. Progress domain locked. */
int progress_trywait(struct progress *progress);
/* The longest sleep that the sources allow, in milliseconds: -1, or 1 when one of them has no fd.
 * Progress domain locked. */
int progress_sleep_ms(const struct progress *progress);
/* The same of a reader that has just driven. watched: an fd of its own wakes it. 0: not at all.
 * Progress domain locked. */
int progress_reader_sleep_ms(struct progress *progress, bool watched);
/* Wakes the progress domain's thread, for work that no fd shows. Any lock state. */
void progress_wake(struct progress *progress);

/* True in a process that was forked after the progress domain was made: its sockets and threads
 * belong to the parent. Posts and reads answer -FI_EOPBADSTATE, close frees memory and fds and
 * touches no wire.
 */
static inline bool progress_forked(const struct progress *progress)
{
    return __builtin_expect(progress->forks != fork_generation, 0);
}

#endif

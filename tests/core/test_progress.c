/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/fid.h"
#include "core/progress/progress.h"
#include "core/progress/progress_impl.h"
#include "core/queue/wait.h"

static struct fi_domain_attr attr_of(enum fi_threading threading, enum fi_progress progress)
{
    return (struct fi_domain_attr){
        .threading = threading,
        .control_progress = FI_PROGRESS_CONTROL_UNIFIED,
        .data_progress = progress,
    };
}

static struct progress *create(enum fi_threading threading, enum fi_progress data_progress)
{
    struct fi_domain_attr attr = attr_of(threading, data_progress);
    struct progress *progress;

    assert_int_equal(progress_create(&attr, "test", NULL, &progress), 0);
    return progress;
}

/* The fd that a thread of the progress domain sleeps on. */
static int own_fd(struct progress *progress)
{
    int fd;

    progress_lock(progress);
    fd = progress_own_fd_locked(progress_root(progress));
    progress_unlock(progress);
    return fd;
}

struct counter {
    struct progress_source source;
    atomic_int calls;
    struct counter *victim; /* detached by progress */
    struct progress *progress;
    atomic_int signals_blocked;
    int slow_us;
};

static void count(struct progress_source *source)
{
    struct counter *counter = object_of(source, struct counter, source);
    uint64_t value;
    sigset_t set;

    /* Before it counts: what is raised after a look at `calls` makes them more. */
    if (source->fd >= 0 && read(source->fd, &value, sizeof(value)) < 0)
        value = 0;
    atomic_fetch_add(&counter->calls, 1);
    if (counter->victim)
        progress_detach(counter->progress, &counter->victim->source);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    atomic_store(&counter->signals_blocked, sigismember(&set, SIGTERM));
    if (counter->slow_us)
        usleep((useconds_t)counter->slow_us);
}

static int idle(struct progress_source *source)
{
    return 0;
}

static int busy(struct progress_source *source)
{
    return -FI_EAGAIN;
}

static void attach(struct progress *progress, struct counter *counter, int fd)
{
    *counter = (struct counter){.progress = progress};
    counter->source = (struct progress_source){.poll = count, .trywait = idle, .fd = fd};
    list_init(&counter->source.link);
    progress_lock(progress);
    assert_int_equal(progress_attach(progress, &counter->source), 0);
    progress_unlock(progress);
}

/* A layer's source, which has no fd of its own. */
static void attach_above(struct progress *progress, struct counter *counter, struct progress *below)
{
    *counter = (struct counter){.progress = progress};
    counter->source = (struct progress_source){
        .poll = count, .trywait = idle, .fd = PROGRESS_NO_FD, .below = below};
    list_init(&counter->source.link);
    progress_lock(progress);
    assert_int_equal(progress_attach(progress, &counter->source), 0);
    progress_unlock(progress);
}

static void detach(struct counter *counter)
{
    progress_lock(counter->progress);
    progress_detach(counter->progress, &counter->source);
    progress_unlock(counter->progress);
}

static void raise_fd(int fd)
{
    uint64_t one = 1;

    assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static bool readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) == 1;
}

static void wait_for(atomic_int *value, int least)
{
    for (int i = 0; i < 60000 && atomic_load(value) < least; i++)
        usleep(1000);
    assert_true(atomic_load(value) >= least);
}

static void lock_is_elided_only_for_domain_unified_manual(void **state)
{
    struct fi_domain_attr attr = attr_of(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    static const struct {
        enum fi_threading threading;
        enum fi_progress control, data;
        bool locked;
    } cases[] = {
        {FI_THREAD_DOMAIN, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_MANUAL, false},
        {FI_THREAD_COMPLETION, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_MANUAL, true},
        {FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL, true},
        {FI_THREAD_SAFE, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_MANUAL, true},
        {FI_THREAD_FID, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_MANUAL, true},
        {FI_THREAD_DOMAIN, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_AUTO, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct progress *progress;

        attr.threading = cases[i].threading;
        attr.control_progress = cases[i].control;
        attr.data_progress = cases[i].data;
        assert_int_equal(progress_create(&attr, "test", NULL, &progress), 0);
        assert_int_equal(progress->locked, cases[i].locked);
        assert_int_equal(progress_has_thread(progress), cases[i].data == FI_PROGRESS_AUTO);
        progress_release(progress);
    }
}

static void progress_may_detach_any_source(void **state)
{
    struct progress *progress = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    struct counter a, b, c;

    attach(progress, &a, -1);
    attach(progress, &b, -1);
    attach(progress, &c, -1);
    a.victim = &b;
    progress_poll(progress);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 0);
    assert_int_equal(c.calls, 1);
    a.victim = &a;
    progress_poll(progress);
    progress_poll(progress);
    assert_int_equal(a.calls, 2);
    assert_int_equal(c.calls, 3);
    detach(&c);
    progress_release(progress);
}

static void trywait_asks_every_source(void **state)
{
    struct progress *progress = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    int fd = eventfd(0, EFD_NONBLOCK);
    struct counter a, b;

    attach(progress, &a, fd);
    assert_int_equal(progress_trywait(progress), 0);
    assert_int_equal(progress_sleep_ms(progress), -1);
    attach(progress, &b, -1);
    assert_int_equal(progress_sleep_ms(progress), 1);
    b.source.trywait = busy;
    assert_int_equal(progress_trywait(progress), -FI_EAGAIN);
    detach(&b);
    assert_int_equal(progress_sleep_ms(progress), -1);
    assert_int_equal(progress_trywait(progress), 0);
    detach(&a);
    close(fd);
    progress_release(progress);
}

/* In any order: a watch of one side sees sources of the other, and those to come. */
static void merged_units_share_lock_sources_and_watches(void **state)
{
    struct progress *a = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    struct progress *b = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    struct progress *c = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    int fds[3], epoll_fd = epoll_create1(0);
    struct counter of_a, of_b, of_c;
    struct progress_watch watch = {0};

    for (int i = 0; i < 3; i++)
        fds[i] = eventfd(0, EFD_NONBLOCK);
    attach(a, &of_a, fds[0]);
    attach(b, &of_b, fds[1]);
    assert_int_equal(progress_watch(b, &watch, epoll_fd), 0);
    assert_true(own_fd(a) >= 0);
    assert_int_equal(progress_merge(a, b), 0);
    assert_int_equal(progress_merge(a, b), 0);
    assert_int_equal(progress_merge(c, b), 0);
    assert_ptr_equal(progress_root(a), progress_root(c));
    attach(c, &of_c, fds[2]);
    for (int i = 0; i < 3; i++) {
        raise_fd(fds[i]);
        assert_true(readable(epoll_fd));
        assert_true(readable(own_fd(a)));
        progress_lock(c);
        progress_poll(c);
        progress_unlock(c);
        assert_false(readable(epoll_fd));
        assert_false(readable(own_fd(a)));
    }
    assert_int_equal(of_b.calls, 3);
    progress_lock(a);
    assert_false(progress_trylock(b));
    progress_unlock(a);
    assert_true(progress_trylock(b));
    progress_unlock(b);
    progress_unwatch(b, &watch);
    raise_fd(fds[0]);
    assert_false(readable(epoll_fd));
    detach(&of_a);
    progress_release(a);
    detach(&of_b);
    detach(&of_c);
    progress_release(c);
    progress_release(b);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    close(epoll_fd);
}

/* However deep: one epoll fd has what is at the bottom, also what comes later, and comes twice. */
static void units_below_show_through(void **state)
{
    enum {
        DEEP = 8
    };
    struct progress *progress_group[DEEP], *other = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    int early = eventfd(0, EFD_NONBLOCK), late = eventfd(0, EFD_NONBLOCK);
    int epoll_fd = epoll_create1(0), outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    struct counter layers[DEEP - 1], twice, bottom, more;
    struct progress_watch watch = {0};

    assert_int_equal(epoll_ctl(outer, EPOLL_CTL_ADD, epoll_fd, &event), 0);
    for (int i = 0; i < DEEP; i++)
        progress_group[i] = create(i ? FI_THREAD_DOMAIN : FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    for (int i = 0; i < DEEP - 1; i++)
        attach_above(progress_group[i], &layers[i], progress_group[i + 1]);
    attach(other, &more, late);
    assert_int_equal(progress_watch(progress_group[0], &watch, epoll_fd), 0);
    assert_true(own_fd(progress_group[0]) >= 0);
    attach(progress_group[DEEP - 1], &bottom, early);
    attach_above(progress_group[DEEP - 2], &twice, progress_group[DEEP - 1]);
    assert_int_equal(progress_merge(progress_group[DEEP - 1], other), 0);
    assert_true(progress_watched(other));
    for (int i = 0; i < 2; i++) {
        raise_fd(i ? late : early);
        assert_true(readable(outer));
        assert_true(readable(own_fd(progress_group[0])));
        progress_poll(other);
        assert_false(readable(outer));
    }
    detach(&layers[DEEP - 2]);
    raise_fd(early);
    assert_true(readable(outer));
    detach(&twice);
    assert_false(readable(outer));
    assert_false(progress_watched(other));
    attach_above(progress_group[DEEP - 2], &twice, progress_group[DEEP - 1]);
    assert_true(readable(outer));
    progress_unwatch(progress_group[0], &watch);
    assert_false(readable(outer));
    detach(&twice);
    detach(&bottom);
    detach(&more);
    for (int i = 0; i < DEEP - 2; i++)
        detach(&layers[i]);
    for (int i = 0; i < DEEP; i++)
        progress_release(progress_group[i]);
    progress_release(other);
    close(outer);
    close(epoll_fd);
    close(early);
    close(late);
}

static void units_with_and_without_lock_do_not_merge(void **state)
{
    struct progress *a = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    struct progress *b = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);

    assert_int_equal(progress_merge(a, b), -FI_EINVAL);
    progress_release(a);
    progress_release(b);
}

static void *lock_once(void *progress)
{
    progress_lock(progress);
    progress_unlock(progress);
    return NULL;
}

static void who_waits_for_a_lock_is_seen(void **state)
{
    struct progress *progress = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    pthread_t thread;

    progress_lock(progress);
    assert_false(progress_others_wait());
    assert_int_equal(pthread_create(&thread, NULL, lock_once, progress), 0);
    while (!progress_others_wait())
        usleep(1000);
    progress_unlock(progress);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(progress_others_wait());
    progress_release(progress);
}

static void thread_sleeps_until_a_source_or_a_wake(void **state)
{
    struct progress *progress = create(FI_THREAD_DOMAIN, FI_PROGRESS_AUTO);
    int fd = eventfd(0, EFD_NONBLOCK);
    struct counter counter;
    int before;

    attach(progress, &counter, fd);
    assert_true(progress_has_thread(progress));
    wait_for(&counter.calls, 1);
    usleep(20000);
    before = counter.calls;
    assert_in_range(before, 1, 2);
    raise_fd(fd);
    wait_for(&counter.calls, before + 1);
    assert_true(counter.signals_blocked);
    usleep(5000);
    before = counter.calls;
    progress_wake(progress);
    wait_for(&counter.calls, before + 1);
    detach(&counter);
    progress_release(progress);
    close(fd);
}

static void thread_polls_sources_without_fd(void **state)
{
    struct progress *progress;
    struct counter counter;

    assert_int_equal(progress_create_control("test", &progress), 0);
    assert_false(progress_has_thread(progress));
    attach(progress, &counter, -1);
    usleep(5000);
    assert_int_equal(counter.calls, 0);
    assert_int_equal(progress_start_thread(progress), 0);
    assert_int_equal(progress_start_thread(progress), 0);
    wait_for(&counter.calls, 5);
    detach(&counter);
    progress_release(progress);
}

/* Without a reader it drives what comes, and what a reader takes it leaves alone. */
static void thread_stands_in_for_readers(void **state)
{
    struct progress *progress = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    int fd = eventfd(0, EFD_NONBLOCK), before;
    struct counter counter;

    attach(progress, &counter, fd);
    progress_lock(progress);
    progress_stand_in(progress);
    progress_stand_in(progress);
    progress_unlock(progress);
    assert_false(progress_has_thread(progress));
    for (int i = 0; i < 3; i++) {
        before = counter.calls;
        raise_fd(fd);
        wait_for(&counter.calls, before + 1);
        for (int j = 0; j < 1000; j++) { /* it may find out that it is not needed */
            raise_fd(fd);
            progress_lock(progress);
            progress_poll(progress);
            progress_posted(progress);
            progress_unlock(progress);
        }
    }
    detach(&counter);
    progress_release(progress);
    close(fd);
}

static void sleeping_thread_learns_of_a_post(void **state)
{
    struct progress *progress = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    int fd = eventfd(0, EFD_NONBLOCK), before;
    struct counter counter;

    attach(progress, &counter, fd);
    progress_lock(progress);
    progress_stand_in(progress);
    progress_unlock(progress);
    raise_fd(fd);
    wait_for(&counter.calls, 1); /* it has taken over */
    progress_lock(progress);
    before = counter.calls;
    counter.source.trywait = busy;
    progress_posted(progress);
    progress_unlock(progress);
    wait_for(&counter.calls, before + 2);
    progress_lock(progress);
    counter.source.trywait = idle;
    progress_unlock(progress);
    detach(&counter);
    progress_release(progress);
    close(fd);
}

static void without_a_lock_nobody_stands_in(void **state)
{
    struct progress *progress = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);

    progress_stand_in(progress);
    usleep(3000);
    assert_false(progress_watched(progress));
    progress_release(progress);
}

static void merging_keeps_a_stand_in(void **state)
{
    struct progress *a = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    struct progress *b = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    int fds[] = {eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)}, before;
    struct counter of_a, of_b;

    attach(a, &of_a, fds[0]);
    attach(b, &of_b, fds[1]);
    progress_lock(b);
    progress_stand_in(b);
    progress_unlock(b);
    assert_int_equal(progress_merge(a, b), 0);
    assert_false(progress_has_thread(a));
    before = of_a.calls;
    raise_fd(fds[0]);
    wait_for(&of_a.calls, before + 1);
    detach(&of_a);
    detach(&of_b);
    progress_release(a);
    progress_release(b);
    close(fds[0]);
    close(fds[1]);
}

static void merging_leaves_one_thread(void **state)
{
    struct progress *a = create(FI_THREAD_DOMAIN, FI_PROGRESS_AUTO);
    struct progress *b = create(FI_THREAD_DOMAIN, FI_PROGRESS_AUTO);
    int fds[] = {eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
    struct counter of_a, of_b, *const counters[] = {&of_a, &of_b};
    int before;

    attach(a, &of_a, fds[0]);
    attach(b, &of_b, fds[1]);
    assert_int_equal(progress_merge(a, b), 0);
    for (int i = 0; i < 2; i++) {
        before = counters[i]->calls;
        raise_fd(fds[i]);
        wait_for(&counters[i]->calls, before + 1);
    }
    detach(&of_a);
    detach(&of_b);
    progress_release(a);
    progress_release(b);
    close(fds[0]);
    close(fds[1]);
}

static atomic_bool over;

static void *use(void *arg)
{
    while (!atomic_load(&over)) {
        progress_lock(arg);
        progress_poll(arg);
        progress_unlock(arg);
    }
    return NULL;
}

#define UNITS 8

static void merging_while_others_use_the_units(void **state)
{
    struct progress *progress_group[UNITS];
    struct counter counters[UNITS];
    pthread_t threads[2];

    atomic_store(&over, false);
    for (int i = 0; i < UNITS; i++) {
        progress_group[i] = create(FI_THREAD_SAFE, i < 4 ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO);
        attach(progress_group[i], &counters[i], -1);
    }
    pthread_create(&threads[0], NULL, use, progress_group[0]);
    pthread_create(&threads[1], NULL, use, progress_group[UNITS - 1]);
    usleep(1000);
    assert_int_equal(progress_merge(progress_group[0], progress_group[1]), 0);
    assert_int_equal(progress_merge(progress_group[2], progress_group[3]), 0);
    assert_int_equal(progress_merge(progress_group[1], progress_group[3]), 0);
    assert_int_equal(progress_merge(progress_group[4], progress_group[5]), 0);
    assert_int_equal(progress_merge(progress_group[7], progress_group[6]), 0);
    assert_int_equal(progress_merge(progress_group[6], progress_group[4]), 0);
    usleep(1000);
    assert_int_equal(progress_merge(progress_group[7], progress_group[0]), 0);
    usleep(1000);
    atomic_store(&over, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    for (int i = 0; i < UNITS; i++) {
        assert_ptr_equal(progress_root(progress_group[i]), progress_root(progress_group[0]));
        detach(&counters[i]);
    }
    for (int i = 0; i < UNITS; i++)
        progress_release(progress_group[i]);
}

/* The thread holds the lock nearly always: fork waits for it or gives the child a new one. */
struct step {
    struct counter counter;
    struct progress *below;
    bool anew;
};

static void drive_below(struct progress_source *source)
{
    struct step *step = object_of(source, struct step, counter.source);

    count(source);
    if (step->anew)
        progress_new_round();
    progress_poll(step->below);
}

/* As in a stack: every queue of a layer drives the lower, which is one for all of them. */
static void each_progress_domain_is_driven_once_in_a_round(void **state)
{
    enum {
        LAYERS = 4,
        QUEUES = 3
    };
    struct progress *stack[LAYERS + 1];
    struct step steps[LAYERS][QUEUES];
    struct counter bottom;

    for (int i = 0; i <= LAYERS; i++)
        stack[i] = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    attach(stack[LAYERS], &bottom, -1);
    for (int i = 0; i < LAYERS; i++) {
        for (int j = 0; j < QUEUES; j++) {
            attach(stack[i], &steps[i][j].counter, -1);
            steps[i][j].counter.source.poll = drive_below;
            steps[i][j].below = stack[i + 1];
            steps[i][j].anew = false;
        }
    }
    for (int i = 1; i <= 2; i++) {
        progress_poll(stack[0]);
        assert_int_equal(bottom.calls, i);
        assert_int_equal(steps[LAYERS - 1][0].counter.calls, i);
    }
    progress_poll(stack[1]); /* a reader there has a round of its own */
    assert_int_equal(bottom.calls, 3);
    steps[0][1].anew = true;
    progress_poll(stack[0]);
    assert_int_equal(bottom.calls, 5);
    for (int i = 0; i < LAYERS; i++) {
        for (int j = 0; j < QUEUES; j++)
            detach(&steps[i][j].counter);
    }
    detach(&bottom);
    for (int i = 0; i <= LAYERS; i++)
        progress_release(stack[i]);
}

static void child_closes_what_the_parent_made(void **state)
{
    struct progress *progress = create(FI_THREAD_SAFE, FI_PROGRESS_AUTO);
    struct counter counter;
    int status;

    attach(progress, &counter, -1);
    progress_lock(progress);
    counter.slow_us = 30000;
    counter.source.trywait = busy;
    progress_unlock(progress);
    wait_for(&counter.calls, 1);
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (!pid) {
            alarm(300);
            if (!progress_forked(progress))
                _exit(1);
            detach(&counter);
            progress_release(progress);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_false(progress_forked(progress));
    wait_for(&counter.calls, counter.calls + 2);
    detach(&counter);
    progress_release(progress);
}

/* ---- Groups ---- */

struct sleeper {
    struct progress_sleeper sleeper;
    int woken;
};

static void note_wake(struct progress_sleeper *sleeper)
{
    object_of(sleeper, struct sleeper, sleeper)->woken++;
}

static void a_reader_moves_units_that_are_left_alone(void **state)
{
    static const enum fi_threading levels[] = {FI_THREAD_SAFE, FI_THREAD_COMPLETION,
                                               FI_THREAD_DOMAIN};

    for (int i = 0; i < 3; i++) {
        struct fi_domain_attr attr = attr_of(levels[i], FI_PROGRESS_MANUAL);
        struct counter own = {0}, other = {0};
        struct progress_group *group;
        struct progress *a, *b;

        assert_int_equal(progress_group_create(&group), 0);
        assert_int_equal(progress_create(&attr, "test", group, &a), 0);
        assert_false(progress_has_others(a));
        assert_int_equal(progress_create(&attr, "test", group, &b), 0);
        assert_true(progress_has_others(a) && progress_has_others(b));
        attach(a, &own, -1);
        attach(b, &other, -1);
        progress_drive_others(a, false);
        assert_int_equal(other.calls, 1);
        progress_lock(b);
        progress_poll(b); /* by its own reader: it is passed over */
        progress_unlock(b);
        progress_drive_others(a, false);
        assert_int_equal(other.calls, 2);
        for (int reads = 0; reads < 64; reads++)
            progress_drive_others(a, false);
        assert_true(other.calls > 2);
        assert_int_equal(own.calls, 0);
        detach(&own);
        detach(&other);
        assert_int_equal(progress_merge(a, b), 0);
        assert_false(progress_has_others(a) || progress_has_others(b));
        progress_release(a);
        progress_release(b);
        progress_group_release(group);
    }
}

static void sleepers_watch_units_that_are_left_alone(void **state)
{
    struct fi_domain_attr attr = attr_of(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    struct sleeper sleeper = {.woken = 0};
    int epoll_fd = epoll_create1(0), own_fd = epoll_create1(0), fd = eventfd(0, EFD_NONBLOCK);
    struct pollfd seen = {.fd = epoll_fd, .events = POLLIN};
    struct progress_watch watch = {.epoll_fd = -1};
    struct counter other = {0};
    struct progress_group *group;
    struct progress *a, *b;

    assert_int_equal(progress_group_create(&group), 0);
    assert_int_equal(progress_create(&attr, "test", group, &a), 0);
    assert_int_equal(progress_create(&attr, "test", group, &b), 0);
    progress_sleeper_join(a, &sleeper.sleeper, note_wake);
    attach(b, &other, fd);
    assert_int_equal(sleeper.woken, 1);
    assert_int_equal(progress_sleeper_look(a, &sleeper.sleeper, epoll_fd, true), -1);
    assert_int_equal(other.calls, 1);
    raise_fd(fd);
    assert_int_equal(poll(&seen, 1, 0), 1);
    progress_lock(b);
    progress_poll(b); /* it has a reader: it is looked at again soon, and not watched */
    progress_unlock(b);
    assert_true(progress_sleeper_look(a, &sleeper.sleeper, epoll_fd, true) > 0);
    raise_fd(fd);
    assert_int_equal(poll(&seen, 1, 0), 0);
    assert_int_equal(progress_sleeper_look(a, &sleeper.sleeper, epoll_fd, false), -1);
    raise_fd(fd);
    assert_int_equal(poll(&seen, 1, 0), 1);
    assert_int_equal(progress_watch(b, &watch, own_fd), 0);
    progress_unwatch(b, &watch);
    detach(&other);
    progress_sleeper_leave(a, &sleeper.sleeper);
    progress_release(a);
    progress_release(b);
    progress_group_release(group);
    close(fd);
    close(own_fd);
    close(epoll_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_is_elided_only_for_domain_unified_manual),
        cmocka_unit_test(a_reader_moves_units_that_are_left_alone),
        cmocka_unit_test(sleepers_watch_units_that_are_left_alone),
        cmocka_unit_test(progress_may_detach_any_source),
        cmocka_unit_test(trywait_asks_every_source),
        cmocka_unit_test(merged_units_share_lock_sources_and_watches),
        cmocka_unit_test(units_below_show_through),
        cmocka_unit_test(units_with_and_without_lock_do_not_merge),
        cmocka_unit_test(who_waits_for_a_lock_is_seen),
        cmocka_unit_test(thread_sleeps_until_a_source_or_a_wake),
        cmocka_unit_test(thread_polls_sources_without_fd),
        cmocka_unit_test(thread_stands_in_for_readers),
        cmocka_unit_test(sleeping_thread_learns_of_a_post),
        cmocka_unit_test(without_a_lock_nobody_stands_in),
        cmocka_unit_test(merging_keeps_a_stand_in),
        cmocka_unit_test(merging_leaves_one_thread),
        cmocka_unit_test(merging_while_others_use_the_units),
        cmocka_unit_test(each_progress_domain_is_driven_once_in_a_round),
        cmocka_unit_test(child_closes_what_the_parent_made),
    };

    return cmocka_run_group_tests_name("unit", tests, NULL, NULL);
}

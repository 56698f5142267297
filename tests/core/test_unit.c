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

#include "core/fid.h"
#include "core/unit.h"
#include "core/wait.h"

static struct fi_domain_attr attr_of(enum fi_threading threading, enum fi_progress progress)
{
    return (struct fi_domain_attr){
        .threading = threading,
        .control_progress = FI_PROGRESS_CONTROL_UNIFIED,
        .data_progress = progress,
    };
}

static struct unit *create(enum fi_threading threading, enum fi_progress progress)
{
    struct fi_domain_attr attr = attr_of(threading, progress);
    struct unit *unit;

    assert_int_equal(unit_create(&attr, "test", &unit), 0);
    return unit;
}

struct counter {
    struct unit_source source;
    atomic_int calls;
    struct counter *victim; /* detached by progress */
    struct unit *unit;
    atomic_int signals_blocked;
    int slow_us;
};

static void count(struct unit_source *source)
{
    struct counter *counter = object_of(source, struct counter, source);
    uint64_t value;
    sigset_t set;

    atomic_fetch_add(&counter->calls, 1);
    if (source->fd >= 0 && read(source->fd, &value, sizeof(value)) < 0)
        value = 0;
    if (counter->victim)
        unit_detach(counter->unit, &counter->victim->source);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    atomic_store(&counter->signals_blocked, sigismember(&set, SIGTERM));
    if (counter->slow_us)
        usleep((useconds_t)counter->slow_us);
}

static int idle(struct unit_source *source)
{
    return 0;
}

static int busy(struct unit_source *source)
{
    return -FI_EAGAIN;
}

static void attach(struct unit *unit, struct counter *counter, int fd)
{
    *counter = (struct counter){.unit = unit};
    counter->source = (struct unit_source){.progress = count, .trywait = idle, .fd = fd};
    list_init(&counter->source.link);
    unit_lock(unit);
    assert_int_equal(unit_attach(unit, &counter->source), 0);
    unit_unlock(unit);
}

/* A layer's source, which has no fd of its own. */
static void attach_above(struct unit *unit, struct counter *counter, struct unit *below)
{
    *counter = (struct counter){.unit = unit};
    counter->source =
        (struct unit_source){.progress = count, .trywait = idle, .fd = UNIT_NO_FD, .below = below};
    list_init(&counter->source.link);
    unit_lock(unit);
    assert_int_equal(unit_attach(unit, &counter->source), 0);
    unit_unlock(unit);
}

static void detach(struct counter *counter)
{
    unit_lock(counter->unit);
    unit_detach(counter->unit, &counter->source);
    unit_unlock(counter->unit);
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

static void lock_is_elided_only_for_serial_unified_manual(void **state)
{
    struct fi_domain_attr attr = attr_of(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    static const struct {
        enum fi_threading threading;
        enum fi_progress control, data;
        bool locked;
    } cases[] = {
        {FI_THREAD_DOMAIN, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_MANUAL, false},
        {FI_THREAD_COMPLETION, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_MANUAL, false},
        {FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL, true},
        {FI_THREAD_SAFE, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_MANUAL, true},
        {FI_THREAD_FID, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_MANUAL, true},
        {FI_THREAD_DOMAIN, FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_AUTO, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct unit *unit;

        attr.threading = cases[i].threading;
        attr.control_progress = cases[i].control;
        attr.data_progress = cases[i].data;
        assert_int_equal(unit_create(&attr, "test", &unit), 0);
        assert_int_equal(unit->locked, cases[i].locked);
        assert_int_equal(unit_has_thread(unit), cases[i].data == FI_PROGRESS_AUTO);
        unit_release(unit);
    }
}

static void progress_may_detach_any_source(void **state)
{
    struct unit *unit = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    struct counter a, b, c;

    attach(unit, &a, -1);
    attach(unit, &b, -1);
    attach(unit, &c, -1);
    a.victim = &b;
    unit_progress(unit);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 0);
    assert_int_equal(c.calls, 1);
    a.victim = &a;
    unit_progress(unit);
    unit_progress(unit);
    assert_int_equal(a.calls, 2);
    assert_int_equal(c.calls, 3);
    detach(&c);
    unit_release(unit);
}

static void trywait_asks_every_source(void **state)
{
    struct unit *unit = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    int fd = eventfd(0, EFD_NONBLOCK);
    struct counter a, b;

    attach(unit, &a, fd);
    assert_int_equal(unit_trywait(unit), 0);
    assert_int_equal(unit_sleep_ms(unit), -1);
    attach(unit, &b, -1);
    assert_int_equal(unit_sleep_ms(unit), 1);
    b.source.trywait = busy;
    assert_int_equal(unit_trywait(unit), -FI_EAGAIN);
    detach(&b);
    assert_int_equal(unit_sleep_ms(unit), -1);
    assert_int_equal(unit_trywait(unit), 0);
    detach(&a);
    close(fd);
    unit_release(unit);
}

/* Whatever the order: a watch of one side sees sources of the other, and those to come. */
static void merged_units_share_lock_sources_and_watches(void **state)
{
    struct unit *a = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    struct unit *b = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    struct unit *c = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    int fds[3], epoll_fd = epoll_create1(0);
    struct counter of_a, of_b, of_c;
    struct unit_watch watch;

    for (int i = 0; i < 3; i++)
        fds[i] = eventfd(0, EFD_NONBLOCK);
    attach(a, &of_a, fds[0]);
    attach(b, &of_b, fds[1]);
    assert_int_equal(unit_watch(b, &watch, epoll_fd), 0);
    assert_true(unit_fd(a) >= 0);
    assert_int_equal(unit_merge(a, b), 0);
    assert_int_equal(unit_merge(a, b), 0);
    assert_int_equal(unit_merge(c, b), 0);
    assert_ptr_equal(unit_root(a), unit_root(c));
    attach(c, &of_c, fds[2]);
    for (int i = 0; i < 3; i++) {
        raise_fd(fds[i]);
        assert_true(readable(epoll_fd));
        assert_true(readable(unit_fd(a)));
        unit_lock(c);
        unit_progress(c);
        unit_unlock(c);
        assert_false(readable(epoll_fd));
        assert_false(readable(unit_fd(a)));
    }
    assert_int_equal(of_b.calls, 3);
    unit_lock(a);
    assert_false(unit_trylock(b));
    unit_unlock(a);
    assert_true(unit_trylock(b));
    unit_unlock(b);
    unit_unwatch(b, &watch);
    raise_fd(fds[0]);
    assert_false(readable(epoll_fd));
    detach(&of_a);
    unit_release(a);
    detach(&of_b);
    detach(&of_c);
    unit_release(c);
    unit_release(b);
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
    struct unit *units[DEEP], *other = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    int early = eventfd(0, EFD_NONBLOCK), late = eventfd(0, EFD_NONBLOCK);
    int epoll_fd = epoll_create1(0), outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    struct counter layers[DEEP - 1], twice, bottom, more;
    struct unit_watch watch;

    assert_int_equal(epoll_ctl(outer, EPOLL_CTL_ADD, epoll_fd, &event), 0);
    for (int i = 0; i < DEEP; i++)
        units[i] = create(i ? FI_THREAD_DOMAIN : FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    for (int i = 0; i < DEEP - 1; i++)
        attach_above(units[i], &layers[i], units[i + 1]);
    attach(other, &more, late);
    assert_int_equal(unit_watch(units[0], &watch, epoll_fd), 0);
    assert_true(unit_fd(units[0]) >= 0);
    attach(units[DEEP - 1], &bottom, early);
    attach_above(units[DEEP - 2], &twice, units[DEEP - 1]);
    assert_int_equal(unit_merge(units[DEEP - 1], other), 0);
    assert_true(unit_watched(other));
    for (int i = 0; i < 2; i++) {
        raise_fd(i ? late : early);
        assert_true(readable(outer));
        assert_true(readable(unit_fd(units[0])));
        unit_progress(other);
        assert_false(readable(outer));
    }
    detach(&layers[DEEP - 2]);
    raise_fd(early);
    assert_true(readable(outer));
    detach(&twice);
    assert_false(readable(outer));
    assert_false(unit_watched(other));
    attach_above(units[DEEP - 2], &twice, units[DEEP - 1]);
    assert_true(readable(outer));
    unit_unwatch(units[0], &watch);
    assert_false(readable(outer));
    detach(&twice);
    detach(&bottom);
    detach(&more);
    for (int i = 0; i < DEEP - 2; i++)
        detach(&layers[i]);
    for (int i = 0; i < DEEP; i++)
        unit_release(units[i]);
    unit_release(other);
    close(outer);
    close(epoll_fd);
    close(early);
    close(late);
}

static void units_with_and_without_lock_do_not_merge(void **state)
{
    struct unit *a = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    struct unit *b = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);

    assert_int_equal(unit_merge(a, b), -FI_EINVAL);
    unit_release(a);
    unit_release(b);
}

static void *lock_once(void *unit)
{
    unit_lock(unit);
    unit_unlock(unit);
    return NULL;
}

static void who_waits_for_a_lock_is_seen(void **state)
{
    struct unit *unit = create(FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    pthread_t thread;

    unit_lock(unit);
    assert_false(unit_others_wait());
    assert_int_equal(pthread_create(&thread, NULL, lock_once, unit), 0);
    while (!unit_others_wait())
        usleep(1000);
    unit_unlock(unit);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(unit_others_wait());
    unit_release(unit);
}

static void thread_sleeps_until_a_source_or_a_wake(void **state)
{
    struct unit *unit = create(FI_THREAD_DOMAIN, FI_PROGRESS_AUTO);
    int fd = eventfd(0, EFD_NONBLOCK);
    struct counter counter;
    int before;

    attach(unit, &counter, fd);
    assert_true(unit_has_thread(unit));
    wait_for(&counter.calls, 1);
    usleep(20000);
    before = counter.calls;
    assert_in_range(before, 1, 2);
    raise_fd(fd);
    wait_for(&counter.calls, before + 1);
    assert_true(counter.signals_blocked);
    usleep(5000);
    before = counter.calls;
    unit_wake(unit);
    wait_for(&counter.calls, before + 1);
    detach(&counter);
    unit_release(unit);
    close(fd);
}

static void thread_polls_sources_without_fd(void **state)
{
    struct unit *unit;
    struct counter counter;

    assert_int_equal(unit_create_control("test", &unit), 0);
    assert_false(unit_has_thread(unit));
    attach(unit, &counter, -1);
    usleep(5000);
    assert_int_equal(counter.calls, 0);
    assert_int_equal(unit_start_thread(unit), 0);
    assert_int_equal(unit_start_thread(unit), 0);
    wait_for(&counter.calls, 5);
    detach(&counter);
    unit_release(unit);
}

static void merging_leaves_one_thread(void **state)
{
    struct unit *a = create(FI_THREAD_DOMAIN, FI_PROGRESS_AUTO);
    struct unit *b = create(FI_THREAD_DOMAIN, FI_PROGRESS_AUTO);
    int fds[] = {eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
    struct counter of_a, of_b;
    int before;

    attach(a, &of_a, fds[0]);
    attach(b, &of_b, fds[1]);
    assert_int_equal(unit_merge(a, b), 0);
    for (int i = 0; i < 2; i++) {
        before = of_a.calls;
        raise_fd(fds[i]);
        wait_for(&of_a.calls, before + 1);
    }
    detach(&of_a);
    detach(&of_b);
    unit_release(a);
    unit_release(b);
    close(fds[0]);
    close(fds[1]);
}

static atomic_bool over;

static void *use(void *arg)
{
    while (!atomic_load(&over)) {
        unit_lock(arg);
        unit_progress(arg);
        unit_unlock(arg);
    }
    return NULL;
}

#define UNITS 8

static void merging_while_others_use_the_units(void **state)
{
    struct unit *units[UNITS];
    struct counter counters[UNITS];
    pthread_t threads[2];

    atomic_store(&over, false);
    for (int i = 0; i < UNITS; i++) {
        units[i] = create(FI_THREAD_SAFE, i < 4 ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO);
        attach(units[i], &counters[i], -1);
    }
    pthread_create(&threads[0], NULL, use, units[0]);
    pthread_create(&threads[1], NULL, use, units[UNITS - 1]);
    usleep(1000);
    assert_int_equal(unit_merge(units[0], units[1]), 0);
    assert_int_equal(unit_merge(units[2], units[3]), 0);
    assert_int_equal(unit_merge(units[1], units[3]), 0);
    assert_int_equal(unit_merge(units[4], units[5]), 0);
    assert_int_equal(unit_merge(units[7], units[6]), 0);
    assert_int_equal(unit_merge(units[6], units[4]), 0);
    usleep(1000);
    assert_int_equal(unit_merge(units[7], units[0]), 0);
    usleep(1000);
    atomic_store(&over, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    for (int i = 0; i < UNITS; i++) {
        assert_ptr_equal(unit_root(units[i]), unit_root(units[0]));
        detach(&counters[i]);
    }
    for (int i = 0; i < UNITS; i++)
        unit_release(units[i]);
}

/* The thread holds the lock nearly always: fork waits for it or gives the child a new one. */
static void child_closes_what_the_parent_made(void **state)
{
    struct unit *unit = create(FI_THREAD_SAFE, FI_PROGRESS_AUTO);
    struct counter counter;
    int status;

    attach(unit, &counter, -1);
    unit_lock(unit);
    counter.slow_us = 30000;
    counter.source.trywait = busy;
    unit_unlock(unit);
    wait_for(&counter.calls, 1);
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (!pid) {
            alarm(300);
            if (!unit_forked(unit))
                _exit(1);
            detach(&counter);
            unit_release(unit);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_false(unit_forked(unit));
    wait_for(&counter.calls, counter.calls + 2);
    detach(&counter);
    unit_release(unit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_is_elided_only_for_serial_unified_manual),
        cmocka_unit_test(progress_may_detach_any_source),
        cmocka_unit_test(trywait_asks_every_source),
        cmocka_unit_test(merged_units_share_lock_sources_and_watches),
        cmocka_unit_test(units_below_show_through),
        cmocka_unit_test(units_with_and_without_lock_do_not_merge),
        cmocka_unit_test(who_waits_for_a_lock_is_seen),
        cmocka_unit_test(thread_sleeps_until_a_source_or_a_wake),
        cmocka_unit_test(thread_polls_sources_without_fd),
        cmocka_unit_test(merging_leaves_one_thread),
        cmocka_unit_test(merging_while_others_use_the_units),
        cmocka_unit_test(child_closes_what_the_parent_made),
    };

    return cmocka_run_group_tests_name("unit", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress thread: drives the unit, and sleeps on its epoll fd when every source may sleep. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/log.h"
#include "core/unit_impl.h"

static void *run(void *arg)
{
    struct unit *unit = arg;
    struct unit_impl *impl = unit->impl;
    int wake_fd = atomic_load(&impl->wake_fd);
    struct epoll_event event;
    uint64_t count;

    for (;;) {
        int rc, sleep_ms;

        unit_lock(unit);
        if (atomic_load_explicit(&impl->stop, memory_order_relaxed)) {
            unit_unlock(unit);
            return NULL;
        }
        unit_progress(unit);
        rc = unit_trywait(unit);
        sleep_ms = unit_sleep_ms(unit);
        unit_unlock(unit);
        if (rc) {
            sched_yield();
            continue;
        }
        if (epoll_wait(impl->own.epoll_fd, &event, 1, sleep_ms) == 1 && event.data.fd == wake_fd &&
            read(wake_fd, &count, sizeof(count)) < 0)
            continue; /* somebody else drained it */
    }
}

static int create_thread(struct unit_impl *impl, struct unit *unit)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&impl->thread, NULL, run, unit);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return -rc;
    pthread_setname_np(impl->thread, "weft-progress");
    return 0;
}

int unit_thread_start_locked(struct unit *root)
{
    struct unit_impl *impl = root->impl;
    struct epoll_event event = {.events = EPOLLIN};
    int rc, epoll_fd, wake_fd;

    if (impl->running || unit_forked(root))
        return 0;
    epoll_fd = unit_own_fd_locked(root);
    if (epoll_fd < 0)
        return epoll_fd;
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return -errno;
    event.data.fd = wake_fd;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event)) {
        rc = -errno;
        goto close_wake;
    }
    atomic_store(&impl->wake_fd, wake_fd);
    rc = create_thread(impl, root);
    if (rc)
        goto forget_wake;
    impl->running = true;
    atomic_store(&impl->threaded, true);
    return 0;

forget_wake:
    atomic_store(&impl->wake_fd, -1);
close_wake:
    close(wake_fd);
    LOG_WARN(impl->part, FI_LOG_DOMAIN, ": cannot start the progress thread: %s", fi_strerror(-rc));
    return rc;
}

int unit_start_thread(struct unit *unit)
{
    int rc;

    unit_lock(unit);
    rc = unit_thread_start_locked(unit_root(unit));
    unit_unlock(unit);
    return rc;
}

void unit_thread_wake(struct unit_impl *impl)
{
    static const uint64_t one = 1;
    int fd = atomic_load(&impl->wake_fd);

    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: readable already */
}

void unit_wake(struct unit *unit)
{
    if (!unit_forked(unit))
        unit_thread_wake(unit_root(unit)->impl);
}

void unit_thread_stop(struct unit_impl *impl)
{
    if (!impl->running)
        return;
    atomic_store(&impl->stop, true);
    unit_thread_wake(impl);
    pthread_join(impl->thread, NULL);
    impl->running = false;
}

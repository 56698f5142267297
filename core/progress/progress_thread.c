/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread: drives the progress domain, and sleeps on its epoll fd when every source may
 * sleep. A stand-in drives only after a while in which no reader did; as long as readers drive, it
 * sleeps on its own fd alone, so that messages do not wake it. Its epoll fd holds the sources' fds
 * all the same: a thread that closes a lower's endpoint takes no lock under which this thread could
 * walk through the lower's sources later.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/progress/progress_impl.h"

static bool readers_drive(struct progress_impl *impl)
{
    return !atomic_load_explicit(&impl->threaded, memory_order_relaxed) &&
           !atomic_load(&impl->stop) && atomic_exchange(&impl->progress->attended, false);
}

/* Until no reader has driven for as long as it looks away. */
static void stand_aside(struct progress_impl *impl, int wake_fd)
{
    struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
    uint64_t count;

    if (!readers_drive(impl))
        return;
    atomic_store(&impl->aside, true);
    for (int ms = 1; !atomic_load(&impl->stop); ms = ms < PROGRESS_ASIDE_MS ? 2 * ms : ms) {
        if (poll(&wake, 1, ms) > 0 && read(wake_fd, &count, sizeof(count)) < 0)
            break;
        if (!readers_drive(impl))
            break;
    }
    atomic_store(&impl->aside, false);
}

static void *run(void *arg)
{
    struct progress *progress = arg;
    struct progress_impl *impl = progress->impl;
    int wake_fd = atomic_load(&impl->wake_fd);
    struct epoll_event event;
    uint64_t count;

    for (;;) {
        int rc, sleep_ms;

        stand_aside(impl, wake_fd);
        progress_lock(progress);
        if (atomic_load_explicit(&impl->stop, memory_order_relaxed)) {
            progress_unlock(progress);
            return NULL;
        }
        progress_stand_in_drive(progress);
        rc = progress_trywait(progress);
        sleep_ms = progress_sleep_ms(progress);
        progress_unlock(progress);
        if (rc) {
            sched_yield();
            continue;
        }
        if (epoll_wait(impl->own.epoll_fd, &event, 1, sleep_ms) == 1 && event.data.fd == wake_fd &&
            read(wake_fd, &count, sizeof(count)) < 0)
            continue; /* another reader drained it */
    }
}

static int create_thread(struct progress_impl *impl, struct progress *progress)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&impl->thread, NULL, run, progress);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return -rc;
    pthread_setname_np(impl->thread, "weft-progress");
    return 0;
}

static int start_locked(struct progress *root)
{
    struct progress_impl *impl = root->impl;
    struct epoll_event event = {.events = EPOLLIN};
    int rc, epoll_fd, wake_fd;

    epoll_fd = progress_own_fd_locked(root);
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
    return 0;

forget_wake:
    atomic_store(&impl->wake_fd, -1);
close_wake:
    close(wake_fd);
    LOG_WARN(impl->part, FI_LOG_DOMAIN, ": cannot start the progress thread: %s", fi_strerror(-rc));
    return rc;
}

int progress_thread_start_locked(struct progress *root, bool stands_in)
{
    struct progress_impl *impl = root->impl;
    int rc;

    if (progress_forked(root))
        return 0;
    rc = impl->running ? 0 : start_locked(root);
    if (!rc && !stands_in && !atomic_exchange(&impl->threaded, true)) {
        progress_note_change(impl);
        progress_thread_wake(impl);
    }
    return rc;
}

/* Without one, the application's calls are all that drives. */
void progress_stand_in(struct progress *progress)
{
    struct progress_impl *impl = progress_root(progress)->impl;

    if (!progress->locked || !impl || impl->running)
        return;
    atomic_store(&impl->progress->attended, true);
    progress_thread_start_locked(progress_root(progress), true);
}

int progress_start_thread(struct progress *progress)
{
    int rc;

    progress_lock(progress);
    rc = progress_thread_start_locked(progress_root(progress), false);
    progress_unlock(progress);
    return rc;
}

void progress_thread_wake(struct progress_impl *impl)
{
    static const uint64_t one = 1;
    int fd = atomic_load(&impl->wake_fd);

    if (atomic_load_explicit(&impl->aside, memory_order_relaxed) && !atomic_load(&impl->stop))
        return; /* it looks soon */
    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: readable already */
}

void progress_wake(struct progress *progress)
{
    if (!progress_forked(progress))
        progress_thread_wake(progress_root(progress)->impl);
}

void progress_thread_stop(struct progress_impl *impl)
{
    if (!impl->running)
        return;
    atomic_store(&impl->stop, true);
    progress_thread_wake(impl);
    pthread_join(impl->thread, NULL);
    impl->running = false;
    atomic_store(&impl->aside, true); /* its watch may be another progress domain's by now */
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/wait.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/deadline.h"
#include "core/base/fork.h"
#include "core/queue/wait_set.h"

static int add_fd(struct wait *wait, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(wait->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_fds(struct wait *wait)
{
    int rc;

    wait->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (wait->epoll_fd < 0)
        return -errno;
    wait->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wait->event_fd < 0) {
        rc = -errno;
        goto close_epoll;
    }
    rc = add_fd(wait, wait->event_fd);
    if (rc)
        goto close_event;
    return 0;

close_event:
    close(wait->event_fd);
    wait->event_fd = -1;
close_epoll:
    close(wait->epoll_fd);
    wait->epoll_fd = -1;
    return rc;
}

int wait_init(struct wait *wait, enum fi_wait_obj obj, struct fid_wait *set)
{
    int rc = 0;

    memset(wait, 0, sizeof(*wait));
    wait->obj = obj;
    wait->epoll_fd = -1;
    wait->event_fd = -1;
    list_init(&wait->link);
    fork_watch();
    wait->forks = fork_generation;
    switch (obj) {
    case FI_WAIT_NONE:
    case FI_WAIT_YIELD:
    case FI_WAIT_MUTEX_COND: break;
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD:
    case FI_WAIT_POLLFD: rc = open_fds(wait); break;
    case FI_WAIT_SET: rc = wait_set_hold(set, &wait->outer); break;
    default: return -FI_EINVAL;
    }
    if (rc)
        return rc;
    pthread_mutex_init(&wait->state, NULL);
    pthread_mutex_init(&wait->mutex, NULL);
    pthread_cond_init(&wait->cond, NULL);
    return 0;
}

void wait_finish(struct wait *wait)
{
    if (wait->outer)
        wait_set_release(wait->outer);
    wait->outer = NULL;
    if (wait->event_fd >= 0)
        close(wait->event_fd);
    if (wait->epoll_fd >= 0)
        close(wait->epoll_fd);
    wait->event_fd = -1;
    wait->epoll_fd = -1;
    /* A sleeper of the parent is still counted in the child's copy, and destroy would wait for it.
     */
    if (wait->forks == fork_generation)
        pthread_cond_destroy(&wait->cond);
    pthread_mutex_destroy(&wait->mutex);
    pthread_mutex_destroy(&wait->state);
}

static unsigned arm(struct wait *wait, bool inside)
{
    /* First: another waiter may arm between a signal to this thread and its sleep. */
    unsigned generation = atomic_load(&wait->generation);
    uint64_t count;

    if (wait->obj == FI_WAIT_NONE || wait->obj == FI_WAIT_YIELD)
        return generation;
    pthread_mutex_lock(&wait->state);
    if (atomic_load_explicit(&wait->armed, memory_order_relaxed) == WAIT_SIGNALED &&
        wait->event_fd >= 0) {
        ssize_t got = read(wait->event_fd, &count, sizeof(count));

        (void)got; /* nonblocking: it was readable, or there is nothing to drain */
    }
    atomic_store_explicit(&wait->armed, WAIT_ARMED, memory_order_seq_cst);
    if (inside)
        wait->inside++;
    else
        wait->outside = true;
    pthread_mutex_unlock(&wait->state);
    return generation;
}

unsigned wait_arm(struct wait *wait)
{
    return arm(wait, false);
}

unsigned wait_arm_inside(struct wait *wait)
{
    return arm(wait, true);
}

void wait_disarm(struct wait *wait)
{
    if (wait->obj == FI_WAIT_NONE || wait->obj == FI_WAIT_YIELD)
        return;
    pthread_mutex_lock(&wait->state);
    if (!--wait->inside && !wait->outside &&
        atomic_load_explicit(&wait->armed, memory_order_relaxed) == WAIT_ARMED)
        atomic_store_explicit(&wait->armed, WAIT_IDLE, memory_order_relaxed);
    pthread_mutex_unlock(&wait->state);
}

static void broadcast(struct wait *wait)
{
    pthread_mutex_lock(&wait->mutex);
    atomic_fetch_add(&wait->generation, 1);
    pthread_cond_broadcast(&wait->cond);
    pthread_mutex_unlock(&wait->mutex);
}

void wait_wake(struct wait *wait)
{
    static const uint64_t one = 1;
    bool wake = false;

    pthread_mutex_lock(&wait->state);
    if (atomic_load_explicit(&wait->armed, memory_order_relaxed) == WAIT_ARMED) {
        atomic_store_explicit(&wait->armed, WAIT_SIGNALED, memory_order_relaxed);
        wake = true;
        if (wait->event_fd >= 0) {
            ssize_t put = write(wait->event_fd, &one, sizeof(one));

            (void)put; /* a full counter is readable too */
        }
    }
    pthread_mutex_unlock(&wait->state);
    if (wake && wait->obj == FI_WAIT_MUTEX_COND)
        broadcast(wait);
    if (wake && wait->outer)
        wait_signal(wait->outer);
}

static int block_cond(struct wait *wait, unsigned armed, int timeout_ms)
{
    struct timespec until;
    int rc = 0;

    if (timeout_ms >= 0)
        until = deadline_in(timeout_ms * INT64_C(1000000));
    pthread_mutex_lock(&wait->mutex);
    while (!rc && armed == atomic_load(&wait->generation)) {
        if (timeout_ms < 0)
            rc = pthread_cond_wait(&wait->cond, &wait->mutex);
        else
            rc = deadline_wait_cond(&wait->cond, &wait->mutex, &until);
    }
    pthread_mutex_unlock(&wait->mutex);
    return rc ? -FI_EAGAIN : 0;
}

int wait_block(struct wait *wait, unsigned armed, int timeout_ms)
{
    struct pollfd sources = {.fd = wait->epoll_fd, .events = POLLIN};
    int n;

    if (wait->obj == FI_WAIT_MUTEX_COND)
        return block_cond(wait, armed, timeout_ms);
    if (wait->epoll_fd < 0) {
        sched_yield();
        return 0;
    }
    /* The kernel's work for an io_uring of this thread interrupts epoll_wait as a signal does; it
     * lets poll go on. */
    n = poll(&sources, 1, timeout_ms);
    if (n > 0)
        return 0;
    return n == 0 ? -FI_EAGAIN : -errno;
}

static int get_pollfd(struct wait *wait, struct fi_wait_pollfd *arg)
{
    size_t room = arg->nfds;

    arg->change_index = 1;
    arg->nfds = 1;
    if (room < 1)
        return -FI_ETOOSMALL;
    arg->fd[0] = (struct pollfd){.fd = wait->epoll_fd, .events = POLLIN};
    return 0;
}

int wait_get(struct wait *wait, void *arg)
{
    struct fi_mutex_cond *mutex_cond = arg;

    if (wait->outer)
        return wait_get(wait->outer, arg);
    switch (wait->obj) {
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD: *(int *)arg = wait->epoll_fd; return 0;
    case FI_WAIT_POLLFD: return get_pollfd(wait, arg);
    case FI_WAIT_MUTEX_COND:
        mutex_cond->mutex = &wait->mutex;
        mutex_cond->cond = &wait->cond;
        return 0;
    default: return -FI_ENODATA;
    }
}

enum fi_wait_obj wait_kind(const struct wait *wait)
{
    return wait->obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : wait->obj;
}

int wait_left(int timeout_ms, long long start_ms)
{
    long long passed;

    if (timeout_ms < 0)
        return timeout_ms;
    passed = clock_ms() - start_ms;
    return passed >= timeout_ms ? 0 : (int)(timeout_ms - passed);
}

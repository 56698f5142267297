/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "report.h"

#define MILLISECOND 1000000u
#define SECOND (1000u * (uint64_t)MILLISECOND)

enum {
    BATCH = 16,
    IDLE_POLLS = 32, /* empty polls between two sched_yield */
    TICK_MS = 5,     /* how late a timer may fire, while the process was busy a moment ago */
};

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct list timers = {&timers, &timers};
static int epoll_fd = -1, wake_fd = -1;
static int sleepers;
static unsigned polls;
static uint64_t last_work;
static bool helper_waits_long;
static _Thread_local bool is_helper;
static struct epoll_event batch[BATCH];
static int batch_count;

void loop_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void loop_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

uint64_t loop_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

int loop_watch(struct watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) ? errno : 0;
}

void loop_change(struct watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

void loop_unwatch(struct watch *watch)
{
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    for (int i = 0; i < batch_count; i++)
        if (batch[i].data.ptr == watch)
            batch[i].data.ptr = NULL;
}

static void wake_helper(void)
{
    uint64_t one = 1;

    helper_waits_long = false;
    if (write(wake_fd, &one, sizeof(one)) < 0)
        return;
}

void loop_set_timer(struct timer *timer, uint64_t at)
{
    loop_unset_timer(timer);
    timer->at = at;
    struct list *before = timers.prev;
    while (before != &timers && list_item(before, struct timer, link)->at > at)
        before = before->prev;
    list_attach_before(&timer->link, before->next);
    if (helper_waits_long ||
        (timers.next == &timer->link && at < loop_now() + TICK_MS * MILLISECOND))
        wake_helper();
}

void loop_unset_timer(struct timer *timer)
{
    if (timer->link.next)
        list_detach(&timer->link);
}

static void fire_timers(void)
{
    while (!list_empty(&timers)) {
        struct timer *timer = list_item(timers.next, struct timer, link);
        if (timer->at > loop_now())
            return;
        list_detach(&timer->link);
        timer->fire(timer);
    }
}

void loop_turn(void)
{
    if (epoll_fd < 0 || batch_count)
        return;
    batch_count = epoll_wait(epoll_fd, batch, BATCH, 0);
    for (int i = 0; i < batch_count; i++) {
        struct watch *watch = batch[i].data.ptr;
        if (watch)
            watch->ready(watch, batch[i].events);
    }
    if (batch_count > 0)
        last_work = loop_now();
    batch_count = 0;
    if (!list_empty(&timers))
        fire_timers();
}

void loop_turn_idle(void)
{
    if (++polls % IDLE_POLLS == 0) {
        loop_unlock();
        sched_yield();
        loop_lock();
    }
    loop_turn();
}

void loop_add_sleeper(int change)
{
    sleepers += change;
}

/* A caller that polls leaves it to the helper, which may not have woken yet. */
static void drain_wakes(struct watch *watch, uint32_t events)
{
    uint64_t count;

    if (is_helper && read(watch->fd, &count, sizeof(count)) < 0)
        return;
}

/* How long the helper may sleep: until a timer, at most; forever in a process that does nothing. */
static int sleep_time(void)
{
    uint64_t now = loop_now();

    if (!list_empty(&timers)) {
        uint64_t at = list_item(timers.next, struct timer, link)->at;
        if (at < now + TICK_MS * MILLISECOND)
            return at <= now ? 0 : (int)((at - now) / MILLISECOND) + 1;
        return TICK_MS;
    }
    if (now < last_work + SECOND)
        return TICK_MS;
    helper_waits_long = true;
    return -1;
}

static void *help(void *unused)
{
    struct epoll_event event;
    struct timespec pause = {.tv_nsec = MILLISECOND / 2};
    unsigned polls_before = 0;

    is_helper = true;
    loop_lock();
    for (;;) {
        loop_turn();
        bool others_poll = polls != polls_before && sleepers == 0;
        polls_before = polls;
        int wait = sleep_time();
        loop_unlock();
        if (others_poll)
            nanosleep(&pause, NULL);
        else
            epoll_wait(epoll_fd, &event, 1, wait);
        loop_lock();
        helper_waits_long = false;
    }
    return unused;
}

/* ---- A child of fork: without a thread, and with nothing to watch ---- */

static void reset(void)
{
    const pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

    mutex = fresh;
    close(epoll_fd);
    close(wake_fd);
    epoll_fd = wake_fd = -1;
    batch_count = sleepers = 0;
    helper_waits_long = false;
    while (!list_empty(&timers))
        list_detach(timers.next);
}

static int watch_forks(void)
{
    static bool done;
    int rc = done ? 0 : pthread_atfork(loop_lock, loop_unlock, reset);

    done = !rc;
    return rc;
}

int loop_start(void)
{
    static struct watch wake = {.ready = drain_wakes};
    pthread_t thread;
    sigset_t all, before;

    if (epoll_fd >= 0)
        return 0;
    int rc = watch_forks();
    if (rc)
        return rc;
    int set = epoll_create1(EPOLL_CLOEXEC);
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (set < 0 || wake_fd < 0)
        return errno;
    epoll_fd = set;
    wake.fd = wake_fd;
    rc = loop_watch(&wake, EPOLLIN);
    /* The signals of the program belong to its own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!rc)
        rc = pthread_create(&thread, NULL, help, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc)
        pthread_detach(thread);
    return rc;
}

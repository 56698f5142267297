/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/progress/wake_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

static void poll_nothing(struct progress_source *source)
{
}

static int may_sleep(struct progress_source *source)
{
    return 0;
}

void wake_timer_init(struct wake_timer *timer)
{
    *timer = (struct wake_timer){
        .source = {.poll = poll_nothing, .trywait = may_sleep, .fd = -1},
    };
    list_init(&timer->source.link);
}

void wake_timer_finish(struct wake_timer *timer, struct progress *progress)
{
    if (timer->source.fd < 0)
        return;
    progress_detach(progress, &timer->source);
    close(timer->source.fd);
    timer->source.fd = -1;
}

int wake_timer_set(struct wake_timer *timer, struct progress *progress, int64_t due_ms,
                   int64_t now_ms)
{
    int64_t left = due_ms - now_ms;
    struct itimerspec spec = {
        .it_value = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000},
    };
    bool running = !list_empty(&timer->source.link);

    if (running && timer->due_ms == due_ms)
        return 0;
    if (timer->source.fd < 0)
        timer->source.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer->source.fd < 0)
        return -FI_EMFILE;
    timerfd_settime(timer->source.fd, 0, &spec, NULL);
    timer->due_ms = due_ms;
    return running ? 0 : progress_attach(progress, &timer->source);
}

void wake_timer_clear(struct wake_timer *timer, struct progress *progress, int64_t due_ms)
{
    static const struct itimerspec never;

    if (list_empty(&timer->source.link) || timer->due_ms == due_ms)
        return;
    timerfd_settime(timer->source.fd, 0, &never, NULL);
    progress_detach(progress, &timer->source);
}

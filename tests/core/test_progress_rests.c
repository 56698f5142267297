/* SPDX-License-Identifier: BSD-2-Clause */
/* Does a thread sleep on the sources of a progress domain? Busy ones disarm while none does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/fid.h"
#include "core/progress/progress.h"

static struct progress *create(enum fi_threading threading)
{
    struct fi_domain_attr attr = {
        .threading = threading,
        .control_progress = FI_PROGRESS_CONTROL_UNIFIED,
        .data_progress = FI_PROGRESS_MANUAL,
    };
    struct progress *progress;

    assert_int_equal(progress_create(&attr, "test", NULL, &progress), 0);
    return progress;
}

static void drain(struct progress_source *source)
{
    uint64_t value;

    if (source->fd >= 0 && read(source->fd, &value, sizeof(value)) < 0)
        return; /* nothing was in it */
}

static int idle(struct progress_source *source)
{
    return 0;
}

static void attach(struct progress *progress, struct progress_source *source, int fd,
                   struct progress *below)
{
    *source = (struct progress_source){.poll = drain, .trywait = idle, .fd = fd, .below = below};
    list_init(&source->link);
    progress_lock(progress);
    assert_int_equal(progress_attach(progress, source), 0);
    progress_unlock(progress);
}

static void detach(struct progress *progress, struct progress_source *source)
{
    progress_lock(progress);
    progress_detach(progress, source);
    progress_unlock(progress);
}

static bool rests(struct progress *driven, struct progress *asked)
{
    bool rests;

    progress_lock(driven);
    rests = progress_rests(asked);
    progress_unlock(driven);
    return rests;
}

/* As a reader does, who is busy: what comes wakes the thread, which sees that it is not needed. */
static void drive(struct progress *progress, int fd)
{
    static const uint64_t one = 1;

    assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
    progress_lock(progress);
    progress_poll(progress);
    progress_unlock(progress);
    usleep(1000);
}

static void watches_tell_whether_a_thread_may_sleep(void **state)
{
    struct progress *progress = create(FI_THREAD_SAFE), *below = create(FI_THREAD_DOMAIN);
    int fd = eventfd(0, EFD_NONBLOCK), epoll_fd = epoll_create1(0);
    struct progress_source source, layer;
    struct progress_watch watch = {0};

    attach(below, &source, fd, NULL);
    attach(progress, &layer, PROGRESS_NO_FD, below);
    assert_true(rests(progress, progress) && rests(progress, below));
    assert_int_equal(progress_watch(progress, &watch, epoll_fd), 0);
    assert_false(rests(progress, progress) || rests(progress, below));
    progress_unwatch(progress, &watch);
    assert_true(rests(progress, progress) && rests(progress, below));
    detach(progress, &layer);
    detach(below, &source);
    progress_release(progress);
    progress_release(below);
    close(epoll_fd);
    close(fd);
}

static void a_stand_in_that_stands_aside_does_not_sleep(void **state)
{
    struct progress *progress = create(FI_THREAD_SAFE), *other = create(FI_THREAD_SAFE);
    struct progress *below = create(FI_THREAD_DOMAIN);
    int fd = eventfd(0, EFD_NONBLOCK);
    struct progress_source source, layer;
    unsigned looks = 0;

    attach(below, &source, fd, NULL);
    attach(progress, &layer, PROGRESS_NO_FD, below);
    progress_lock(progress);
    progress_stand_in(progress);
    progress_unlock(progress);
    for (int i = 0; i < 3; i++) {
        for (int j = 1; j < PROGRESS_LOOKS; j++)
            assert_false(progress_may_disarm(below, &looks));
        for (int j = 0; !progress_may_disarm(below, &looks); j++) {
            assert_true(j < 60000);
            drive(progress, fd);
        }
        assert_int_equal(looks, 0);
        for (int j = 0; rests(progress, below); j++) { /* until it has taken over */
            assert_true(j < 60000);
            usleep(1000);
        }
    }
    assert_int_equal(progress_merge(other, progress), 0);
    for (int j = 0; !rests(other, below); j++) { /* the thread that has ended does not count */
        assert_true(j < 60000);
        drive(other, fd);
    }
    detach(other, &layer);
    detach(below, &source);
    progress_release(progress);
    progress_release(other);
    progress_release(below);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watches_tell_whether_a_thread_may_sleep),
        cmocka_unit_test(a_stand_in_that_stands_aside_does_not_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

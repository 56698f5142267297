/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/deadline.h"

enum {
    SOON = 20000000
};

static bool is_past(const struct timespec *until)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > until->tv_sec ||
           (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
}

static void moments_carry_into_seconds(void **state)
{
    struct timespec from = {.tv_sec = 7, .tv_nsec = 999999999};
    struct timespec same = deadline_after(from, 0), next = deadline_after(from, 1),
                    far = deadline_after(from, INT64_C(86400) * 1000000000 + 1);

    assert_true(same.tv_sec == 7 && same.tv_nsec == 999999999);
    assert_true(next.tv_sec == 8 && next.tv_nsec == 0);
    assert_true(far.tv_sec == 86408 && far.tv_nsec == 0);
}

typedef int wait_cond(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
typedef int wait_sem(sem_t *sem, const struct timespec *until);

static wait_cond *const cond_waits[] = {deadline_wait_cond, deadline_wait_cond_wall};
static wait_sem *const sem_waits[] = {deadline_wait_sem, deadline_wait_sem_wall};

static void a_condition_ends_at_its_moment(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        struct timespec until = deadline_in(SOON);
        int rc;

        pthread_mutex_lock(&mutex);
        do
            rc = cond_waits[i](&cond, &mutex, &until);
        while (!rc);
        pthread_mutex_unlock(&mutex);
        assert_int_equal(rc, ETIMEDOUT);
        assert_true(is_past(&until));
    }
}

static void a_semaphore_ends_at_its_moment(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        struct timespec until = deadline_in(SOON);
        sem_t sem;

        assert_int_equal(sem_init(&sem, 0, 1), 0);
        assert_int_equal(sem_waits[i](&sem, &until), 0);
        assert_int_equal(sem_waits[i](&sem, &until), -1);
        assert_int_equal(errno, ETIMEDOUT);
        assert_true(is_past(&until));
        /* Events that are there are taken, however late. */
        assert_int_equal(sem_post(&sem), 0);
        assert_int_equal(sem_waits[i](&sem, &until), 0);
        sem_destroy(&sem);
    }
}

struct call {
    pthread_cond_t cond;
    pthread_mutex_t mutex;
    bool made;
};

static void *make_call(void *arg)
{
    struct call *call = arg;

    pthread_mutex_lock(&call->mutex);
    call->made = true;
    pthread_cond_signal(&call->cond);
    pthread_mutex_unlock(&call->mutex);
    return NULL;
}

static void a_condition_is_woken(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        struct call call = {PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, false};
        struct timespec until = deadline_in(INT64_C(100) * 1000000000);
        pthread_t thread;

        pthread_mutex_lock(&call.mutex);
        assert_int_equal(pthread_create(&thread, NULL, make_call, &call), 0);
        while (!call.made)
            assert_int_equal(cond_waits[i](&call.cond, &call.mutex, &until), 0);
        pthread_mutex_unlock(&call.mutex);
        pthread_join(thread, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_carry_into_seconds),
        cmocka_unit_test(a_condition_ends_at_its_moment),
        cmocka_unit_test(a_semaphore_ends_at_its_moment),
        cmocka_unit_test(a_condition_is_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/deadline.h"

#include <errno.h>
#include <stdbool.h>

enum {
    SECOND = 1000000000
};

struct timespec deadline_after(struct timespec from, int64_t ns)
{
    int64_t part = from.tv_nsec + ns % SECOND;

    from.tv_sec += (time_t)(ns / SECOND + part / SECOND);
    from.tv_nsec = (long)(part % SECOND);
    return from;
}

struct timespec deadline_in(int64_t ns)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return deadline_after(now, ns);
}

/* The wall clock's time at the deadline. False: it is past. */
static bool wall_until(const struct timespec *until, struct timespec *ret_wall)
{
    struct timespec now, wall;
    int64_t left;

    clock_gettime(CLOCK_MONOTONIC, &now);
    left = ((int64_t)until->tv_sec - now.tv_sec) * SECOND + until->tv_nsec - now.tv_nsec;
    if (left <= 0)
        return false;
    clock_gettime(CLOCK_REALTIME, &wall);
    *ret_wall = deadline_after(wall, left);
    return true;
}

int deadline_wait_cond_wall(pthread_cond_t *cond, pthread_mutex_t *mutex,
                            const struct timespec *until)
{
    struct timespec wall;
    int rc = ETIMEDOUT;

    while (rc == ETIMEDOUT && wall_until(until, &wall))
        rc = pthread_cond_timedwait(cond, mutex, &wall);
    return rc;
}

int deadline_wait_sem_wall(sem_t *sem, const struct timespec *until)
{
    struct timespec wall;

    while (wall_until(until, &wall)) {
        if (!sem_timedwait(sem, &wall))
            return 0;
        if (errno != ETIMEDOUT)
            return -1;
    }
    /* As sem_timedwait: what can be had at once is had, whatever the time. EAGAIN is not an answer
     * of it. */
    if (!sem_trywait(sem))
        return 0;
    if (errno == EAGAIN)
        errno = ETIMEDOUT;
    return -1;
}

int deadline_wait_cond(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
#ifdef WEFT_HAVE_PTHREAD_COND_CLOCKWAIT
    return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, until);
#else
    return deadline_wait_cond_wall(cond, mutex, until);
#endif
}

int deadline_wait_sem(sem_t *sem, const struct timespec *until)
{
#ifdef WEFT_HAVE_SEM_CLOCKWAIT
    return sem_clockwait(sem, CLOCK_MONOTONIC, until);
#else
    return deadline_wait_sem_wall(sem, until);
#endif
}

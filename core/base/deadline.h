/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting until a moment of CLOCK_MONOTONIC. glibc has calls for that since 2.30; other C libraries
 * and older ones know only the wall clock in these places.
 */
#ifndef WEFT_CORE_BASE_DEADLINE_H
#define WEFT_CORE_BASE_DEADLINE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <time.h>

/* The moment that is ns (>= 0) after `from`. */
struct timespec deadline_after(struct timespec from, int64_t ns);

/* The moment that is ns (>= 0) from now. */
struct timespec deadline_in(int64_t ns);

/* pthread_cond_timedwait with such a moment. The condition has the default attributes, since an
 * application may wait on it, too. 0 (woken, perhaps for nothing) or ETIMEDOUT. */
int deadline_wait_cond(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

/* sem_timedwait with such a moment. 0, or -1 with errno ETIMEDOUT or EINTR. */
int deadline_wait_sem(sem_t *sem, const struct timespec *until);

/*
 * The fallbacks, which are always built, so that they are tested everywhere. Both wait on the wall
 * clock for what is left, and again as long as something is. Where the wall clock is set back
 * meanwhile, musl does not notice (it gives the kernel what is left, not the moment); another C
 * library may wait for longer by that.
 */
int deadline_wait_cond_wall(pthread_cond_t *cond, pthread_mutex_t *mutex,
                            const struct timespec *until);
int deadline_wait_sem_wall(sem_t *sem, const struct timespec *until);

#endif

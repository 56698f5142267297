/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals as the occasion of a report. The handler does nothing but post a semaphore, and then what
 * the application had in its place: its own handler goes on as before.
 */
#ifndef WEFT_PROFILE_SIGNAL_H
#define WEFT_PROFILE_SIGNAL_H

#include <semaphore.h>

/* The number of a signal by its name ("USR1"), 0 for none. */
int profile_signal_number(const char *name);
/* From now on *ret_sem is posted at each signal. -FI_EAGAIN: too many fabrics want one. */
int profile_signal_take(int signo, sem_t **ret_sem);
/* No more. The last one puts back what was there, unless it has been replaced since. Takes NULL. */
void profile_signal_release(const sem_t *sem);

#endif

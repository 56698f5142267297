/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copying from memory that may vanish meanwhile: memory attached from another process ends with
 * that process, and an access to it then raises SIGBUS. Handlers for SIGBUS and SIGSEGV turn that
 * into an error; all other faults are passed on to the handlers that were there before. They are
 * installed by the first use, and stay. Any thread.
 */
#ifndef WEFT_SHM_GUARD_H
#define WEFT_SHM_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct shm_guard {
    sigset_t mask; /* of the thread, before */
};

/* Before copies: three system calls. -EBUSY: the handlers are another library's by now. Until the
 * end, in the same thread, the two signals are not blocked. */
int shm_guard_begin(struct shm_guard *guard);
void shm_guard_end(const struct shm_guard *guard);
/* false: some byte of `from` is not there; which bytes were copied is unknown. */
bool shm_guard_copy(const struct shm_guard *guard, void *to, const void *from, size_t len);

#endif

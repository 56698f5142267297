/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of the library under test that fail when told so: the program that links this, or that it
 * is loaded before, has its own malloc, socket, sendmsg and so on, which stand before the C
 * library's. Only what libfabric.so.1 itself calls is counted, and of each place that calls only
 * the first few times.
 */
#ifndef WEFT_TESTS_SUPPORT_FAILING_H
#define WEFT_TESTS_SUPPORT_FAILING_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define FAILING_ALLOCATIONS 0 /* the sanitizer has them */
#else
#define FAILING_ALLOCATIONS 1
#endif

enum failing_kind {
    FAILING_NONE,
    FAILING_ALLOCATION,
    FAILING_SYSTEM_CALL
};

/* From now on the at-th counted call fails; 0: none does, they are only counted. */
void failing_start(enum failing_kind kind, unsigned at);
/* Back to normal; returns how many were counted. */
unsigned failing_stop(void);
/* The function that failed, with its errno and the place in libfabric.so.1 (for addr2line); NULL
 * when none did. */
const char *failing_what(int *err, unsigned long *place);
/*
 * In a test that is linked with the static library, places of the program itself count too: these
 * (as addr2line takes them; they stay the caller's), or with NULL all of them, from the next start
 * on. failing_places: those of the program that were counted, at most max; how many.
 */
void failing_own(const unsigned long *places, unsigned count);
unsigned failing_places(unsigned long *places, unsigned max);
/* Called, if it is set, when a call is made to fail. */
extern void (*failing_hook)(void);
/* Allocations of the whole process that were not freed. */
long failing_live(void);
/* For what stands before the calls: is this the one that fails? Then errno is set. */
bool failing_hit(enum failing_kind kind, uintptr_t caller, const char *name, int err);

#endif

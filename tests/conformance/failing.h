/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of the library under test that fail when told so: the program that links this has its own
 * malloc, socket, sendmsg and so on, which stand before the C library's. Only what libfabric.so.1
 * itself calls is counted, and of each place that calls only the first few times.
 */
#ifndef WEFT_CONF_FAILING_H
#define WEFT_CONF_FAILING_H

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
/* Allocations of the whole process that were not freed. */
long failing_live(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cases while a call of the library fails: conformance --fail alloc:N|call:N SPEC CASE, and
 * --sweep alloc|call[:SECONDS] SPEC [CASE], which takes all N of each case, or as many of them, by
 * chance, as go into that time.
 *
 * A case passes, or ends with the first error that it is told of; then all operations that were
 * accepted must end, once. A crash, a hang, a leak (in builds that see leaks), wrong data, and an
 * error without a call that failed are failures.
 */
#ifndef WEFT_CONF_FAULTS_H
#define WEFT_CONF_FAULTS_H

#include "conf.h"

/* what: "alloc:3", "call:0", "alloc". 0, or -1 when it is nothing of the kind. */
int faults_parse(const char *what, bool sweep);
/* One case with the N of faults_parse; prints a line. True when it is well. */
bool faults_fail(const struct conf_case *one);
/* All of these (NULL-terminated groups) whose name contains `only`, or NULL: all; the number that
 * went wrong. */
int faults_sweep(const struct conf_case *const *groups, const char *only);

/* conf_fail, while faults are made: the case has said what it has to say. */
_Noreturn void faults_ended(const char *text);
_Noreturn void faults_lacking(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report of a hook: a text about the calls through it, at the end of a file, in its place, or
 * on standard error. The hook prints into a stream in memory; the file gets it in one write, so
 * that reports of several processes do not mix.
 */
#ifndef WEFT_CORE_HOOK_HOOK_REPORT_H
#define WEFT_CORE_HOOK_HOOK_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/identity.h"

struct open_args;

struct hook_report {
    const char *part; /* the hook's name, for messages; static */
    char *below;      /* provider name of the hook's lower; "?" where none is given */
    char *path;       /* owned; NULL: standard error */
};

/* Of zeroed memory; reads the parameter `file`, creates that file, and keeps copies of names.
 * -FI_ENOMEM, or a negative errno that log_user has explained: hook_report_finish takes a partly
 * opened one. May block on the file. */
int hook_report_open(struct hook_report *report, const char *part, const struct open_args *args);
void hook_report_finish(struct hook_report *report); /* takes zeroed memory */

/* Writes the output of print. replace: in the place of the file's text, where there is a file. A
 * failure is a line by log_user. Calls print once, in the calling thread; may block on the file. */
void hook_report_write(const struct hook_report *report, bool replace,
                       void (*print)(void *arg, FILE *out), void *arg);

/* Between quotes of JSON and Prometheus: quotes and backslashes are escaped, control characters
 * are '?'. */
void hook_report_name(const char *name, FILE *out);
/* The first words of a table: "perf over tcp: a.out, rank 3, process 17 on host". */
void hook_report_head(const struct hook_report *report, const struct identity *identity, FILE *out);

#endif

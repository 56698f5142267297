/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_top's table: rates between two readings of all page files, as lines of text. */
#ifndef WEFT_TOP_VIEW_H
#define WEFT_TOP_VIEW_H

#include <stdio.h>

#include "mon_page.h"

enum top_sort {
    TOP_BY_CALLS, /* calls a second; without an earlier reading: calls */
    TOP_BY_BYTES,
    TOP_BY_LATENCY,
    TOP_BY_QUEUE,
    TOP_BY_AGAIN,
    TOP_BY_PID,
    TOP_SORTS,
};
extern const char *const top_sort_names[TOP_SORTS + 1]; /* "calls", ...; ends with NULL */

struct top_view {
    enum top_sort sort;
    bool objects;      /* lines for endpoints and queues too */
    bool raw;          /* exact counts since the start instead of rates, for scripts */
    uint32_t pid;      /* 0: all */
    int rows, columns; /* of the terminal; 0: no limit */
};

/* One reading, and when. */
struct top_reading {
    struct mon_file *files;
    int count;
    double seconds;
};

/* before: NULL the first time. path: for the message when there is nothing to show. */
void top_print(const struct top_view *view, const struct top_reading *before,
               const struct top_reading *now, const char *path, FILE *out);

#endif

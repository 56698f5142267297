/* SPDX-License-Identifier: BSD-2-Clause */
/* The page file: its place, how it is made, and the identity of the process in it. */
#ifndef WEFT_MONITOR_FILE_H
#define WEFT_MONITOR_FILE_H

#include "layers/monitor/monitor_page.h"

struct monitor_place_wanted {
    const char *base;   /* made where it is not there; below it <uid>/<host> */
    unsigned base_mode; /* of the base when it is made; sticky where others may write */
    unsigned dir_mode;  /* of folders below it */
    unsigned file_mode;
    const char *whole; /* the stack that the layer is part of; "" */
};

/* Makes and maps the file for a layer that stands on `stack`; page->header is complete, page is
 * otherwise zeroed but for path, fd, size. A negative errno and a sentence in why. */
int monitor_file_open(const struct monitor_place_wanted *wanted, const char *stack,
                      struct monitor_page *page, char *why, size_t why_size);
/* Removes it unless it lingers, or belongs to the parent of a fork; unmaps. */
void monitor_file_close(struct monitor_page *page);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Where parts write reports that users asked for: reports. */
#ifndef WEFT_CORE_BASE_OUTPUT_H
#define WEFT_CORE_BASE_OUTPUT_H

#include <stddef.h>

/* The name that path (core/base/path.h) stands for, to be freed; that it can be written is found
 * out now, and it exists then. An error is a negative errno, which log_user has explained in the
 * name of `part`. */
int output_open(const char *part, const char *path, char **ret_name);

/* Text to the end of the file, or of standard error (NULL); in one write as far as the kernel takes
 * it, so that output of several processes does not mix. A negative errno. */
int output_append(const char *name, const char *text, size_t len);
/* The text instead of the file: a reader sees the old one or the new one whole. A link stays
 * one, and its file is replaced; a device or a pipe stays too, and the text is written into it. */
int output_replace(const char *name, const char *text, size_t len);

#endif

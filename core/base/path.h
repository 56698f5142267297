/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of files that parts write: %p stands for the process, %h for the host, %% for itself. */
#ifndef WEFT_CORE_BASE_PATH_H
#define WEFT_CORE_BASE_PATH_H

#include <stddef.h>

/* Puts path with its %-sequences replaced into out. A negative errno, and a sentence in why, for an
 * unknown one and for a name that is too long. */
int path_expand(const char *path, char *out, size_t size, char *why, size_t why_size);
/* Would path_expand take it? The same errors; for tables of parameters. */
int path_check(const char *path, char *why, size_t why_size);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of parameter values -> typed values, with a sentence about what is wrong and would be
 * right. */
#ifndef WEFT_CORE_PARAM_PARAM_VALUE_H
#define WEFT_CORE_PARAM_PARAM_VALUE_H

#include "core/param/param.h"

/* *number: the integer; bytes (as uint64_t); milliseconds; 0 or 1; index of the choice. 0 for
 * texts. text NULL is a bare key. -FI_EINVAL with a sentence in why, which names the key. */
int param_value_parse(const struct param_def *def, const char *text, int64_t *number, char *why,
                      size_t why_size);

/* The permitted values of def: "bytes (digits with k, m or g) from 1 to 64". Returns text. */
char *param_value_expected(const struct param_def *def, char *text, size_t size);

#endif

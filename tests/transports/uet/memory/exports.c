/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that programs link, in a program with the static library: one layout of each
 * struct. */
#define WEFT_STATIC
#include "compose/exports.c"

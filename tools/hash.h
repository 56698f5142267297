/* SPDX-License-Identifier: BSD-2-Clause */
/* uthash: HASH_ADD without memory leaves the element out, and hash_has says so. */
#ifndef WEFT_TOOLS_HASH_H
#define WEFT_TOOLS_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define hash_has(element) ((element)->hh.tbl != NULL)

#endif

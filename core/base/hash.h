/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables of control paths: uthash (https://troydhanson.github.io/uthash), with its macros
 * HASH_ADD_KEYPTR, HASH_FIND, HASH_DEL and so on. HASH_ADD without memory leaves the element out,
 * and its hh.tbl NULL; hash_has says which. An element has a handle of 56 bytes, and may have
 * several. Not locked: the owner's lock covers the table.
 *
 * Data paths have tables of their own: matching, regions by key, and tables with an entry for each
 * inserted address (docs/decisions/core.md).
 */
#ifndef WEFT_CORE_BASE_HASH_H
#define WEFT_CORE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, len, value) ((value) = hash_fold(hash_bytes(HASH_START, (key), (len))))

#include <uthash.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a, 64 bits: goes on from start, which is HASH_START, another number, or what it gave for
 * the bytes before these. The same on every machine, so it may stand in files and names. */
uint64_t hash_bytes(uint64_t start, const void *bytes, size_t len);

static inline uint32_t hash_fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

/* Whether HASH_ADD had the memory that it needed. */
#define hash_has(element) ((element)->hh.tbl != NULL)

#endif

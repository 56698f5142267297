/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the join's own (MRAIL_OWN), by which a reader learns the keys that a region has on
 * the rails. Pure; numbers are little-endian.
 *
 *   0 kind | count | 0 (2)
 *   4 id (4)         of the question
 *   8 key (8 each)   MRAIL_ASKED: the join's; MRAIL_TOLD: that of each rail of the sender's, in the
 *                    order of its address, FI_KEY_NOTAVAIL for none; no key: there is no region
 */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_KEYS_H
#define WEFT_LAYERS_MRAIL_MRAIL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layers/mrail/mrail_addr.h"

enum mrail_keys_kind {
    MRAIL_ASKED = 1,
    MRAIL_TOLD,
};

enum {
    MRAIL_KEYS_HEAD = 8,
    MRAIL_KEYS_MAX = MRAIL_KEYS_HEAD + 8 * MRAIL_RAILS,
};

struct mrail_keys {
    enum mrail_keys_kind kind;
    uint32_t id;
    unsigned count;
    uint64_t key[MRAIL_RAILS];
};

/* Bytes of it, into room for MRAIL_KEYS_MAX. */
size_t mrail_keys_put(const struct mrail_keys *keys, uint8_t *raw);
/* NULL, or what is wrong with these bytes. */
const char *mrail_keys_get(const uint8_t *raw, size_t len, struct mrail_keys *keys);

#endif

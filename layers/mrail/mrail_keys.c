/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_keys.h"

#include "core/base/little_endian.h"

size_t mrail_keys_put(const struct mrail_keys *keys, uint8_t *raw)
{
    raw[0] = (uint8_t)keys->kind;
    raw[1] = (uint8_t)keys->count;
    raw[2] = raw[3] = 0;
    put32(raw + 4, keys->id);
    for (unsigned i = 0; i < keys->count; i++)
        put64(raw + MRAIL_KEYS_HEAD + 8 * i, keys->key[i]);
    return MRAIL_KEYS_HEAD + 8 * (size_t)keys->count;
}

const char *mrail_keys_get(const uint8_t *raw, size_t len, struct mrail_keys *keys)
{
    if (len < MRAIL_KEYS_HEAD || raw[2] || raw[3])
        return "a message of the join's that says nothing";
    *keys = (struct mrail_keys){
        .kind = (enum mrail_keys_kind)raw[0], .id = get32(raw + 4), .count = raw[1]};
    if ((keys->kind != MRAIL_ASKED && keys->kind != MRAIL_TOLD) || keys->count > MRAIL_RAILS ||
        (keys->kind == MRAIL_ASKED && keys->count != 1))
        return "keys of rails that there are not";
    if (len != MRAIL_KEYS_HEAD + 8 * (size_t)keys->count)
        return "keys that are cut short";
    for (unsigned i = 0; i < keys->count; i++)
        keys->key[i] = get64(raw + MRAIL_KEYS_HEAD + 8 * i);
    return NULL;
}

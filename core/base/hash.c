/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/hash.h"

uint64_t hash_bytes(uint64_t start, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;

    for (size_t i = 0; i < len; i++)
        start = (start ^ from[i]) * UINT64_C(0x100000001b3);
    return start;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_private.h"

#include <string.h>

size_t verbs_private_put(const void *data, size_t len, uint8_t raw[VERBS_PRIVATE])
{
    raw[0] = (uint8_t)len;
    if (len)
        memcpy(raw + 1, data, len);
    return len + 1;
}

bool verbs_private_get(const void *raw, size_t raw_len, const uint8_t **data, size_t *len)
{
    const uint8_t *bytes = raw;

    *data = NULL;
    *len = 0;
    if (!raw || !raw_len)
        return true;
    if (bytes[0] > raw_len - 1 || bytes[0] > VERBS_CM_DATA)
        return false;
    *data = bytes + 1;
    *len = bytes[0];
    return true;
}

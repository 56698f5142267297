/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers in little-endian order, at any alignment, as our own wires have them. */
#ifndef WEFT_CORE_BASE_LITTLE_ENDIAN_H
#define WEFT_CORE_BASE_LITTLE_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void put16(uint8_t *raw, uint16_t value)
{
    value = htole16(value);
    memcpy(raw, &value, sizeof(value));
}

static inline void put32(uint8_t *raw, uint32_t value)
{
    value = htole32(value);
    memcpy(raw, &value, sizeof(value));
}

static inline void put64(uint8_t *raw, uint64_t value)
{
    value = htole64(value);
    memcpy(raw, &value, sizeof(value));
}

static inline uint16_t get16(const uint8_t *raw)
{
    uint16_t value;

    memcpy(&value, raw, sizeof(value));
    return le16toh(value);
}

static inline uint32_t get32(const uint8_t *raw)
{
    uint32_t value;

    memcpy(&value, raw, sizeof(value));
    return le32toh(value);
}

static inline uint64_t get64(const uint8_t *raw)
{
    uint64_t value;

    memcpy(&value, raw, sizeof(value));
    return le64toh(value);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/wire/crc.h"

#include <stdbool.h>
#include <string.h>

/* The reflected polynomial 0x82f63b78, four bits a step: 64 bytes of table. */
static const uint32_t steps[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t by_tables(uint32_t crc, const uint8_t *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ steps[crc & 15];
        crc = crc >> 4 ^ steps[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__

/* The processor's own instruction. */
__attribute__((target("sse4.2"))) static uint32_t by_words(uint32_t crc, const uint8_t *at,
                                                           size_t len)
{
    uint64_t wide = crc, word;

    for (; len >= sizeof(word); len -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; len; len--)
        crc = __builtin_ia32_crc32qi(crc, *at++);
    return crc;
}

static bool has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}

#else

static uint32_t by_words(uint32_t crc, const uint8_t *at, size_t len)
{
    return by_tables(crc, at, len);
}

static bool has_instruction(void)
{
    return false;
}

#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return has_instruction() ? ~by_words(~crc, bytes, len) : crc32c_portable(crc, bytes, len);
}

uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len)
{
    return ~by_tables(~crc, bytes, len);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/gate.h"

#include <string.h>

enum {
    ADDR_MAX = 64,
    TIME_AT = 0, /* in a token */
    MAC_AT = 8,
    ZERO_AT = 16,
};

static uint64_t turn(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn(v[1], 13) ^ v[0];
    v[3] = turn(v[3], 16) ^ v[2];
    v[0] = turn(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = turn(v[1], 17) ^ v[2];
    v[3] = turn(v[3], 21) ^ v[0];
    v[2] = turn(v[2], 32);
}

static void take_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
}

static uint64_t little_endian(const uint8_t *bytes, size_t len)
{
    uint64_t word = 0;

    for (size_t i = 0; i < len; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

uint64_t gate_hash(const uint64_t key[2], const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    size_t words = len / 8;
    uint64_t v[4] = {
        key[0] ^ UINT64_C(0x736f6d6570736575),
        key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261),
        key[1] ^ UINT64_C(0x7465646279746573),
    };

    for (size_t i = 0; i < words; i++)
        take_word(v, little_endian(at + 8 * i, 8));
    take_word(v, little_endian(at + 8 * words, len % 8) | (uint64_t)len << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint64_t mac(const struct gate *gate, uint64_t time, const void *addr, size_t addr_len,
                    uint64_t from)
{
    uint8_t text[16 + ADDR_MAX];
    size_t len = addr_len < ADDR_MAX ? addr_len : ADDR_MAX;

    arq_put64(text, time);
    arq_put64(text + 8, from);
    memcpy(text + 16, addr, len);
    return gate_hash(gate->key, text, 16 + len);
}

void gate_make(const struct gate *gate, uint64_t now, const void *addr, size_t addr_len,
               uint64_t from, uint8_t token[ARQ_TOKEN])
{
    arq_put64(token + TIME_AT, now);
    arq_put64(token + MAC_AT, mac(gate, now, addr, addr_len, from));
    arq_put64(token + ZERO_AT, 0);
}

uint64_t gate_time(const uint8_t token[ARQ_TOKEN])
{
    return arq_get64(token + TIME_AT);
}

bool gate_check(const struct gate *gate, uint64_t now, const void *addr, size_t addr_len,
                uint64_t from, const uint8_t token[ARQ_TOKEN])
{
    uint64_t time = gate_time(token);

    if (time > now || now - time > GATE_TOKEN_AGE || arq_get64(token + ZERO_AT))
        return false;
    return arq_get64(token + MAC_AT) == mac(gate, time, addr, addr_len, from);
}

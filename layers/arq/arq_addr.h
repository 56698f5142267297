/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of the lower, as bytes in one form, so that equal addresses are equal bytes: they are
 * keys, go into tokens, and are told to peers.
 */
#ifndef WEFT_LAYERS_ARQ_ARQ_ADDR_H
#define WEFT_LAYERS_ARQ_ARQ_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/addr.h"

enum {
    ARQ_ADDR_MAX = ADDR_TEXT_MAX /* bytes */
};

struct arq_addr {
    uint32_t len; /* 0: none */
    _Alignas(union addr) uint8_t bytes[ARQ_ADDR_MAX];
};

/* A socket address, or a text: other formats have addresses that arq cannot tell apart. */
bool arq_addr_takes(uint32_t format);
/* From `len` bytes at most of `format` (FI_SOCKADDR_IN, FI_ADDR_STR, ...), from wherever they come.
 * False: they are no address; addr->len is 0. */
bool arq_addr_take(uint32_t format, const void *raw, size_t len, struct arq_addr *addr);
/* The same of an address of an AV, which ends by itself. */
bool arq_addr_of_av(uint32_t format, const void *raw, struct arq_addr *addr);

/* Where `to` has room for so many bytes. */
static inline void arq_addr_copy(struct arq_addr *to, const struct arq_addr *from)
{
    to->len = from->len;
    __builtin_memcpy(to->bytes, from->bytes, from->len);
}

static inline bool arq_addr_equal(const struct arq_addr *a, const struct arq_addr *b)
{
    return a->len == b->len && !__builtin_memcmp(a->bytes, b->bytes, a->len);
}

uint64_t arq_addr_hash(const struct arq_addr *addr);
/* For the log. Returns text. */
char *arq_addr_text(uint32_t format, const struct arq_addr *addr, char text[ADDR_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The gate before a session: nothing is remembered of an unknown address until it returns a token
 * that was sent to it, which shows that it receives there. A token is a keyed hash (SipHash-2-4) of
 * address, identifier and time, so the gate itself keeps two words. Source: RFC 9000 section 8.1.
 */
#ifndef WEFT_CORE_ARQ_GATE_H
#define WEFT_CORE_ARQ_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arq/packet.h"

#define GATE_TOKEN_AGE UINT64_C(30000000000) /* ns: an older token is not taken any more */

struct gate {
    uint64_t key[2]; /* random, of the endpoint; never on the wire */
};

/* The token for an OPEN from that address (its bytes, in one form) and identifier. */
void gate_make(const struct gate *gate, uint64_t now, const void *addr, size_t addr_len,
               uint64_t from, uint8_t token[ARQ_TOKEN]);
/* Is it one that gate_make gave to that address and identifier, not too long ago? */
bool gate_check(const struct gate *gate, uint64_t now, const void *addr, size_t addr_len,
                uint64_t from, const uint8_t token[ARQ_TOKEN]);
/* When a token that gate_check takes was made. */
uint64_t gate_time(const uint8_t token[ARQ_TOKEN]);

/* SipHash-2-4. Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF". */
uint64_t gate_hash(const uint64_t key[2], const void *bytes, size_t len);

#endif

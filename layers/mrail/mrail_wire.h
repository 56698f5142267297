/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The head of a packet. Pure: bytes in, fields out, with every length checked. Numbers are
 * little-endian.
 *
 *    0 'W' 'r' | version | type
 *    4 to (4)       the number that the receiver gave to the sender; 0: not known yet
 *    8 serial (4)   DATA: of the message; PROBE, ANSWER: of the probe
 *   12 ack (4)      all messages below have come
 *   16 limit (4)    the first message that may not be sent
 *   20 flags | words of bits | bytes of the address | 0
 *   24 bits (8 each): has message ack + 1 + i come?
 *      with MRAIL_INTRO: epoch (8) | giving (4) | 0 (4) | the sender's address
 *      payload, of DATA alone
 */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_WIRE_H
#define WEFT_LAYERS_MRAIL_MRAIL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layers/mrail/mrail_addr.h"

enum {
    MRAIL_WIRE_VERSION = 2, /* 1 had addresses of another form */
    MRAIL_HEAD_SIZE = 24,
    MRAIL_INTRO_SIZE = 16, /* without the address */
    MRAIL_WORDS = 4,
    MRAIL_HEAD_MAX = MRAIL_HEAD_SIZE + 8 * MRAIL_WORDS + MRAIL_INTRO_SIZE + MRAIL_ADDR_MAX,
};

enum mrail_type {
    MRAIL_DATA = 1,
    MRAIL_ACK,
    MRAIL_PROBE,  /* an ANSWER is wanted on this rail */
    MRAIL_ANSWER, /* to the probe of that serial */
    MRAIL_BYE,    /* the sender is being closed */
};

enum {
    /* Flags. */
    MRAIL_INTRO = 1, /* the sender says who it is */
    MRAIL_OWN = 2,   /* DATA: a message of the join's (mrail_keys.h) */
};

struct mrail_head {
    uint8_t type, flags;
    uint8_t words;
    uint32_t to, serial, ack, limit;
    uint64_t bits[MRAIL_WORDS];
    /* With MRAIL_INTRO: */
    uint64_t epoch; /* of the sender's state for this receiver; a later one is larger */
    uint32_t giving;
    uint8_t addr_len;
    const uint8_t *addr; /* points into the packet */
};

/* Bytes of a head. */
static inline size_t mrail_head_size(const struct mrail_head *head)
{
    size_t size = MRAIL_HEAD_SIZE + 8 * (size_t)head->words;

    return head->flags & MRAIL_INTRO ? size + MRAIL_INTRO_SIZE + head->addr_len : size;
}

void mrail_head_put(const struct mrail_head *head, uint8_t *raw);
/* NULL, and *head; or what is wrong with these bytes. */
const char *mrail_head_get(const uint8_t *raw, size_t len, struct mrail_head *head);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire of rxd: packets of records. Pure: bytes in, fields out, with every length checked.
 * docs/design/rxd.md has the figure. All numbers are in little-endian order.
 */
#ifndef WEFT_LAYERS_RXD_RXD_WIRE_H
#define WEFT_LAYERS_RXD_RXD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "core/base/little_endian.h"
#include "layers/rxd/rxd_name.h"

enum {
    RXD_MAGIC = 'W' | 'x' << 8,
    RXD_VERSION = 3,
    RXD_HEAD_SIZE = 16,
    RXD_INTRO_SIZE = 40, /* of an IP address */
    RXD_INTRO_OWN = 16,  /* of an address of the lower's own form, which follows */
    RXD_RECORD_SIZE = 16,
    RXD_PLACE_SIZE = 24,
    RXD_PLACES = 4,          /* remote segments of an access */
    RXD_PAYLOAD_MAX = 65535, /* bytes behind a record */
    RXD_CONTEXTS = 64,       /* receive contexts of an endpoint, at most */
    RXD_UNASKED_UNIT = 1024, /* bytes that `unasked` of an introduction counts */
    RXD_LENDS = 1,           /* an ability: it knows LENT, BORROWS, SEGMENTS */
    RXD_TRAINS = 2,          /* an ability: it takes DATA and FOLLOW of RXD_PAYLOAD_MAX bytes */
};

enum rxd_head_flag {
    RXD_INTRO = 1,   /* the sender says who it is */
    RXD_ORDERED = 2, /* requests, to be carried out in the order of `sequence` */
    /* With an introduction, of no records: the sender's life may be the next one, or is one that
     * has left the life which knew the receiver's (rxd_life.c). */
    RXD_PROPOSES = 4,
    RXD_RENEWS = 8,
};

struct rxd_head {
    uint8_t flags;
    uint32_t number;   /* that the receiver gave to the sender; 0: it knows none, so it has an
                        * introduction, whose view counts */
    uint32_t sequence; /* of an ordered packet; of others 0 */
    uint32_t ack;      /* ordered packets below were carried out */
    /* With RXD_INTRO: */
    uint32_t life;   /* the sender's, for this receiver: random, not 0 */
    uint32_t view;   /* the receiver's life that the sender knows, or 0 */
    uint32_t giving; /* the number that the receiver is to use */
    uint8_t unasked; /* it takes so much of a message unasked; 0: it knows no such bytes */
    uint8_t
        abilities; /* RXD_LENDS, RXD_TRAINS; bits that mean nothing to us are those of later ones */
    struct rxd_name name; /* of the sender; points into the packet */
};

enum rxd_kind {
    RXD_MSG = 1, /* ordered: a message, or its beginning */
    RXD_WRITE,   /* ordered: remote memory is written; the rest is asked for */
    RXD_READ,    /* ordered */
    RXD_ATOMIC,  /* ordered */
    RXD_BYE,     /* ordered: the sender is being closed */
    RXD_PULL,    /* the sender of a request may send its bytes up to `size` */
    RXD_DATA,    /* bytes from `size` on, for who asked */
    RXD_DONE,    /* a request has ended, with the error `size`, or 0 */
    RXD_GONE,    /* the bytes that taker `id` asked for are there no more */
    RXD_FOLLOW,  /* ordered, behind its message `id`: bytes from `size` on, unasked */
    RXD_LENT, /* the bytes of READ `id` are for the lower's reads, at its places, until the reader
                  * says DONE to loan `taker`, or asks for them (PULL) */
    RXD_ASK,  /* the sender waits for RXD_HERE with that id */
    RXD_HERE,
};

enum rxd_record_flag {
    RXD_TAGGED = 1,
    RXD_HAS_DATA = 2,    /* data for the completion queue */
    RXD_WANTS_DONE = 4,  /* the requester waits for RXD_DONE */
    RXD_READABLE = 8,    /* of a message or write: its memory may be read by the lower */
    RXD_TO_CONTEXT = 16, /* of a request: for a receive context other than the first */
    RXD_FOLLOWED = 32,   /* of a message: bytes follow in RXD_FOLLOW, before any other request */
    RXD_AGAIN = 64,      /* of PULL: those were not kept; from the first of them on */
    RXD_BORROWS = 64,    /* of READ: the requester's lower reads, where the target's lends */
    RXD_SEGMENTS = 128,  /* as READABLE, of several segments, each at an address */
};

struct rxd_record {
    uint8_t kind, flags;
    uint32_t id; /* of requests and of what answers them: the requester's; of data: the taker's */
    uint32_t taker; /* READ, ATOMIC, PULL: where data is to go */
    uint64_t size;  /* of a request: all its bytes; else as enum rxd_kind says */
    uint64_t tag, data;
    uint64_t addr, key; /* RXD_READABLE: where all of it is, for the lower's reads */
    uint32_t context;   /* RXD_TO_CONTEXT: from 1 on */
    uint32_t follows;   /* RXD_FOLLOWED: so many bytes */
    uint8_t place_count, datatype, op, function;
    uint8_t segment_count; /* RXD_SEGMENTS: 2 to RXD_PLACES */
    const uint8_t *payload;
    size_t len; /* bytes of payload */
    /* RXD_SEGMENTS: what is written to a packet; where they are in one, for rxd_segments. */
    const struct fi_rma_iov *segments;
    const uint8_t *raw_segments;
    struct fi_rma_iov places[RXD_PLACES]; /* len of atomics: elements */
};

/* Fields that a message in one packet may have. */
struct rxd_fields {
    uint64_t tag, data;
    uint32_t context;
};

/* Values of `function` of an atomic. */
enum rxd_function {
    RXD_PLAIN,
    RXD_FETCH,
    RXD_COMPARE
};

/* Is it one of those that are carried out in the order of their packets? */
static inline bool rxd_is_ordered(uint8_t kind)
{
    return kind <= RXD_BYE || kind == RXD_FOLLOW;
}

/* Bytes of an introduction by that name. */
static inline size_t rxd_intro_size(const struct rxd_name *name)
{
    return name->own_len ? RXD_INTRO_OWN + (size_t)name->own_len : RXD_INTRO_SIZE;
}

/* Bytes of a head. */
static inline size_t rxd_head_size(const struct rxd_head *head)
{
    return head->flags & RXD_INTRO ? RXD_HEAD_SIZE + rxd_intro_size(&head->name) : RXD_HEAD_SIZE;
}

void rxd_head_put(const struct rxd_head *head, uint8_t *raw);
/* One without an introduction. */
static inline void rxd_head_put_number(uint8_t *raw, uint8_t flags, uint32_t number,
                                       uint32_t sequence, uint32_t ack)
{
    put32(raw, RXD_MAGIC | (uint32_t)RXD_VERSION << 16 | (uint32_t)flags << 24);
    put32(raw + 4, number);
    put32(raw + 8, sequence);
    put32(raw + 12, ack);
}
/* NULL, and *head; or what is wrong with these bytes. */
const char *rxd_head_get(const uint8_t *raw, size_t len, struct rxd_head *head);

/* Bytes of a record without its payload. */
size_t rxd_kind_size(const struct rxd_record *record); /* of fields that its kind has, segments */
extern const uint8_t rxd_flags_size[RXD_AGAIN];        /* of those that its flags name */
static inline size_t rxd_record_size(const struct rxd_record *record)
{
    size_t size = RXD_RECORD_SIZE + rxd_flags_size[record->flags & (RXD_AGAIN - 1)];

    return __builtin_expect(record->kind == RXD_MSG && record->flags < RXD_SEGMENTS, 1)
               ? size
               : size + rxd_kind_size(record);
}

/* One of that kind, whose other fields are 0; `places` are the caller's to set. */
static inline void rxd_record_init(struct rxd_record *record, enum rxd_kind kind)
{
    memset(record, 0, offsetof(struct rxd_record, places));
    record->kind = (uint8_t)kind;
}

/* Are `left` bytes of a packet, of which the `first` are at raw, one record of bytes, DATA or
 * FOLLOW, that rxd_record_get would take? Then that is *record, whose payload begins behind its
 * head. */
static inline bool rxd_rest_get(const uint8_t *raw, size_t first, size_t left, enum rxd_kind kind,
                                struct rxd_record *record)
{
    size_t len = left - RXD_RECORD_SIZE;

    if (first < RXD_RECORD_SIZE || len - 1 >= RXD_PAYLOAD_MAX ||
        get32(raw) != ((uint32_t)kind | (uint32_t)len << 16))
        return false;
    rxd_record_init(record, kind);
    record->id = get32(raw + 4);
    record->size = get64(raw + 8);
    record->len = len;
    return record->size <= UINT64_MAX - len;
}

/* Has the packet, of which the `first` bytes of `len` are at raw, no introduction, and is all of it
 * one DATA or FOLLOW that rxd_record_get would take? Then that is *record, whose payload begins
 * behind both heads. */
static inline bool rxd_bytes_get(const uint8_t *raw, size_t first, size_t len,
                                 struct rxd_record *record)
{
    if (first < RXD_HEAD_SIZE || raw[3] & ~RXD_ORDERED)
        return false;
    return rxd_rest_get(raw + RXD_HEAD_SIZE, first - RXD_HEAD_SIZE, len - RXD_HEAD_SIZE,
                        raw[3] ? RXD_FOLLOW : RXD_DATA, record);
}

/* Has it a message that bytes follow, which is all in the first bytes, and is the rest FOLLOW? Then
 * that is *record, and head and message have so many bytes; else 0. */
size_t rxd_led_bytes_get(const uint8_t *raw, size_t first, size_t len, struct rxd_record *record);

/* The segments of a record, which was read from a packet; its bytes are still valid. */
void rxd_segments(const struct rxd_record *record, struct fi_rma_iov segments[RXD_PLACES]);

/* A whole message of one packet, with the fields of its flags: where its payload goes. */
static inline uint8_t *rxd_message_put(uint8_t *raw, unsigned flags, size_t len,
                                       const struct rxd_fields *fields)
{
    put32(raw, (uint32_t)RXD_MSG | flags << 8 | (uint32_t)len << 16);
    put32(raw + 4, 0); /* nothing will answer it */
    put64(raw + 8, len);
    raw += RXD_RECORD_SIZE;
    if (flags & RXD_TAGGED) {
        put64(raw, fields->tag);
        raw += 8;
    }
    if (flags & RXD_HAS_DATA) {
        put64(raw, fields->data);
        raw += 8;
    }
    if (flags & RXD_TO_CONTEXT) {
        put32(raw, fields->context);
        raw += 4;
    }
    return raw;
}

/* The record at raw, of which an ordered packet has `left` bytes, if it is a whole message with no
 * fields but perhaps a tag: its payload. NULL: it is another, or wrong. */
static inline const uint8_t *rxd_message_get(const uint8_t *raw, size_t left, bool *tagged,
                                             uint64_t *tag, size_t *len)
{
    size_t at = RXD_RECORD_SIZE;
    uint32_t word;

    if (left < RXD_RECORD_SIZE)
        return NULL;
    word = get32(raw);
    *len = word >> 16;
    *tagged = word & (uint32_t)RXD_TAGGED << 8;
    at += *tagged ? 8 : 0;
    if ((word & 0xffff & ~((uint32_t)RXD_TAGGED << 8)) != RXD_MSG || get64(raw + 8) != *len ||
        left < at + *len)
        return NULL;
    *tag = *tagged ? get64(raw + RXD_RECORD_SIZE) : 0;
    return raw + at;
}

/* Writes all but the payload; returns where that goes. */
uint8_t *rxd_record_put(const struct rxd_record *record, uint8_t *raw);
/* The record at raw, of which a packet has `left` bytes: NULL, *record and its *size with payload;
 * or what is wrong. ordered: as its packet is. */
const char *rxd_record_get(const uint8_t *raw, size_t left, bool ordered, struct rxd_record *record,
                           size_t *size);

#endif

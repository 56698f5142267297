/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/packet.h"

#include <string.h>

enum {
    AT_NUMBER = 4, /* bytes of a header that differ in a train */
    AT_TO = 8,
    AT_PIECE = 50,
    AT_PIECES = 52,
};

static void put16(uint8_t *bytes, unsigned value)
{
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
}

static void put32(uint8_t *bytes, uint32_t value)
{
    put16(bytes, value >> 16);
    put16(bytes + 2, value & 0xffff);
}

void arq_put64(uint8_t *bytes, uint64_t value)
{
    put32(bytes, (uint32_t)(value >> 32));
    put32(bytes + 4, (uint32_t)value);
}

static uint16_t get16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static uint32_t get32(const uint8_t *bytes)
{
    return (uint32_t)get16(bytes) << 16 | get16(bytes + 2);
}

uint64_t arq_get64(const uint8_t *bytes)
{
    return (uint64_t)get32(bytes) << 32 | get32(bytes + 4);
}

void arq_header_put(const struct arq_header *header, uint8_t bytes[ARQ_HEADER])
{
    bytes[0] = ARQ_MAGIC;
    bytes[1] = (uint8_t)(ARQ_VERSION << 4 | (int)header->type);
    put16(bytes + 2, header->flags);
    put32(bytes + 4, header->number);
    arq_put64(bytes + 8, header->to);
    arq_put64(bytes + 16, header->from);
    put32(bytes + 24, header->serial);
    put32(bytes + 28, header->limit);
    put32(bytes + 32, header->end);
    put32(bytes + 36, header->marked);
    arq_put64(bytes + 40, header->below);
    put16(bytes + 48, header->kept);
    put16(bytes + 50, header->piece);
    put16(bytes + 52, header->pieces);
    put16(bytes + 54, header->size);
}

void arq_train_put(const struct arq_header *header, unsigned count, size_t size, uint8_t *bytes)
{
    uint8_t first[ARQ_HEADER];

    arq_header_put(header, first);
    for (unsigned i = 0; i < count; i++, bytes += size) {
        memcpy(bytes, first, ARQ_HEADER);
        put32(bytes + AT_NUMBER, header->number + i);
        put16(bytes + AT_PIECE, header->piece + i);
    }
}

static void read_header(const uint8_t *bytes, struct arq_header *header)
{
    *header = (struct arq_header){
        .type = bytes[1] & 15,
        .flags = get16(bytes + 2),
        .number = get32(bytes + 4),
        .to = arq_get64(bytes + 8),
        .from = arq_get64(bytes + 16),
        .serial = get32(bytes + 24),
        .limit = get32(bytes + 28),
        .end = get32(bytes + 32),
        .marked = get32(bytes + 36),
        .below = arq_get64(bytes + 40),
        .kept = get16(bytes + 48),
        .piece = get16(bytes + 50),
        .pieces = get16(bytes + 52),
        .size = get16(bytes + 54),
    };
}

/* Is the datagram as long as its type says? */
static bool fits(const struct arq_header *header, size_t len)
{
    size_t behind = len - ARQ_HEADER;

    switch (header->type) {
    case ARQ_OPEN: return len == ARQ_OPEN_SIZE;
    case ARQ_TOKEN_: return behind == ARQ_TOKEN;
    case ARQ_ACK: return behind % 8 == 0 && behind / 8 <= ARQ_WORDS;
    case ARQ_DATA:
    case ARQ_PROBE: return true;
    default: return behind == 0;
    }
}

/* A message in pieces: each has `size` bytes, but for the last, which has 1 to size. */
static bool pieces_fit(const struct arq_header *header, size_t payload)
{
    if (header->pieces == 1)
        return header->piece == 0;
    if (header->pieces < 1 || header->pieces > ARQ_PIECES || header->piece >= header->pieces ||
        !header->size)
        return false;
    return header->piece + 1 < header->pieces ? payload == header->size
                                              : payload >= 1 && payload <= header->size;
}

enum arq_fault arq_header_get(const uint8_t *bytes, size_t len, struct arq_header *header)
{
    /* The first two bytes of libfabric's rxd are its version, 2, and a type; the packet with which
     * Debian's asks for a peer has type 9. */
    if (len >= 2 && bytes[0] == 2 && bytes[1] < 16)
        return ARQ_FOREIGN_RXD;
    if (len < 2)
        return ARQ_SHORT;
    if (bytes[0] != ARQ_MAGIC)
        return ARQ_FOREIGN;
    if (bytes[1] >> 4 != ARQ_VERSION)
        return ARQ_OTHER_VERSION;
    if (len < ARQ_HEADER)
        return ARQ_SHORT;
    read_header(bytes, header);
    if (header->type >= ARQ_TYPES || header->flags & ~(unsigned)ARQ_FLAGS || !header->from)
        return ARQ_MALFORMED;
    if (!fits(header, len))
        return ARQ_SHORT;
    if (header->type == ARQ_DATA && !pieces_fit(header, len - ARQ_HEADER))
        return ARQ_MALFORMED;
    return ARQ_FINE;
}

/* Is it the one of the train that is i packets behind the first? */
static bool belongs(const uint8_t *bytes, size_t len, const uint8_t *first,
                    const struct arq_header *header, unsigned i)
{
    return len > ARQ_HEADER && !memcmp(bytes, first, AT_NUMBER) &&
           get32(bytes + AT_NUMBER) == header->number + i &&
           !memcmp(bytes + AT_TO, first + AT_TO, AT_PIECE - AT_TO) &&
           get16(bytes + AT_PIECE) == header->piece + i &&
           !memcmp(bytes + AT_PIECES, first + AT_PIECES, ARQ_HEADER - AT_PIECES) &&
           pieces_fit(&(struct arq_header){.piece = (uint16_t)(header->piece + i),
                                           .pieces = header->pieces,
                                           .size = header->size},
                      len - ARQ_HEADER);
}

unsigned arq_train_get(const uint8_t *bytes, size_t len, size_t segment,
                       const struct arq_header *header)
{
    unsigned count = 1;
    size_t at;

    if (header->type != ARQ_DATA || header->pieces < 2)
        return 1;
    for (at = segment; at < len; at += segment, count++) {
        if (!belongs(bytes + at, len - at < segment ? len - at : segment, bytes, header, count))
            break;
    }
    return count;
}

const char *arq_fault_text(enum arq_fault fault)
{
    static const char *const texts[] = {
        [ARQ_FINE] = "a packet",
        [ARQ_SHORT] = "a packet of the wrong length",
        [ARQ_FOREIGN] = "a packet of another protocol",
        [ARQ_FOREIGN_RXD] = "a packet of libfabric's rxd, whose protocol is another one",
        [ARQ_OTHER_VERSION] = "a packet of another version of our protocol",
        [ARQ_MALFORMED] = "a packet with a field that cannot be",
    };

    return texts[fault];
}

uint64_t arq_ack_word(const uint8_t *bytes, size_t len, size_t index)
{
    size_t at = ARQ_HEADER + 8 * index;

    return at + 8 <= len ? arq_get64(bytes + at) : 0;
}

size_t arq_open_name(const uint8_t *bytes, size_t len, void *name, size_t room)
{
    size_t count = len == ARQ_OPEN_SIZE ? get16(bytes + ARQ_NAME_AT) : 0;

    if (count > ARQ_NAME_MAX || count > room)
        return 0;
    memcpy(name, bytes + ARQ_NAME_AT + 2, count);
    return count;
}

void arq_open_put_name(uint8_t bytes[ARQ_OPEN_SIZE], const void *name, size_t len)
{
    put16(bytes + ARQ_NAME_AT, (unsigned)len);
    if (len)
        memcpy(bytes + ARQ_NAME_AT + 2, name, len);
}

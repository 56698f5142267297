/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/packet.h"

#include <string.h>

enum {
    AT_NUMBER = 4,
    AT_TO = 8,
    /* Of a PIECE. */
    AT_SERIAL = 16,
    AT_PIECE = 20,
    AT_PIECES = 21,
    AT_SIZE = 22,
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

static void put_brief(const struct arq_header *header, uint8_t *bytes)
{
    bytes[0] = ARQ_MAGIC;
    bytes[1] = (uint8_t)(ARQ_VERSION << 4 | (int)ARQ_PIECE);
    put16(bytes + 2, header->flags);
    put32(bytes + AT_NUMBER, header->number);
    arq_put64(bytes + AT_TO, header->to);
    put32(bytes + AT_SERIAL, header->serial);
    bytes[AT_PIECE] = (uint8_t)header->piece;
    bytes[AT_PIECES] = (uint8_t)header->pieces;
    put16(bytes + AT_SIZE, header->size);
}

void arq_header_put(const struct arq_header *header, uint8_t *bytes)
{
    if (header->brief) {
        put_brief(header, bytes);
        return;
    }
    bytes[0] = ARQ_MAGIC;
    bytes[1] = (uint8_t)(ARQ_VERSION << 4 | (int)header->type);
    put16(bytes + 2, header->flags);
    put32(bytes + AT_NUMBER, header->number);
    arq_put64(bytes + AT_TO, header->to);
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
    uint8_t brief[ARQ_BRIEF];

    arq_header_put(header, bytes);
    put_brief(header, brief);
    for (unsigned i = 1; i < count; i++) {
        bytes += size;
        memcpy(bytes, brief, ARQ_BRIEF);
        put32(bytes + AT_NUMBER, header->number + i);
        bytes[AT_PIECE] = (uint8_t)(header->piece + i);
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

static void read_brief(const uint8_t *bytes, struct arq_header *header)
{
    *header = (struct arq_header){
        .type = ARQ_DATA,
        .brief = true,
        .flags = get16(bytes + 2),
        .number = get32(bytes + AT_NUMBER),
        .to = arq_get64(bytes + AT_TO),
        .serial = get32(bytes + AT_SERIAL),
        .piece = bytes[AT_PIECE],
        .pieces = bytes[AT_PIECES],
        .size = get16(bytes + AT_SIZE),
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

/* A message in pieces: the packets of all are equally long, but for the last, whose piece has 1 to
 * size bytes. */
static bool pieces_fit(const struct arq_header *header, size_t payload)
{
    if (header->brief != (header->piece > 0))
        return false;
    if (header->pieces == 1)
        return header->piece == 0;
    if (header->pieces < 1 || header->pieces > ARQ_PIECES || header->piece >= header->pieces ||
        header->size <= ARQ_HEADER - ARQ_BRIEF)
        return false;
    if (header->piece + 1 == header->pieces)
        return payload >= 1 && payload <= header->size;
    return payload + arq_header_size(header) == header->size + (size_t)ARQ_BRIEF;
}

static enum arq_fault get_brief(const uint8_t *bytes, size_t len, struct arq_header *header)
{
    if (len < ARQ_BRIEF)
        return ARQ_SHORT;
    read_brief(bytes, header);
    return header->flags & ~(unsigned)ARQ_FLAGS || !pieces_fit(header, len - ARQ_BRIEF)
               ? ARQ_MALFORMED
               : ARQ_FINE;
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
    if ((bytes[1] & 15) == ARQ_PIECE)
        return get_brief(bytes, len, header);
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

/* Is it the one of the train that is i packets behind the first? brief: as the first one's header
 * would be. */
static bool belongs(const uint8_t *bytes, size_t len, const uint8_t *brief,
                    const struct arq_header *header, unsigned i)
{
    return len > ARQ_BRIEF && !memcmp(bytes, brief, AT_NUMBER) &&
           get32(bytes + AT_NUMBER) == header->number + i &&
           !memcmp(bytes + AT_TO, brief + AT_TO, AT_PIECE - AT_TO) &&
           bytes[AT_PIECE] == header->piece + i &&
           !memcmp(bytes + AT_PIECES, brief + AT_PIECES, ARQ_BRIEF - AT_PIECES) &&
           pieces_fit(&(struct arq_header){.brief = true,
                                           .piece = (uint16_t)(header->piece + i),
                                           .pieces = header->pieces,
                                           .size = header->size},
                      len - ARQ_BRIEF);
}

unsigned arq_train_get(const uint8_t *bytes, size_t len, size_t segment,
                       const struct arq_header *header)
{
    uint8_t brief[ARQ_BRIEF];
    unsigned count = 1;
    size_t at;

    if (header->type != ARQ_DATA || header->pieces < 2)
        return 1;
    put_brief(header, brief);
    for (at = segment; at < len; at += segment, count++) {
        if (!belongs(bytes + at, len - at < segment ? len - at : segment, brief, header, count))
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

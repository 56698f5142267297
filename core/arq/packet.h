/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets of arq, as bytes. Every packet but a piece begins with one header of ARQ_HEADER
 * bytes, network order; what it acknowledges is in it, so that data carries acknowledgements for
 * nothing:
 *
 *      0                   1                   2                   3
 *      0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 *     +---------------+-------+-------+-------------------------------+
 *   0 | 0xA7          |version| type  | flags                         |
 *     +---------------+-------+-------+-------------------------------+
 *   4 | number: of this packet, never used twice                      |
 *     +---------------------------------------------------------------+
 *   8 | to: identifier that the receiver gave the session (64 bits)   |
 *  16 | from: identifier that the sender gave it (64 bits)            |
 *     +---------------------------------------------------------------+
 *  24 | serial: of the message, the same in each transmission         |
 *  28 | limit: serials below this may be sent to the sender of this   |
 *  32 | end: the highest number that has come, and 1                  |
 *  36 | marked: packets that came with a congestion mark, in all      |
 *     +---------------------------------------------------------------+
 *  40 | below: bit i: number end - 1 - i has come (64 bits)           |
 *     +-------------------------------+-------------------------------+
 *  48 | kept: the acknowledgement,    | piece: index of this piece    |
 *     | in units of 4 us              |                               |
 *     +-------------------------------+-------------------------------+
 *  52 | pieces: 1, or of how many     | size: bytes of each piece but |
 *     |                               | the first and the last        |
 *     +-------------------------------+-------------------------------+
 *
 * Behind it: of DATA the payload; of ACK further words of `below`, for 64 lower numbers each; of
 * OPEN and TOKEN a token, then of OPEN the address that its sender believes to have (a length of 16
 * bits, and bytes of the lower's format) and padding; of PROBE padding. All else has nothing behind
 * it.
 *
 * A message in pieces begins with DATA, piece 0. Each piece behind it is a PIECE, which
 * acknowledges nothing, so that its header has ARQ_BRIEF bytes, and its payload as many more as
 * that is shorter:
 *
 *     +---------------+-------+-------+-------------------------------+
 *   0 | 0xA7          |version| type  | flags                         |
 *     +---------------+-------+-------+-------------------------------+
 *   4 | number                                                        |
 *     +---------------------------------------------------------------+
 *   8 | to (64 bits)                                                  |
 *     +---------------------------------------------------------------+
 *  16 | serial                                                        |
 *     +---------------+---------------+-------------------------------+
 *  20 | piece, from 1 | pieces        | size                          |
 *     +---------------+---------------+-------------------------------+
 */
#ifndef WEFT_CORE_ARQ_PACKET_H
#define WEFT_CORE_ARQ_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ARQ_HEADER = 56,
    ARQ_BRIEF = 24, /* of a PIECE */
    ARQ_MAGIC = 0xA7,
    ARQ_VERSION = 2,
    ARQ_TOKEN = 24,      /* bytes of a token */
    ARQ_OPEN_SIZE = 256, /* of an OPEN with its padding: no answer to it is larger */
    ARQ_NAME_AT = ARQ_HEADER + ARQ_TOKEN, /* in an OPEN: its length in 16 bits, and a name */
    ARQ_NAME_MAX = ARQ_OPEN_SIZE - ARQ_NAME_AT - 2,
    ARQ_PIECES = 64,      /* most pieces of a message */
    ARQ_WORDS = 15,       /* most words behind an ACK */
    ARQ_NUMBERS = 1024,   /* numbers that an acknowledgement can tell of */
    ARQ_KEPT_UNIT = 4000, /* ns */
    ARQ_KEPT_MAX = 65535, /* as long, or longer: it says nothing about the round trip */
};

enum arq_type {
    ARQ_OPEN,   /* asks for a session; with a token that came in TOKEN, or none */
    ARQ_TOKEN_, /* return this token in OPEN; nothing is remembered of you */
    ARQ_ACCEPT, /* the session exists; `serial` is the first serial, `size` the largest packet */
    ARQ_DATA,
    ARQ_ACK,
    ARQ_PROBE, /* padding: is acknowledged, and has no other effect */
    ARQ_RESET, /* no such session; both identifiers are those of the packet that asked */
    ARQ_CLOSE, /* the sender has ended the session */
    ARQ_PIECE, /* on the wire only: a header that was read, or is to be written, is a brief DATA */
    ARQ_TYPES,
};

enum arq_flag {
    ARQ_NOW = 1 << 0,   /* acknowledge at once */
    ARQ_ASKS = 1 << 1,  /* of an ACK: tell your limit again (a closed window is probed); of DATA:
                         * acknowledge soon, unless a message of yours does it */
    ARQ_MARKS = 1 << 2, /* of OPEN and ACCEPT: the network may mark the sender's packets: count */
    ARQ_ALL = 1 << 3,   /* of what acknowledges: the numbers below those of `below` have come, too,
                         * ARQ_NUMBERS in all, so no words follow */
    ARQ_FLAGS = ARQ_NOW | ARQ_ASKS | ARQ_MARKS | ARQ_ALL,
};

struct arq_header {
    enum arq_type type;
    unsigned flags;
    uint32_t number;
    uint64_t to, from;
    uint32_t serial, limit, end, marked;
    uint64_t below;
    uint16_t kept, piece, pieces, size;
    bool brief; /* of DATA: it is a PIECE, so from, limit, end, marked, below and kept are 0 */
    /* Not in the bytes: its receiver sets it where the packet may have waited to be read, and
     * nothing tells how long. Neither it nor its answer says anything about the round trip. */
    bool late;
    uint64_t slack; /* likewise, where that is short: ns that it may have waited at most */
};

static inline size_t arq_header_size(const struct arq_header *header)
{
    return header->brief ? ARQ_BRIEF : ARQ_HEADER;
}

/* Bytes of a message that leave in so many packets of `packet` bytes. */
static inline size_t arq_pieces_room(size_t packets, size_t packet)
{
    return packets * (packet - ARQ_BRIEF) - (ARQ_HEADER - ARQ_BRIEF);
}

/* The byte of a message that a piece begins with, by `size`: the first piece has fewer. */
static inline size_t arq_piece_at(unsigned piece, size_t size)
{
    return piece ? piece * size - (ARQ_HEADER - ARQ_BRIEF) : 0;
}

/* Writes arq_header_size bytes. */
void arq_header_put(const struct arq_header *header, uint8_t *bytes);
/* A train: packets of pieces of one message, in their order, with numbers in their order, whose
 * headers are the same else (but that of piece 0), and which are equally long but for the last.
 * Writes the headers of `count` packets, of which header is the first one's, where packets of
 * `size` bytes begin. */
void arq_train_put(const struct arq_header *header, unsigned count, size_t size, uint8_t *bytes);

/* Why bytes are no packet of ours. */
enum arq_fault {
    ARQ_FINE,
    ARQ_SHORT,       /* cut short, or not as long as its type is */
    ARQ_FOREIGN,     /* another protocol's */
    ARQ_FOREIGN_RXD, /* that of libfabric's rxd */
    ARQ_OTHER_VERSION,
    ARQ_MALFORMED, /* a field has a value that it cannot have */
};

/* Bytes of a train of so many packets with so many bytes of a message. */
static inline size_t arq_train_len(const struct arq_header *header, unsigned count, size_t payload)
{
    return arq_header_size(header) + (count - 1) * (size_t)ARQ_BRIEF + payload;
}

/* Reads and checks a datagram. Serial numbers and identifiers are for the session to check. */
enum arq_fault arq_header_get(const uint8_t *bytes, size_t len, struct arq_header *header);

/* How many packets from the first on are a train, of `len` bytes that begin with it and lie end to
 * end in datagrams of `segment` bytes; header: of the first, as arq_header_get read it. At least 1:
 * all are as valid as the first is. */
unsigned arq_train_get(const uint8_t *bytes, size_t len, size_t segment,
                       const struct arq_header *header);

/* For the log: "cut short". */
const char *arq_fault_text(enum arq_fault fault);

/* Word `index` behind an ACK of `len` bytes, or 0. */
uint64_t arq_ack_word(const uint8_t *bytes, size_t len, size_t index);
/* The name in an OPEN of `len` bytes, copied: its length; 0 when there is none that fits. */
size_t arq_open_name(const uint8_t *bytes, size_t len, void *name, size_t room);
/* Writes one of at most ARQ_NAME_MAX bytes. */
void arq_open_put_name(uint8_t bytes[ARQ_OPEN_SIZE], const void *name, size_t len);

void arq_put64(uint8_t *bytes, uint64_t value);
uint64_t arq_get64(const uint8_t *bytes);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of the data phase: `header | payload`, back to back on the stream of one connection. The
 * layout is upstream's tcp provider's, control header version 3. Pure: bytes in, bytes out.
 *
 *   0 version  1 op  2 flags u16  4 op_data  5 rma iov count  6 header bytes  7 id  8 size u64
 *   16 [cq data u64]  [tag u64]  [message size u64]  [rma iov: addr, len, key u64] x n
 *
 * ATOMIC and ATOMIC_RSP are ours, sent only to peers that are known to understand them:
 *   16 datatype u8, operation u8, element size u8, precision u8, 0 u32  [iov: addr, count, key] x n
 *   16 status u64
 */
#ifndef WEFT_TCP_WIRE_H
#define WEFT_TCP_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum tcp_record {
    TCP_OP_MSG,
    TCP_OP_TAG,
    TCP_OP_READ_REQ,
    TCP_OP_READ_RSP,
    TCP_OP_WRITE,
    TCP_OP_RTS,
    TCP_OP_CTS,
    TCP_OP_DATA,
    TCP_OP_ATOMIC = 9, /* 8 is another layer's */
    TCP_OP_ATOMIC_RSP,
    TCP_OP_COUNT,
};

enum {
    TCP_FLAG_CQ_DATA = 0x1,
    TCP_FLAG_DELIVERY = 0x4, /* the target answers with an ack */
    TCP_FLAG_COMMIT = 0x8,   /* the same, after persistence; writes only */
    TCP_FLAG_TAGGED = 0x80,  /* of 1.17: a TCP_OP_MSG that is a TCP_OP_TAG, and is decoded so */
};

enum {
    TCP_WIRE_BASE = 16,
    TCP_WIRE_MAX = 120, /* bytes of the longest header */
    TCP_WIRE_IOV_MAX = 4,
    TCP_WIRE_ID = 7,            /* offset of the counter of records */
    TCP_WIRE_ACK = 2,           /* op_data of a TCP_OP_MSG that is an acknowledgement */
    TCP_ATOMIC_MAX = 4096,      /* bytes of one operand of an atomic */
    TCP_ATOMIC_ERROR_MAX = 4095 /* of a status */
};

/* op_data of an ATOMIC. Its payload: the operand, unless a fetch needs none, and of COMPARE behind
 * it as many bytes to compare with. */
enum tcp_atomic_function {
    TCP_ATOMIC_WRITE,
    TCP_ATOMIC_FETCH,
    TCP_ATOMIC_COMPARE,
};

struct tcp_wire_iov {
    uint64_t addr, len, key;
};

/* A decoded header. Fields that the op does not carry are not touched by either side. */
struct tcp_wire {
    uint8_t op;
    uint8_t op_data; /* rendezvous context, TCP_WIRE_ACK, or function of an atomic */
    uint8_t id;      /* counts the records of a direction; ignored on receipt */
    uint8_t iov_count;
    uint16_t flags;
    uint64_t payload;  /* bytes behind the header */
    uint64_t cq_data;  /* with TCP_FLAG_CQ_DATA, but for DATA */
    uint64_t tag;      /* TAG, RTS */
    uint64_t msg_size; /* RTS */
    uint64_t status;   /* ATOMIC_RSP: 0 or a positive FI_E code */
    struct {
        uint8_t datatype, operation; /* enum fi_datatype, enum fi_op */
        uint8_t size;                /* bytes of an element at the initiator */
        uint8_t precision;           /* bits of a long double's mantissa there; else 0 */
    } atomic;
    struct tcp_wire_iov iov[TCP_WIRE_IOV_MAX]; /* len: elements, of ATOMIC */
};

/* Bytes of one operand of a decoded ATOMIC. */
size_t tcp_wire_atomic_len(const struct tcp_wire *wire);

/* A decoded ATOMIC whose answer tells what memory held. */
static inline bool tcp_wire_fetches(const struct tcp_wire *wire)
{
    return wire->op == TCP_OP_ATOMIC && wire->op_data != TCP_ATOMIC_WRITE;
}

/* Writes the header to bytes (TCP_WIRE_MAX of them) and returns its length. network: the hosts
 * differ in byte order, so that every field is big-endian on the wire. */
size_t tcp_wire_encode(const struct tcp_wire *wire, bool network, uint8_t *bytes);

/*
 * Reads a header from the first `have` bytes of the stream. Returns its length; 0 when more bytes
 * are needed (a header is complete with TCP_WIRE_MAX bytes at the latest); -FI_EPROTO when no peer
 * that keeps the protocol sends this, with a sentence in *why.
 */
int tcp_wire_decode(const uint8_t *bytes, size_t have, bool network, struct tcp_wire *wire,
                    const char **why);

/* The first 8 bytes of a MSG and of a TAG that carries nothing but its payload, as a little-endian
 * word with the id left out: version 3, op, no flags, no op_data, no iov, length. */
#define TCP_WIRE_PLAIN_MSG 0x0010000000000003u
#define TCP_WIRE_PLAIN_TAG 0x0018000000000103u

/* The header of such a one, between hosts of one byte order. Writes up to 24 bytes, and returns how
 * many. */
static inline size_t tcp_wire_encode_plain(uint8_t *bytes, bool tagged, uint8_t id, uint64_t tag,
                                           uint64_t payload)
{
    const size_t header = TCP_WIRE_BASE + (tagged ? sizeof(tag) : 0);
    const uint64_t first = htole64((tagged ? TCP_WIRE_PLAIN_TAG : TCP_WIRE_PLAIN_MSG) |
                                   (uint64_t)id << 8 * TCP_WIRE_ID);
    const uint64_t size = header + payload;

    memcpy(bytes, &first, sizeof(first));
    memcpy(bytes + sizeof(first), &size, sizeof(size));
    if (tagged)
        memcpy(bytes + TCP_WIRE_BASE, &tag, sizeof(tag));
    return header;
}

/*
 * Reads such a one: sets the fields that a message is made of, tag and cq_data to 0 where there are
 * none. Returns the length of the header; 0 when it is another, or not whole, or wrong:
 * tcp_wire_decode says which.
 */
static inline size_t tcp_wire_decode_plain(const uint8_t *bytes, size_t have, struct tcp_wire *wire)
{
    const uint64_t message = TCP_WIRE_PLAIN_MSG, tagged = TCP_WIRE_PLAIN_TAG;
    uint64_t first, size;
    size_t header;

    if (have < TCP_WIRE_BASE)
        return 0;
    memcpy(&first, bytes, sizeof(first));
    memcpy(&size, bytes + sizeof(first), sizeof(size));
    first = le64toh(first) & 0x00ffffffffffffff;
    header = first == tagged ? TCP_WIRE_BASE + sizeof(wire->tag) : TCP_WIRE_BASE;
    if ((first != tagged && first != message) || have < header || size < header)
        return 0;
    wire->op = first == tagged ? TCP_OP_TAG : TCP_OP_MSG;
    wire->op_data = 0;
    wire->flags = 0;
    wire->payload = size - header;
    wire->cq_data = 0;
    wire->tag = 0;
    if (first == tagged)
        memcpy(&wire->tag, bytes + TCP_WIRE_BASE, sizeof(wire->tag));
    return header;
}

#endif

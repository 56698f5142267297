/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FI_PROTO_RXM in bytes: the private data of its connection exchange, and its packets. Pure. All
 * integers are in host order (unlike hosts refuse each other), but for two words of an answer to an
 * atomic, which are big-endian.
 *
 *   packet: 64 bytes of header, then the payload
 *    0 u8  4                                         32 u8  2
 *    1 u8  type                                      33 u8  0
 *    2 u16 seg_size                                  34 u8  op
 *    4 u32 seg_no                                    35 u8  unused
 *    8 u64 conn_id: index that the receiver gave     36 u32 flags
 *   16 u64 msg_id                                    40 u64 size of the message
 *   24 u64 ctrl_data                                 48 u64 CQ data
 *                                                    56 u64 tag; of atomics: u8 datatype, u8 op,
 *                                                           u8 count
 */
#ifndef WEFT_LAYERS_RXM_MSGPROTO_RXM_PACKET_H
#define WEFT_LAYERS_RXM_MSGPROTO_RXM_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdma/fabric.h>

enum rxm_packet_type {
    RXM_EAGER,        /* a whole message */
    RXM_SEGMENT,      /* a piece of one */
    RXM_RNDV_REQUEST, /* a message waits at its sender */
    RXM_RNDV_READ,    /* the receiver has read it */
    RXM_ATOMIC,
    RXM_ATOMIC_DONE,
    RXM_CREDIT,       /* ctrl_data more packets may come */
    RXM_RNDV_PLACE,   /* where the sender may write it */
    RXM_RNDV_WRITTEN, /* the sender has written it */
    RXM_PACKET_TYPES
};

enum rxm_packet_op {
    RXM_OP_MSG = 0,
    RXM_OP_TAGGED = 1,
    RXM_OP_ATOMIC_WRITE = 6,
    RXM_OP_ATOMIC_FETCH = 7,
    RXM_OP_ATOMIC_COMPARE = 8,
};

enum rxm_segment_kind {
    RXM_SEGMENT_FIRST = 1,
    RXM_SEGMENT_MIDDLE = 2,
    RXM_SEGMENT_LAST = 3,
};

enum {
    RXM_PACKET_SIZE = 64,
    RXM_PLACES = 4,
    RXM_PLACES_SIZE = 24 * RXM_PLACES + 8, /* after the header of types 2 and 7 */
    RXM_TARGETS_SIZE = 24 * RXM_PLACES,    /* after the header of type 4 */
    RXM_RESULT_SIZE = 8,                   /* after the header of type 5 */
    RXM_CM_REQUEST_SIZE = 24,
    RXM_CM_CONTEXTS_SIZE = 27, /* of a request that names contexts */
    RXM_CM_ANSWER_SIZE = 16,
    RXM_CM_REFUSAL_SIZE = 2,
};

/* Fields of a type that has none of them are 0 when written, and anything when read. */
struct rxm_packet {
    uint8_t type, op;
    uint8_t segment; /* enum rxm_segment_kind */
    bool has_data;   /* CQ data */
    uint16_t seg_size;
    uint32_t seg_no;
    uint64_t conn_id, msg_id;
    uint64_t credits;
    uint64_t size, data, tag;
    uint8_t datatype, atomic_op, targets;
};

/* A piece of memory of the sender; for atomics `len` counts elements. */
struct rxm_place {
    uint64_t addr, len, key;
};

/* The key that a peer which writes by itself gives for memory that cannot be read. */
#define RXM_NO_KEY UINT64_MAX

void rxm_packet_put(const struct rxm_packet *packet, uint8_t raw[RXM_PACKET_SIZE]);
/*
 * Reads and checks what can be checked of a packet alone: its type, op, the length of the payload
 * that type and fields imply, at most eager_limit bytes of it. NULL when it is good, else what is
 * wrong, for the log.
 */
const char *rxm_packet_get(const uint8_t *raw, size_t len, size_t eager_limit,
                           struct rxm_packet *packet);

enum {
    RXM_CTRL_VERSION = 4,
    RXM_OP_VERSION = 2,
    RXM_AT_CONN_ID = 8,
    RXM_AT_OP_VERSION = 32,
    RXM_AT_OP = 34,
    RXM_AT_FLAGS = 36,
    RXM_AT_SIZE = 40,
    RXM_AT_TAG = 56,
};

/* The header of a whole message without CQ data, as rxm_packet_put writes it. */
static inline void rxm_packet_put_plain(uint8_t raw[RXM_PACKET_SIZE], uint64_t conn_id,
                                        uint64_t size, bool tagged, uint64_t tag)
{
    const uint8_t head[8] = {RXM_CTRL_VERSION, RXM_EAGER};
    const uint8_t op[8] = {RXM_OP_VERSION, 0, tagged ? RXM_OP_TAGGED : RXM_OP_MSG};

    memcpy(raw, head, sizeof(head));
    memcpy(raw + RXM_AT_CONN_ID, &conn_id, sizeof(conn_id));
    memset(raw + RXM_AT_CONN_ID + sizeof(conn_id), 0, 16);
    memcpy(raw + RXM_AT_OP_VERSION, op, sizeof(op));
    memcpy(raw + RXM_AT_SIZE, &size, sizeof(size));
    memset(raw + RXM_AT_SIZE + sizeof(size), 0, 8);
    memcpy(raw + RXM_AT_TAG, &tag, sizeof(tag));
}

/* The same where the bytes hold such a header already. */
static inline void rxm_packet_put_next(uint8_t raw[RXM_PACKET_SIZE], uint64_t conn_id,
                                       uint64_t size, bool tagged, uint64_t tag)
{
    memcpy(raw + RXM_AT_CONN_ID, &conn_id, sizeof(conn_id));
    raw[RXM_AT_OP] = tagged ? RXM_OP_TAGGED : RXM_OP_MSG;
    memcpy(raw + RXM_AT_SIZE, &size, sizeof(size));
    memcpy(raw + RXM_AT_TAG, &tag, sizeof(tag));
}

/* Is it a whole message of that connection, without CQ data? Its tag, or 0. The same checks as of
 * rxm_packet_get, for packets of which no more is to be known; of a bad one that is not true. */
static inline bool rxm_packet_is_plain(const uint8_t *raw, size_t len, size_t eager_limit,
                                       uint64_t conn_id, bool *tagged, uint64_t *tag)
{
    uint64_t id, size;
    uint32_t flags;

    if (len < RXM_PACKET_SIZE || len - RXM_PACKET_SIZE > eager_limit || raw[1] != RXM_EAGER)
        return false;
    memcpy(&id, raw + RXM_AT_CONN_ID, sizeof(id));
    memcpy(&flags, raw + RXM_AT_FLAGS, sizeof(flags));
    memcpy(&size, raw + RXM_AT_SIZE, sizeof(size));
    memcpy(tag, raw + RXM_AT_TAG, sizeof(*tag));
    *tagged = raw[RXM_AT_OP] == RXM_OP_TAGGED;
    if (!*tagged)
        *tag = 0;
    return id == conn_id && !(flags & (uint32_t)FI_REMOTE_CQ_DATA) &&
           size == len - RXM_PACKET_SIZE && (*tagged || raw[RXM_AT_OP] == RXM_OP_MSG);
}

void rxm_places_put(const struct rxm_place *places, unsigned count, uint8_t raw[RXM_PLACES_SIZE]);
/* The count, 1 to 4; 0 when it is another, or the lengths overflow. */
unsigned rxm_places_get(const uint8_t *raw, struct rxm_place places[RXM_PLACES]);
uint64_t rxm_places_len(const struct rxm_place *places, unsigned count);

/* Targets of an atomic: no count in the bytes. */
void rxm_targets_put(const struct rxm_place *places, unsigned count, uint8_t raw[RXM_TARGETS_SIZE]);
void rxm_targets_get(const uint8_t *raw, unsigned count, struct rxm_place places[RXM_PLACES]);
/* status: 0 or a negative error code. */
void rxm_result_put(int32_t status, uint32_t len, uint8_t raw[RXM_RESULT_SIZE]);
void rxm_result_get(const uint8_t *raw, int32_t *status, uint32_t *len);

#endif

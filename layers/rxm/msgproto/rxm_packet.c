/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/msgproto/rxm_packet.h"

#include <endian.h>
#include <string.h>

#include <rdma/fabric.h>

enum {
    /* Offsets of the header, beside those that rxm_packet_is_plain looks at. */
    AT_SEG_SIZE = 2,
    AT_SEG_NO = 4,
    AT_CONN_ID = RXM_AT_CONN_ID,
    AT_MSG_ID = 16,
    AT_CTRL_DATA = 24,
    AT_OP_VERSION = RXM_AT_OP_VERSION,
    AT_OP = RXM_AT_OP,
    AT_FLAGS = RXM_AT_FLAGS,
    AT_SIZE = RXM_AT_SIZE,
    AT_DATA = 48,
    AT_TAG = RXM_AT_TAG,
    SEGMENT_MASK = 3,
};

static void put16(uint8_t *raw, uint16_t value)
{
    memcpy(raw, &value, sizeof(value));
}

static void put32(uint8_t *raw, uint32_t value)
{
    memcpy(raw, &value, sizeof(value));
}

static void put64(uint8_t *raw, uint64_t value)
{
    memcpy(raw, &value, sizeof(value));
}

static uint16_t get16(const uint8_t *raw)
{
    uint16_t value;

    memcpy(&value, raw, sizeof(value));
    return value;
}

static uint32_t get32(const uint8_t *raw)
{
    uint32_t value;

    memcpy(&value, raw, sizeof(value));
    return value;
}

static uint64_t get64(const uint8_t *raw)
{
    uint64_t value;

    memcpy(&value, raw, sizeof(value));
    return value;
}

/* ---- Headers ---- */

static bool is_atomic(uint8_t type)
{
    return type == RXM_ATOMIC || type == RXM_ATOMIC_DONE;
}

void rxm_packet_put(const struct rxm_packet *packet, uint8_t raw[RXM_PACKET_SIZE])
{
    raw[0] = RXM_CTRL_VERSION;
    raw[1] = packet->type;
    put16(raw + AT_SEG_SIZE, packet->seg_size);
    put32(raw + AT_SEG_NO, packet->seg_no);
    put64(raw + AT_CONN_ID, packet->conn_id);
    put64(raw + AT_MSG_ID, packet->msg_id);
    put64(raw + AT_CTRL_DATA, packet->type == RXM_CREDIT ? packet->credits : packet->segment);
    raw[AT_OP_VERSION] = RXM_OP_VERSION;
    raw[AT_OP_VERSION + 1] = 0;
    raw[AT_OP] = packet->op;
    raw[AT_OP + 1] = 0;
    put32(raw + AT_FLAGS, packet->has_data ? (uint32_t)FI_REMOTE_CQ_DATA : 0);
    put64(raw + AT_SIZE, packet->size);
    put64(raw + AT_DATA, packet->data);
    put64(raw + AT_TAG, packet->tag);
    if (is_atomic(packet->type)) {
        put64(raw + AT_TAG, 0);
        raw[AT_TAG] = packet->datatype;
        raw[AT_TAG + 1] = packet->atomic_op;
        raw[AT_TAG + 2] = packet->targets;
    }
}

static void get_fields(const uint8_t *raw, struct rxm_packet *packet)
{
    packet->type = raw[1];
    packet->op = raw[AT_OP];
    packet->seg_size = get16(raw + AT_SEG_SIZE);
    packet->seg_no = get32(raw + AT_SEG_NO);
    packet->conn_id = get64(raw + AT_CONN_ID);
    packet->msg_id = get64(raw + AT_MSG_ID);
    packet->credits = get64(raw + AT_CTRL_DATA);
    packet->segment = raw[AT_CTRL_DATA] & SEGMENT_MASK;
    packet->has_data = get32(raw + AT_FLAGS) & FI_REMOTE_CQ_DATA;
    packet->size = get64(raw + AT_SIZE);
    packet->data = packet->has_data ? get64(raw + AT_DATA) : 0;
    packet->tag = packet->op == RXM_OP_TAGGED ? get64(raw + AT_TAG) : 0;
    packet->datatype = raw[AT_TAG];
    packet->atomic_op = raw[AT_TAG + 1];
    packet->targets = raw[AT_TAG + 2];
}

static const char *check_message(const struct rxm_packet *packet, size_t payload,
                                 size_t eager_limit)
{
    if (packet->op != RXM_OP_MSG && packet->op != RXM_OP_TAGGED)
        return "an operation that is no message";
    if (packet->type == RXM_EAGER)
        return packet->size == payload ? NULL : "an eager size that is not the payload's";
    if (packet->type == RXM_RNDV_REQUEST)
        return payload >= RXM_PLACES_SIZE ? NULL : "a rendezvous without its memory";
    if (packet->seg_size != payload || !payload)
        return "a segment size that is not the payload's";
    if (packet->segment == 0 || (packet->segment == RXM_SEGMENT_FIRST) != (packet->seg_no == 0))
        return "a segment of no kind";
    return packet->size > payload || packet->segment == RXM_SEGMENT_LAST
               ? NULL
               : "a segment larger than its message";
}

static const char *check_atomic(const struct rxm_packet *packet, size_t payload)
{
    if (packet->op < RXM_OP_ATOMIC_WRITE || packet->op > RXM_OP_ATOMIC_COMPARE)
        return "an operation that is no atomic";
    if (packet->size != payload)
        return "an atomic's size that is not the payload's";
    if (packet->type == RXM_ATOMIC_DONE)
        return payload >= RXM_RESULT_SIZE ? NULL : "an answer to an atomic without a status";
    if (packet->targets < 1 || packet->targets > RXM_PLACES)
        return "an atomic with a wrong count of targets";
    return payload >= RXM_TARGETS_SIZE ? NULL : "an atomic without its targets";
}

const char *rxm_packet_get(const uint8_t *raw, size_t len, size_t eager_limit,
                           struct rxm_packet *packet)
{
    size_t payload;

    if (len < RXM_PACKET_SIZE)
        return "a packet shorter than its header";
    payload = len - RXM_PACKET_SIZE;
    if (payload > eager_limit)
        return "a packet longer than the limit";
    get_fields(raw, packet);
    switch (packet->type) {
    case RXM_EAGER:
    case RXM_SEGMENT:
    case RXM_RNDV_REQUEST: return check_message(packet, payload, eager_limit);
    case RXM_ATOMIC:
    case RXM_ATOMIC_DONE: return check_atomic(packet, payload);
    case RXM_RNDV_PLACE:
        return payload >= RXM_PLACES_SIZE ? NULL : "an answer to a rendezvous without its memory";
    case RXM_RNDV_READ:
    case RXM_RNDV_WRITTEN: return NULL;
    case RXM_CREDIT: return packet->credits ? NULL : "a credit of nothing";
    default: return "a packet of an unknown type";
    }
}

/* ---- Memory ---- */

static void put_places(const struct rxm_place *places, unsigned count, uint8_t *raw)
{
    memset(raw, 0, 24 * RXM_PLACES);
    for (unsigned i = 0; i < count; i++) {
        put64(raw + 24 * i, places[i].addr);
        put64(raw + 24 * i + 8, places[i].len);
        put64(raw + 24 * i + 16, places[i].key);
    }
}

static void get_places(const uint8_t *raw, unsigned count, struct rxm_place *places)
{
    for (unsigned i = 0; i < count; i++) {
        places[i].addr = get64(raw + 24 * i);
        places[i].len = get64(raw + 24 * i + 8);
        places[i].key = get64(raw + 24 * i + 16);
    }
}

void rxm_places_put(const struct rxm_place *places, unsigned count, uint8_t raw[RXM_PLACES_SIZE])
{
    put_places(places, count, raw);
    memset(raw + RXM_TARGETS_SIZE, 0, RXM_PLACES_SIZE - RXM_TARGETS_SIZE);
    raw[RXM_TARGETS_SIZE] = (uint8_t)count;
}

unsigned rxm_places_get(const uint8_t *raw, struct rxm_place places[RXM_PLACES])
{
    unsigned count = raw[RXM_TARGETS_SIZE];
    uint64_t sum = 0;

    if (count < 1 || count > RXM_PLACES)
        return 0;
    get_places(raw, count, places);
    for (unsigned i = 0; i < count; i++) {
        if (__builtin_add_overflow(sum, places[i].len, &sum))
            return 0;
    }
    return count;
}

uint64_t rxm_places_len(const struct rxm_place *places, unsigned count)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < count; i++)
        sum += places[i].len;
    return sum;
}

void rxm_targets_put(const struct rxm_place *places, unsigned count, uint8_t raw[RXM_TARGETS_SIZE])
{
    put_places(places, count, raw);
}

void rxm_targets_get(const uint8_t *raw, unsigned count, struct rxm_place places[RXM_PLACES])
{
    get_places(raw, count, places);
}

void rxm_result_put(int32_t status, uint32_t len, uint8_t raw[RXM_RESULT_SIZE])
{
    put32(raw, htobe32((uint32_t)status));
    put32(raw + 4, htobe32(len));
}

void rxm_result_get(const uint8_t *raw, int32_t *status, uint32_t *len)
{
    *status = (int32_t)be32toh(get32(raw));
    *len = be32toh(get32(raw + 4));
}

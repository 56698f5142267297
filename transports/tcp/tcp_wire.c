/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_wire.h"

#include <endian.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum {
    WIRE_VERSION = 3,
    OFF_OP = 1,
    OFF_FLAGS = 2,
    OFF_OP_DATA = 4,
    OFF_IOV_COUNT = 5,
    OFF_HEADER = 6,
    OFF_ID = 7,
    OFF_SIZE = 8,
    IOV_SIZE = 24,
    ATOMIC_SIZE = 8,
    ATOMIC_ELEMENT_MAX = 32,
};

static uint8_t *put64(uint8_t *at, uint64_t value, bool network)
{
    if (network)
        value = htobe64(value);
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static const uint8_t *get64(const uint8_t *at, uint64_t *value, bool network)
{
    memcpy(value, at, sizeof(*value));
    if (network)
        *value = be64toh(*value);
    return at + sizeof(*value);
}

static bool is_ack(const struct tcp_wire *wire)
{
    return wire->op == TCP_OP_MSG && wire->op_data == TCP_WIRE_ACK;
}

static bool has_cq_data(const struct tcp_wire *wire)
{
    if (!(wire->flags & TCP_FLAG_CQ_DATA) || is_ack(wire))
        return false;
    return wire->op == TCP_OP_MSG || wire->op == TCP_OP_TAG || wire->op == TCP_OP_WRITE ||
           wire->op == TCP_OP_RTS;
}

static bool has_iov(const struct tcp_wire *wire)
{
    return wire->op == TCP_OP_READ_REQ || wire->op == TCP_OP_WRITE || wire->op == TCP_OP_ATOMIC;
}

static bool has_tag(const struct tcp_wire *wire)
{
    return wire->op == TCP_OP_TAG || wire->op == TCP_OP_RTS;
}

static size_t header_size(const struct tcp_wire *wire)
{
    return TCP_WIRE_BASE + (has_cq_data(wire) ? 8u : 0u) + (has_tag(wire) ? 8u : 0u) +
           (wire->op == TCP_OP_RTS || wire->op == TCP_OP_ATOMIC_RSP ? 8u : 0u) +
           (wire->op == TCP_OP_ATOMIC ? ATOMIC_SIZE : 0u) +
           (has_iov(wire) ? (size_t)wire->iov_count * IOV_SIZE : 0u);
}

static uint8_t *put_atomic(uint8_t *at, const struct tcp_wire *wire)
{
    memset(at, 0, ATOMIC_SIZE);
    at[0] = wire->atomic.datatype;
    at[1] = wire->atomic.operation;
    at[2] = wire->atomic.size;
    at[3] = wire->atomic.precision;
    return at + ATOMIC_SIZE;
}

size_t tcp_wire_encode(const struct tcp_wire *wire, bool network, uint8_t *bytes)
{
    size_t header = header_size(wire);
    uint16_t flags = network ? htobe16(wire->flags) : wire->flags;

    bytes[0] = WIRE_VERSION;
    bytes[OFF_OP] = wire->op;
    memcpy(bytes + OFF_FLAGS, &flags, sizeof(flags));
    bytes[OFF_OP_DATA] = wire->op_data;
    bytes[OFF_IOV_COUNT] = wire->iov_count;
    bytes[OFF_HEADER] = (uint8_t)header;
    bytes[OFF_ID] = wire->id;
    uint8_t *at = put64(bytes + OFF_SIZE, header + wire->payload, network);

    if (has_cq_data(wire))
        at = put64(at, wire->cq_data, network);
    if (has_tag(wire))
        at = put64(at, wire->tag, network);
    if (wire->op == TCP_OP_RTS)
        at = put64(at, wire->msg_size, network);
    if (wire->op == TCP_OP_ATOMIC_RSP)
        at = put64(at, wire->status, network);
    if (wire->op == TCP_OP_ATOMIC)
        at = put_atomic(at, wire);
    for (unsigned i = 0; has_iov(wire) && i < wire->iov_count; i++) {
        at = put64(at, wire->iov[i].addr, network);
        at = put64(at, wire->iov[i].len, network);
        at = put64(at, wire->iov[i].key, network);
    }
    return header;
}

/* Reads the base header, before the rest has arrived. */
static const char *check_base(const struct tcp_wire *wire, size_t header, uint64_t size)
{
    if (wire->op >= TCP_OP_COUNT || (wire->op > TCP_OP_DATA && wire->op < TCP_OP_ATOMIC))
        return "unknown operation";
    if (has_iov(wire) && wire->iov_count > TCP_WIRE_IOV_MAX)
        return "more than 4 remote segments";
    if (header != header_size(wire))
        return "header length does not fit the operation";
    if (size < header)
        return "record is shorter than its header";
    if ((wire->op == TCP_OP_RTS || wire->op == TCP_OP_CTS || wire->op == TCP_OP_DATA) &&
        !wire->op_data)
        return "rendezvous without a context";
    if (size != header && (is_ack(wire) || wire->op == TCP_OP_READ_REQ || wire->op == TCP_OP_RTS ||
                           wire->op == TCP_OP_CTS))
        return "payload behind an operation that has none";
    return NULL;
}

/* The segments must describe exactly the payload of a write, and a sum that a size_t can hold. */
static const char *check_iov(const struct tcp_wire *wire)
{
    uint64_t total = 0;

    if (!has_iov(wire))
        return NULL;
    for (unsigned i = 0; i < wire->iov_count; i++) {
        if (__builtin_add_overflow(total, wire->iov[i].len, &total) || total > INT64_MAX)
            return "length of the remote segments overflows";
    }
    if (wire->op == TCP_OP_WRITE && total != wire->payload)
        return "payload of a write differs from its remote segments";
    return NULL;
}

size_t tcp_wire_atomic_len(const struct tcp_wire *wire)
{
    size_t elements = 0;

    for (unsigned i = 0; i < wire->iov_count; i++)
        elements += (size_t)wire->iov[i].len;
    return elements * wire->atomic.size;
}

static const char *check_atomic(const struct tcp_wire *wire)
{
    uint64_t len, operands = wire->op_data == TCP_ATOMIC_COMPARE ? 2 : 1;

    if (wire->op_data > TCP_ATOMIC_COMPARE)
        return "unknown kind of atomic operation";
    if (!wire->atomic.size || wire->atomic.size > ATOMIC_ELEMENT_MAX)
        return "elements of an atomic operation have no possible size";
    for (unsigned i = 0; i < wire->iov_count; i++) {
        if (wire->iov[i].len > TCP_ATOMIC_MAX)
            return "atomic operation on too many elements";
    }
    len = tcp_wire_atomic_len(wire);
    if (!len || len > TCP_ATOMIC_MAX)
        return "atomic operation on no element, or on too many";
    if (wire->payload != len * operands && (wire->op_data != TCP_ATOMIC_FETCH || wire->payload))
        return "operands of an atomic operation do not fit its elements";
    return NULL;
}

/* Reads the whole header. */
static const char *check_rest(const struct tcp_wire *wire)
{
    switch (wire->op) {
    case TCP_OP_ATOMIC: return check_atomic(wire);
    case TCP_OP_ATOMIC_RSP:
        if (wire->status > TCP_ATOMIC_ERROR_MAX || (wire->status && wire->payload))
            return "status of an atomic operation is none";
        return wire->payload > TCP_ATOMIC_MAX ? "result of an atomic operation is too long" : NULL;
    default: return check_iov(wire);
    }
}

static int refuse(const char *reason, const char **why)
{
    *why = reason;
    return -FI_EPROTO;
}

/* False when reserved bytes are not 0. */
static bool get_atomic(const uint8_t **at, struct tcp_wire *wire)
{
    const uint8_t *bytes = *at;

    wire->atomic.datatype = bytes[0];
    wire->atomic.operation = bytes[1];
    wire->atomic.size = bytes[2];
    wire->atomic.precision = bytes[3];
    *at += ATOMIC_SIZE;
    return !(bytes[4] | bytes[5] | bytes[6] | bytes[7]);
}

int tcp_wire_decode(const uint8_t *bytes, size_t have, bool network, struct tcp_wire *wire,
                    const char **why)
{
    if (have < TCP_WIRE_BASE)
        return 0;

    uint16_t flags;
    uint64_t size;
    size_t header = bytes[OFF_HEADER];
    const uint8_t *at = get64(bytes + OFF_SIZE, &size, network);

    memcpy(&flags, bytes + OFF_FLAGS, sizeof(flags));
    wire->op = bytes[OFF_OP];
    wire->flags = network ? be16toh(flags) : flags;
    wire->op_data = bytes[OFF_OP_DATA];
    wire->iov_count = bytes[OFF_IOV_COUNT];
    wire->id = bytes[OFF_ID];
    if (wire->op == TCP_OP_MSG && wire->flags & TCP_FLAG_TAGGED && !wire->op_data) {
        wire->op = TCP_OP_TAG;
        wire->flags &= (uint16_t)~TCP_FLAG_TAGGED;
    }
    const char *bad = check_base(wire, header, size);
    if (bad)
        return refuse(bad, why);
    if (have < header)
        return 0;

    wire->payload = size - header;
    if (has_cq_data(wire))
        at = get64(at, &wire->cq_data, network);
    if (has_tag(wire))
        at = get64(at, &wire->tag, network);
    if (wire->op == TCP_OP_RTS)
        at = get64(at, &wire->msg_size, network);
    if (wire->op == TCP_OP_ATOMIC_RSP)
        at = get64(at, &wire->status, network);
    if (wire->op == TCP_OP_ATOMIC && !get_atomic(&at, wire))
        return refuse("reserved bytes of an atomic operation are not 0", why);
    for (unsigned i = 0; has_iov(wire) && i < wire->iov_count; i++) {
        at = get64(at, &wire->iov[i].addr, network);
        at = get64(at, &wire->iov[i].len, network);
        at = get64(at, &wire->iov[i].key, network);
    }
    bad = check_rest(wire);
    return bad ? refuse(bad, why) : (int)header;
}

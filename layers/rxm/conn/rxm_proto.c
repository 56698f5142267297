/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FI_PROTO_RXM, host order. Our extension names the contexts of scalable endpoints: three more
 * bytes of a request, whose first is a mark, and the same mark in the answer of a peer that knows
 * it. libfabric's request ends at 24 bytes, and its answer has 0 in the mark's place.
 *
 *
 *   request, 24 bytes                                answer, 16 bytes
 *    0 u8  1            6 u8  flow                    0 u64 connection, as below
 *    1 u8  1 big, 2 little endian                     8 u32 receive queue size
 *    2 u8  4            7 u8  0                      12 u8  flow
 *    3 u8  3            8 u32 eager limit            13 u8  0, or 0xc7, 2 bytes 0
 *    4 u16 port        12 u32 receive queue size
 *   16 u64 connection: pid << 32 | index             refusal, 2 bytes: 1, reason (2: connected,
 *   with contexts:                                   or connecting)
 *   24 u8  0xc7        25 u8  source     26 u8  target
 */
#include "layers/rxm/conn/rxm_proto.h"

#include <endian.h>
#include <string.h>

#include "layers/rxm/conn/rxm_wire.h"
#include "layers/rxm/msgproto/rxm_packet.h"

static const char no_contexts[] = "the peer knows nothing of scalable endpoints";

/* ---- FI_PROTO_XNET ---- */

_Static_assert((int)RXM_WIRE_SIZE <= (int)RXM_PROTO_MAX, "room for the exchange");

static size_t xnet_request(const struct rxm_self *self, uint8_t data[RXM_PROTO_MAX])
{
    struct rxm_wire_hello hello = {
        .version = RXM_WIRE_VERSION,
        .port = self->port,
        .pid = self->pid,
        .trailer = true,
        .extensions = self->extensions,
        .source = self->source,
        .target = self->target,
    };

    return rxm_wire_put(&hello, data);
}

static const char *xnet_take_request(const struct rxm_self *self, const void *data, size_t len,
                                     struct rxm_hello *hello)
{
    struct rxm_wire_hello wire;

    if (!rxm_wire_get(data, len, &wire) || !wire.port)
        return "another protocol than FI_PROTO_XNET";
    *hello = (struct rxm_hello){
        .port = wire.port,
        .pid = wire.pid,
        .firewalled = wire.features & RXM_WIRE_FIREWALL,
        .extensions = wire.extensions & self->extensions,
        .source = wire.source,
        .target = wire.target,
    };
    return NULL;
}

static size_t xnet_answer(const struct rxm_self *self, const void *request, size_t len,
                          struct rxm_hello *hello, uint8_t data[RXM_PROTO_MAX])
{
    struct rxm_wire_hello wire, answer;

    rxm_wire_get(request, len, &wire);
    rxm_wire_answer(&wire, self->pid, self->extensions, &answer);
    hello->version = rxm_wire_agreed(&answer);
    return rxm_wire_put(&answer, data);
}

static const char *xnet_take_answer(const struct rxm_self *self, const void *data, size_t len,
                                    struct rxm_hello *hello)
{
    struct rxm_wire_hello wire;

    if (!rxm_wire_get(data, len, &wire))
        return "an answer that is not FI_PROTO_XNET's";
    *hello = (struct rxm_hello){
        .pid = wire.pid,
        .version = rxm_wire_agreed(&wire),
        .extensions = wire.extensions & self->extensions,
    };
    if ((self->source || self->target) && !(hello->extensions & RXM_WIRE_CONTEXTS))
        return no_contexts;
    return NULL;
}

/* The requester's own bytes say that another request is under way. */
static size_t xnet_refusal(bool again, const void *request, size_t len, uint8_t data[RXM_PROTO_MAX])
{
    if (!again || len > RXM_PROTO_MAX) {
        memcpy(data, rxm_wire_refusal, sizeof(rxm_wire_refusal));
        return sizeof(rxm_wire_refusal);
    }
    memcpy(data, request, len);
    return len;
}

static const char *xnet_take_refusal(const void *data, size_t len)
{
    struct rxm_wire_hello echo;

    return rxm_wire_get(data, len, &echo) ? NULL
                                          : "the peer speaks another protocol than FI_PROTO_XNET";
}

const struct rxm_proto rxm_proto_xnet = {
    .name = "FI_PROTO_XNET",
    .request = xnet_request,
    .take_request = xnet_take_request,
    .answer = xnet_answer,
    .take_answer = xnet_take_answer,
    .refusal = xnet_refusal,
    .take_refusal = xnet_take_refusal,
};

/* ---- FI_PROTO_RXM ---- */

enum {
    CM_VERSION = 1,
    CTRL_VERSION = 4,
    OP_VERSION = 3,
    BIG = 1,
    LITTLE = 2,
    REFUSED = 1,
    CONNECTED = 2,
    CONTEXTS = 0xc7, /* the mark of the extension */
};

static uint8_t own_order(void)
{
    return __BYTE_ORDER == __LITTLE_ENDIAN ? LITTLE : BIG;
}

static void put_connection(const struct rxm_self *self, uint8_t *raw)
{
    uint64_t connection = (uint64_t)self->pid << 32 | self->id;

    memcpy(raw, &connection, sizeof(connection));
}

static void get_connection(const uint8_t *raw, struct rxm_hello *hello)
{
    uint64_t connection;

    memcpy(&connection, raw, sizeof(connection));
    hello->pid = (uint32_t)(connection >> 32);
    hello->id = (uint32_t)connection;
}

static size_t rxm_request(const struct rxm_self *self, uint8_t data[RXM_PROTO_MAX])
{
    data[0] = CM_VERSION;
    data[1] = own_order();
    data[2] = CTRL_VERSION;
    data[3] = OP_VERSION;
    memcpy(data + 4, &self->port, sizeof(self->port));
    data[6] = self->flow;
    data[7] = 0;
    memcpy(data + 8, &self->eager_limit, sizeof(self->eager_limit));
    memcpy(data + 12, &self->rx_size, sizeof(self->rx_size));
    put_connection(self, data + 16);
    if (!self->source && !self->target)
        return RXM_CM_REQUEST_SIZE;
    data[24] = CONTEXTS;
    data[25] = self->source;
    data[26] = self->target;
    return RXM_CM_CONTEXTS_SIZE;
}

static bool names_contexts(const uint8_t *raw, size_t len)
{
    return len == RXM_CM_CONTEXTS_SIZE && raw[24] == CONTEXTS;
}

static const char *rxm_take_request(const struct rxm_self *self, const void *data, size_t len,
                                    struct rxm_hello *hello)
{
    const uint8_t *raw = data;
    uint32_t eager_limit;

    if (len != RXM_CM_REQUEST_SIZE && !names_contexts(raw, len))
        return "another protocol than FI_PROTO_RXM";
    memcpy(&eager_limit, raw + 8, sizeof(eager_limit));
    *hello = (struct rxm_hello){.flow = raw[6]};
    if (names_contexts(raw, len)) {
        hello->source = raw[25];
        hello->target = raw[26];
    }
    memcpy(&hello->port, raw + 4, sizeof(hello->port));
    get_connection(raw + 16, hello);
    if (raw[0] != CM_VERSION || raw[2] != CTRL_VERSION || raw[3] != OP_VERSION || !hello->port)
        return "another version of FI_PROTO_RXM";
    if (raw[1] != own_order())
        return "FI_PROTO_RXM in another byte order";
    if (raw[7])
        return "one of several connections of FI_PROTO_RXM";
    return eager_limit == self->eager_limit ? NULL
                                            : "FI_PROTO_RXM with another eager limit "
                                              "(FI_OFI_RXM_BUFFER_SIZE must be the same)";
}

static size_t rxm_answer(const struct rxm_self *self, const void *request, size_t len,
                         struct rxm_hello *hello, uint8_t data[RXM_PROTO_MAX])
{
    put_connection(self, data);
    memcpy(data + 8, &self->rx_size, sizeof(self->rx_size));
    data[12] = self->flow;
    memset(data + 13, 0, 3);
    if (names_contexts(request, len))
        data[13] = CONTEXTS;
    return RXM_CM_ANSWER_SIZE;
}

static const char *rxm_take_answer(const struct rxm_self *self, const void *data, size_t len,
                                   struct rxm_hello *hello)
{
    const uint8_t *raw = data;

    if (len != RXM_CM_ANSWER_SIZE)
        return "the peer answered in another protocol than FI_PROTO_RXM";
    *hello = (struct rxm_hello){.flow = raw[12]};
    get_connection(raw, hello);
    return (self->source || self->target) && raw[13] != CONTEXTS ? no_contexts : NULL;
}

static size_t rxm_refusal(bool again, const void *request, size_t len, uint8_t data[RXM_PROTO_MAX])
{
    data[0] = CM_VERSION;
    data[1] = again ? CONNECTED : REFUSED;
    return RXM_CM_REFUSAL_SIZE;
}

static const char *rxm_take_refusal(const void *data, size_t len)
{
    const uint8_t *raw = data;

    if (len >= RXM_CM_REFUSAL_SIZE && raw[0] == CM_VERSION && raw[1] == CONNECTED)
        return NULL;
    return "the peer speaks another protocol than FI_PROTO_RXM, or has another "
           "FI_OFI_RXM_BUFFER_SIZE";
}

const struct rxm_proto rxm_proto_rxm = {
    .name = "FI_PROTO_RXM",
    .request = rxm_request,
    .take_request = rxm_take_request,
    .answer = rxm_answer,
    .take_answer = rxm_take_answer,
    .refusal = rxm_refusal,
    .take_refusal = rxm_take_refusal,
};

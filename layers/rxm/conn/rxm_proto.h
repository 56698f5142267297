/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private data of the connection exchange on the two wires: how each side writes its own and
 * reads the other's. Pure. docs/design/rxm.md has the bytes of FI_PROTO_RXM, rxm_wire.h those of
 * FI_PROTO_XNET.
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_PROTO_H
#define WEFT_LAYERS_RXM_CONN_RXM_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RXM_PROTO_MAX = 32 /* bytes of anything said */
};

/* How an endpoint says whether it counts the packets that the other may send (FI_PROTO_RXM). */
enum rxm_flow {
    RXM_FLOW_UNSAID, /* an old peer: as the own side */
    RXM_FLOW_ON,
    RXM_FLOW_OFF
};

/* The data of this side; id names the connection to be made. */
struct rxm_self {
    uint16_t port;
    uint32_t pid, id;
    uint32_t eager_limit, rx_size;
    uint8_t flow;
    uint16_t extensions;    /* enum rxm_wire_extension, of FI_PROTO_XNET */
    uint8_t source, target; /* of a request: as in rxm_wire.h */
};

/* The data of the other side. */
struct rxm_hello {
    uint16_t port; /* it listens on; of a request */
    uint32_t pid;
    uint32_t id;            /* the peer's number of the connection */
    uint8_t flow;           /* enum rxm_flow */
    bool firewalled;        /* cannot be dialled */
    unsigned version;       /* of the wire, as agreed */
    uint16_t extensions;    /* that both sides understand */
    uint8_t source, target; /* of a request */
};

/* Sentences are static; NULL is "fine". */
struct rxm_proto {
    const char *name;
    /* Writes a request; returns its length. */
    size_t (*request)(const struct rxm_self *self, uint8_t data[RXM_PROTO_MAX]);
    /* Why it cannot be accepted, ever; or NULL and *hello. */
    const char *(*take_request)(const struct rxm_self *self, const void *data, size_t len,
                                struct rxm_hello *hello);
    /* The answer to a request that was taken; sets hello->version. */
    size_t (*answer)(const struct rxm_self *self, const void *request, size_t len,
                     struct rxm_hello *hello, uint8_t data[RXM_PROTO_MAX]);
    const char *(*take_answer)(const struct rxm_self *self, const void *data, size_t len,
                               struct rxm_hello *hello);
    /* A request is turned down; again: because of the connection that there is or will be. */
    size_t (*refusal)(bool again, const void *request, size_t len, uint8_t data[RXM_PROTO_MAX]);
    /* NULL: the other side has, or makes, a connection of its own. */
    const char *(*take_refusal)(const void *data, size_t len);
};

extern const struct rxm_proto rxm_proto_xnet, rxm_proto_rxm;

#endif

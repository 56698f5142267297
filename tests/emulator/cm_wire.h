/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management: each connection has its own SOCK_SEQPACKET socket, whose messages are
 * those of the InfiniBand connection manager. Its end is the end of the peer's identifier.
 */
#ifndef WEFT_EMULATOR_CM_WIRE_H
#define WEFT_EMULATOR_CM_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cm_kind {
    CM_REQUEST = 1,
    CM_REPLY,
    CM_READY, /* "ready to use" */
    CM_REJECT,
    CM_DISCONNECT,
    CM_DISCONNECTED,
    CM_KINDS
};

enum {
    CM_MAGIC = 0x77454332,
    /* Room for private data: it is padded with zeros, its length is not sent. */
    CM_ROOM_REQUEST = 56,
    CM_ROOM_REPLY = 196,
    CM_ROOM_REJECT = 148,
    CM_ROOM_DATAGRAM_REQUEST = 180,
    CM_ROOM_DATAGRAM_REPLY = 136,
    CM_ROOM = 196,
    /* Reasons of CM_REJECT. */
    CM_REJECT_NO_LISTENER = 8,
    CM_REJECT_CONSUMER = 28,
};

struct cm_message {
    uint32_t magic;
    uint8_t kind, is_datagram, gid_type, status;
    uint32_t qpn, psn, qkey;
    uint8_t responder_resources, initiator_depth, retry, rnr_retry, flow_control, srq;
    uint8_t unused[2];
    uint8_t source_gid[16], target_gid[16];
    union {
        struct sockaddr any;
        struct sockaddr_in ip4;
        struct sockaddr_in6 ip6;
    } source, target; /* of a request */
    uint8_t data[CM_ROOM];
};

/* Reads bytes[0..count); false and `why` if they are no message. */
bool cm_decode(const void *bytes, size_t count, struct cm_message *message, const char **why);

/* Bytes of private data that a message of this kind has. */
unsigned cm_room(enum cm_kind kind, bool is_datagram);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private data of the connection exchange for tags=pass: the 8 bytes that libfabric's own
 * reliable datagrams over tcp (FI_PROTO_XNET) send with a request and with its answer, and behind
 * them a trailer of ours. libfabric does not look at what is behind its 8 bytes, and answers
 * without; we answer with a trailer only a peer that has sent one.
 *
 *   0 u8   version: of a request the highest that is spoken, bit 7 clear; of an answer the lower of
 *          both with bit 7 set, which is the proof that it was understood (old peers echo the byte)
 *   1 u8   features: bit 0 "I am behind a firewall, do not dial me"
 *   2 u16  listening port of the requester, big-endian, in the answer too
 *   4 u32  process id of the sender, big-endian
 *   8 "WEFT"
 *  12 u8   version of the trailer: 1
 *  13 u8   bytes of the trailer, from "WEFT" on: 12, or more in versions to come
 *  14 u16  extensions that the sender understands, big-endian: enum rxm_wire_extension
 *  16 u8   of a request: whose it is; 0 an endpoint's, i + 1 transmit context i's of a scalable one
 *  17 u8   of a request: the receive context that it is for
 *  18 u16  0
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_WIRE_H
#define WEFT_LAYERS_RXM_CONN_RXM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RXM_WIRE_BASE = 8,
    RXM_WIRE_SIZE = 20, /* of our messages; an answer to 8 bytes has the first 8 */
    RXM_WIRE_VERSION = 1,
    RXM_WIRE_PROOF = 0x80,   /* bit of the version byte */
    RXM_WIRE_FIREWALL = 0x01 /* bit of the features byte */
};

enum rxm_wire_extension {
    RXM_WIRE_ATOMICS = 0x1,  /* atomic records of tcp */
    RXM_WIRE_CONTEXTS = 0x2, /* bytes 16 and 17 */
};

struct rxm_wire_hello {
    uint8_t version, features;
    uint16_t port; /* host order */
    uint32_t pid;
    bool trailer; /* there is one; else the rest is 0 */
    uint16_t extensions;
    uint8_t source, target; /* bytes 16 and 17 */
};

/* For a requester of another protocol: the refusal of rxm's own packets, which such peers
 * understand ("version 1, refused"); native ones never send it. */
extern const uint8_t rxm_wire_refusal[2];

/* Returns the length. */
size_t rxm_wire_put(const struct rxm_wire_hello *hello, uint8_t raw[RXM_WIRE_SIZE]);
/* False unless it is 8 bytes, or 8 and a trailer. */
bool rxm_wire_get(const void *raw, size_t len, struct rxm_wire_hello *hello);

/* The answer to a request, and the version that both then speak. */
void rxm_wire_answer(const struct rxm_wire_hello *request, uint32_t pid, uint16_t extensions,
                     struct rxm_wire_hello *answer);
unsigned rxm_wire_agreed(const struct rxm_wire_hello *answer);

#endif

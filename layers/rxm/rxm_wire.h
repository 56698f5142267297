/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private data of the connection exchange for tags=pass: the 8 bytes that libfabric's own
 * reliable datagrams over tcp (FI_PROTO_XNET) send with a request and with its answer.
 *
 *   0 u8   version: of a request the highest that is spoken, bit 7 clear; of an answer the lower of
 *          both with bit 7 set, which is the proof that it was understood (old peers echo the byte)
 *   1 u8   features: bit 0 "I am behind a firewall, do not dial me"
 *   2 u16  listening port of the requester, big-endian, in the answer too
 *   4 u32  process id of the sender, big-endian
 */
#ifndef WEFT_LAYERS_RXM_WIRE_H
#define WEFT_LAYERS_RXM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RXM_WIRE_SIZE = 8,
    RXM_WIRE_VERSION = 1,
    RXM_WIRE_PROOF = 0x80,   /* bit of the version byte */
    RXM_WIRE_FIREWALL = 0x01 /* bit of the features byte */
};

struct rxm_wire_hello {
    uint8_t version, features;
    uint16_t port; /* host order */
    uint32_t pid;
};

/* What a requester of another protocol gets: the refusal of rxm's own packets, which such peers
 * understand ("version 1, refused"); native ones never send it. */
extern const uint8_t rxm_wire_refusal[2];

void rxm_wire_put(const struct rxm_wire_hello *hello, uint8_t raw[RXM_WIRE_SIZE]);
/* False unless it is exactly 8 bytes. */
bool rxm_wire_get(const void *raw, size_t len, struct rxm_wire_hello *hello);

/* The answer to a request, and the version that both then speak. */
void rxm_wire_answer(const struct rxm_wire_hello *request, uint32_t pid,
                     struct rxm_wire_hello *answer);
unsigned rxm_wire_agreed(const struct rxm_wire_hello *answer);

#endif

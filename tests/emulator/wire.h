/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire between processes: one packet in each message of a SOCK_SEQPACKET socket, a header in
 * the byte order of the machine and its payload. The sender may be any program of this user: a
 * packet that wire_decode has accepted is consistent in itself, and nothing else is known about it.
 */
#ifndef WEFT_EMULATOR_WIRE_H
#define WEFT_EMULATOR_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_PAYLOAD = 32768, /* bytes of payload of one packet, at most */
    WIRE_MAGIC = 0x77454d31,
    WIRE_NODE_BITS = 10, /* a queue pair's number: process, then place in its table */
    WIRE_QPN_BITS = 24,
    WIRE_PLACE_BITS = WIRE_QPN_BITS - WIRE_NODE_BITS,
    WIRE_NODES = 1 << WIRE_NODE_BITS,
    WIRE_MULTICAST_QPN = 0xffffff,
};

enum wire_kind {
    WIRE_SEND = 1, /* requests of RC: consumed in the order of `message` */
    WIRE_WRITE,
    WIRE_READ,
    WIRE_SWAP, /* operand[0] compare, operand[1] swap */
    WIRE_ADD,  /* operand[0] */
    WIRE_ACK,  /* `message` and all before have been executed */
    WIRE_NAK,  /* `message` failed with `status`, all before have been executed */
    WIRE_RNR,  /* `message` found no receive; again after the time that code `status` means */
    WIRE_LOST, /* a device would not have answered to `message` */
    WIRE_READ_DATA,
    WIRE_ATOMIC_VALUE, /* operand[0]: what was there before */
    WIRE_DATAGRAM,
    WIRE_SRD,        /* a reliable datagram, `message` of its sender */
    WIRE_SRD_ANSWER, /* what became of it: `status` is enum efa_status */
    WIRE_SRD_WRITE,  /* a piece of a write, or its immediate data; operand[0]: bytes */
    WIRE_SRD_READ,   /* asks for a piece of operand[0] bytes */
    WIRE_SRD_DATA,   /* that piece */
    WIRE_KINDS
};

enum wire_flag {
    WIRE_FIRST = 1, /* `offset` is 0 */
    WIRE_LAST = 2,  /* `offset` + `length` is `total` */
    WIRE_SOLICITED = 4,
    WIRE_IMMEDIATE = 8,
    WIRE_INVALIDATE = 16,
    WIRE_FLAGS = 31
};

/* Codes of WIRE_NAK. */
enum wire_nak {
    WIRE_NAK_REQUEST = 1, /* becomes IBV_WC_REM_INV_REQ_ERR */
    WIRE_NAK_ACCESS,      /* IBV_WC_REM_ACCESS_ERR */
    WIRE_NAK_OPERATION,   /* IBV_WC_REM_OP_ERR */
    WIRE_NAKS
};

struct wire_packet {
    uint32_t magic;
    uint8_t kind, flags, status, gid_type;
    uint8_t source_gid[16], target_gid[16];
    uint32_t source_qpn, target_qpn;
    uint32_t message; /* counts the requests of a queue pair */
    uint32_t length;  /* of the payload that follows */
    uint32_t total, offset;
    uint32_t rkey, immediate, qkey;
    uint16_t pkey, path_mtu;
    uint64_t remote_address;
    uint64_t operand[2];
};

/* Reads the packet in bytes[0..count); false and `why` if it is none. The payload follows it. */
bool wire_decode(const void *bytes, size_t count, struct wire_packet *packet, const char **why);

/* Fills in what depends on kind and size: magic, FIRST, LAST. */
void wire_finish(struct wire_packet *packet);

#endif

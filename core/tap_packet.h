/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks of a pcapng file (IETF draft-ietf-opsawg-pcapng), and the packets in them. Bytes only. */
#ifndef WEFT_CORE_TAP_PACKET_H
#define WEFT_CORE_TAP_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"

enum {
    TAP_PAYLOAD_MAX = 61440, /* of one packet: with headers below what IP can carry */
    TAP_BLOCK_MAX = TAP_PAYLOAD_MAX + 256,
    TAP_HEAD_MAX = 512, /* of tap_packet_head */
    TAP_FIN = 0x01,
    TAP_SYN = 0x02,
    TAP_PSH = 0x08,
    TAP_ACK = 0x10,
};

struct tap_packet {
    const union addr *from, *to; /* of one family */
    uint32_t seq, ack;
    unsigned flags;
    bool inbound;
    uint64_t ns; /* time of day */
    const void *payload;
    size_t len;  /* of payload, TAP_PAYLOAD_MAX at most */
    size_t snap; /* bytes of the packet that are kept */
};

/* Section header and the description of the one interface. Returns the length. */
size_t tap_packet_head(const char *part, const char *program, int pid, size_t snap, uint8_t *out);
/* One enhanced packet block. Returns the length. */
size_t tap_packet_block(const struct tap_packet *packet, uint8_t *out);

#endif

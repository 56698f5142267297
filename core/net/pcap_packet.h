/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks of a pcapng file (IETF draft-ietf-opsawg-pcapng), and the packets in them. Bytes only. */
#ifndef WEFT_CORE_NET_PCAP_PACKET_H
#define WEFT_CORE_NET_PCAP_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/addr.h"

enum {
    PCAP_PAYLOAD_MAX = 65527, /* of one packet: the most that a datagram over IPv6 carries */
    PCAP_SEGMENT_MAX = 61440, /* of a packet of a stream: with headers below what IP can carry */
    PCAP_BLOCK_MAX = PCAP_PAYLOAD_MAX + 256,
    PCAP_HEAD_MAX = 512, /* of pcap_packet_head */
    PCAP_FIN = 0x01,
    PCAP_SYN = 0x02,
    PCAP_PSH = 0x08,
    PCAP_ACK = 0x10,
};

struct pcap_packet {
    const union addr *from, *to; /* of one family */
    bool datagram;               /* of UDP, without seq, ack and flags; else of TCP */
    uint32_t seq, ack;
    unsigned flags;
    bool inbound;
    uint64_t ns; /* time of day */
    const void *payload;
    size_t len;  /* of payload, PCAP_PAYLOAD_MAX at most */
    size_t snap; /* bytes of the packet that are kept */
};

/* Section header and the description of the one interface. Returns the length. */
size_t pcap_packet_head(const char *part, const char *program, int pid, size_t snap, uint8_t *out);
/* One enhanced packet block. Returns the length. */
size_t pcap_packet_block(const struct pcap_packet *packet, uint8_t *out);

#endif

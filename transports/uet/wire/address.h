/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address of an endpoint: what a peer needs to know, as 32 bytes and as text. Source: Ultra
 * Ethernet 1.0.1, table 2-10, for what is in it; the order of the bytes is of our own:
 *
 *     0 0x55 | 1 version | 2 flags | 3 capabilities | 4 UDP port | 6 pid | 8 first index
 *    10 generation | 11 number of indices | 12 initiator | 16 IP address, IPv4 in the first 4 bytes
 *
 *     fi_addr_uet://192.0.2.1/7/15/16          PIDonFEP, index, initiator; and a generation but 0
 *     fi_addr_uet://[2001:db8::1]:4794/7/15/16
 */
#ifndef WEFT_UET_WIRE_ADDRESS_H
#define WEFT_UET_WIRE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/addr.h"

enum {
    UET_ADDRESS_SIZE = 32,
    UET_ADDRESS_TEXT = 96, /* any text, with its 0 */
    UET_PORT = 4793,       /* of UDP, assigned */
};

enum uet_address_flag {
    UET_HAS_CAPS = 0x01,
    UET_HAS_HOST = 0x02,
    UET_HAS_PID = 0x04,
    UET_HAS_INDEX = 0x08,
    UET_HAS_INITIATOR = 0x10,
    UET_ABSOLUTE = 0x20,
    UET_IPV6 = 0x40,
    UET_ONE_MTU = 0x80, /* the longest message */
};

enum uet_capability {
    UET_AI_BASE = 0x01,
    UET_AI_FULL = 0x02,
    UET_HPC = 0x04,
    UET_REORDERS = 0x40,  /* packets of ordered PDCs */
    UET_OPTIMIZED = 0x80, /* takes small headers */
};

struct uet_address {
    union addr host; /* with the UDP port */
    uint8_t flags, caps;
    uint16_t pid, index; /* 12 bits */
    uint8_t index_count, generation;
    uint32_t initiator;
};

/* An initiator ID that tells an endpoint from others at its address: its PIDonFEP and UDP port. */
static inline uint32_t uet_initiator_make(uint16_t pid, const union addr *host)
{
    return (uint32_t)pid << 16 | addr_port(&host->sa);
}

/* The PIDonFEP in it. No packet names its sender's otherwise; 0 for IDs that were not made so. */
static inline uint16_t uet_initiator_pid(uint32_t initiator, const union addr *host)
{
    return (initiator & UINT16_MAX) == addr_port(&host->sa) ? (uint16_t)(initiator >> 16) : 0;
}

void uet_address_put(const struct uet_address *address, uint8_t bytes[UET_ADDRESS_SIZE]);
/* False: it is no such address, or one without a host, a port or a pid. */
bool uet_address_get(const uint8_t bytes[UET_ADDRESS_SIZE], struct uet_address *address);

/* The length without the 0. */
size_t uet_address_print(const struct uet_address *address, char *text, size_t size);
/* From the text of uet_address_print: capabilities are unknown then. */
bool uet_address_parse(const char *text, struct uet_address *address);

#endif

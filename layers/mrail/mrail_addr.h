/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address of an endpoint: the largest packet that it takes, and its address on each rail.
 * Foreign bytes: everything is checked. Pure.
 *
 *   byte 0   version (2)
 *   byte 1   sum of all other bytes and of their number
 *   byte 2   count of rails (1 to MRAIL_RAILS)
 *   3        bytes of the largest packet, low byte first
 *   then for each rail
 *     2      kind: hash of protocol and form of addresses (mrail_addr_kind), low byte first; not 0
 *     1      FORM_IN, FORM_IN6, or FORM_RAW with the length of the address
 *     n      the address: FORM_IN 2 of port, 4 of address, in network order; FORM_IN6 2, 16, and 4
 *            of scope; FORM_RAW as the rail has it, without zeros at the end
 *   zeros up to the size, which is the same for all endpoints of a bracket: 56 bytes for two rails
 *   with IP addresses, else so many and a multiple of 32. AWS's plugin for NCCL takes at most 56.
 *   Version 1 had 64 bytes for two.
 */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_ADDR_H
#define WEFT_LAYERS_MRAIL_MRAIL_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

/* fi_info.addr_format of these addresses. */
#define MRAIL_ADDR_FORMAT (UINT32_C(1) << 31 | 0x117f)

enum {
    MRAIL_ADDR_VERSION = 2,
    MRAIL_RAILS = 8, /* most of a bracket */
    MRAIL_ADDR_MIN = 56,
    MRAIL_ADDR_STEP = 32,
    MRAIL_ADDR_MAX = MRAIL_ADDR_MIN + 5 * MRAIL_ADDR_STEP,
    MRAIL_PACKET_MAX = 0xffffff, /* bytes, that an address can name */
    MRAIL_RAIL_ADDR_MAX = 128,   /* of a rail's own address */
};

/* One rail's part of an address. */
struct mrail_addr_rail {
    uint16_t kind;
    uint32_t format; /* FI_SOCKADDR_IN, FI_SOCKADDR_IN6; else FI_FORMAT_UNSPEC */
    size_t len;      /* decoded FORM_RAW: MRAIL_RAIL_ADDR_MAX, with zeros behind */
    _Alignas(8) unsigned char addr[MRAIL_RAIL_ADDR_MAX];
};

struct mrail_addr {
    uint32_t packet;
    size_t count;
    struct mrail_addr_rail rail[MRAIL_RAILS];
};

/* Rails that speak with each other have the same. */
uint16_t mrail_addr_kind(const struct fi_info *rail);
/* Bytes of an address of these rails, NULL where there is none; 0: more than MRAIL_ADDR_MAX. */
size_t mrail_addr_size(const struct fi_info *const *rails, size_t count);

/* Writes `size` bytes. -FI_EINVAL: an address does not fit. */
int mrail_addr_encode(const struct mrail_addr *addr, unsigned char *raw, size_t size);
/* Reads `size` bytes; why gets a sentence. -FI_EINVAL. */
int mrail_addr_decode(const unsigned char *raw, size_t size, struct mrail_addr *addr, char *why,
                      size_t why_size);
/* Bytes of a rail's address, where those of that rail have `usual`, if that is known (not 0). */
static inline size_t mrail_addr_len(const struct mrail_addr_rail *rail, size_t usual)
{
    return rail->format == FI_FORMAT_UNSPEC && usual && usual < rail->len ? usual : rail->len;
}

/* The rail of addr that our rail number `index` meets, `kinds` being those of ours: the n-th of a
 * kind meets the n-th of it. NULL: none. */
const struct mrail_addr_rail *mrail_addr_meets(const struct mrail_addr *addr, const uint16_t *kinds,
                                               size_t index);

#endif

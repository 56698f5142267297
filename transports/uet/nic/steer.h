/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which endpoint a packet is for, where several share an address and a port: the owner of the PDC
 * that it names, or, where it names none yet, of its PIDonFEP or of its RUDI number. The kernel
 * asks a filter (SO_ATTACH_REUSEPORT_CBPF), endpoints ask steer_of. Pure.
 */
#ifndef WEFT_UET_NIC_STEER_H
#define WEFT_UET_NIC_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/uet/wire/pds_header.h"

struct sock_filter;

enum {
    STEER_SLOTS = 64,       /* endpoints, each with so many PIDonFEPs: */
    STEER_PIDS = 64,        /* 4,096 in all */
    STEER_BLOCKS = 64,      /* of PDC ids, each with so many: */
    STEER_IDS = 1024,       /* 65,536 in all */
    STEER_RUDI_BITS = 26,   /* RUDI numbers below the slot of who sends them */
    STEER_FILTER_MAX = 512, /* instructions */
    STEER_ID_AT = 10,       /* of a PDC id in a packet */
    STEER_INQUIRY = 31,     /* where a type of PDS has its place; no type has this number: */
    STEER_INQUIRY_SIZE = 20,
};

enum steer_kind {
    STEER_ANY,   /* it names nothing: any endpoint may answer it */
    STEER_SLOT,  /* number: of an endpoint */
    STEER_BLOCK, /* number: of a block of PDC ids */
    STEER_NUMBER /* number: of a socket, as the kernel counts those of the port */
};

struct steer {
    uint8_t kind; /* enum steer_kind */
    uint8_t number;
};

/* bytes: the packet from its PDS header on, or the beginning of it. */
struct steer steer_of(const uint8_t *bytes, size_t len);

/* As steer_of, of the packets that nearly all are: does it name a PDC? In *block which one's. */
static inline bool steer_names_block(const uint8_t *bytes, size_t len, unsigned *block)
{
    const uint32_t always = 1u << PDS_ACK | 1u << PDS_ACK_CC | 1u << PDS_ACK_CCX;
    const uint32_t opened = 1u << PDS_RUD | 1u << PDS_ROD;

    if (len < STEER_ID_AT + 2)
        return false;
    *block = bytes[STEER_ID_AT] >> 2;
    return (always | (bytes[1] & PDS_SYN ? 0 : opened)) >> (bytes[0] >> 3) & 1;
}

/* An endpoint sends it to itself to learn which number its socket has. It does not leave the
 * host. */
struct steer_inquiry {
    uint8_t number;   /* the socket that it goes to */
    uint64_t secret;  /* of the sender; 0: it only wakes that socket's owner */
    uint64_t version; /* of what the kernel had been told */
};

static inline bool steer_is_inquiry(const uint8_t *bytes, size_t len)
{
    return len == STEER_INQUIRY_SIZE && bytes[0] >> 3 == STEER_INQUIRY;
}

/* bytes: STEER_INQUIRY_SIZE. */
void steer_inquiry_put(const struct steer_inquiry *inquiry, uint8_t *bytes);
struct steer_inquiry steer_inquiry_get(const uint8_t *bytes);

/* Where each is, as the kernel counts the sockets of the port; -1: there is none, and any one may
 * answer. */
struct steer_table {
    int16_t slots[STEER_SLOTS], blocks[STEER_BLOCKS];
};

/* Writes the filter (STEER_FILTER_MAX): how many instructions there are. */
size_t steer_filter(const struct steer_table *table, struct sock_filter *filter);

#endif

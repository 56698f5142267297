/* SPDX-License-Identifier: BSD-2-Clause */
/* Types of packets: the places of their fields, for srd_wire.c, which writes them, and
 * srd_wire_get.c, which reads and checks them; and what a type is. */
#ifndef WEFT_LAYERS_SRD_SRD_LAYOUT_H
#define WEFT_LAYERS_SRD_SRD_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SRD_AT_VERSION = 1,
    SRD_AT_FLAGS = 2,
    SRD_NEXTRA_BASE = 3,
    SRD_WORD = 8,
    SRD_CODES_MAX = 255, /* of datatypes and operations */
    SRD_ALL_TYPES = 256,
    SRD_DATA_ID = 4, /* the fields of CTSDATA with a connid, most packets of large messages */
    SRD_DATA_LENGTH = 8,
    SRD_DATA_OFFSET = 16,
    SRD_DATA_CONNID = 24,
};

/* Where a type has its fields, from the packet's first byte; 0: it has none. */
struct srd_layout {
    uint8_t size; /* without places and options; 0: no such type */
    uint8_t connid, send_id, recv_id, msg_id, credits;
    uint8_t tag, total, offset, runt;
    uint8_t window, window_size, length; /* length: bytes of payload, of 8 */
    uint8_t places, reads, codes;        /* counts of 4; datatype and op, of 4 each */
    bool dc;
    uint16_t flags; /* that it always has */
};

extern const struct srd_layout srd_layouts[SRD_ALL_TYPES];

/* NULL: there is no such type. */
static inline const struct srd_layout *srd_layout_of(uint8_t type)
{
    return srd_layouts[type].size ? &srd_layouts[type] : NULL;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Headers of the packet delivery sublayer (PDS): bytes in, fields out, and back. Pure.
 * docs/design/uet.md has the figures. Source: Ultra Ethernet 1.0.1, tables 3-31 to 3-49.
 */
#ifndef WEFT_UET_WIRE_PDS_HEADER_H
#define WEFT_UET_WIRE_PDS_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pds_type {
    PDS_TSS = 0x1, /* a security header stands in front of the packet: not one of these */
    PDS_RUD = 0x2,
    PDS_ROD = 0x3,
    PDS_RUDI = 0x4,
    PDS_RUDI_RESPONSE = 0x5,
    PDS_UUD = 0x6,
    PDS_ACK = 0x7,
    PDS_ACK_CC = 0x8,
    PDS_ACK_CCX = 0x9,
    PDS_NACK = 0xa,
    PDS_CONTROL = 0xb,
    PDS_NACK_CCX = 0xc,
    PDS_RUD_CC = 0xd,
    PDS_ROD_CC = 0xe,
};

/* The header behind that of PDS. */
enum pds_next {
    NEXT_NONE,
    NEXT_SMALL,
    NEXT_MEDIUM,
    NEXT_STANDARD,
    NEXT_RESPONSE,
    NEXT_RESPONSE_DATA,
    NEXT_RESPONSE_DATA_SMALL,
};

/* Flags; each type has some of them. */
enum pds_flag {
    PDS_MARKED = 0x20, /* ACK, NACK, RUDI response: the request came with a congestion mark */
    PDS_IS_ROD = 0x20, /* control: of an ordered PDC */
    PDS_RETX = 0x10,
    PDS_NT_RUDI = 0x08,  /* NACK: of a RUDI packet */
    PDS_AR = 0x08,       /* requests, control: acknowledge now */
    PDS_IS_PROBE = 0x08, /* ACK: answers a probe */
    PDS_SYN = 0x04,
    PDS_WANTS_CLEAR = 0x02, /* ACK, one of the two: */
    PDS_WANTS_CLOSE = 0x04,
};

enum pds_control {
    CONTROL_NOOP,
    CONTROL_ACK_REQUEST,
    CONTROL_CLEAR,
    CONTROL_CLEAR_REQUEST,
    CONTROL_CLOSE,
    CONTROL_CLOSE_REQUEST,
    CONTROL_PROBE,
    CONTROL_CREDIT,
    CONTROL_CREDIT_REQUEST,
    CONTROL_NEGOTIATION,
    CONTROL_KINDS,
};

enum pds_nack {
    NACK_TRIMMED = 0x01,
    NACK_TRIMMED_LASTHOP = 0x02,
    NACK_TRIMMED_ACK = 0x03,
    NACK_NO_PDC = 0x04,
    NACK_NO_CCC = 0x05,
    NACK_NO_BITMAP = 0x06,
    NACK_NO_BUFFER = 0x07,
    NACK_NO_GTD = 0x08,
    NACK_NO_MESSAGE = 0x09,
    NACK_NO_RESOURCE = 0x0a,
    NACK_OUT_OF_WINDOW = 0x0b,
    NACK_ROD_OOO = 0x0d,
    NACK_INVALID_DPDCID = 0x0e,
    NACK_MISMATCH = 0x0f,
    NACK_CLOSING = 0x10,
    NACK_CLOSING_IN_ERROR = 0x11,
    NACK_NOT_RECEIVED = 0x12,
    NACK_GTD_UNAVAILABLE = 0x13,
    NACK_ACK_WITH_DATA = 0x14,
    NACK_INVALID_SYN = 0x15,
    NACK_MODE_MISMATCH = 0x16,
    NACK_NEW_START = 0x17,
    NACK_IN_PROGRESS = 0x18,
    NACK_UNEXPECTED = 0x19,
    NACK_INFERRED_LOSS = 0x1a,
    NACK_EXPERIMENTAL = 0xfd,       /* as a normal one, */
    NACK_EXPERIMENTAL_ERROR = 0xfe, /* as an error, */
    NACK_EXPERIMENTAL_FATAL = 0xff, /* as one that ends the PDC */
};

enum {
    PDS_HEADER_MAX = 40,
    PDS_CC_NSCC = 0, /* cc_type */
    PDS_CC_CREDIT = 1,
    PDS_MPR_UNIT = 128, /* PSNs */
};

/* A field that its type lacks is 0. */
struct pds_header {
    uint8_t type; /* enum pds_type */
    uint8_t next; /* enum pds_next; of a control packet enum pds_control */
    uint8_t flags;
    uint8_t pdc_info; /* 4 bits; with PDS_SYN */
    int16_t offset;   /* requests: CLEAR_PSN - psn; ACK: acknowledged PSN - psn */
    uint16_t opaque;  /* of a probe and its answer, which has no offset; of other control packets
                         reserved */
    uint32_t psn;     /* ACK: the cumulative one; RUDI, and NACK of it: the packet's number */
    uint16_t spdcid, dpdcid;
    uint16_t psn_offset; /* 12 bits; with PDS_SYN, in place of dpdcid: psn - Start_PSN */
    uint8_t nack_code, vendor_code;
    uint32_t payload; /* NACK, control */
    /* RUD_CC, ROD_CC: */
    uint8_t ccc_id;
    uint32_t credit_target; /* 24 bits */
    /* ACK_CC, ACK_CCX, the state of NACK_CCX: */
    uint8_t cc_type, cc_flags; /* 4 bits each */
    uint8_t mpr;               /* in PDS_MPR_UNIT; 0: no statement */
    int16_t sack_offset;       /* SACK base - psn */
    uint64_t sack_bitmap;      /* bit i: base + i has come */
    uint64_t cc_state[2];      /* ACK_CC: the first; NACK_CCX: 60 and 64 bits */
};

/* Why bytes are no header. */
enum pds_fault {
    PDS_FAULT_SHORT = -1,
    PDS_FAULT_TYPE = -2,  /* unknown, or of security */
    PDS_FAULT_FLAGS = -3, /* reserved ones */
    PDS_FAULT_NEXT = -4,  /* not what this type carries, or a reserved kind of control packet */
    PDS_FAULT_ID = -5,    /* the sender names its PDC 0 */
};

/* The bytes of the header, or enum pds_fault. short_rudi: RUDI headers have 6 bytes instead of 8;
 * the sources of the specification disagree. */
int pds_header_get(const uint8_t *bytes, size_t len, bool short_rudi, struct pds_header *header);
/* Writes it to bytes (PDS_HEADER_MAX); how many there are. Bits that fields lack are cut off. */
size_t pds_header_put(const struct pds_header *header, bool short_rudi, uint8_t *bytes);

/* Is it a request of a PDC: RUD, ROD, with or without a CC state? */
static inline bool pds_is_request(uint8_t type)
{
    return type == PDS_RUD || type == PDS_ROD || type == PDS_RUD_CC || type == PDS_ROD_CC;
}

static inline bool pds_is_ack(uint8_t type)
{
    return type == PDS_ACK || type == PDS_ACK_CC || type == PDS_ACK_CCX;
}

/* The fields of an NSCC state (ACK_CC with PDS_CC_NSCC). */
struct pds_nscc {
    uint16_t service_time; /* in 128 ns; 0: not valid */
    bool restore;          /* the window that was saved */
    uint8_t penalty;       /* 7 bits */
    uint32_t received;     /* 24 bits: bytes of this PDC, in 256 */
    uint16_t out_of_order; /* packets; 0xffff: not valid */
};
struct pds_nscc pds_nscc_get(uint64_t state);
uint64_t pds_nscc_put(const struct pds_nscc *nscc);

/* Data that was asked for, as a request of the return direction. */
static inline bool pds_is_returned(uint8_t next)
{
    return next == NEXT_RESPONSE_DATA || next == NEXT_RESPONSE_DATA_SMALL;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of FI_PROTO_EFA, version 4, as libfabric's efa has them. Pure: bytes in, fields out, with
 * every length, count and sum checked. All numbers are in little-endian order; docs/design/srd.md
 * has the figures.
 */
#ifndef WEFT_LAYERS_SRD_SRD_WIRE_H
#define WEFT_LAYERS_SRD_SRD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_rma.h>

#include "core/base/little_endian.h"
#include "layers/srd/srd_layout.h"

enum {
    SRD_VERSION = 4,
    SRD_BASE_SIZE = 4,
    SRD_ADDR_SIZE = 32,
    SRD_CONNID_SIZE = 4,
    SRD_CQ_DATA_SIZE = 8,
    SRD_PLACE_SIZE = 24,
    SRD_PLACES = 4,          /* of either end of an access or a message */
    SRD_DATA_HEAD = 32,      /* SRD_CTSDATA with a connid: pieces leave room for it, always */
    SRD_RESPONSE_HEAD = 24,  /* SRD_READRSP, SRD_ATOMRSP */
    SRD_REQUEST_HEAD = 128,  /* the largest without an address: 24, SRD_PLACES, data */
    SRD_WORDS = 4,           /* of features that a handshake is read to */
    SRD_HANDSHAKE_MAX = 128, /* the largest that is sent is 40 */
};

enum srd_type {
    SRD_CTS = 3,     /* the receiver takes so many more bytes */
    SRD_CTSDATA = 4, /* bytes that a CTS asked for */
    SRD_READRSP = 5, /* the first bytes of an emulated read */
    SRD_EOR = 7,     /* the receiver has read the message */
    SRD_ATOMRSP = 8, /* what was there before an atomic */
    SRD_HANDSHAKE,   /* what its sender can do */
    SRD_RECEIPT,     /* it is delivered */
    SRD_READ_NACK,   /* the receiver cannot read: it is to be sent */
    SRD_PEER_ERROR,  /* an operation has failed at the peer */
    SRD_EAGER_MSG = 64,
    SRD_EAGER_TAG,
    SRD_MEDIUM_MSG,
    SRD_MEDIUM_TAG,
    SRD_LONGCTS_MSG,
    SRD_LONGCTS_TAG,
    SRD_EAGER_RTW, /* without places and bytes: nothing but a request for a handshake */
    SRD_LONGCTS_RTW,
    SRD_SHORT_RTR,
    SRD_LONGCTS_RTR,
    SRD_WRITE_RTA,
    SRD_FETCH_RTA,
    SRD_COMPARE_RTA,
    SRD_LONGREAD_MSG = 128,
    SRD_LONGREAD_TAG,
    SRD_LONGREAD_RTW,
    SRD_DC_EAGER_MSG = 133, /* DC: its sender waits for a RECEIPT */
    SRD_DC_EAGER_TAG,
    SRD_DC_MEDIUM_MSG,
    SRD_DC_MEDIUM_TAG,
    SRD_DC_LONGCTS_MSG,
    SRD_DC_LONGCTS_TAG,
    SRD_DC_EAGER_RTW,
    SRD_DC_LONGCTS_RTW,
    SRD_DC_WRITE_RTA,
    SRD_RUNTREAD_MSG = 145,
    SRD_RUNTREAD_TAG,
    SRD_TYPES,
};

enum srd_flag {
    SRD_RAW_ADDR = 1 << 0,
    SRD_CQ_DATA = 1 << 1,
    SRD_MSG = 1 << 2,
    SRD_TAGGED = 1 << 3,
    SRD_RMA = 1 << 4,
    SRD_ATOMIC = 1 << 5,
    SRD_AFTER_NACK = 1 << 13, /* of LONGCTS: its msg_id has come before, with another type */
    SRD_CONNID = 1 << 15,
    SRD_CTS_READ = 1 << 7, /* of CTS: it asks for the bytes of a read */
    /* Of SRD_HANDSHAKE. */
    SRD_HOST_ID = 1 << 0,
    SRD_DEVICE_VERSION = 1 << 1,
    SRD_USER_QP = 1 << 2,
    SRD_HMEM_P2P = 1 << 3,
};

/* Of struct srd_header.features. */
enum srd_feature {
    SRD_CAN_READ = 1 << 0, /* the device reads remote memory */
    SRD_CAN_DC = 1 << 1,
    SRD_WANTS_CONSTANT = 1 << 2, /* an address in every request */
    SRD_WANTS_CONNID = 1 << 3,
    SRD_CAN_RUNT = 1 << 4,
    SRD_CAN_WRITE = 1 << 5, /* the device writes */
    SRD_CAN_NACK = 1 << 6,
    SRD_WANTS_USER_QP = 1 << 7,
    SRD_UNSOLICITED = 1 << 8,
    SRD_CAN_ERROR = 1 << 9, /* SRD_PEER_ERROR is understood */
};

/* The view of a packet that introduces its sender, over lowers whose addresses have no connid: the
 * receiver's life that the sender knows (SRD_VIEW_LIFE; 0: none), and one of these. */
#define SRD_VIEW_LIFE 0x3fffffffU
#define SRD_PLAIN 0U
#define SRD_PROPOSES (1U << 30) /* the sender's connid is a life that begins if that one is there */
#define SRD_RENEWS (2U << 30)   /* likewise, and packets of that one were dropped */
#define SRD_LEAVES (3U << 30)   /* the sender is being closed */

/* The meaning of `op_id` of SRD_PEER_ERROR, which `ref_kind` says. */
enum srd_ref {
    SRD_REF_OP,      /* the id that the request had */
    SRD_REF_PARTIAL, /* a msg_id, part of which has come */
    SRD_REF_SKIP,    /* a msg_id that never comes */
};

/* All fields of any packet; a type has those that its layout names. */
struct srd_header {
    uint8_t type;
    uint16_t flags;
    uint8_t place_count;      /* remote memory, of RTW, RTR and RTA */
    uint8_t read_count;       /* memory of the sender's, of LONGREAD and RUNTREAD */
    uint32_t connid;          /* with SRD_CONNID, of the sender */
    uint32_t send_id;         /* RECEIPT: tx_id; PEER_ERROR: op_id */
    uint32_t recv_id, msg_id; /* LONGCTS_RTR, SHORT_RTR: recv_id is the reader's */
    uint32_t credits;         /* CTSs that the sender would like; a receiver is free in it */
    uint32_t datatype, op;    /* of atomics: libfabric's numbers */
    uint32_t ref_kind, error; /* of PEER_ERROR */
    uint64_t tag;
    uint64_t total;  /* bytes of the message or access; of EAGER set by srd_header_get */
    uint64_t offset; /* of the payload in it */
    uint64_t runt;   /* RUNTREAD: bytes at the beginning that are sent */
    uint64_t window; /* CTS, RTR: bytes that may be sent, or sent at first */
    uint64_t cq_data;
    uint64_t features, host_id; /* of HANDSHAKE */
    uint32_t view;              /* likewise, SRD_VIEW_LIFE and a kind; 0: it has none */
    uint32_t device_version;
    const uint8_t *raw_addr; /* with SRD_RAW_ADDR: so many bytes, in the packet */
    size_t raw_len;
    struct fi_rma_iov places[SRD_PLACES], reads[SRD_PLACES];
    const uint8_t *payload;
    size_t len; /* bytes of payload */
};

/* Is it a request, which may carry an address and data? */
static inline bool srd_is_request(uint8_t type)
{
    return type >= SRD_EAGER_MSG;
}

/* Of any type; true of requests only. */
static inline bool srd_is_tagged(uint8_t type)
{
    return srd_is_request(type) && srd_layouts[type].flags & SRD_TAGGED;
}

static inline bool srd_is_message(uint8_t type)
{
    return srd_is_request(type) && srd_layouts[type].flags & SRD_MSG;
}

/* Does its sender wait for a RECEIPT? */
static inline bool srd_is_dc(uint8_t type)
{
    return srd_layouts[type].dc;
}

/* Does it take its place in the order of messages and atomics? */
static inline bool srd_has_msg_id(uint8_t type)
{
    return srd_is_request(type) && srd_layouts[type].msg_id;
}

/* Is it CTSDATA with a connid and nothing else? raw: of SRD_BASE_SIZE bytes at least. */
static inline bool srd_is_usual_data(const uint8_t *raw)
{
    return get32(raw) == (SRD_CTSDATA | SRD_VERSION << 8 | (uint32_t)SRD_CONNID << 16);
}

/* Bytes of the header with an address: its length field, the address, and zeros. */
static inline size_t srd_raw_size(size_t raw_len)
{
    return (4 + raw_len + 7) & ~(size_t)7;
}

/* Bytes of a packet without its payload. */
size_t srd_header_size(const struct srd_header *header);
/* Writes all but the payload; returns where that goes. The flags that a type always has are added.
 */
uint8_t *srd_header_put(const struct srd_header *header, uint8_t *raw);
/* NULL, and *header; or what is wrong with these bytes. */
const char *srd_header_get(const uint8_t *raw, size_t len, struct srd_header *header);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Headers of the semantic sublayer (SES): bytes in, fields out, and back. Pure. docs/design/uet.md
 * has the figures. Source: Ultra Ethernet 1.0.1, tables 3-8 to 3-23 and 2-13.
 */
#ifndef WEFT_UET_WIRE_SES_HEADER_H
#define WEFT_UET_WIRE_SES_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transports/uet/wire/pds_header.h"

enum ses_opcode {
    SES_NO_OP,
    SES_WRITE,
    SES_READ,
    SES_ATOMIC,
    SES_FETCHING_ATOMIC,
    SES_SEND,
    SES_RENDEZVOUS_SEND,
    SES_DATAGRAM_SEND,
    SES_DEFERRABLE_SEND,
    SES_TAGGED_SEND,
    SES_RENDEZVOUS_TSEND,
    SES_DEFERRABLE_TSEND,
    SES_DEFERRABLE_RTR,
    SES_TSEND_ATOMIC,
    SES_TSEND_FETCH_ATOMIC,
    SES_MSG_ERROR,
};

enum ses_flag {
    SES_DC = 0x20,  /* the response waits until the data can be seen */
    SES_IE = 0x10,  /* the initiator is in error: no memory may be touched */
    SES_REL = 0x08, /* pid is of the job */
    SES_HD = 0x04,  /* data is there */
    SES_EOM = 0x02,
    SES_SOM = 0x01,
};

enum ses_response_opcode {
    SES_DEFAULT_RESPONSE,
    SES_RESPONSE,
    SES_RESPONSE_W_DATA,
    SES_NO_RESPONSE, /* it will come later */
};

enum ses_list {
    SES_EXPECTED,
    SES_OVERFLOW, /* of a message without a receive */
};

enum ses_code {
    RC_NULL,
    RC_OK,
    RC_BAD_GENERATION,
    RC_DISABLED,
    RC_DISABLED_GEN,
    RC_NO_MATCH,
    RC_UNSUPPORTED_OP,
    RC_UNSUPPORTED_SIZE,
    RC_AT_INVALID,
    RC_AT_PERM,
    RC_AT_ATS_ERROR,
    RC_AT_NO_TRANS,
    RC_AT_OUT_OF_RANGE,
    RC_HOST_POISONED,
    RC_HOST_UNSUCCESSFUL,
    RC_AMO_UNSUPPORTED_OP,
    RC_AMO_UNSUPPORTED_DT,
    RC_AMO_UNSUPPORTED_SIZE,
    RC_AMO_UNALIGNED,
    RC_AMO_FP_NAN,
    RC_AMO_FP_UNDERFLOW,
    RC_AMO_FP_OVERFLOW,
    RC_AMO_FP_INEXACT,
    RC_PERM_VIOLATION,
    RC_OP_VIOLATION,
    RC_BAD_INDEX,
    RC_BAD_PID,
    RC_BAD_JOB_ID,
    RC_BAD_MKEY,
    RC_BAD_ADDR,
    RC_CANCELLED,
    RC_UNDELIVERABLE,
    RC_UNCOR,
    RC_UNCOR_TRANSIENT,
    RC_TOO_LONG,
    RC_INITIATOR_ERR,
    RC_DROPPED,
    SES_CODES,
};

enum {
    SES_HEADER_MAX = 44 + 36,
    SES_SMALL_LENGTH = (1 << 14) - 1, /* bytes that a length of 14 bits can say */
    SES_RESPONSE_MAX = 20,
};

/* Requests with an extension for atomics, of which the compare kind has more. */
enum ses_atomic_opcode {
    AMO_MIN,
    AMO_MAX,
    AMO_SUM,
    AMO_DIFF,
    AMO_PROD,
    AMO_LOR,
    AMO_LAND,
    AMO_BOR,
    AMO_BAND,
    AMO_LXOR,
    AMO_BXOR,
    AMO_READ,
    AMO_WRITE,
    AMO_CSWAP,
    AMO_CSWAP_NE,
    AMO_CSWAP_LE,
    AMO_CSWAP_LT,
    AMO_CSWAP_GE,
    AMO_CSWAP_GT,
    AMO_MSWAP,
    AMO_INVAL,
};

enum ses_atomic_type {
    AMO_INT8,
    AMO_UINT8,
    AMO_INT16,
    AMO_UINT16,
    AMO_INT32,
    AMO_UINT32,
    AMO_INT64,
    AMO_UINT64,
    AMO_INT128,
    AMO_UINT128,
    AMO_FLOAT,
    AMO_DOUBLE,
    AMO_FLOAT_COMPLEX,
    AMO_DOUBLE_COMPLEX,
    AMO_LONG_DOUBLE,
    AMO_LONG_DOUBLE_COMPLEX,
    AMO_BF16,
    AMO_FP16,
};

/* A number of 128 bits. */
struct ses_wide {
    uint64_t high, low;
};

struct ses_request {
    uint8_t next; /* NEXT_SMALL, NEXT_MEDIUM or NEXT_STANDARD */
    uint8_t opcode, version, flags;
    uint16_t message_id; /* standard only */
    uint8_t generation;
    uint32_t job; /* 24 bits */
    uint16_t pid; /* 12 bits, and so is index */
    uint16_t index;
    uint32_t length;    /* of the whole message; small and medium: 14 bits */
    uint64_t offset;    /* in the target's buffer, or a restart token; a medium header has it or
                                the data: ses_medium_has_offset */
    uint32_t initiator; /* not in small ones */
    uint64_t key;       /* memory key, match bits or a restart token; not in small ones */
    uint64_t data;      /* with SES_HD; standard ones: where SES_SOM is, too */
    uint16_t payload_length; /* 14 bits: standard ones without SES_SOM */
    uint32_t message_offset; /* the same */
    struct {
        uint32_t eager_length;
        uint8_t generation;
        uint16_t pid, index; /* 12 bits */
        uint64_t offset, key;
    } rendezvous; /* the opcodes of that name */
    struct {
        uint8_t opcode, datatype, control;
        struct ses_wide compare, swap; /* AMO_CSWAP to AMO_MSWAP */
    } atomic;                          /* ses_is_atomic */
};

struct ses_response {
    uint8_t next; /* NEXT_RESPONSE, NEXT_RESPONSE_DATA or NEXT_RESPONSE_DATA_SMALL */
    uint8_t list, opcode, version, code;
    uint16_t message_id; /* not in small ones */
    uint8_t generation;  /* NEXT_RESPONSE only */
    uint32_t job;
    uint32_t modified_length;                 /* not in small ones: payload_length is it */
    uint16_t read_message_id, payload_length; /* 14 bits; with data */
    uint32_t message_offset;                  /* NEXT_RESPONSE_DATA */
    uint32_t request_psn;                     /* NEXT_RESPONSE_DATA_SMALL */
};

enum ses_fault {
    SES_FAULT_SHORT = -1,
    SES_FAULT_NEXT = -2, /* no such header */
    SES_FAULT_VERSION = -3,
    SES_FAULT_FLAGS = -4,    /* a small or medium header of a part of a message */
    SES_FAULT_EXTENSION = -5 /* that this header cannot have */
};

/* The bytes of the header with its extension, or enum ses_fault. Opcodes are taken as they are. */
int ses_request_get(uint8_t next, const uint8_t *bytes, size_t len, struct ses_request *request);
/* Writes it to bytes (SES_HEADER_MAX); how many there are. */
size_t ses_request_put(const struct ses_request *request, uint8_t *bytes);
int ses_response_get(uint8_t next, const uint8_t *bytes, size_t len, struct ses_response *response);
size_t ses_response_put(const struct ses_response *response, uint8_t *bytes);

static inline bool ses_is_atomic(uint8_t opcode)
{
    return opcode == SES_ATOMIC || opcode == SES_FETCHING_ATOMIC || opcode == SES_TSEND_ATOMIC ||
           opcode == SES_TSEND_FETCH_ATOMIC;
}

static inline bool ses_is_tagged_atomic(uint8_t opcode)
{
    return opcode == SES_TSEND_ATOMIC || opcode == SES_TSEND_FETCH_ATOMIC;
}

static inline bool ses_is_rendezvous(uint8_t opcode)
{
    return opcode == SES_RENDEZVOUS_SEND || opcode == SES_RENDEZVOUS_TSEND;
}

/* Do the operands stand in the extension? */
static inline bool ses_is_compare(uint8_t atomic_opcode)
{
    return atomic_opcode >= AMO_CSWAP && atomic_opcode <= AMO_MSWAP;
}

/* A medium header has an offset for remote memory, data for messages. */
static inline bool ses_medium_has_offset(uint8_t opcode)
{
    return opcode == SES_WRITE || opcode == SES_READ || opcode == SES_ATOMIC ||
           opcode == SES_FETCHING_ATOMIC;
}

/* Memory keys. Source: table 2-13. */
#define SES_KEY_IDEMPOTENT (UINT64_C(1) << 63) /* may be the target of RUDI */
#define SES_KEY_OPTIMIZED (UINT64_C(1) << 62)  /* a small header will do */
#define SES_KEY_BITS ((UINT64_C(1) << 48) - 1)
#define SES_KEY_INDEX UINT64_C(0xfff)
/* Of the byte that is the implementation's: a key that the provider chose, and one of a rendezvous.
 */
#define SES_KEY_PROVIDER (UINT64_C(1) << 48)
#define SES_KEY_PULL (UINT64_C(1) << 49)

#endif

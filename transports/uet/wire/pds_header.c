/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/wire/pds_header.h"

#include <string.h>

#include "transports/uet/wire/bytes.h"

enum {
    PROLOGUE = 2,
    REQUEST = 12,
    WITH_CC = 16, /* a request with a CC state, NACK, control */
    ACK = 12,
    ACK_CC = 32,
    ACK_CCX = 40,
    NACK_CCX = 32,
    UUD = 4,
    /* Flags that are rare, or give other fields a meaning: of requests; of an ACK. */
    REQUEST_RARE = PDS_SYN,
    ACK_RARE = PDS_IS_PROBE | PDS_WANTS_CLEAR | PDS_WANTS_CLOSE,
};

#define NEXT(kind) (1u << (kind))
#define REQUESTS (NEXT(NEXT_SMALL) | NEXT(NEXT_MEDIUM) | NEXT(NEXT_STANDARD))
#define RETURNED (NEXT(NEXT_RESPONSE_DATA) | NEXT(NEXT_RESPONSE_DATA_SMALL))
#define ANSWERS (NEXT(NEXT_RESPONSE) | NEXT(NEXT_RESPONSE_DATA) | NEXT(NEXT_RESPONSE_DATA_SMALL))

/* Each type has: bytes (0: no such type), flags, what may follow, whether a PDC is named. */
static const struct form {
    uint8_t size, flags;
    uint16_t next;
    bool names;
} forms[] = {
    [PDS_RUD] = {REQUEST, 0x1c, REQUESTS | RETURNED, true},
    [PDS_ROD] = {REQUEST, 0x1c, REQUESTS | RETURNED, true},
    [PDS_RUDI] = {8, 0x10, REQUESTS, false},
    [PDS_RUDI_RESPONSE] = {8, 0x30, ANSWERS, false},
    [PDS_UUD] = {UUD, 0, REQUESTS, false},
    [PDS_ACK] = {ACK, 0x3e, NEXT(NEXT_NONE) | ANSWERS, true},
    [PDS_ACK_CC] = {ACK_CC, 0x3e, NEXT(NEXT_NONE) | ANSWERS, true},
    [PDS_ACK_CCX] = {ACK_CCX, 0x3e, NEXT(NEXT_NONE) | ANSWERS, true},
    [PDS_NACK] = {WITH_CC, 0x38, NEXT(NEXT_NONE), false},
    [PDS_CONTROL] = {WITH_CC, 0x3c, (1u << CONTROL_KINDS) - 1, true},
    [PDS_NACK_CCX] = {NACK_CCX, 0x38, NEXT(NEXT_NONE), false},
    [PDS_RUD_CC] = {WITH_CC, 0x1c, REQUESTS | RETURNED, true},
    [PDS_ROD_CC] = {WITH_CC, 0x1c, REQUESTS | RETURNED, true},
};

static size_t size_of(uint8_t type, bool short_rudi)
{
    bool rudi = type == PDS_RUDI || type == PDS_RUDI_RESPONSE;

    return rudi && short_rudi ? 6 : forms[type].size;
}

static bool is_rudi(uint8_t type)
{
    return type == PDS_RUDI || type == PDS_RUDI_RESPONSE;
}

/* ---- In ---- */

/* dpdcid, or what stands there while the sender does not know it. */
static void get_ids(const uint8_t *bytes, struct pds_header *header)
{
    uint16_t second = get16(bytes + 10);

    header->spdcid = get16(bytes + 8);
    if (header->flags & PDS_SYN && !pds_is_ack(header->type) && header->type != PDS_NACK) {
        header->pdc_info = (uint8_t)(second >> 12);
        header->psn_offset = second & 0xfff;
    } else {
        header->dpdcid = second;
    }
}

static void get_ack(const uint8_t *bytes, struct pds_header *header)
{
    if (header->flags & PDS_IS_PROBE)
        header->opaque = get16(bytes + 2);
    else
        header->offset = (int16_t)get16(bytes + 2);
    if (header->type == PDS_ACK)
        return;
    header->cc_type = bytes[12] >> 4;
    header->cc_flags = bytes[12] & 0xf;
    header->mpr = bytes[13];
    header->sack_offset = (int16_t)get16(bytes + 14);
    header->sack_bitmap = get64(bytes + 16);
    header->cc_state[0] = get64(bytes + 24);
    if (header->type == PDS_ACK_CCX)
        header->cc_state[1] = get64(bytes + 32);
}

static void get_nack(const uint8_t *bytes, struct pds_header *header)
{
    header->nack_code = bytes[2];
    header->vendor_code = bytes[3];
    header->payload = get32(bytes + 12);
    if (header->type == PDS_NACK)
        return;
    header->cc_type = bytes[16] >> 4;
    header->cc_state[0] = get64(bytes + 16) & (UINT64_MAX >> 4);
    header->cc_state[1] = get64(bytes + 24);
}

static void get_request(const uint8_t *bytes, struct pds_header *header)
{
    header->offset = (int16_t)get16(bytes + 2);
    if (header->type == PDS_RUD || header->type == PDS_ROD)
        return;
    header->ccc_id = bytes[12];
    header->credit_target = get24(bytes + 13);
}

static void get_rest(const uint8_t *bytes, bool short_rudi, struct pds_header *header)
{
    if (header->type == PDS_UUD)
        return;
    if (is_rudi(header->type)) {
        header->psn = get32(bytes + (short_rudi ? 2 : 4));
        return;
    }
    header->psn = get32(bytes + 4);
    get_ids(bytes, header);
    if (pds_is_request(header->type)) {
        get_request(bytes, header);
    } else if (pds_is_ack(header->type)) {
        get_ack(bytes, header);
    } else if (header->type == PDS_CONTROL) {
        header->opaque = get16(bytes + 2);
        header->payload = get32(bytes + 12);
    } else {
        get_nack(bytes, header);
    }
}

/* Of the packets that nearly all are: ACK, and requests of an open PDC. False: it is none. */
static bool get_common(const uint8_t *bytes, size_t len, struct pds_header *header)
{
    const struct form *form;
    uint8_t rare;

    if (len < REQUEST)
        return false;
    header->type = bytes[0] >> 3;
    header->next = (uint8_t)((bytes[0] & 7) << 1 | bytes[1] >> 7);
    header->flags = bytes[1] & 0x7f;
    header->offset = (int16_t)get16(bytes + 2);
    header->psn = get32(bytes + 4);
    header->spdcid = get16(bytes + 8);
    header->dpdcid = get16(bytes + 10);
    if (header->type != PDS_RUD && header->type != PDS_ROD && header->type != PDS_ACK)
        return false;
    form = &forms[header->type];
    rare = header->type == PDS_ACK ? ACK_RARE : REQUEST_RARE;
    return header->spdcid && !(header->flags & (~form->flags | rare)) &&
           form->next >> header->next & 1;
}

int pds_header_get(const uint8_t *bytes, size_t len, bool short_rudi, struct pds_header *header)
{
    uint16_t prologue;
    size_t size;

    memset(header, 0, sizeof(*header));
    if (__builtin_expect(get_common(bytes, len, header), 1))
        return REQUEST;
    memset(header, 0, sizeof(*header));
    if (len < PROLOGUE)
        return PDS_FAULT_SHORT;
    prologue = get16(bytes);
    header->type = (uint8_t)(prologue >> 11);
    header->next = prologue >> 7 & 0xf;
    header->flags = prologue & 0x7f;
    if (header->type >= sizeof(forms) / sizeof(forms[0]) || !forms[header->type].size)
        return PDS_FAULT_TYPE;
    size = size_of(header->type, short_rudi);
    if (len < size)
        return PDS_FAULT_SHORT;
    if (header->flags & ~forms[header->type].flags ||
        (pds_is_ack(header->type) && (header->flags & 6) == 6))
        return PDS_FAULT_FLAGS;
    if (!(forms[header->type].next >> header->next & 1))
        return PDS_FAULT_NEXT;
    get_rest(bytes, short_rudi, header);
    if (forms[header->type].names && !header->spdcid)
        return PDS_FAULT_ID;
    return (int)size;
}

/* ---- Out ---- */

static void put_ids(const struct pds_header *header, uint8_t *bytes)
{
    bool syn =
        header->flags & PDS_SYN && (pds_is_request(header->type) || header->type == PDS_CONTROL);

    put16(bytes + 8, header->spdcid);
    put16(bytes + 10,
          syn ? (uint16_t)(header->pdc_info << 12 | (header->psn_offset & 0xfff)) : header->dpdcid);
}

static void put_ack(const struct pds_header *header, uint8_t *bytes)
{
    put16(bytes + 2, header->flags & PDS_IS_PROBE ? header->opaque : (uint16_t)header->offset);
    if (header->type == PDS_ACK)
        return;
    bytes[12] = (uint8_t)(header->cc_type << 4 | (header->cc_flags & 0xf));
    bytes[13] = header->mpr;
    put16(bytes + 14, (uint16_t)header->sack_offset);
    put64(bytes + 16, header->sack_bitmap);
    put64(bytes + 24, header->cc_state[0]);
    if (header->type == PDS_ACK_CCX)
        put64(bytes + 32, header->cc_state[1]);
}

static void put_nack(const struct pds_header *header, uint8_t *bytes)
{
    bytes[2] = header->nack_code;
    bytes[3] = header->vendor_code;
    put32(bytes + 12, header->payload);
    if (header->type == PDS_NACK)
        return;
    put64(bytes + 16, (uint64_t)header->cc_type << 60 | (header->cc_state[0] & UINT64_MAX >> 4));
    put64(bytes + 24, header->cc_state[1]);
}

static void put_request(const struct pds_header *header, uint8_t *bytes)
{
    put16(bytes + 2, (uint16_t)header->offset);
    if (header->type == PDS_RUD || header->type == PDS_ROD)
        return;
    bytes[12] = header->ccc_id;
    put24(bytes + 13, header->credit_target);
}

/* As get_common. */
static bool put_common(const struct pds_header *header, uint8_t *bytes)
{
    uint8_t type = header->type, rare = type == PDS_ACK ? ACK_RARE : REQUEST_RARE;

    if ((type != PDS_RUD && type != PDS_ROD && type != PDS_ACK) || header->flags & rare)
        return false;
    put16(bytes, (uint16_t)(type << 11 | (header->next & 0xf) << 7 | header->flags));
    put16(bytes + 2, (uint16_t)header->offset);
    put32(bytes + 4, header->psn);
    put16(bytes + 8, header->spdcid);
    put16(bytes + 10, header->dpdcid);
    return true;
}

size_t pds_header_put(const struct pds_header *header, bool short_rudi, uint8_t *bytes)
{
    size_t size;

    if (__builtin_expect(put_common(header, bytes), 1))
        return REQUEST;
    size = size_of(header->type, short_rudi);
    put16(bytes, (uint16_t)(header->type << 11 | (header->next & 0xf) << 7 | header->flags));
    if (header->type == PDS_UUD || is_rudi(header->type)) {
        put16(bytes + 2, 0);
        if (header->type != PDS_UUD)
            put32(bytes + size - 4, header->psn);
        return size;
    }
    put32(bytes + 4, header->psn);
    put_ids(header, bytes);
    if (pds_is_request(header->type)) {
        put_request(header, bytes);
    } else if (pds_is_ack(header->type)) {
        put_ack(header, bytes);
    } else if (header->type == PDS_CONTROL) {
        put16(bytes + 2, header->opaque);
        put32(bytes + 12, header->payload);
    } else {
        put_nack(header, bytes);
    }
    return size;
}

/* ---- NSCC ---- */

struct pds_nscc pds_nscc_get(uint64_t state)
{
    return (struct pds_nscc){
        .service_time = (uint16_t)(state >> 48),
        .restore = state >> 47 & 1,
        .penalty = state >> 40 & 0x7f,
        .received = state >> 16 & 0xffffff,
        .out_of_order = (uint16_t)state,
    };
}

uint64_t pds_nscc_put(const struct pds_nscc *nscc)
{
    return (uint64_t)nscc->service_time << 48 | (uint64_t)nscc->restore << 47 |
           (uint64_t)(nscc->penalty & 0x7f) << 40 | (uint64_t)(nscc->received & 0xffffff) << 16 |
           nscc->out_of_order;
}

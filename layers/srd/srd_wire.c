/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/srd/srd_wire.h"

#include <string.h>

#include "core/base/little_endian.h"
#include "layers/srd/srd_layout.h"

#define TAGGED_FLAGS (SRD_MSG | SRD_TAGGED)
#define LONG_AT .total = 8, .send_id = 16, .credits = 20
#define DC_AT .send_id = 8, .dc = true
#define RTA_AT .msg_id = 4, .places = 8, .codes = 12, .flags = SRD_ATOMIC

const struct srd_layout srd_layouts[SRD_ALL_TYPES] = {
    [SRD_CTS] = {24, .connid = 4, .send_id = 8, .recv_id = 12, .window = 16, .window_size = 8},
    [SRD_CTSDATA] = {24, .recv_id = 4, .length = 8, .offset = 16},
    [SRD_READRSP] = {24, .connid = 4, .recv_id = 8, .send_id = 12, .length = 16},
    [SRD_EOR] = {16, .send_id = 4, .recv_id = 8, .connid = 12},
    [SRD_ATOMRSP] = {24, .connid = 4, .recv_id = 12, .length = 16},
    [SRD_HANDSHAKE] = {8},
    [SRD_RECEIPT] = {16, .send_id = 4, .msg_id = 8, .connid = 12},
    [SRD_READ_NACK] = {16, .send_id = 4, .recv_id = 8, .connid = 12},
    [SRD_PEER_ERROR] = {20, .send_id = 4, .connid = 16},
    [SRD_EAGER_MSG] = {8, .msg_id = 4, .flags = SRD_MSG},
    [SRD_EAGER_TAG] = {16, .msg_id = 4, .tag = 8, .flags = TAGGED_FLAGS},
    [SRD_MEDIUM_MSG] = {24, .msg_id = 4, .total = 8, .offset = 16, .flags = SRD_MSG},
    [SRD_MEDIUM_TAG] = {32, .msg_id = 4, .total = 8, .offset = 16, .tag = 24,
                        .flags = TAGGED_FLAGS},
    [SRD_LONGCTS_MSG] = {24, .msg_id = 4, LONG_AT, .flags = SRD_MSG},
    [SRD_LONGCTS_TAG] = {32, .msg_id = 4, LONG_AT, .tag = 24, .flags = TAGGED_FLAGS},
    [SRD_EAGER_RTW] = {8, .places = 4, .flags = SRD_RMA},
    [SRD_LONGCTS_RTW] = {24, .places = 4, LONG_AT, .flags = SRD_RMA},
    [SRD_SHORT_RTR] = {24, .places = 4, .total = 8, .recv_id = 16, .window = 20, .window_size = 4,
                       .flags = SRD_RMA},
    [SRD_LONGCTS_RTR] = {24, .places = 4, .total = 8, .recv_id = 16, .window = 20, .window_size = 4,
                         .flags = SRD_RMA},
    [SRD_WRITE_RTA] = {24, RTA_AT},
    [SRD_FETCH_RTA] = {24, RTA_AT, .recv_id = 20},
    [SRD_COMPARE_RTA] = {24, RTA_AT, .recv_id = 20},
    [SRD_LONGREAD_MSG] = {24, .msg_id = 4, .total = 8, .send_id = 16, .reads = 20,
                          .flags = SRD_MSG},
    [SRD_LONGREAD_TAG] = {32, .msg_id = 4, .total = 8, .send_id = 16, .reads = 20, .tag = 24,
                          .flags = TAGGED_FLAGS},
    [SRD_LONGREAD_RTW] = {24, .places = 4, .total = 8, .send_id = 16, .reads = 20,
                          .flags = SRD_RMA},
    [SRD_DC_EAGER_MSG] = {16, .msg_id = 4, DC_AT, .flags = SRD_MSG},
    [SRD_DC_EAGER_TAG] = {24, .msg_id = 4, DC_AT, .tag = 16, .flags = TAGGED_FLAGS},
    [SRD_DC_MEDIUM_MSG] = {32, .msg_id = 4, DC_AT, .total = 16, .offset = 24, .flags = SRD_MSG},
    [SRD_DC_MEDIUM_TAG] = {40, .msg_id = 4, DC_AT, .total = 16, .offset = 24, .tag = 32,
                           .flags = TAGGED_FLAGS},
    [SRD_DC_LONGCTS_MSG] = {24, .msg_id = 4, LONG_AT, .dc = true, .flags = SRD_MSG},
    [SRD_DC_LONGCTS_TAG] = {32, .msg_id = 4, LONG_AT, .tag = 24, .dc = true, .flags = TAGGED_FLAGS},
    [SRD_DC_EAGER_RTW] = {16, .places = 4, DC_AT, .flags = SRD_RMA},
    [SRD_DC_LONGCTS_RTW] = {24, .places = 4, LONG_AT, .dc = true, .flags = SRD_RMA},
    [SRD_DC_WRITE_RTA] = {24, RTA_AT, .send_id = 20, .dc = true},
    [SRD_RUNTREAD_MSG] = {40, .msg_id = 4, .total = 8, .send_id = 16, .reads = 20, .offset = 24,
                          .runt = 32, .flags = SRD_MSG},
    [SRD_RUNTREAD_TAG] = {48, .msg_id = 4, .total = 8, .send_id = 16, .reads = 20, .offset = 24,
                          .runt = 32, .tag = 40, .flags = TAGGED_FLAGS},
};

static size_t handshake_size(const struct srd_header *header)
{
    unsigned optional = SRD_CONNID | SRD_HOST_ID | SRD_DEVICE_VERSION;

    return 8 + SRD_WORD * (header->view ? 2U : 1U) +
           SRD_WORD * (size_t)__builtin_popcount(header->flags & optional);
}

static size_t options_size(const struct srd_header *header)
{
    return (header->flags & SRD_RAW_ADDR ? srd_raw_size(header->raw_len) : 0u) +
           (header->flags & SRD_CQ_DATA ? SRD_CQ_DATA_SIZE : 0u) +
           (header->flags & SRD_CONNID ? SRD_CONNID_SIZE : 0u);
}

size_t srd_header_size(const struct srd_header *header)
{
    const struct srd_layout *at = &srd_layouts[header->type];

    if (header->type == SRD_HANDSHAKE)
        return handshake_size(header);
    if (header->type == SRD_CTSDATA)
        return at->size + (header->flags & SRD_CONNID ? SRD_WORD : 0u);
    if (!srd_is_request(header->type))
        return at->size;
    return at->size + SRD_PLACE_SIZE * (size_t)(header->place_count + header->read_count) +
           options_size(header);
}

static uint8_t *put_places(const struct fi_rma_iov *places, unsigned count, uint8_t *raw)
{
    for (unsigned i = 0; i < count; i++, raw += SRD_PLACE_SIZE) {
        put64(raw, places[i].addr);
        put64(raw + 8, places[i].len);
        put64(raw + 16, places[i].key);
    }
    return raw;
}

static uint8_t *put_word(uint8_t *raw, uint64_t value)
{
    put64(raw, value);
    return raw + SRD_WORD;
}

static uint8_t *put_handshake(const struct srd_header *header, uint8_t *raw)
{
    put32(raw + 4, SRD_NEXTRA_BASE + (header->view ? 2 : 1));
    raw = put_word(raw + 8, header->features);
    if (header->view)
        raw = put_word(raw, header->view);
    if (header->flags & SRD_CONNID)
        raw = put_word(raw, header->connid);
    if (header->flags & SRD_HOST_ID)
        raw = put_word(raw, header->host_id);
    return header->flags & SRD_DEVICE_VERSION ? put_word(raw, header->device_version) : raw;
}

static void put_ids(const struct srd_header *header, const struct srd_layout *at, uint8_t *raw)
{
    if (at->connid)
        put32(raw + at->connid, header->connid);
    if (at->send_id)
        put32(raw + at->send_id, header->send_id);
    if (at->recv_id)
        put32(raw + at->recv_id, header->recv_id);
    if (at->msg_id)
        put32(raw + at->msg_id, header->msg_id);
    if (at->credits)
        put32(raw + at->credits, header->credits);
    if (at->places)
        put32(raw + at->places, header->place_count);
    if (at->reads)
        put32(raw + at->reads, header->read_count);
    if (at->codes) {
        put32(raw + at->codes, header->datatype);
        put32(raw + at->codes + 4, header->op);
    }
}

static void put_sizes(const struct srd_header *header, const struct srd_layout *at, uint8_t *raw)
{
    if (at->tag)
        put64(raw + at->tag, header->tag);
    if (at->total)
        put64(raw + at->total, header->total);
    if (at->offset)
        put64(raw + at->offset, header->offset);
    if (at->runt)
        put64(raw + at->runt, header->runt);
    if (at->length)
        put64(raw + at->length, header->len);
    if (at->window_size == 8)
        put64(raw + at->window, header->window);
    else if (at->window)
        put32(raw + at->window, (uint32_t)header->window);
    if (header->type == SRD_PEER_ERROR) {
        put32(raw + 8, header->ref_kind);
        put32(raw + 12, header->error);
    }
}

static uint8_t *put_options(const struct srd_header *header, uint8_t *raw)
{
    if (header->flags & SRD_RAW_ADDR) {
        size_t size = srd_raw_size(header->raw_len);

        put32(raw, (uint32_t)(size - 4));
        memcpy(raw + 4, header->raw_addr, header->raw_len);
        memset(raw + 4 + header->raw_len, 0, size - 4 - header->raw_len);
        raw += size;
    }
    if (header->flags & SRD_CQ_DATA) {
        put64(raw, header->cq_data);
        raw += SRD_CQ_DATA_SIZE;
    }
    if (header->flags & SRD_CONNID) {
        put32(raw, header->connid);
        raw += SRD_CONNID_SIZE;
    }
    return raw;
}

/* As the layout has it, in fewer steps: most packets of large messages are of this type. */
static uint8_t *put_data(const struct srd_header *header, uint8_t *raw)
{
    raw[0] = SRD_CTSDATA;
    raw[SRD_AT_VERSION] = SRD_VERSION;
    put16(raw + SRD_AT_FLAGS, header->flags);
    put32(raw + SRD_DATA_ID, header->recv_id);
    put64(raw + SRD_DATA_LENGTH, header->len);
    put64(raw + SRD_DATA_OFFSET, header->offset);
    raw += SRD_DATA_CONNID;
    return header->flags & SRD_CONNID ? put_word(raw, header->connid) : raw;
}

uint8_t *srd_header_put(const struct srd_header *header, uint8_t *raw)
{
    const struct srd_layout *at = &srd_layouts[header->type];
    uint8_t *next = raw + at->size;

    if (header->type == SRD_CTSDATA)
        return put_data(header, raw);
    memset(raw, 0, at->size);
    raw[0] = header->type;
    raw[SRD_AT_VERSION] = SRD_VERSION;
    put16(raw + SRD_AT_FLAGS, (uint16_t)(header->flags | at->flags));
    if (header->type == SRD_HANDSHAKE)
        return put_handshake(header, raw);
    put_ids(header, at, raw);
    put_sizes(header, at, raw);
    if (!srd_is_request(header->type))
        return next;
    next = put_places(header->places, header->place_count, next);
    next = put_options(header, next);
    return put_places(header->reads, header->read_count, next);
}

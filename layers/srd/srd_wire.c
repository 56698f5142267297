/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/srd/srd_wire.h"

#include <string.h>

#include "core/base/little_endian.h"

enum {
    AT_VERSION = 1,
    AT_FLAGS = 2,
    RAW_LENGTH = SRD_RAW_SIZE - 4, /* as the length field of the address says */
    NEXTRA_BASE = 3,
    WORD = 8,
    CODES_MAX = 255, /* of datatypes and operations */
};

/* Where a type has its fields, from the packet's first byte; 0: it has none. */
struct layout {
    const char *name;
    uint8_t size; /* without places and options; 0: no such type */
    uint8_t connid, send_id, recv_id, msg_id, credits;
    uint8_t tag, total, offset, runt;
    uint8_t window, window_size, length; /* length: bytes of payload, of 8 */
    uint8_t places, reads, codes;        /* counts of 4; datatype and op, of 4 each */
    bool dc;
    uint16_t flags; /* that it always has */
};

#define TAGGED_FLAGS (SRD_MSG | SRD_TAGGED)
#define LONG_AT .total = 8, .send_id = 16, .credits = 20
#define DC_AT .send_id = 8, .dc = true
#define RTA_AT .msg_id = 4, .places = 8, .codes = 12, .flags = SRD_ATOMIC

static const struct layout layouts[SRD_TYPES] = {
    [SRD_CTS] = {"CTS", 24, .connid = 4, .send_id = 8, .recv_id = 12, .window = 16,
                 .window_size = 8},
    [SRD_CTSDATA] = {"CTSDATA", 24, .recv_id = 4, .length = 8, .offset = 16},
    [SRD_READRSP] = {"READRSP", 24, .connid = 4, .recv_id = 8, .send_id = 12, .length = 16},
    [SRD_EOR] = {"EOR", 16, .send_id = 4, .recv_id = 8, .connid = 12},
    [SRD_ATOMRSP] = {"ATOMRSP", 24, .connid = 4, .recv_id = 12, .length = 16},
    [SRD_HANDSHAKE] = {"HANDSHAKE", 8},
    [SRD_RECEIPT] = {"RECEIPT", 16, .send_id = 4, .msg_id = 8, .connid = 12},
    [SRD_READ_NACK] = {"READ_NACK", 16, .send_id = 4, .recv_id = 8, .connid = 12},
    [SRD_PEER_ERROR] = {"PEER_ERROR", 20, .send_id = 4, .connid = 16},
    [SRD_EAGER_MSG] = {"EAGER_MSGRTM", 8, .msg_id = 4, .flags = SRD_MSG},
    [SRD_EAGER_TAG] = {"EAGER_TAGRTM", 16, .msg_id = 4, .tag = 8, .flags = TAGGED_FLAGS},
    [SRD_MEDIUM_MSG] = {"MEDIUM_MSGRTM", 24, .msg_id = 4, .total = 8, .offset = 16,
                        .flags = SRD_MSG},
    [SRD_MEDIUM_TAG] = {"MEDIUM_TAGRTM", 32, .msg_id = 4, .total = 8, .offset = 16, .tag = 24,
                        .flags = TAGGED_FLAGS},
    [SRD_LONGCTS_MSG] = {"LONGCTS_MSGRTM", 24, .msg_id = 4, LONG_AT, .flags = SRD_MSG},
    [SRD_LONGCTS_TAG] = {"LONGCTS_TAGRTM", 32, .msg_id = 4, LONG_AT, .tag = 24,
                         .flags = TAGGED_FLAGS},
    [SRD_EAGER_RTW] = {"EAGER_RTW", 8, .places = 4, .flags = SRD_RMA},
    [SRD_LONGCTS_RTW] = {"LONGCTS_RTW", 24, .places = 4, LONG_AT, .flags = SRD_RMA},
    [SRD_SHORT_RTR] = {"SHORT_RTR", 24, .places = 4, .total = 8, .recv_id = 16, .window = 20,
                       .window_size = 4, .flags = SRD_RMA},
    [SRD_LONGCTS_RTR] = {"LONGCTS_RTR", 24, .places = 4, .total = 8, .recv_id = 16, .window = 20,
                         .window_size = 4, .flags = SRD_RMA},
    [SRD_WRITE_RTA] = {"WRITE_RTA", 24, RTA_AT},
    [SRD_FETCH_RTA] = {"FETCH_RTA", 24, RTA_AT, .recv_id = 20},
    [SRD_COMPARE_RTA] = {"COMPARE_RTA", 24, RTA_AT, .recv_id = 20},
    [SRD_LONGREAD_MSG] = {"LONGREAD_MSGRTM", 24, .msg_id = 4, .total = 8, .send_id = 16,
                          .reads = 20, .flags = SRD_MSG},
    [SRD_LONGREAD_TAG] = {"LONGREAD_TAGRTM", 32, .msg_id = 4, .total = 8, .send_id = 16,
                          .reads = 20, .tag = 24, .flags = TAGGED_FLAGS},
    [SRD_LONGREAD_RTW] = {"LONGREAD_RTW", 24, .places = 4, .total = 8, .send_id = 16, .reads = 20,
                          .flags = SRD_RMA},
    [SRD_DC_EAGER_MSG] = {"DC_EAGER_MSGRTM", 16, .msg_id = 4, DC_AT, .flags = SRD_MSG},
    [SRD_DC_EAGER_TAG] = {"DC_EAGER_TAGRTM", 24, .msg_id = 4, DC_AT, .tag = 16,
                          .flags = TAGGED_FLAGS},
    [SRD_DC_MEDIUM_MSG] = {"DC_MEDIUM_MSGRTM", 32, .msg_id = 4, DC_AT, .total = 16, .offset = 24,
                           .flags = SRD_MSG},
    [SRD_DC_MEDIUM_TAG] = {"DC_MEDIUM_TAGRTM", 40, .msg_id = 4, DC_AT, .total = 16, .offset = 24,
                           .tag = 32, .flags = TAGGED_FLAGS},
    [SRD_DC_LONGCTS_MSG] = {"DC_LONGCTS_MSGRTM", 24, .msg_id = 4, LONG_AT, .dc = true,
                            .flags = SRD_MSG},
    [SRD_DC_LONGCTS_TAG] = {"DC_LONGCTS_TAGRTM", 32, .msg_id = 4, LONG_AT, .tag = 24, .dc = true,
                            .flags = TAGGED_FLAGS},
    [SRD_DC_EAGER_RTW] = {"DC_EAGER_RTW", 16, .places = 4, DC_AT, .flags = SRD_RMA},
    [SRD_DC_LONGCTS_RTW] = {"DC_LONGCTS_RTW", 24, .places = 4, LONG_AT, .dc = true,
                            .flags = SRD_RMA},
    [SRD_DC_WRITE_RTA] = {"DC_WRITE_RTA", 24, RTA_AT, .send_id = 20, .dc = true},
    [SRD_RUNTREAD_MSG] = {"RUNTREAD_MSGRTM", 40, .msg_id = 4, .total = 8, .send_id = 16,
                          .reads = 20, .offset = 24, .runt = 32, .flags = SRD_MSG},
    [SRD_RUNTREAD_TAG] = {"RUNTREAD_TAGRTM", 48, .msg_id = 4, .total = 8, .send_id = 16,
                          .reads = 20, .offset = 24, .runt = 32, .tag = 40, .flags = TAGGED_FLAGS},
};

static const struct layout *layout_of(uint8_t type)
{
    return type < SRD_TYPES && layouts[type].size ? &layouts[type] : NULL;
}

bool srd_is_tagged(uint8_t type)
{
    return type < SRD_TYPES && layouts[type].flags & SRD_TAGGED;
}

bool srd_is_message(uint8_t type)
{
    return type < SRD_TYPES && layouts[type].flags & SRD_MSG;
}

bool srd_is_dc(uint8_t type)
{
    return type < SRD_TYPES && layouts[type].dc;
}

bool srd_has_msg_id(uint8_t type)
{
    return srd_is_request(type) && type < SRD_TYPES && layouts[type].msg_id;
}

const char *srd_type_name(uint8_t type)
{
    return layout_of(type) ? layouts[type].name : "?";
}

/* ---- Out ---- */

static size_t handshake_size(const struct srd_header *header)
{
    unsigned optional = SRD_CONNID | SRD_HOST_ID | SRD_DEVICE_VERSION;

    return 8 + WORD + WORD * (size_t)__builtin_popcount(header->flags & optional);
}

static size_t options_size(const struct srd_header *header)
{
    return (header->flags & SRD_RAW_ADDR ? SRD_RAW_SIZE : 0u) +
           (header->flags & SRD_CQ_DATA ? SRD_CQ_DATA_SIZE : 0u) +
           (header->flags & SRD_CONNID ? SRD_CONNID_SIZE : 0u);
}

size_t srd_header_size(const struct srd_header *header)
{
    const struct layout *at = &layouts[header->type];

    if (header->type == SRD_HANDSHAKE)
        return handshake_size(header);
    if (header->type == SRD_CTSDATA)
        return at->size + (header->flags & SRD_CONNID ? WORD : 0u);
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
    return raw + WORD;
}

static uint8_t *put_handshake(const struct srd_header *header, uint8_t *raw)
{
    put32(raw + 4, NEXTRA_BASE + 1);
    raw = put_word(raw + 8, header->features);
    if (header->flags & SRD_CONNID)
        raw = put_word(raw, header->connid);
    if (header->flags & SRD_HOST_ID)
        raw = put_word(raw, header->host_id);
    return header->flags & SRD_DEVICE_VERSION ? put_word(raw, header->device_version) : raw;
}

static void put_ids(const struct srd_header *header, const struct layout *at, uint8_t *raw)
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

static void put_sizes(const struct srd_header *header, const struct layout *at, uint8_t *raw)
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
        put32(raw, RAW_LENGTH);
        memcpy(raw + 4, header->raw_addr, SRD_ADDR_SIZE);
        put32(raw + 4 + SRD_ADDR_SIZE, 0);
        raw += SRD_RAW_SIZE;
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

uint8_t *srd_header_put(const struct srd_header *header, uint8_t *raw)
{
    const struct layout *at = &layouts[header->type];
    uint8_t *next = raw + at->size;

    memset(raw, 0, at->size);
    raw[0] = header->type;
    raw[AT_VERSION] = SRD_VERSION;
    put16(raw + AT_FLAGS, (uint16_t)(header->flags | at->flags));
    if (header->type == SRD_HANDSHAKE)
        return put_handshake(header, raw);
    put_ids(header, at, raw);
    put_sizes(header, at, raw);
    if (header->type == SRD_CTSDATA)
        return header->flags & SRD_CONNID ? put_word(next, header->connid) : next;
    if (!srd_is_request(header->type))
        return next;
    next = put_places(header->places, header->place_count, next);
    next = put_options(header, next);
    return put_places(header->reads, header->read_count, next);
}

/* ---- In ---- */

static const char *const cut_short = "a packet that is cut short";

static void get_ids(const uint8_t *raw, const struct layout *at, struct srd_header *header)
{
    if (at->connid && header->flags & SRD_CONNID)
        header->connid = get32(raw + at->connid);
    if (at->send_id)
        header->send_id = get32(raw + at->send_id);
    if (at->recv_id)
        header->recv_id = get32(raw + at->recv_id);
    if (at->msg_id)
        header->msg_id = get32(raw + at->msg_id);
    if (at->credits)
        header->credits = get32(raw + at->credits);
    if (at->codes) {
        header->datatype = get32(raw + at->codes);
        header->op = get32(raw + at->codes + 4);
    }
}

static void get_sizes(const uint8_t *raw, const struct layout *at, struct srd_header *header)
{
    if (at->tag)
        header->tag = get64(raw + at->tag);
    if (at->total)
        header->total = get64(raw + at->total);
    if (at->offset)
        header->offset = get64(raw + at->offset);
    if (at->runt)
        header->runt = get64(raw + at->runt);
    if (at->window)
        header->window =
            at->window_size == 8 ? get64(raw + at->window) : (uint64_t)get32(raw + at->window);
    if (header->type == SRD_PEER_ERROR) {
        header->ref_kind = get32(raw + 8);
        header->error = get32(raw + 12);
    }
}

/* *next: of `left` bytes, is moved on. */
static const char *get_places(const uint8_t **next, size_t *left, unsigned count,
                              struct fi_rma_iov *places)
{
    if (count > SRD_PLACES)
        return "a packet of too many pieces of memory";
    if (*left < (size_t)count * SRD_PLACE_SIZE)
        return cut_short;
    for (unsigned i = 0; i < count; i++, *next += SRD_PLACE_SIZE) {
        places[i].addr = get64(*next);
        places[i].len = get64(*next + 8);
        places[i].key = get64(*next + 16);
    }
    *left -= (size_t)count * SRD_PLACE_SIZE;
    return NULL;
}

static bool take(const uint8_t **next, size_t *left, size_t bytes)
{
    if (*left < bytes)
        return false;
    *next += bytes;
    *left -= bytes;
    return true;
}

/* Older peers say another length of address, so its field counts. */
static const char *get_raw_addr(const uint8_t **next, size_t *left, struct srd_header *header)
{
    const uint8_t *raw = *next;
    uint32_t length;

    if (!take(next, left, 4))
        return cut_short;
    length = get32(raw);
    if (length < SRD_ADDR_SIZE)
        return "an address that is too short";
    header->raw_addr = *next;
    return take(next, left, length) ? NULL : cut_short;
}

static const char *get_options(const uint8_t **next, size_t *left, struct srd_header *header)
{
    const char *wrong = NULL;

    if (header->flags & SRD_RAW_ADDR)
        wrong = get_raw_addr(next, left, header);
    if (!wrong && header->flags & SRD_CQ_DATA) {
        header->cq_data = *left < SRD_CQ_DATA_SIZE ? 0 : get64(*next);
        wrong = take(next, left, SRD_CQ_DATA_SIZE) ? NULL : cut_short;
    }
    if (!wrong && header->flags & SRD_CONNID) {
        header->connid = *left < SRD_CONNID_SIZE ? 0 : get32(*next);
        wrong = take(next, left, SRD_CONNID_SIZE) ? NULL : cut_short;
    }
    return wrong;
}

/* ---- Handshakes ---- */

/* The next optional field of 8 bytes, if the flag is set. */
static const char *get_word(const uint8_t **next, size_t *left, bool set, uint64_t *value)
{
    if (!set)
        return NULL;
    *value = *left < WORD ? 0 : get64(*next);
    return take(next, left, WORD) ? NULL : cut_short;
}

/* Fields behind those that are known are left alone: newer peers may have more. */
static const char *get_handshake(const uint8_t *raw, size_t left, struct srd_header *header)
{
    const uint8_t *next = raw + 8;
    uint32_t words = get32(raw + 4);
    uint64_t connid = 0, version = 0;
    const char *wrong;

    left -= 8;
    if (words < NEXTRA_BASE)
        return "a handshake with a wrong count of words";
    words -= NEXTRA_BASE;
    header->features = words && left >= WORD ? get64(next) : 0;
    if (words > left / WORD)
        return cut_short;
    take(&next, &left, (size_t)words * WORD);
    wrong = get_word(&next, &left, header->flags & SRD_CONNID, &connid);
    if (!wrong)
        wrong = get_word(&next, &left, header->flags & SRD_HOST_ID, &header->host_id);
    if (!wrong)
        wrong = get_word(&next, &left, header->flags & SRD_DEVICE_VERSION, &version);
    header->connid = (uint32_t)connid;
    header->device_version = (uint32_t)version;
    header->payload = next;
    return wrong;
}

/* ---- What cannot be ---- */

static bool sum_of(const struct fi_rma_iov *places, unsigned count, uint64_t *sum)
{
    *sum = 0;
    for (unsigned i = 0; i < count; i++) {
        if (__builtin_add_overflow(*sum, places[i].len, sum))
            return false;
    }
    return true;
}

/* Requests with remote memory. */
static const char *check_access(struct srd_header *header, const struct layout *at)
{
    bool eager = header->type == SRD_EAGER_RTW || header->type == SRD_DC_EAGER_RTW;
    uint64_t sum;

    if (!sum_of(header->places, header->place_count, &sum))
        return "more memory than there is";
    if (header->type == SRD_EAGER_RTW && !header->place_count)
        return header->len ? "a request for a handshake with bytes" : NULL;
    if (!header->place_count)
        return "an access without memory";
    if (eager)
        header->total = header->len;
    if (at->codes) {
        header->total = sum;
        return header->datatype > CODES_MAX || header->op > CODES_MAX ? "an atomic of no kind"
                                                                      : NULL;
    }
    return sum != header->total ? "an access of another size than its memory" : NULL;
}

static const char *check_reads(const struct srd_header *header)
{
    uint64_t sum;

    if (!header->read_count || !sum_of(header->reads, header->read_count, &sum) ||
        sum != header->total)
        return "a message of another size than its memory";
    return NULL;
}

/* Bytes of the payload within the message. */
static const char *check_bounds(const struct srd_header *header, uint64_t end)
{
    if (header->offset > end || header->len > end - header->offset)
        return "bytes beyond the end of their message";
    return NULL;
}

static const char *check_request(struct srd_header *header, const struct layout *at)
{
    const char *wrong = at->places ? check_access(header, at) : NULL;

    if (!wrong && at->reads)
        wrong = check_reads(header);
    if (wrong)
        return wrong;
    if (at->runt)
        return header->runt > header->total ? "a beginning longer than its message"
                                            : check_bounds(header, header->runt);
    if (at->reads || (at->window && at->places))
        return header->len ? "bytes where there are none" : NULL;
    if (!at->total && !at->places)
        header->total = header->len;
    if (at->offset && !header->len)
        return "a piece of a message without bytes";
    if (at->credits && at->places && header->len == header->total)
        return "a long write that is short";
    return at->codes ? NULL : check_bounds(header, header->total);
}

static const char *check_answer(struct srd_header *header, const struct layout *at,
                                const uint8_t *raw)
{
    uint64_t length;

    if (header->type == SRD_CTS && !header->window)
        return "a CTS of no bytes";
    if (!at->length) {
        header->len = 0;
        return NULL;
    }
    length = get64(raw + at->length);
    if (length > header->len)
        return cut_short;
    header->len = (size_t)length;
    if (header->type != SRD_CTSDATA)
        return NULL;
    return !length || header->offset > UINT64_MAX - length
               ? "data of no bytes, or beyond all memory"
               : NULL;
}

static const char *get_answer(const uint8_t *raw, size_t len, const struct layout *at,
                              struct srd_header *header)
{
    if (header->type == SRD_HANDSHAKE)
        return get_handshake(raw, len, header);
    header->payload = raw + at->size;
    header->len = len - at->size;
    if (header->type == SRD_CTSDATA && header->flags & SRD_CONNID) {
        if (header->len < WORD)
            return cut_short;
        header->connid = get32(header->payload);
        header->payload += WORD;
        header->len -= WORD;
    }
    return check_answer(header, at, raw);
}

static const char *get_request(const uint8_t *raw, size_t len, const struct layout *at,
                               struct srd_header *header)
{
    uint32_t places = at->places ? get32(raw + at->places) : 0;
    uint32_t reads = at->reads ? get32(raw + at->reads) : 0;
    const uint8_t *next = raw + at->size;
    size_t left = len - at->size;
    const char *wrong = get_places(&next, &left, places, header->places);

    if (!wrong)
        wrong = get_options(&next, &left, header);
    if (!wrong)
        wrong = get_places(&next, &left, reads, header->reads);
    if (wrong)
        return wrong;
    header->place_count = (uint8_t)places;
    header->read_count = (uint8_t)reads;
    header->payload = next;
    header->len = left;
    return check_request(header, at);
}

const char *srd_header_get(const uint8_t *raw, size_t len, struct srd_header *header)
{
    const struct layout *at;

    if (len < SRD_BASE_SIZE)
        return cut_short;
    if (raw[AT_VERSION] != SRD_VERSION)
        return "a packet of another version";
    at = layout_of(raw[0]);
    if (!at)
        return "a packet of an unknown type";
    if (len < at->size)
        return cut_short;
    memset(header, 0, offsetof(struct srd_header, places));
    header->type = raw[0];
    header->flags = get16(raw + AT_FLAGS);
    header->payload = NULL;
    header->len = 0;
    get_ids(raw, at, header);
    get_sizes(raw, at, header);
    return srd_is_request(header->type) ? get_request(raw, len, at, header)
                                        : get_answer(raw, len, at, header);
}

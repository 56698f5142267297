/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Headers against the tables: each field alone, at its least, its largest and an odd value, stands
 * in exactly the bits that the table names, and comes back from there. Then packets that others
 * have published, byte for byte, and what must be refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transports/uet/wire/address.h"
#include "transports/uet/wire/crc.h"
#include "transports/uet/wire/pds_header.h"
#include "transports/uet/wire/ses_header.h"
#include "transports/uet/wire/whole.h"

enum {
    ROOM = 128,
    FORMS = 3
};

/* A field: which bits of the header, from the first one sent, and which bytes of the struct. */
struct field {
    const char *name;
    unsigned bit, width;
    size_t at, size;
};

#define PDS(field, bit, width)                                                                     \
    {                                                                                              \
#field, bit, width, offsetof(struct pds_header, field),                                    \
            sizeof(((struct pds_header *)0)->field)                                                \
    }
#define REQ(field, bit, width)                                                                     \
    {                                                                                              \
#field, bit, width, offsetof(struct ses_request, field),                                   \
            sizeof(((struct ses_request *)0)->field)                                               \
    }
#define RSP(field, bit, width)                                                                     \
    {                                                                                              \
#field, bit, width, offsetof(struct ses_response, field),                                  \
            sizeof(((struct ses_response *)0)->field)                                              \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, 0, 0, 0, 0                                                                           \
    }

static uint8_t bytes[ROOM];

static void set_field(void *object, const struct field *field, uint64_t value)
{
    memcpy((char *)object + field->at, &value, field->size);
}

static uint64_t get_field(const void *object, const struct field *field)
{
    uint64_t value = 0;

    memcpy(&value, (const char *)object + field->at, field->size);
    return field->size < 8 && field->width < 64 ? value & ((UINT64_C(1) << field->width) - 1)
                                                : value;
}

/* The bits of the header, as a number. */
static uint64_t bits_at(unsigned bit, unsigned width)
{
    uint64_t value = 0;

    for (unsigned i = bit; i < bit + width; i++)
        value = value << 1 | (bytes[i / 8] >> (7 - i % 8) & 1);
    return value;
}

/* Are all bits but those of the field and those of `before` as they were? */
static void assert_others_unchanged(const uint8_t *before, size_t len, const struct field *field)
{
    for (unsigned i = 0; i < 8 * len; i++) {
        if (i >= field->bit && i < field->bit + field->width)
            continue;
        assert_int_equal(bytes[i / 8] >> (7 - i % 8) & 1, before[i / 8] >> (7 - i % 8) & 1);
    }
}

static uint64_t sample(unsigned width, int which)
{
    uint64_t max = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;

    return which == 0 ? 0 : which == 1 ? max : UINT64_C(0x5bad1deafc0ffee9) & max;
}

/* ---- PDS ---- */

struct pds_case {
    const char *name;
    struct pds_header base;
    size_t size;
    struct field fields[20];
};

#define IDS PDS(psn, 32, 32), PDS(spdcid, 64, 16), PDS(dpdcid, 80, 16)
#define SACK                                                                                       \
    PDS(cc_type, 96, 4), PDS(cc_flags, 100, 4), PDS(mpr, 104, 8), PDS(sack_offset, 112, 16),       \
        PDS(sack_bitmap, 128, 64)

static const struct pds_case pds_cases[] = {
    {"RUD", {.type = PDS_RUD, .next = NEXT_SMALL}, 12, {PDS(offset, 16, 16), IDS, END}},
    {"ROD", {.type = PDS_ROD, .next = NEXT_MEDIUM}, 12, {PDS(offset, 16, 16), IDS, END}},
    {"ROD, SYN",
     {.type = PDS_ROD, .next = NEXT_STANDARD, .flags = PDS_SYN},
     12,
     {PDS(offset, 16, 16), PDS(psn, 32, 32), PDS(spdcid, 64, 16), PDS(pdc_info, 80, 4),
      PDS(psn_offset, 84, 12), END}},
    {"RUD with CC",
     {.type = PDS_RUD_CC, .next = NEXT_RESPONSE_DATA},
     16,
     {PDS(offset, 16, 16), IDS, PDS(ccc_id, 96, 8), PDS(credit_target, 104, 24), END}},
    {"ROD with CC",
     {.type = PDS_ROD_CC, .next = NEXT_STANDARD},
     16,
     {PDS(offset, 16, 16), IDS, PDS(ccc_id, 96, 8), PDS(credit_target, 104, 24), END}},
    {"ACK", {.type = PDS_ACK, .next = NEXT_RESPONSE}, 12, {PDS(offset, 16, 16), IDS, END}},
    {"ACK of a probe",
     {.type = PDS_ACK, .flags = PDS_IS_PROBE},
     12,
     {PDS(opaque, 16, 16), IDS, END}},
    {"ACK with CC",
     {.type = PDS_ACK_CC},
     32,
     {PDS(offset, 16, 16), IDS, SACK, PDS(cc_state[0], 192, 64), END}},
    {"ACK with extended CC",
     {.type = PDS_ACK_CCX},
     40,
     {PDS(offset, 16, 16), IDS, SACK, PDS(cc_state[0], 192, 64), PDS(cc_state[1], 256, 64), END}},
    {"NACK",
     {.type = PDS_NACK},
     16,
     {PDS(nack_code, 16, 8), PDS(vendor_code, 24, 8), IDS, PDS(payload, 96, 32), END}},
    {"NACK with extended CC",
     {.type = PDS_NACK_CCX},
     32,
     {PDS(nack_code, 16, 8), PDS(vendor_code, 24, 8), IDS, PDS(payload, 96, 32),
      PDS(cc_type, 128, 4), PDS(cc_state[0], 132, 60), PDS(cc_state[1], 192, 64), END}},
    {"control",
     {.type = PDS_CONTROL, .next = CONTROL_PROBE},
     16,
     {PDS(opaque, 16, 16), IDS, PDS(payload, 96, 32), END}},
    {"control, SYN",
     {.type = PDS_CONTROL, .next = CONTROL_NOOP, .flags = PDS_SYN | PDS_IS_ROD},
     16,
     {PDS(psn, 32, 32), PDS(spdcid, 64, 16), PDS(pdc_info, 80, 4), PDS(psn_offset, 84, 12),
      PDS(payload, 96, 32), END}},
    {"RUDI", {.type = PDS_RUDI, .next = NEXT_SMALL}, 8, {PDS(psn, 32, 32), END}},
    {"RUDI response",
     {.type = PDS_RUDI_RESPONSE, .next = NEXT_RESPONSE},
     8,
     {PDS(psn, 32, 32), END}},
    {"UUD", {.type = PDS_UUD, .next = NEXT_MEDIUM}, 4, {END}},
};

static void check_pds_field(const struct pds_case *c, const struct field *field, uint64_t value)
{
    struct pds_header in = c->base, out;
    uint8_t before[ROOM];

    in.spdcid = 1;
    pds_header_put(&in, false, bytes);
    memcpy(before, bytes, sizeof(before));
    set_field(&in, field, value);
    assert_int_equal(pds_header_put(&in, false, bytes), c->size);
    assert_int_equal(bits_at(field->bit, field->width), value);
    assert_others_unchanged(before, c->size, field);
    if (!in.spdcid)
        return;
    assert_int_equal(pds_header_get(bytes, c->size, false, &out), c->size);
    assert_int_equal(get_field(&out, field), value);
    in.spdcid = out.spdcid;
    assert_memory_equal(&out.psn, &in.psn, sizeof(out.psn));
}

static void each_pds_field_stands_where_its_table_says(void **state)
{
    for (size_t i = 0; i < sizeof(pds_cases) / sizeof(pds_cases[0]); i++)
        for (const struct field *field = pds_cases[i].fields; field->name; field++)
            for (int which = 0; which < FORMS; which++)
                check_pds_field(&pds_cases[i], field, sample(field->width, which));
}

static void each_pds_type_goes_through_its_prologue(void **state)
{
    for (size_t i = 0; i < sizeof(pds_cases) / sizeof(pds_cases[0]); i++) {
        const struct pds_case *c = &pds_cases[i];
        struct pds_header in = c->base, out;

        in.spdcid = 1;
        assert_int_equal(pds_header_put(&in, false, bytes), c->size);
        assert_int_equal(bits_at(0, 5), in.type);
        assert_int_equal(bits_at(5, 4), in.next);
        assert_int_equal(bits_at(9, 7), in.flags);
        for (size_t len = 0; len < c->size; len++)
            assert_int_equal(pds_header_get(bytes, len, false, &out), PDS_FAULT_SHORT);
        assert_int_equal(pds_header_get(bytes, c->size, false, &out), c->size);
        assert_int_equal(out.type, in.type);
        assert_int_equal(out.next, in.next);
        assert_int_equal(out.flags, in.flags);
    }
}

/* Of each type, all flags and all values behind it that the tables do not have. */
static void reserved_values_are_refused(void **state)
{
    static const uint8_t flags[16] = {[2] = 0x1c, 0x1c, 0x10, 0x30, 0,    0x3e, 0x3e,
                                      0x3e,       0x38, 0x3c, 0x38, 0x1c, 0x1c};
    struct pds_header out;

    memset(bytes, 1, sizeof(bytes));
    for (unsigned type = 0; type < 32; type++) {
        for (unsigned flag = 0; flag < 7; flag++) {
            bool legal = type < 16 && flags[type] >> flag & 1;
            int rc;

            bytes[0] = (uint8_t)(type << 3);
            bytes[1] = (uint8_t)(1 << flag);
            if (type == PDS_RUD || type == PDS_ROD || type == PDS_RUDI || type == PDS_UUD ||
                type == PDS_RUD_CC || type == PDS_ROD_CC)
                bytes[1] |= NEXT_STANDARD << 7, bytes[0] |= NEXT_STANDARD >> 1;
            if (type == PDS_RUDI_RESPONSE)
                bytes[0] |= NEXT_RESPONSE >> 1;
            rc = pds_header_get(bytes, sizeof(bytes), false, &out);
            if (type < 2 || type > 14)
                assert_int_equal(rc, PDS_FAULT_TYPE);
            else
                assert_int_equal(rc > 0, legal);
        }
    }
    assert_int_equal(pds_header_get((const uint8_t *)"\x38\x06 4567890123456789", 12, false, &out),
                     PDS_FAULT_FLAGS);
    assert_int_equal(pds_header_get((const uint8_t *)"\x10\x00 4567890123456789", 12, false, &out),
                     PDS_FAULT_NEXT);
    assert_int_equal(pds_header_get((const uint8_t *)"\x11\x80 45678\0\0ab", 12, false, &out),
                     PDS_FAULT_ID);
}

static void rudi_headers_can_be_short(void **state)
{
    struct pds_header in = {.type = PDS_RUDI, .next = NEXT_SMALL, .psn = 0x01020304}, out;

    assert_int_equal(pds_header_put(&in, true, bytes), 6);
    assert_memory_equal(bytes, "\x20\x80\x01\x02\x03\x04", 6);
    assert_int_equal(pds_header_get(bytes, 6, true, &out), 6);
    assert_int_equal(out.psn, in.psn);
    assert_int_equal(pds_header_get(bytes, 6, false, &out), PDS_FAULT_SHORT);
}

static void the_state_of_nscc_has_its_bits(void **state)
{
    struct pds_nscc in = {0x1234, true, 0x12, 0x345678, 0x9abc}, out;

    assert_true(pds_nscc_put(&in) == UINT64_C(0x1234923456789abc));
    out = pds_nscc_get(UINT64_C(0x1234923456789abc));
    assert_int_equal(out.service_time, in.service_time);
    assert_int_equal(out.restore, in.restore);
    assert_int_equal(out.penalty, in.penalty);
    assert_int_equal(out.received, in.received);
    assert_int_equal(out.out_of_order, in.out_of_order);
}

/* ---- SES ---- */

struct ses_case {
    const char *name;
    struct ses_request base;
    size_t size;
    struct field fields[24];
};

#define COMMON REQ(generation, 32, 8), REQ(job, 40, 24), REQ(pid, 68, 12), REQ(index, 84, 12)
#define STD(opcode_, flags_)                                                                       \
    {                                                                                              \
        .next = NEXT_STANDARD, .opcode = (opcode_), .flags = (flags_)                              \
    }

static const struct ses_case ses_cases[] = {
    {"standard, SOM",
     STD(SES_WRITE, SES_SOM),
     44,
     {REQ(message_id, 16, 16), COMMON, REQ(offset, 96, 64), REQ(initiator, 160, 32),
      REQ(key, 192, 64), REQ(data, 256, 64), REQ(length, 320, 32), END}},
    {"standard, later packet",
     STD(SES_READ, 0),
     44,
     {REQ(message_id, 16, 16), COMMON, REQ(offset, 96, 64), REQ(initiator, 160, 32),
      REQ(key, 192, 64), REQ(payload_length, 274, 14), REQ(message_offset, 288, 32),
      REQ(length, 320, 32), END}},
    {"small",
     {.next = NEXT_SMALL, .opcode = SES_WRITE, .flags = SES_SOM | SES_EOM},
     20,
     {REQ(length, 18, 14), COMMON, REQ(offset, 96, 64), END}},
    {"medium message",
     {.next = NEXT_MEDIUM, .opcode = SES_SEND, .flags = SES_SOM | SES_EOM},
     32,
     {REQ(length, 18, 14), COMMON, REQ(data, 96, 64), REQ(initiator, 160, 32), REQ(key, 192, 64),
      END}},
    {"medium access",
     {.next = NEXT_MEDIUM, .opcode = SES_READ, .flags = SES_SOM | SES_EOM},
     32,
     {REQ(length, 18, 14), COMMON, REQ(offset, 96, 64), REQ(initiator, 160, 32), REQ(key, 192, 64),
      END}},
    {"rendezvous",
     STD(SES_RENDEZVOUS_TSEND, SES_SOM),
     68,
     {REQ(rendezvous.eager_length, 352, 32), REQ(rendezvous.generation, 384, 8),
      REQ(rendezvous.pid, 392, 12), REQ(rendezvous.index, 404, 12), REQ(rendezvous.offset, 416, 64),
      REQ(rendezvous.key, 480, 64), END}},
    {"atomic",
     STD(SES_ATOMIC, SES_SOM),
     48,
     {REQ(atomic.datatype, 360, 8), REQ(atomic.control, 368, 8), END}},
    {"compare",
     {.next = NEXT_STANDARD,
      .opcode = SES_FETCHING_ATOMIC,
      .flags = SES_SOM,
      .atomic.opcode = AMO_CSWAP},
     80,
     {REQ(atomic.datatype, 360, 8), REQ(atomic.control, 368, 8), REQ(atomic.compare.high, 384, 64),
      REQ(atomic.compare.low, 448, 64), REQ(atomic.swap.high, 512, 64),
      REQ(atomic.swap.low, 576, 64), END}},
};

static void check_ses_field(const struct ses_case *c, const struct field *field, uint64_t value)
{
    struct ses_request in = c->base, out;
    uint8_t before[ROOM];

    ses_request_put(&in, bytes);
    memcpy(before, bytes, sizeof(before));
    set_field(&in, field, value);
    assert_int_equal(ses_request_put(&in, bytes), c->size);
    assert_int_equal(bits_at(field->bit, field->width), value);
    assert_others_unchanged(before, c->size, field);
    assert_int_equal(ses_request_get(in.next, bytes, c->size, &out), c->size);
    assert_int_equal(get_field(&out, field), value);
    assert_int_equal(out.opcode, in.opcode);
    assert_int_equal(out.flags, in.flags);
    for (size_t len = 0; len < c->size; len++)
        assert_int_equal(ses_request_get(in.next, bytes, len, &out), SES_FAULT_SHORT);
}

static void each_request_field_stands_where_its_table_says(void **state)
{
    for (size_t i = 0; i < sizeof(ses_cases) / sizeof(ses_cases[0]); i++)
        for (const struct field *field = ses_cases[i].fields; field->name; field++)
            for (int which = 0; which < FORMS; which++)
                check_ses_field(&ses_cases[i], field, sample(field->width, which));
}

static void every_opcode_and_flag_goes_through(void **state)
{
    for (unsigned opcode = 0; opcode < 64; opcode++) {
        for (unsigned flags = 0; flags < 64; flags++) {
            struct ses_request in = STD((uint8_t)opcode, (uint8_t)flags), out;
            size_t size = ses_request_put(&in, bytes);

            assert_int_equal(bits_at(2, 6), opcode);
            assert_int_equal(bits_at(10, 6), flags);
            assert_int_equal(ses_request_get(NEXT_STANDARD, bytes, size, &out), size);
            assert_int_equal(out.opcode, opcode);
            assert_int_equal(out.flags, flags);
        }
    }
}

struct response_case {
    struct ses_response base;
    size_t size;
    struct field fields[16];
};

#define HEAD RSP(list, 0, 2), RSP(opcode, 2, 6), RSP(code, 10, 6), RSP(job, 40, 24)

static const struct response_case response_cases[] = {
    {{.next = NEXT_RESPONSE},
     12,
     {HEAD, RSP(message_id, 16, 16), RSP(generation, 32, 8), RSP(modified_length, 64, 32), END}},
    {{.next = NEXT_RESPONSE_DATA},
     20,
     {HEAD, RSP(message_id, 16, 16), RSP(read_message_id, 64, 16), RSP(payload_length, 82, 14),
      RSP(modified_length, 96, 32), RSP(message_offset, 128, 32), END}},
    {{.next = NEXT_RESPONSE_DATA_SMALL},
     12,
     {HEAD, RSP(payload_length, 18, 14), RSP(request_psn, 64, 32), END}},
};

static void check_response_field(const struct response_case *c, const struct field *field,
                                 uint64_t value)
{
    struct ses_response in = c->base, out;
    uint8_t before[ROOM];

    ses_response_put(&in, bytes);
    memcpy(before, bytes, sizeof(before));
    set_field(&in, field, value);
    assert_int_equal(ses_response_put(&in, bytes), c->size);
    assert_int_equal(bits_at(field->bit, field->width), value);
    assert_others_unchanged(before, c->size, field);
    for (size_t len = 0; len < c->size; len++)
        assert_int_equal(ses_response_get(in.next, bytes, len, &out), SES_FAULT_SHORT);
    assert_int_equal(ses_response_get(in.next, bytes, c->size, &out), c->size);
    assert_int_equal(get_field(&out, field), value);
}

static void each_response_field_stands_where_its_table_says(void **state)
{
    for (size_t i = 0; i < sizeof(response_cases) / sizeof(response_cases[0]); i++)
        for (const struct field *field = response_cases[i].fields; field->name; field++)
            for (int which = 0; which < FORMS; which++)
                check_response_field(&response_cases[i], field, sample(field->width, which));
}

static void requests_that_no_table_has_are_refused(void **state)
{
    struct ses_request out;
    struct ses_response response;

    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(ses_request_get(NEXT_NONE, bytes, ROOM, &out), SES_FAULT_NEXT);
    assert_int_equal(ses_request_get(NEXT_RESPONSE, bytes, ROOM, &out), SES_FAULT_NEXT);
    assert_int_equal(ses_response_get(NEXT_STANDARD, bytes, ROOM, &response), SES_FAULT_NEXT);
    assert_int_equal(ses_request_get(NEXT_SMALL, bytes, ROOM, &out), SES_FAULT_FLAGS);
    bytes[1] = SES_SOM | SES_EOM | SES_HD;
    assert_int_equal(ses_request_get(NEXT_SMALL, bytes, ROOM, &out), SES_FAULT_FLAGS);
    assert_int_equal(ses_request_get(NEXT_MEDIUM, bytes, ROOM, &out), 32);
    bytes[0] = SES_RENDEZVOUS_SEND;
    assert_int_equal(ses_request_get(NEXT_MEDIUM, bytes, ROOM, &out), SES_FAULT_EXTENSION);
    bytes[1] |= 0x40;
    assert_int_equal(ses_request_get(NEXT_STANDARD, bytes, ROOM, &out), SES_FAULT_VERSION);
    assert_int_equal(ses_response_get(NEXT_RESPONSE, bytes, ROOM, &response), SES_FAULT_VERSION);
}

/* ---- What others have published ---- */

static size_t from_hex(const char *hex)
{
    size_t len = 0;

    memset(bytes, 0, sizeof(bytes));
    for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        bytes[len++] = (uint8_t)byte;
        if (hex[2] == ' ')
            hex++;
    }
    return len;
}

static void check_published(const char *hex, const struct pds_header *expected)
{
    size_t len = from_hex(hex);
    struct pds_header got;
    uint8_t again[PDS_HEADER_MAX];

    assert_int_equal(pds_header_get(bytes, len, false, &got), len);
    assert_memory_equal(&got, expected, sizeof(got));
    assert_int_equal(pds_header_put(&got, false, again), len);
    assert_memory_equal(again, bytes, len);
}

static void published_pds_headers_are_read_and_written(void **state)
{
    struct pds_header h = {.type = PDS_UUD, .next = NEXT_MEDIUM};

    check_published("31000000", &h);
    h = (struct pds_header){.type = PDS_RUD,
                            .next = NEXT_STANDARD,
                            .flags = PDS_RETX | PDS_AR,
                            .offset = 0x1234,
                            .psn = 0x01020304,
                            .spdcid = 0x1122,
                            .dpdcid = 0x3344};
    check_published("11981234 01020304 11223344", &h);
    h = (struct pds_header){
        .type = PDS_ACK, .offset = 2, .psn = 0x10203040, .spdcid = 0x0102, .dpdcid = 0x0304};
    check_published("38000002 10203040 01020304", &h);
    h = (struct pds_header){.type = PDS_NACK,
                            .nack_code = NACK_ROD_OOO,
                            .psn = 0x01020304,
                            .spdcid = 0x1122,
                            .dpdcid = 0x3344,
                            .payload = 0x05060708};
    check_published("50000d00 01020304 11223344 05060708", &h);
    h = (struct pds_header){.type = PDS_ACK_CC,
                            .flags = PDS_MARKED,
                            .offset = -2,
                            .psn = 0x10203040,
                            .spdcid = 0x0102,
                            .dpdcid = 0x0304,
                            .mpr = 0x80,
                            .sack_offset = -16,
                            .sack_bitmap = UINT64_C(0x8000000000000001),
                            .cc_state = {UINT64_C(0x1234923456789abc)}};
    check_published("4020fffe 10203040 01020304 0080fff0 80000000 00000001 12349234 56789abc", &h);
    h = (struct pds_header){.type = PDS_CONTROL,
                            .next = CONTROL_NEGOTIATION,
                            .flags = PDS_IS_ROD | PDS_AR | PDS_SYN,
                            .opaque = 0x1234,
                            .psn = 0x01020304,
                            .spdcid = 0x1122,
                            .pdc_info = 3,
                            .psn_offset = 0x344,
                            .payload = 0x01020000};
    check_published("5cac1234 01020304 11223344 01020000", &h);
}

static void check_request(const char *hex, uint8_t next, const struct ses_request *expected)
{
    size_t len = from_hex(hex);
    struct ses_request got;
    uint8_t again[SES_HEADER_MAX];

    assert_int_equal(ses_request_get(next, bytes, len, &got), len);
    assert_memory_equal(&got, expected, sizeof(got));
    assert_int_equal(ses_request_put(&got, again), len);
    assert_memory_equal(again, bytes, len);
}

static void published_ses_headers_are_read_and_written(void **state)
{
    struct ses_request h;
    struct ses_response response;
    uint8_t again[SES_RESPONSE_MAX];

    memset(&h, 0, sizeof(h));
    h.next = NEXT_MEDIUM;
    h.opcode = SES_DATAGRAM_SEND;
    h.flags = SES_SOM | SES_EOM;
    h.length = 128;
    check_request("07030080 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
                  NEXT_MEDIUM, &h);
    memset(&h, 0, sizeof(h));
    h.next = NEXT_STANDARD;
    h.opcode = SES_WRITE;
    h.flags = 0x2f;
    h.message_id = 0x0102;
    h.generation = 0x12;
    h.job = 0x345678;
    h.pid = 0xabc;
    h.index = 0xdef;
    h.offset = UINT64_C(0x0102030405060708);
    h.initiator = 0x11223344;
    h.key = UINT64_C(0x1020304050607080);
    h.data = UINT64_C(0xa1a2a3a4a5a6a7a8);
    h.length = 8;
    check_request("012f0102 12345678 0abc0def 01020304 05060708 11223344 10203040 50607080 "
                  "a1a2a3a4 a5a6a7a8 00000008",
                  NEXT_STANDARD, &h);
    assert_int_equal(from_hex("41021234 56789abc 01020304"), 12);
    assert_int_equal(ses_response_get(NEXT_RESPONSE, bytes, 12, &response), 12);
    assert_int_equal(response.list, SES_OVERFLOW);
    assert_int_equal(response.opcode, SES_RESPONSE);
    assert_int_equal(response.code, RC_BAD_GENERATION);
    assert_int_equal(response.message_id, 0x1234);
    assert_int_equal(response.generation, 0x56);
    assert_int_equal(response.job, 0x789abc);
    assert_int_equal(response.modified_length, 0x01020304);
    assert_int_equal(ses_response_put(&response, again), 12);
    assert_memory_equal(again, bytes, 12);
}

/* ---- CRC, addresses ---- */

static uint32_t crc_by_bits(const uint8_t *at, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static void the_crc_is_castagnoli(void **state)
{
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
    for (size_t i = 0; i < ROOM; i++)
        bytes[i] = (uint8_t)(i * 37);
    for (size_t len = 0; len <= ROOM; len++)
        assert_int_equal(crc32c(0, bytes, len), crc_by_bits(bytes, len));
    for (size_t len = 0; len <= ROOM; len++)
        assert_int_equal(crc32c_portable(len, bytes, len), crc32c(len, bytes, len));
}

static void addresses_have_bytes_and_text(void **state)
{
    static const char *const good[] = {
        "fi_addr_uet://192.0.2.1/7/15/16",   "fi_addr_uet://127.0.0.1:4794/4095/4095/4294967295",
        "fi_addr_uet://[2001:db8::1]/0/1/2", "fi_addr_uet://192.0.2.1/7/15/16/255",
        "fi_addr_uet://[::1]:1/0/1/2",
    };
    static const char *const bad[] = {
        "",
        "fi_addr_uet://",
        "fi_sockaddr_in://127.0.0.1:1",
        "fi_addr_uet://192.0.2.1/7/15",
        "fi_addr_uet://192.0.2.1/7/15/16/256",
        "fi_addr_uet://192.0.2.1/7/15/16/17/18",
        "fi_addr_uet://192.0.2.1/4096/15/16",
        "fi_addr_uet://192.0.2.1/7/4096/16",
        "fi_addr_uet://192.0.2.1/7/15/4294967296",
        "fi_addr_uet://192.0.2.1:0/7/15/16",
        "fi_addr_uet://192.0.2.1:65536/7/15/16",
        "fi_addr_uet://0.0.0.0/7/15/16",
        "fi_addr_uet://[::1/7/15/16",
        "fi_addr_uet://[::1]x/7/15/16",
        "fi_addr_uet://nobody/7/15/16",
        "fi_addr_uet://192.0.2.1/ 7/15/16",
    };
    struct uet_address address, again;
    uint8_t raw[UET_ADDRESS_SIZE];
    char text[UET_ADDRESS_TEXT];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(uet_address_parse(good[i], &address));
        assert_int_equal(uet_address_print(&address, text, sizeof(text)), strlen(good[i]));
        assert_string_equal(text, good[i]);
        uet_address_put(&address, raw);
        assert_true(uet_address_get(raw, &again));
        uet_address_print(&again, text, sizeof(text));
        assert_string_equal(text, good[i]);
        raw[1]++;
        assert_false(uet_address_get(raw, &again));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(uet_address_parse(bad[i], &address));
}

/* ---- Lengths ---- */

static size_t make_request(struct ses_request request, uint8_t type, uint8_t *packet)
{
    struct pds_header header = {.type = type, .next = request.next, .spdcid = 7};
    size_t size = pds_header_put(&header, false, packet);

    return size + ses_request_put(&request, packet + size);
}

/* With so many bytes behind its headers, and with none that are more or less. */
static void expect_payload(const uint8_t *packet, size_t headers, size_t payload)
{
    assert_true(packet_is_whole(packet, headers + payload, false));
    assert_false(packet_is_whole(packet, headers + payload + 1, false));
    assert_false(packet_is_whole(packet, headers + payload - 1, false));
}

static void requests_are_as_long_as_they_say(void **state)
{
    static uint8_t packet[9000];
    const uint8_t all = SES_SOM | SES_EOM;
    struct ses_request request = {.flags = all, .length = 100};

    for (request.next = NEXT_SMALL; request.next <= NEXT_STANDARD; request.next++) {
        request.opcode = SES_WRITE;
        expect_payload(packet, make_request(request, PDS_RUD, packet), 100);
        expect_payload(packet, make_request(request, PDS_RUDI, packet), 100);
        request.opcode = SES_READ;
        expect_payload(packet, make_request(request, PDS_ROD, packet), 0);
        request.opcode = SES_FETCHING_ATOMIC;
        request.atomic.opcode = AMO_SUM;
        expect_payload(packet, make_request(request, PDS_ROD, packet), 100);
        request.atomic.opcode = AMO_READ;
        expect_payload(packet, make_request(request, PDS_ROD, packet), 0);
        request.atomic.opcode = AMO_CSWAP;
        expect_payload(packet, make_request(request, PDS_ROD, packet), 0);
    }
    request = (struct ses_request){.next = NEXT_STANDARD, .opcode = SES_SEND, .flags = all};
    expect_payload(packet, make_request(request, PDS_UUD, packet), 0);
    request.length = 3000;
    expect_payload(packet, make_request(request, PDS_RUD, packet), 3000);
    request.flags = SES_EOM;
    request.payload_length = 952;
    expect_payload(packet, make_request(request, PDS_RUD, packet), 952);
    request.flags = SES_SOM;
    for (size_t payload = 1024; payload <= 8192; payload *= 2)
        expect_payload(packet, make_request(request, PDS_ROD_CC, packet), payload);
    assert_false(packet_is_whole(packet, make_request(request, PDS_RUD, packet) + 512, false));
    request.opcode = SES_RENDEZVOUS_TSEND;
    request.flags = all;
    request.rendezvous.eager_length = 64;
    expect_payload(packet, make_request(request, PDS_RUD, packet), 64);
}

static void answers_are_as_long_as_they_say(void **state)
{
    static uint8_t packet[300];
    struct pds_header header = {.type = PDS_ACK, .next = NEXT_NONE, .spdcid = 7};
    struct ses_response response = {.next = NEXT_RESPONSE};
    size_t size = pds_header_put(&header, false, packet);

    expect_payload(packet, size, 0);
    header.type = PDS_ACK_CC;
    header.next = NEXT_RESPONSE;
    size = pds_header_put(&header, false, packet);
    expect_payload(packet, size + ses_response_put(&response, packet + size), 0);
    response.payload_length = 200;
    for (uint8_t next = NEXT_RESPONSE_DATA; next <= NEXT_RESPONSE_DATA_SMALL; next++) {
        header.type = PDS_RUD;
        header.next = response.next = next;
        size = pds_header_put(&header, false, packet);
        expect_payload(packet, size + ses_response_put(&response, packet + size), 200);
    }
    header = (struct pds_header){.type = PDS_CONTROL, .next = CONTROL_CLEAR, .spdcid = 7};
    expect_payload(packet, pds_header_put(&header, false, packet), 0);
    header = (struct pds_header){.type = PDS_NACK, .spdcid = 7};
    expect_payload(packet, pds_header_put(&header, false, packet), 0);
    assert_false(packet_is_whole(packet, 0, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pds_field_stands_where_its_table_says),
        cmocka_unit_test(each_pds_type_goes_through_its_prologue),
        cmocka_unit_test(reserved_values_are_refused),
        cmocka_unit_test(rudi_headers_can_be_short),
        cmocka_unit_test(the_state_of_nscc_has_its_bits),
        cmocka_unit_test(each_request_field_stands_where_its_table_says),
        cmocka_unit_test(every_opcode_and_flag_goes_through),
        cmocka_unit_test(each_response_field_stands_where_its_table_says),
        cmocka_unit_test(requests_that_no_table_has_are_refused),
        cmocka_unit_test(published_pds_headers_are_read_and_written),
        cmocka_unit_test(published_ses_headers_are_read_and_written),
        cmocka_unit_test(requests_are_as_long_as_they_say),
        cmocka_unit_test(answers_are_as_long_as_they_say),
        cmocka_unit_test(the_crc_is_castagnoli),
        cmocka_unit_test(addresses_have_bytes_and_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

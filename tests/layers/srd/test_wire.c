/* SPDX-License-Identifier: BSD-2-Clause */
/* Every type of packet, byte by byte; and packets that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "layers/srd/srd_wire.h"

enum {
    ROOM = 512
};

/* Values in the packets below. */
#define CONNID 0x0a0b0c0d
#define CQ UINT64_C(0x1122334455667788)
#define TAG UINT64_C(0xfedcba9876543210)
#define PLACE                                                                                      \
    {                                                                                              \
        UINT64_C(0x7f0000001000), 5, 0x99                                                          \
    }
#define PLACE_2                                                                                    \
    {                                                                                              \
        UINT64_C(0x7f0000002000), 8, 0x9a                                                          \
    }
#define PAYLOAD .payload = hello, .len = 5

static const uint8_t hello[5] = {'h', 'e', 'l', 'l', 'o'};
static const uint8_t raw_addr[SRD_ADDR_SIZE] = {
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b,
    0x1c, 0x1d, 0x1e, 0x1f, 0x02, 0x01, 0,    0,    0x06, 0x05, 0x04, 0x03,
};

/* The bytes are composed by hand from the table of the protocol's packets. */
static const struct golden {
    struct srd_header header;
    const char *hex;
} golden[] = {
    {{.type = SRD_CTS,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .send_id = 7,
      .recv_id = 8,
      .window = 0x12345},
     "030400800d0c0b0a07000000080000004523010000000000"},
    {{.type = SRD_CTS,
      .flags = SRD_CONNID | SRD_CTS_READ,
      .connid = CONNID,
      .send_id = 7,
      .recv_id = 8,
      .window = 1},
     "030480800d0c0b0a07000000080000000100000000000000"},
    {{.type = SRD_CTSDATA, .recv_id = 9, .offset = 0x2000, PAYLOAD},
     "04040000090000000500000000000000002000000000000068656c6c6f"},
    {{.type = SRD_CTSDATA,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .recv_id = 9,
      .offset = 0x2000,
      PAYLOAD},
     "0404008009000000050000000000000000200000000000000d0c0b0a0000000068656c6c6f"},
    {{.type = SRD_READRSP,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .recv_id = 3,
      .send_id = 4,
      PAYLOAD},
     "050400800d0c0b0a0300000004000000050000000000000068656c6c6f"},
    {{.type = SRD_EOR, .flags = SRD_CONNID, .connid = CONNID, .send_id = 3, .recv_id = 4},
     "0704008003000000040000000d0c0b0a"},
    {{.type = SRD_ATOMRSP, .flags = SRD_CONNID, .connid = CONNID, .recv_id = 5, PAYLOAD},
     "080400800d0c0b0a0000000005000000050000000000000068656c6c6f"},
    {{.type = SRD_HANDSHAKE,
      .flags = SRD_CONNID | SRD_HOST_ID | SRD_DEVICE_VERSION,
      .connid = CONNID,
      .features = 0x5a,
      .host_id = 0x1234,
      .device_version = 0xefa1},
     "09040380040000005a000000000000000d0c0b0a000000003412000000000000a1ef000000000000"},
    {{.type = SRD_HANDSHAKE, .features = 2}, "09040000040000000200000000000000"},
    {{.type = SRD_RECEIPT, .flags = SRD_CONNID, .connid = CONNID, .send_id = 6, .msg_id = 77},
     "0a040080060000004d0000000d0c0b0a"},
    {{.type = SRD_READ_NACK, .flags = SRD_CONNID, .connid = CONNID, .send_id = 6, .recv_id = 5},
     "0b04008006000000050000000d0c0b0a"},
    {{.type = SRD_PEER_ERROR,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .send_id = 6,
      .ref_kind = 1,
      .error = 4127},
     "0c04008006000000010000001f1000000d0c0b0a"},
    {{.type = SRD_EAGER_MSG,
      .flags = SRD_RAW_ADDR | SRD_CQ_DATA,
      .raw_addr = raw_addr,
      .raw_len = SRD_ADDR_SIZE,
      .cq_data = CQ,
      .msg_id = 2,
      .total = 5,
      PAYLOAD},
     "400407000200000024000000101112131415161718191a1b1c1d1e1f020100000605040300000000"
     "0000000000000000887766554433221168656c6c6f"},
    {{.type = SRD_EAGER_TAG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .tag = TAG,
      .total = 5,
      PAYLOAD},
     "41040c80020000001032547698badcfe0d0c0b0a68656c6c6f"},
    {{.type = SRD_MEDIUM_MSG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .total = 9000,
      .offset = 4096,
      PAYLOAD},
     "4204048002000000282300000000000000100000000000000d0c0b0a68656c6c6f"},
    {{.type = SRD_MEDIUM_TAG,
      .flags = SRD_CONNID | SRD_CQ_DATA,
      .cq_data = CQ,
      .connid = CONNID,
      .msg_id = 2,
      .total = 9000,
      .offset = 4096,
      .tag = TAG,
      PAYLOAD},
     "43040e8002000000282300000000000000100000000000001032547698badcfe8877665544332211"
     "0d0c0b0a68656c6c6f"},
    {{.type = SRD_LONGCTS_MSG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .total = 1 << 20,
      .send_id = 3,
      .credits = 32,
      PAYLOAD},
     "4404048002000000000010000000000003000000200000000d0c0b0a68656c6c6f"},
    {{.type = SRD_LONGCTS_TAG,
      .flags = SRD_CONNID | SRD_AFTER_NACK,
      .connid = CONNID,
      .msg_id = 2,
      .total = 1 << 20,
      .send_id = 3,
      .credits = 32,
      .tag = TAG},
     "45040ca002000000000010000000000003000000200000001032547698badcfe0d0c0b0a"},
    {{.type = SRD_EAGER_RTW,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .place_count = 1,
      .places = {PLACE},
      .total = 5,
      PAYLOAD},
     "460410800100000000100000007f0000050000000000000099000000000000000d0c0b0a68656c6c"
     "6f"},
    {{.type = SRD_EAGER_RTW, .flags = SRD_RAW_ADDR, .raw_addr = raw_addr, .raw_len = SRD_ADDR_SIZE},
     "460411000000000024000000101112131415161718191a1b1c1d1e1f020100000605040300000000"
     "0000000000000000"},
    {{.type = SRD_LONGCTS_RTW,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .place_count = 2,
      .places = {PLACE, PLACE_2},
      .total = 13,
      .send_id = 3,
      .credits = 32,
      PAYLOAD},
     "47041080020000000d00000000000000030000002000000000100000007f00000500000000000000"
     "990000000000000000200000007f000008000000000000009a000000000000000d0c0b0a68656c6c"
     "6f"},
    {{.type = SRD_SHORT_RTR,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .place_count = 1,
      .places = {PLACE},
      .total = 5,
      .recv_id = 3,
      .window = 5},
     "48041080010000000500000000000000030000000500000000100000007f00000500000000000000"
     "99000000000000000d0c0b0a"},
    {{.type = SRD_LONGCTS_RTR,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .place_count = 1,
      .places = {PLACE},
      .total = 5,
      .recv_id = 3,
      .window = 4},
     "49041080010000000500000000000000030000000400000000100000007f00000500000000000000"
     "99000000000000000d0c0b0a"},
    {{.type = SRD_WRITE_RTA,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .place_count = 1,
      .datatype = 7,
      .op = 3,
      .places = {PLACE},
      .total = 5,
      PAYLOAD},
     "4a042080020000000100000007000000030000000000000000100000007f00000500000000000000"
     "99000000000000000d0c0b0a68656c6c6f"},
    {{.type = SRD_FETCH_RTA,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .place_count = 1,
      .datatype = 7,
      .op = 3,
      .recv_id = 11,
      .places = {PLACE},
      .total = 5,
      PAYLOAD},
     "4b042080020000000100000007000000030000000b00000000100000007f00000500000000000000"
     "99000000000000000d0c0b0a68656c6c6f"},
    {{.type = SRD_COMPARE_RTA,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .place_count = 1,
      .datatype = 7,
      .op = 3,
      .recv_id = 11,
      .places = {PLACE},
      .total = 5,
      PAYLOAD},
     "4c042080020000000100000007000000030000000b00000000100000007f00000500000000000000"
     "99000000000000000d0c0b0a68656c6c6f"},
    {{.type = SRD_DC_WRITE_RTA,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .place_count = 1,
      .datatype = 7,
      .op = 3,
      .send_id = 12,
      .places = {PLACE},
      .total = 5,
      PAYLOAD},
     "8d042080020000000100000007000000030000000c00000000100000007f00000500000000000000"
     "99000000000000000d0c0b0a68656c6c6f"},
    {{.type = SRD_LONGREAD_MSG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .total = 5,
      .send_id = 3,
      .read_count = 1,
      .reads = {PLACE}},
     "8004048002000000050000000000000003000000010000000d0c0b0a00100000007f000005000000"
     "000000009900000000000000"},
    {{.type = SRD_LONGREAD_TAG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .total = 13,
      .send_id = 3,
      .read_count = 2,
      .reads = {PLACE, PLACE_2},
      .tag = TAG},
     "81040c80020000000d0000000000000003000000020000001032547698badcfe0d0c0b0a00100000"
     "007f00000500000000000000990000000000000000200000007f000008000000000000009a000000"
     "00000000"},
    {{.type = SRD_LONGREAD_RTW,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .place_count = 1,
      .places = {PLACE},
      .total = 5,
      .send_id = 3,
      .read_count = 1,
      .reads = {PLACE}},
     "82041080010000000500000000000000030000000100000000100000007f00000500000000000000"
     "99000000000000000d0c0b0a00100000007f000005000000000000009900000000000000"},
    {{.type = SRD_DC_EAGER_MSG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .send_id = 4,
      .total = 5,
      PAYLOAD},
     "850404800200000004000000000000000d0c0b0a68656c6c6f"},
    {{.type = SRD_DC_EAGER_TAG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .send_id = 4,
      .tag = TAG,
      .total = 5,
      PAYLOAD},
     "86040c800200000004000000000000001032547698badcfe0d0c0b0a68656c6c6f"},
    {{.type = SRD_DC_MEDIUM_MSG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .send_id = 4,
      .total = 9000,
      .offset = 4096,
      PAYLOAD},
     "87040480020000000400000000000000282300000000000000100000000000000d0c0b0a68656c6c"
     "6f"},
    {{.type = SRD_DC_MEDIUM_TAG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .send_id = 4,
      .total = 9000,
      .offset = 4096,
      .tag = TAG,
      PAYLOAD},
     "88040c80020000000400000000000000282300000000000000100000000000001032547698badcfe"
     "0d0c0b0a68656c6c6f"},
    {{.type = SRD_DC_LONGCTS_MSG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .total = 1 << 20,
      .send_id = 3,
      .credits = 32,
      PAYLOAD},
     "8904048002000000000010000000000003000000200000000d0c0b0a68656c6c6f"},
    {{.type = SRD_DC_LONGCTS_TAG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .total = 1 << 20,
      .send_id = 3,
      .credits = 32,
      .tag = TAG,
      PAYLOAD},
     "8a040c8002000000000010000000000003000000200000001032547698badcfe0d0c0b0a68656c6c"
     "6f"},
    {{.type = SRD_DC_EAGER_RTW,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .place_count = 1,
      .places = {PLACE},
      .send_id = 4,
      .total = 5,
      PAYLOAD},
     "8b04108001000000040000000000000000100000007f000005000000000000009900000000000000"
     "0d0c0b0a68656c6c6f"},
    {{.type = SRD_DC_LONGCTS_RTW,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .place_count = 2,
      .places = {PLACE, PLACE_2},
      .total = 13,
      .send_id = 3,
      .credits = 32,
      PAYLOAD},
     "8c041080020000000d00000000000000030000002000000000100000007f00000500000000000000"
     "990000000000000000200000007f000008000000000000009a000000000000000d0c0b0a68656c6c"
     "6f"},
    {{.type = SRD_RUNTREAD_MSG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .total = 13,
      .send_id = 3,
      .read_count = 2,
      .reads = {PLACE, PLACE_2},
      .offset = 1,
      .runt = 7,
      PAYLOAD},
     "91040480020000000d00000000000000030000000200000001000000000000000700000000000000"
     "0d0c0b0a00100000007f00000500000000000000990000000000000000200000007f000008000000"
     "000000009a0000000000000068656c6c6f"},
    {{.type = SRD_RUNTREAD_TAG,
      .flags = SRD_CONNID,
      .connid = CONNID,
      .msg_id = 2,
      .total = 5,
      .send_id = 3,
      .read_count = 1,
      .reads = {PLACE},
      .offset = 0,
      .runt = 5,
      .tag = TAG,
      PAYLOAD},
     "92040c80020000000500000000000000030000000100000000000000000000000500000000000000"
     "1032547698badcfe0d0c0b0a00100000007f00000500000000000000990000000000000068656c6c"
     "6f"},
};

static size_t from_hex(const char *hex, uint8_t *bytes)
{
    size_t len = strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        bytes[i] = (uint8_t)byte;
    }
    return len;
}

static size_t put(const struct srd_header *header, uint8_t *bytes)
{
    uint8_t *payload = srd_header_put(header, bytes);

    assert_ptr_equal(payload, bytes + srd_header_size(header));
    if (header->len)
        memcpy(payload, header->payload, header->len);
    return srd_header_size(header) + header->len;
}

static void packets_are_as_the_protocol_has_them(void **state)
{
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        uint8_t want[ROOM], got[ROOM];
        size_t len = from_hex(golden[i].hex, want);

        memset(got, 0xee, sizeof(got));
        assert_int_equal(put(&golden[i].header, got), len);
        assert_memory_equal(got, want, len);
    }
}

static void same(const struct srd_header *a, const struct srd_header *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->flags & b->flags, b->flags);
    assert_int_equal(a->connid, b->connid);
    assert_int_equal(a->send_id, b->send_id);
    assert_int_equal(a->recv_id, b->recv_id);
    assert_int_equal(a->msg_id, b->msg_id);
    assert_int_equal(a->credits, b->credits);
    assert_int_equal(a->datatype, b->datatype);
    assert_int_equal(a->op, b->op);
    assert_int_equal(a->ref_kind, b->ref_kind);
    assert_int_equal(a->error, b->error);
    assert_true(a->tag == b->tag && a->total == b->total && a->offset == b->offset);
    assert_true(a->runt == b->runt && a->window == b->window && a->cq_data == b->cq_data);
    assert_true(a->features == b->features && a->host_id == b->host_id);
    assert_int_equal(a->device_version, b->device_version);
    assert_int_equal(a->place_count, b->place_count);
    assert_int_equal(a->read_count, b->read_count);
    assert_memory_equal(a->places, b->places, a->place_count * sizeof(a->places[0]));
    assert_memory_equal(a->reads, b->reads, a->read_count * sizeof(a->reads[0]));
    assert_int_equal(a->len, b->len);
    if (a->len)
        assert_memory_equal(a->payload, b->payload, a->len);
    if (b->raw_addr)
        assert_memory_equal(a->raw_addr, b->raw_addr, SRD_ADDR_SIZE);
}

static void packets_come_out_as_they_went_in(void **state)
{
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        uint8_t bytes[ROOM];
        size_t len = from_hex(golden[i].hex, bytes);
        struct srd_header got;

        assert_null(srd_header_get(bytes, len, &got));
        same(&got, &golden[i].header);
        for (size_t cut = 0; cut < srd_header_size(&golden[i].header); cut++)
            assert_non_null(srd_header_get(bytes, cut, &got));
    }
}

static const struct golden *golden_of(uint8_t type)
{
    size_t i = 0;

    while (golden[i].header.type != type)
        i++;
    return &golden[i];
}

/* The packet of that type with another number of `width` bytes at `at`. */
static const char *changed(uint8_t type, size_t at, size_t width, uint64_t value)
{
    static uint8_t bytes[ROOM];
    static struct srd_header got;
    size_t len = from_hex(golden_of(type)->hex, bytes);

    memcpy(bytes + at, &value, width);
    return srd_header_get(bytes, len, &got);
}

static void packets_that_cannot_be_are_refused(void **state)
{
    assert_non_null(changed(SRD_EAGER_TAG, 1, 1, 3));          /* version */
    assert_non_null(changed(SRD_EAGER_TAG, 0, 1, 1));          /* retired */
    assert_non_null(changed(SRD_EAGER_TAG, 0, 1, 131));        /* reserved */
    assert_non_null(changed(SRD_EAGER_TAG, 0, 1, 148));        /* unknown */
    assert_non_null(changed(SRD_EAGER_MSG, 8, 4, UINT32_MAX)); /* length of the address */
    assert_non_null(changed(SRD_CTS, 16, 8, 0));               /* grants nothing */
    assert_non_null(changed(SRD_CTSDATA, 8, 8, 0));            /* bytes of the piece */
    assert_non_null(changed(SRD_CTSDATA, 8, 8, 6));
    assert_non_null(changed(SRD_CTSDATA, 16, 8, UINT64_MAX)); /* its place */
    assert_non_null(changed(SRD_READRSP, 16, 8, 6));
    assert_non_null(changed(SRD_ATOMRSP, 16, 8, 6));
    assert_string_equal(changed(SRD_HANDSHAKE, 4, 4, 2), "a handshake with a wrong count of words");
    assert_non_null(changed(SRD_HANDSHAKE, 4, 4, 9));
    assert_non_null(changed(SRD_HANDSHAKE, 4, 4, UINT32_MAX));
    assert_non_null(changed(SRD_MEDIUM_MSG, 16, 8, 8996)); /* place of the piece */
    assert_non_null(changed(SRD_MEDIUM_MSG, 16, 8, UINT64_MAX));
    assert_non_null(changed(SRD_LONGCTS_MSG, 8, 8, 4)); /* shorter than its beginning */
    assert_non_null(changed(SRD_EAGER_RTW, 4, 4, 5));   /* places */
    assert_non_null(changed(SRD_EAGER_RTW, 4, 4, UINT32_MAX));
    assert_non_null(changed(SRD_EAGER_RTW, 4, 4, 0));    /* bytes without a place */
    assert_non_null(changed(SRD_EAGER_RTW, 16, 8, 6));   /* length of the place */
    assert_non_null(changed(SRD_LONGCTS_RTW, 8, 8, 14)); /* not the sum of its places */
    assert_non_null(changed(SRD_LONGCTS_RTW, 32, 8, UINT64_MAX));
    assert_non_null(changed(SRD_SHORT_RTR, 4, 4, 0));
    assert_non_null(changed(SRD_SHORT_RTR, 8, 8, 6));
    assert_non_null(changed(SRD_FETCH_RTA, 8, 4, 0));
    assert_non_null(changed(SRD_FETCH_RTA, 12, 4, 256));        /* datatype */
    assert_non_null(changed(SRD_FETCH_RTA, 16, 4, UINT32_MAX)); /* op */
    assert_non_null(changed(SRD_LONGREAD_MSG, 20, 4, 0));       /* places to read */
    assert_non_null(changed(SRD_LONGREAD_MSG, 20, 4, 5));
    assert_non_null(changed(SRD_LONGREAD_MSG, 8, 8, 6));
    assert_non_null(changed(SRD_LONGREAD_MSG, 20, 4, UINT32_MAX));
    assert_non_null(changed(SRD_LONGREAD_RTW, 4, 4, 0)); /* places */
    assert_non_null(changed(SRD_LONGREAD_RTW, 4, 4, 5));
    assert_non_null(changed(SRD_LONGREAD_RTW, 20, 4, 0));
    assert_non_null(changed(SRD_LONGREAD_RTW, 8, 8, 1 << 20)); /* not the sum of either */
    assert_non_null(changed(SRD_RUNTREAD_MSG, 24, 8, 3));      /* beyond the beginning */
    assert_non_null(changed(SRD_RUNTREAD_MSG, 32, 8, 14));     /* beyond the message */
}

/* Every other number is no type, whatever is behind it. */
static void types_that_there_are_not_are_refused(void **state)
{
    uint8_t bytes[ROOM] = {0, SRD_VERSION};
    bool known[256] = {false};
    struct srd_header got;

    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++)
        known[golden[i].header.type] = true;
    for (unsigned type = 0; type < 256; type++) {
        bytes[0] = (uint8_t)type;
        if (!known[type])
            assert_non_null(srd_header_get(bytes, sizeof(bytes), &got));
    }
}

/* More places than there may be are no places, even where the packet has their bytes. */
static void places_are_four_at_most(void **state)
{
    for (unsigned type = SRD_EAGER_MSG; type < 256; type++) {
        const struct srd_layout *at = &srd_layouts[type];
        const size_t counts[] = {at->places, at->reads};
        unsigned kinds = !!at->places + !!at->reads;

        for (int i = 0; i < 2; i++) {
            uint8_t bytes[ROOM] = {(uint8_t)type, SRD_VERSION};
            struct srd_header got;

            if (!counts[i])
                continue;
            put16(bytes + SRD_AT_FLAGS, at->flags);
            for (int j = 0; j < 2; j++) {
                if (counts[j])
                    put32(bytes + counts[j], i == j ? SRD_PLACES + 1 : 1);
            }
            assert_non_null(
                srd_header_get(bytes, at->size + (SRD_PLACES + kinds) * SRD_PLACE_SIZE, &got));
        }
    }
}

/* A long write whose request has all of it leaves nothing to be asked for. */
static void a_long_write_is_long(void **state)
{
    struct srd_header header = {
        .type = SRD_LONGCTS_RTW, .total = 5, .len = 5, .place_count = 1, .places = {{0, 5, 1}}};
    uint8_t bytes[ROOM] = {0};
    size_t size = srd_header_size(&header);
    struct srd_header got;

    srd_header_put(&header, bytes);
    assert_non_null(srd_header_get(bytes, size + 5, &got));
    assert_null(srd_header_get(bytes, size + 4, &got));
}

/* Lengths of places that are more than all memory together do not wrap around to the access's. */
static void lengths_do_not_wrap(void **state)
{
    struct srd_header header = {.type = SRD_LONGCTS_RTR,
                                .total = 5,
                                .window = 5,
                                .place_count = 2,
                                .places = {{0, UINT64_MAX, 1}, {0, 6, 1}}},
                      read = {.type = SRD_LONGREAD_MSG,
                              .total = 5,
                              .read_count = 2,
                              .reads = {{0, UINT64_MAX, 1}, {0, 6, 1}}};
    uint8_t bytes[ROOM] = {0};
    struct srd_header got;

    srd_header_put(&header, bytes);
    assert_non_null(srd_header_get(bytes, srd_header_size(&header), &got));
    srd_header_put(&read, bytes);
    assert_non_null(srd_header_get(bytes, srd_header_size(&read), &got));
}

/* A header of that type, without payload. */
static size_t bare(uint8_t type, uint16_t flags, uint8_t *bytes)
{
    struct srd_header header = golden_of(type)->header;

    header.flags = flags | SRD_CONNID;
    header.len = 0;
    srd_header_put(&header, bytes);
    return srd_header_size(&header);
}

/* A piece of nothing would never end its message. */
static void pieces_have_bytes(void **state)
{
    static const uint8_t types[] = {SRD_MEDIUM_MSG, SRD_MEDIUM_TAG, SRD_DC_MEDIUM_MSG,
                                    SRD_DC_MEDIUM_TAG};
    uint8_t bytes[ROOM] = {0};
    struct srd_header got;

    for (size_t i = 0; i < 2 * sizeof(types); i++) {
        size_t len = bare(types[i / 2], i % 2 ? SRD_CQ_DATA : 0, bytes);

        assert_non_null(srd_header_get(bytes, len, &got));
        assert_null(srd_header_get(bytes, len + 1, &got));
    }
}

/* Bytes that are to be read, here or there, are not in the packet. */
static void what_is_read_is_not_sent(void **state)
{
    static const uint8_t types[] = {SRD_LONGREAD_MSG, SRD_LONGREAD_TAG, SRD_LONGREAD_RTW,
                                    SRD_SHORT_RTR, SRD_LONGCTS_RTR};
    uint8_t bytes[ROOM] = {0};
    struct srd_header got;

    for (size_t i = 0; i < sizeof(types); i++) {
        size_t len = bare(types[i], 0, bytes);

        assert_null(srd_header_get(bytes, len, &got));
        assert_non_null(srd_header_get(bytes, len + 1, &got));
    }
}

/* Not even of nothing. */
static void what_is_read_lies_somewhere(void **state)
{
    static const uint8_t types[] = {SRD_LONGREAD_MSG, SRD_LONGREAD_RTW, SRD_RUNTREAD_TAG};
    uint8_t bytes[ROOM] = {0};
    struct srd_header got;

    for (size_t i = 0; i < sizeof(types); i++) {
        struct srd_header header = {
            .type = types[i], .place_count = srd_layouts[types[i]].places != 0, .read_count = 1};

        srd_header_put(&header, bytes);
        assert_null(srd_header_get(bytes, srd_header_size(&header), &got));
        header.read_count = 0;
        srd_header_put(&header, bytes);
        assert_non_null(srd_header_get(bytes, srd_header_size(&header), &got));
    }
}

/* A request for a HANDSHAKE is no write. */
static void a_question_has_no_bytes(void **state)
{
    struct srd_header header = {.type = SRD_EAGER_RTW};
    uint8_t bytes[ROOM] = {0};
    struct srd_header got;

    srd_header_put(&header, bytes);
    assert_null(srd_header_get(bytes, srd_header_size(&header), &got));
    assert_non_null(srd_header_get(bytes, srd_header_size(&header) + 1, &got));
}

/* Peers older than 2.0 have handshakes with more, and addresses of other lengths. */
static void what_other_releases_send_is_understood(void **state)
{
    uint8_t bytes[ROOM] = {0};
    size_t len = from_hex(golden_of(SRD_HANDSHAKE)->hex, bytes);
    struct srd_header got;

    memmove(bytes + 24, bytes + 16, len - 16); /* two words, and a queue pair at the end */
    memset(bytes + 16, 0xff, 8);
    bytes[4] = 5;
    bytes[2] |= SRD_USER_QP;
    assert_null(srd_header_get(bytes, len + 16, &got));
    assert_int_equal(got.connid, CONNID);
    assert_int_equal(got.device_version, 0xefa1);
    assert_int_equal(got.features, 0x5a);

    len = from_hex(golden_of(SRD_EAGER_MSG)->hex, bytes);
    memmove(bytes + 44, bytes + 48, len - 48); /* no padding behind the address */
    bytes[8] = 32;
    assert_null(srd_header_get(bytes, len - 4, &got));
    assert_memory_equal(got.raw_addr, raw_addr, SRD_ADDR_SIZE);
    assert_true(got.cq_data == CQ);
    assert_int_equal(got.len, 5);
}

static void types_say_what_they_are(void **state)
{
    assert_true(srd_is_dc(SRD_DC_EAGER_RTW) && srd_is_dc(SRD_DC_WRITE_RTA));
    assert_false(srd_is_dc(SRD_EAGER_RTW) || srd_is_dc(255));
    assert_true(srd_has_msg_id(SRD_FETCH_RTA) && srd_has_msg_id(SRD_RUNTREAD_TAG));
    assert_false(srd_has_msg_id(SRD_EAGER_RTW) || srd_has_msg_id(SRD_RECEIPT));
    assert_true(srd_is_tagged(SRD_DC_MEDIUM_TAG) && !srd_is_tagged(SRD_DC_MEDIUM_MSG));
    assert_true(srd_is_message(SRD_LONGREAD_MSG) && !srd_is_message(SRD_LONGREAD_RTW));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_are_as_the_protocol_has_them),
        cmocka_unit_test(packets_come_out_as_they_went_in),
        cmocka_unit_test(packets_that_cannot_be_are_refused),
        cmocka_unit_test(types_that_there_are_not_are_refused),
        cmocka_unit_test(places_are_four_at_most),
        cmocka_unit_test(a_long_write_is_long),
        cmocka_unit_test(lengths_do_not_wrap),
        cmocka_unit_test(pieces_have_bytes),
        cmocka_unit_test(what_is_read_is_not_sent),
        cmocka_unit_test(what_is_read_lies_somewhere),
        cmocka_unit_test(a_question_has_no_bytes),
        cmocka_unit_test(what_other_releases_send_is_understood),
        cmocka_unit_test(types_say_what_they_are),
    };

    return cmocka_run_group_tests_name("srd: wire", tests, NULL, NULL);
}

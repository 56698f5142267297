/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_wire, tcp_cm_wire: records byte for byte as captured from other implementations, both byte
 * orders, every cut, and every malformed header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_cm_wire.h"
#include "transports/tcp/tcp_wire.h"

static size_t from_hex(const char *text, uint8_t *bytes)
{
    size_t count = 0;

    for (; *text; text++) {
        if (*text == ' ')
            continue;
        char pair[3] = {text[0], text[1], 0};
        bytes[count++] = (uint8_t)strtoul(pair, NULL, 16);
        text++;
    }
    return count;
}

struct sample {
    const char *name;
    struct tcp_wire wire;
    const char *little; /* as x86 hosts send it to each other */
    const char *big;    /* as unlike hosts do */
};

static const struct sample samples[] = {
    {"send 13",
     {.op = TCP_OP_MSG, .payload = 13},
     "03 00 0000 00 00 10 00 1d00000000000000",
     "03 00 0000 00 00 10 00 000000000000001d"},
    {"send with data",
     {.op = TCP_OP_MSG, .flags = TCP_FLAG_CQ_DATA, .cq_data = 0x1234, .payload = 1, .id = 7},
     "03 00 0100 00 00 18 07 1900000000000000 3412000000000000",
     "03 00 0001 00 00 18 07 0000000000000019 0000000000001234"},
    {"tagged 8",
     {.op = TCP_OP_TAG, .payload = 8, .tag = 0x1122334455667788, .id = 0xfe},
     "03 01 0000 00 00 18 fe 2000000000000000 8877665544332211",
     "03 01 0000 00 00 18 fe 0000000000000020 1122334455667788"},
    {"tagged 5 with data",
     {.op = TCP_OP_TAG,
      .flags = TCP_FLAG_CQ_DATA,
      .payload = 5,
      .cq_data = 0x0102030405060708,
      .tag = 0x1122334455667788},
     "03 01 0100 00 00 20 00 2500000000000000 0807060504030201 8877665544332211",
     "03 01 0001 00 00 20 00 0000000000000025 0102030405060708 1122334455667788"},
    {"tagged 9, delivery complete",
     {.op = TCP_OP_TAG, .flags = TCP_FLAG_DELIVERY, .payload = 9, .tag = 0x99},
     "03 01 0400 00 00 18 00 2100000000000000 9900000000000000",
     "03 01 0004 00 00 18 00 0000000000000021 0000000000000099"},
    {"ack",
     {.op = TCP_OP_MSG, .op_data = TCP_WIRE_ACK},
     "03 00 0000 02 00 10 00 1000000000000000",
     "03 00 0000 02 00 10 00 0000000000000010"},
    {"write with data 20",
     {.op = TCP_OP_WRITE,
      .flags = TCP_FLAG_CQ_DATA,
      .payload = 20,
      .cq_data = 0xcafef00d,
      .iov_count = 1,
      .iov = {{0, 20, 0xabc}}},
     "03 04 0100 00 01 30 00 4400000000000000 0df0feca00000000 0000000000000000 1400000000000000 "
     "bc0a000000000000",
     "03 04 0001 00 01 30 00 0000000000000044 00000000cafef00d 0000000000000000 0000000000000014 "
     "0000000000000abc"},
    {"write 10, delivery complete",
     {.op = TCP_OP_WRITE,
      .flags = TCP_FLAG_DELIVERY,
      .payload = 10,
      .iov_count = 1,
      .iov = {{8, 10, 0xabc}}},
     "03 04 0400 00 01 28 00 3200000000000000 0800000000000000 0a00000000000000 bc0a000000000000",
     "03 04 0004 00 01 28 00 0000000000000032 0000000000000008 000000000000000a 0000000000000abc"},
    {"write of nothing, commit complete",
     {.op = TCP_OP_WRITE, .flags = TCP_FLAG_COMMIT},
     "03 04 0800 00 00 10 00 1000000000000000",
     "03 04 0008 00 00 10 00 0000000000000010"},
    {"read 18",
     {.op = TCP_OP_READ_REQ, .iov_count = 1, .iov = {{0, 18, 0xabc}}},
     "03 02 0000 00 01 28 00 2800000000000000 0000000000000000 1200000000000000 bc0a000000000000",
     "03 02 0000 00 01 28 00 0000000000000028 0000000000000000 0000000000000012 0000000000000abc"},
    {"read of four segments",
     {.op = TCP_OP_READ_REQ,
      .iov_count = 4,
      .iov = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}}},
     "03 02 0000 00 04 70 00 7000000000000000 "
     "0100000000000000 0200000000000000 0300000000000000 0400000000000000 0500000000000000 "
     "0600000000000000 0700000000000000 0800000000000000 0900000000000000 0a00000000000000 "
     "0b00000000000000 0c00000000000000",
     "03 02 0000 00 04 70 00 0000000000000070 "
     "0000000000000001 0000000000000002 0000000000000003 0000000000000004 0000000000000005 "
     "0000000000000006 0000000000000007 0000000000000008 0000000000000009 000000000000000a "
     "000000000000000b 000000000000000c"},
    {"read response, segment count echoed",
     {.op = TCP_OP_READ_RSP, .iov_count = 1, .payload = 18},
     "03 03 0000 00 01 10 00 2200000000000000",
     "03 03 0000 00 01 10 00 0000000000000022"},
    {"request to send 5000",
     {.op = TCP_OP_RTS,
      .op_data = 1,
      .flags = TCP_FLAG_CQ_DATA | TCP_FLAG_DELIVERY,
      .cq_data = 0x7a7b7c7d,
      .tag = 0x5151,
      .msg_size = 5000},
     "03 05 0500 01 00 28 00 2800000000000000 7d7c7b7a00000000 5151000000000000 8813000000000000",
     "03 05 0005 01 00 28 00 0000000000000028 000000007a7b7c7d 0000000000005151 0000000000001388"},
    {"clear to send",
     {.op = TCP_OP_CTS, .op_data = 1},
     "03 06 0000 01 00 10 00 1000000000000000",
     "03 06 0000 01 00 10 00 0000000000000010"},
    {"data keeps the flags of its request but not its word",
     {.op = TCP_OP_DATA,
      .op_data = 1,
      .flags = TCP_FLAG_CQ_DATA | TCP_FLAG_DELIVERY,
      .payload = 5000},
     "03 07 0500 01 00 10 00 9813000000000000",
     "03 07 0005 01 00 10 00 0000000000001398"},
    {"atomic of two elements of 8 bytes",
     {.op = TCP_OP_ATOMIC,
      .op_data = TCP_ATOMIC_FETCH,
      .payload = 16,
      .iov_count = 1,
      .atomic = {.datatype = 7, .operation = 2, .size = 8},
      .iov = {{0x40, 2, 0xabc}}},
     "03 09 0000 01 01 30 00 4000000000000000 07 02 08 00 00000000 "
     "4000000000000000 0200000000000000 bc0a000000000000",
     "03 09 0000 01 01 30 00 0000000000000040 07 02 08 00 00000000 "
     "0000000000000040 0000000000000002 0000000000000abc"},
    {"atomic read, no operand",
     {.op = TCP_OP_ATOMIC,
      .op_data = TCP_ATOMIC_FETCH,
      .iov_count = 1,
      .atomic = {.datatype = 12, .operation = 10, .size = 16, .precision = 64},
      .iov = {{0, 1, 1}}},
     "03 09 0000 01 01 30 00 3000000000000000 0c 0a 10 40 00000000 "
     "0000000000000000 0100000000000000 0100000000000000",
     "03 09 0000 01 01 30 00 0000000000000030 0c 0a 10 40 00000000 "
     "0000000000000000 0000000000000001 0000000000000001"},
    {"compare-and-swap of two segments",
     {.op = TCP_OP_ATOMIC,
      .op_data = TCP_ATOMIC_COMPARE,
      .payload = 24,
      .iov_count = 2,
      .atomic = {.datatype = 5, .operation = 12, .size = 4},
      .iov = {{1, 1, 2}, {3, 2, 4}}},
     "03 09 0000 02 02 48 00 6000000000000000 05 0c 04 00 00000000 "
     "0100000000000000 0100000000000000 0200000000000000 "
     "0300000000000000 0200000000000000 0400000000000000",
     "03 09 0000 02 02 48 00 0000000000000060 05 0c 04 00 00000000 "
     "0000000000000001 0000000000000001 0000000000000002 "
     "0000000000000003 0000000000000002 0000000000000004"},
    {"answer with a result",
     {.op = TCP_OP_ATOMIC_RSP, .payload = 16},
     "03 0a 0000 00 00 18 00 2800000000000000 0000000000000000",
     "03 0a 0000 00 00 18 00 0000000000000028 0000000000000000"},
    {"answer with an error",
     {.op = TCP_OP_ATOMIC_RSP, .status = 13},
     "03 0a 0000 00 00 18 00 1800000000000000 0d00000000000000",
     "03 0a 0000 00 00 18 00 0000000000000018 000000000000000d"},
};
#define SAMPLE_COUNT (sizeof(samples) / sizeof(samples[0]))

static bool host_is_little(void)
{
    const uint16_t one = 1;
    uint8_t first;

    memcpy(&first, &one, 1);
    return first;
}

static void check_sample(const struct sample *sample, bool network)
{
    uint8_t want[TCP_WIRE_MAX], got[TCP_WIRE_MAX];
    bool big = network || !host_is_little();
    size_t length = from_hex(big ? sample->big : sample->little, want);
    const char *why = NULL;
    struct tcp_wire wire;

    print_message("%s%s\n", sample->name, network ? ", unlike hosts" : "");
    assert_int_equal(tcp_wire_encode(&sample->wire, network, got), length);
    assert_memory_equal(got, want, length);

    for (size_t have = 0; have < length; have++) {
        memset(&wire, 0, sizeof(wire));
        assert_int_equal(tcp_wire_decode(want, have, network, &wire, &why), 0);
    }
    memset(&wire, 0, sizeof(wire));
    assert_int_equal(tcp_wire_decode(want, length, network, &wire, &why), length);
    assert_int_equal(wire.payload, sample->wire.payload);
    assert_int_equal(wire.flags, sample->wire.flags);
    assert_int_equal(wire.op_data, sample->wire.op_data);
    assert_int_equal(wire.id, sample->wire.id);
    assert_int_equal(wire.cq_data, sample->wire.cq_data);
    assert_int_equal(wire.tag, sample->wire.tag);
    assert_int_equal(wire.msg_size, sample->wire.msg_size);
    assert_int_equal(wire.status, sample->wire.status);
    assert_memory_equal(&wire.atomic, &sample->wire.atomic, sizeof(wire.atomic));
    assert_memory_equal(wire.iov, sample->wire.iov, sizeof(wire.iov));
}

static void records_match_the_captures(void **state)
{
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        check_sample(&samples[i], false);
        check_sample(&samples[i], true);
    }
}

/* The short way takes the messages that carry nothing but a payload, and says of them what the long
 * one does. */
static void plain_messages_have_a_short_way(void **state)
{
    unsigned taken = 0;

    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        const struct tcp_wire *want = &samples[i].wire;
        bool plain = want->op <= TCP_OP_TAG && !want->flags && !want->op_data;
        uint8_t bytes[TCP_WIRE_MAX];
        struct tcp_wire wire;
        size_t length = tcp_wire_encode(want, false, bytes);

        if (plain) {
            uint8_t again[TCP_WIRE_MAX];

            assert_int_equal(tcp_wire_encode_plain(again, want->op == TCP_OP_TAG, want->id,
                                                   want->tag, want->payload),
                             length);
            assert_memory_equal(again, bytes, length);
        }
        assert_int_equal(tcp_wire_decode_plain(bytes, length, &wire), plain ? length : 0);
        for (size_t have = 0; have < length; have++)
            assert_int_equal(tcp_wire_decode_plain(bytes, have, &wire), 0);
        if (!plain)
            continue;
        taken++;
        assert_int_equal(wire.op, want->op);
        assert_int_equal(wire.op_data, 0);
        assert_int_equal(wire.flags, 0);
        assert_int_equal(wire.payload, want->payload);
        assert_int_equal(wire.tag, want->tag);
        assert_int_equal(wire.cq_data, 0);
    }
    assert_in_range(taken, 2, SAMPLE_COUNT);
}

/* The decoder must not read fields without a defined value: leftovers of real peers. */
static void leftovers_are_ignored(void **state)
{
    static const char *const records[] = {
        "09 00 0000 00 01 10 55 1100000000000000", /* another version, a count in a plain msg */
        "03 00 0100 02 ff 10 00 1000000000000000", /* ack with flags */
        "03 00 0000 07 00 10 00 1100000000000000", /* op_data of no meaning */
    };
    uint8_t bytes[TCP_WIRE_MAX];
    struct tcp_wire wire;
    const char *why;

    if (!host_is_little())
        skip();
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        size_t length = from_hex(records[i], bytes);
        assert_int_equal(tcp_wire_decode(bytes, length, false, &wire, &why), 16);
    }
}

struct broken {
    const char *why;
    const char *bytes;
};

static const struct broken broken[] = {
    {"unknown operation", "03 08 0000 00 00 10 00 1000000000000000"},
    {"unknown operation", "03 0b 0000 00 00 10 00 1000000000000000"},
    {"unknown kind of atomic", "03 09 0000 03 01 30 00 3800000000000000 07 02 08 00 00000000 "
                               "0000000000000000 0100000000000000 0000000000000000"},
    {"reserved bytes of an atomic", "03 09 0000 00 01 30 00 3800000000000000 07 02 08 00 00010000 "
                                    "0000000000000000 0100000000000000 0000000000000000"},
    {"no possible size", "03 09 0000 00 01 30 00 3000000000000000 07 02 00 00 00000000 "
                         "0000000000000000 0100000000000000 0000000000000000"},
    {"no possible size", "03 09 0000 00 01 30 00 5100000000000000 07 02 21 00 00000000 "
                         "0000000000000000 0100000000000000 0000000000000000"},
    {"too many", "03 09 0000 00 01 30 00 3000000000000000 07 02 08 00 00000000 "
                 "0000000000000000 0000000000000020 0000000000000000"},
    {"too many", "03 09 0000 00 01 30 00 3810000000000000 07 02 08 00 00000000 "
                 "0000000000000000 0102000000000000 0000000000000000"},
    {"on no element", "03 09 0000 00 01 30 00 3000000000000000 07 02 08 00 00000000 "
                      "0000000000000000 0000000000000000 0000000000000000"},
    {"on no element", "03 09 0000 00 00 18 00 1800000000000000 07 02 08 00 00000000"},
    {"more than 4 remote segments", "03 09 0000 00 05 90 00 9000000000000000"},
    {"do not fit its elements", "03 09 0000 00 01 30 00 3700000000000000 07 02 08 00 00000000 "
                                "0000000000000000 0100000000000000 0000000000000000"},
    {"do not fit its elements", "03 09 0000 00 01 30 00 3000000000000000 07 02 08 00 00000000 "
                                "0000000000000000 0100000000000000 0000000000000000"},
    {"do not fit its elements", "03 09 0000 02 01 30 00 3800000000000000 07 0c 08 00 00000000 "
                                "0000000000000000 0100000000000000 0000000000000000"},
    {"status of an atomic", "03 0a 0000 00 00 18 00 1800000000000000 0010000000000000"},
    {"status of an atomic", "03 0a 0000 00 00 18 00 1900000000000000 0d00000000000000"},
    {"result of an atomic", "03 0a 0000 00 00 18 00 1910000000000000 0000000000000000"},
    {"unknown operation", "03 ff 0000 00 00 10 00 1000000000000000"},
    {"header length does not fit", "03 00 0000 00 00 00 00 1000000000000000"},
    {"header length does not fit", "03 00 0000 00 00 0f 00 1000000000000000"},
    {"header length does not fit", "03 00 0000 00 00 79 00 ff00000000000000"},
    {"header length does not fit", "03 00 0000 00 00 ff 00 ff00000000000000"},
    {"header length does not fit", "03 00 0100 00 00 10 00 1000000000000000"},
    {"header length does not fit", "03 01 0000 00 00 10 00 1000000000000000"},
    {"header length does not fit", "03 07 0100 01 00 18 00 1800000000000000"},
    {"header length does not fit", "03 02 0000 00 02 28 00 2800000000000000"},
    {"more than 4 remote segments", "03 02 0000 00 05 88 00 8800000000000000"},
    {"more than 4 remote segments", "03 04 0000 00 ff 10 00 1000000000000000"},
    {"shorter than its header", "03 00 0000 00 00 10 00 0f00000000000000"},
    {"shorter than its header", "03 00 0000 00 00 10 00 0000000000000000"},
    {"payload behind", "03 00 0000 02 00 10 00 1100000000000000"},
    {"payload behind", "03 02 0000 00 00 10 00 1100000000000000"},
    {"payload behind", "03 06 0000 01 00 10 00 1100000000000000"},
    {"payload behind", "03 05 0000 01 00 20 00 2100000000000000 0000000000000000 0000000000000000"},
    {"without a context", "03 05 0000 00 00 20 00 2000000000000000"},
    {"without a context", "03 06 0000 00 00 10 00 1000000000000000"},
    {"without a context", "03 07 0000 00 00 10 00 1000000000000000"},
    {"payload of a write differs", "03 04 0000 00 01 28 00 2900000000000000 0000000000000000 "
                                   "0200000000000000 0000000000000000"},
    {"payload of a write differs", "03 04 0000 00 00 10 00 1100000000000000"},
    {"segments overflows", "03 02 0000 00 01 28 00 2800000000000000 0000000000000000 "
                           "ffffffffffffffff 0000000000000000"},
    {"segments overflows",
     "03 02 0000 00 02 40 00 4000000000000000 0000000000000000 ffffffffffffff7f "
     "0000000000000000 0000000000000000 ffffffffffffff7f 0000000000000000"},
};

static void malformed_records_are_refused(void **state)
{
    uint8_t bytes[TCP_WIRE_MAX];
    struct tcp_wire wire;

    if (!host_is_little())
        skip();
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        const char *why = "";
        size_t length = from_hex(broken[i].bytes, bytes);

        assert_int_equal(tcp_wire_decode(bytes, length, false, &wire, &why), -FI_EPROTO);
        assert_int_equal(tcp_wire_decode_plain(bytes, length, &wire), 0);
        print_message("%s: %s\n", broken[i].bytes, why);
        assert_non_null(strstr(why, broken[i].why));
    }
}

static void cm_messages_match_the_captures(void **state)
{
    uint8_t want[TCP_CM_MAX], got[TCP_CM_MAX];
    const uint8_t request[] = {0x01, 0x00, 0x4f, 0xd0, 0x00, 0x00, 0x09, 0xae};
    const uint8_t accept[] = {0x81, 0x00, 0x4f, 0xd0, 0x00, 0x00, 0x09, 0xad};
    const uint8_t reject[] = {0x01, 0x01};

    if (!host_is_little())
        skip();
    size_t length = from_hex("03 00 0008 00000000 0000000000000000 0000000000000000 "
                             "0100000000000000 01 00 4fd0 000009ae",
                             want);
    assert_int_equal(tcp_cm_encode(TCP_CM_REQUEST, request, 8, got), length);
    assert_memory_equal(got, want, length);
    length = from_hex("03 01 0008 00000000 0000000000000000 0000000000000000 0100000000000000 "
                      "81 00 4fd0 000009ad",
                      want);
    assert_int_equal(tcp_cm_encode(TCP_CM_ACCEPT, accept, 8, got), length);
    assert_memory_equal(got, want, length);
    length = from_hex("03 06 0002 00000000 0000000000000000 0000000000000000 0000000000000000 "
                      "01 01",
                      want);
    assert_int_equal(tcp_cm_encode(TCP_CM_REJECT, reject, 2, got), length);
    assert_memory_equal(got, want, length);
    length =
        from_hex("03 00 0000 00000000 0000000000000000 0000000000000000 0100000000000000", want);
    assert_int_equal(tcp_cm_encode(TCP_CM_REQUEST, NULL, 0, got), length);
    assert_memory_equal(got, want, length);
}

static void cm_messages_arrive_in_pieces(void **state)
{
    uint8_t bytes[TCP_CM_MAX];
    struct tcp_cm_message message;
    const char *why;

    tcp_cm_encode(TCP_CM_ACCEPT, "12345678", 8, bytes);
    for (size_t have = 0; have < TCP_CM_HEADER; have++)
        assert_int_equal(tcp_cm_decode(bytes, have, &message, &why), TCP_CM_HEADER);
    for (size_t have = TCP_CM_HEADER; have <= TCP_CM_HEADER + 8; have++)
        assert_int_equal(tcp_cm_decode(bytes, have, &message, &why), TCP_CM_HEADER + 8);
    assert_int_equal(message.type, TCP_CM_ACCEPT);
    assert_int_equal(message.data_len, 8);
    assert_false(message.network);

    /* conn_data of a host of the other order */
    uint8_t swapped = bytes[24];
    bytes[24] = bytes[31];
    bytes[31] = swapped;
    assert_int_equal(tcp_cm_decode(bytes, 40, &message, &why), 40);
    assert_true(message.network);
}

static void cm_strangers_are_refused(void **state)
{
    uint8_t bytes[TCP_CM_MAX];
    struct tcp_cm_message message;
    const char *why;

    assert_int_equal(tcp_cm_decode((const uint8_t *)"GET / HTTP/1.1", 3, &message, &why),
                     -FI_EPROTO);
    for (unsigned version = 0; version < 256; version++) {
        tcp_cm_encode(TCP_CM_REQUEST, NULL, 0, bytes);
        bytes[0] = (uint8_t)version;
        assert_int_equal(tcp_cm_decode(bytes, 32, &message, &why) == 32, version == 3);
        assert_int_equal(tcp_cm_decode(bytes, 1, &message, &why) == 32, version == 3);
    }
    for (unsigned type = 0; type < 256; type++) {
        tcp_cm_encode(TCP_CM_REQUEST, NULL, 0, bytes);
        bytes[1] = (uint8_t)type;
        assert_int_equal(tcp_cm_decode(bytes, 32, &message, &why) == 32,
                         type == 0 || type == 1 || type == 6);
    }
    tcp_cm_encode(TCP_CM_REQUEST, NULL, 0, bytes);
    bytes[2] = 1;
    assert_int_equal(tcp_cm_decode(bytes, 32, &message, &why), 288);
    bytes[3] = 1;
    assert_int_equal(tcp_cm_decode(bytes, 32, &message, &why), -FI_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_match_the_captures),
        cmocka_unit_test(plain_messages_have_a_short_way),
        cmocka_unit_test(leftovers_are_ignored),
        cmocka_unit_test(malformed_records_are_refused),
        cmocka_unit_test(cm_messages_match_the_captures),
        cmocka_unit_test(cm_messages_arrive_in_pieces),
        cmocka_unit_test(cm_strangers_are_refused),
    };
    return cmocka_run_group_tests_name("tcp wire", tests, NULL, NULL);
}

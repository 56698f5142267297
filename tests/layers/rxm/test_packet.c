/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of FI_PROTO_RXM, as they were captured, and what is refused of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "layers/rxm/conn/rxm_proto.h"
#include "layers/rxm/msgproto/rxm_credit.h"
#include "layers/rxm/msgproto/rxm_packet.h"

enum {
    LIMIT = 16384
};

static uint8_t raw[RXM_PACKET_SIZE + LIMIT + 8];

static const char *get(const struct rxm_packet *packet, size_t payload)
{
    struct rxm_packet got;

    rxm_packet_put(packet, raw);
    return rxm_packet_get(raw, RXM_PACKET_SIZE + payload, LIMIT, &got);
}

/* ---- The exchange ---- */

static const struct rxm_self self = {
    .port = 20218,
    .pid = 25988,
    .id = 0,
    .eager_limit = LIMIT,
    .rx_size = 4096,
    .flow = RXM_FLOW_OFF,
};

static const uint8_t asked[] = {0x01, 0x02, 0x04, 0x03, 0xfa, 0x4e, 0x02, 0x00, 0x00, 0x40, 0, 0,
                                0x00, 0x10, 0x00, 0x00, 0,    0,    0,    0,    0x84, 0x65, 0, 0};
static const uint8_t answered[] = {0, 0, 0, 0, 0x85, 0x65, 0, 0, 0, 0x10, 0, 0, 2, 0, 0, 0};

static void exchange_is_the_captured_one(void **state)
{
    struct rxm_self other = self;
    struct rxm_hello hello;
    uint8_t data[RXM_PROTO_MAX];

    assert_int_equal(rxm_proto_rxm.request(&self, data), sizeof(asked));
    assert_memory_equal(data, asked, sizeof(asked));
    assert_null(rxm_proto_rxm.take_request(&self, asked, sizeof(asked), &hello));
    assert_int_equal(hello.port, 20218);
    assert_int_equal(hello.pid, 25988);
    assert_int_equal(hello.id, 0);
    assert_int_equal(hello.flow, RXM_FLOW_OFF);
    other.pid = 0x6585;
    assert_int_equal(rxm_proto_rxm.answer(&other, asked, sizeof(asked), &hello, data),
                     sizeof(answered));
    assert_memory_equal(data, answered, sizeof(answered));
    assert_null(rxm_proto_rxm.take_answer(&self, answered, sizeof(answered), &hello));
    assert_int_equal(hello.pid, 0x6585);
}

static void contexts_are_named_behind_the_exchange(void **state)
{
    struct rxm_self context = self;
    struct rxm_hello hello;
    uint8_t request[RXM_PROTO_MAX], answer[RXM_PROTO_MAX];
    size_t len;

    context.source = 64;
    context.target = 63;
    len = rxm_proto_rxm.request(&context, request);
    assert_int_equal(len, RXM_CM_CONTEXTS_SIZE);
    assert_memory_equal(request, asked, sizeof(asked));
    assert_null(rxm_proto_rxm.take_request(&self, request, len, &hello));
    assert_int_equal(hello.source, 64);
    assert_int_equal(hello.target, 63);
    assert_int_equal(rxm_proto_rxm.answer(&self, request, len, &hello, answer), RXM_CM_ANSWER_SIZE);
    assert_null(rxm_proto_rxm.take_answer(&context, answer, RXM_CM_ANSWER_SIZE, &hello));
    /* One that reads 24 bytes, as libfabric's does, would take messages for its only context. */
    assert_non_null(rxm_proto_rxm.take_answer(&context, answered, sizeof(answered), &hello));
    request[24]++;
    assert_non_null(rxm_proto_rxm.take_request(&self, request, len, &hello));
}

static void unfit_requests_are_refused_with_a_reason(void **state)
{
    static const struct {
        size_t at;
        uint8_t byte;
    } wrong[] = {{0, 2}, {1, 1}, {2, 3}, {3, 2}, {7, 1}, {9, 0x20}};
    struct rxm_hello hello;
    uint8_t data[RXM_PROTO_MAX];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        memcpy(data, asked, sizeof(asked));
        data[wrong[i].at] = wrong[i].byte;
        assert_non_null(rxm_proto_rxm.take_request(&self, data, sizeof(asked), &hello));
    }
    for (size_t len = 0; len <= sizeof(asked); len++)
        assert_true(!rxm_proto_rxm.take_request(&self, asked, len, &hello) ==
                    (len == sizeof(asked)));
    memset(data, 0, sizeof(data));
    assert_int_equal(rxm_proto_rxm.refusal(false, asked, sizeof(asked), data), 2);
    assert_memory_equal(data, "\1\1", 2);
    assert_int_equal(rxm_proto_rxm.refusal(true, asked, sizeof(asked), data), 2);
    assert_memory_equal(data, "\1\2", 2);
    assert_null(rxm_proto_rxm.take_refusal("\1\2", 2));
    assert_non_null(rxm_proto_rxm.take_refusal("\1\1", 2));
    assert_non_null(rxm_proto_rxm.take_refusal("\2\2", 2));
    assert_non_null(rxm_proto_rxm.take_refusal("\1", 1));
}

static void protocols_refuse_each_other(void **state)
{
    struct rxm_hello hello;
    uint8_t data[RXM_PROTO_MAX];
    size_t len = rxm_proto_xnet.request(&self, data);

    assert_non_null(rxm_proto_rxm.take_request(&self, data, len, &hello));
    assert_non_null(rxm_proto_rxm.take_answer(&self, data, len, &hello));
    assert_non_null(rxm_proto_xnet.take_request(&self, asked, sizeof(asked), &hello));
    assert_non_null(rxm_proto_xnet.take_answer(&self, answered, sizeof(answered), &hello));
    len = rxm_proto_rxm.refusal(false, asked, sizeof(asked), data);
    assert_non_null(rxm_proto_xnet.take_refusal(data, len));
    len = rxm_proto_xnet.refusal(false, asked, sizeof(asked), data);
    assert_non_null(rxm_proto_rxm.take_refusal(data, len));
}

/* ---- Packets ---- */

static void headers_are_the_captured_ones(void **state)
{
    static const uint8_t eager[RXM_PACKET_SIZE] = {
        [0] = 4, [32] = 2, [34] = 1, [38] = 2, [40] = 5, [48] = 0x08, 0x07,
        0x06,    0x05,     0x04,     0x03,     0x02,     0x01,        [56] = 0x88,
        0x77,    0x66,     0x55,     0x44,     0x33,     0x22,        0x11};
    static const uint8_t segment[] = {4, 1, 0x1c, 0x40, 2};
    static const uint8_t places[RXM_PLACES_SIZE] = {[8] = 0x40, 0x0d, 0x03, [19] = 0x80, [96] = 1};
    struct rxm_place place = {.len = 200000, .key = 0x80000000}, got[RXM_PLACES];
    struct rxm_packet packet = {.type = RXM_EAGER,
                                .op = RXM_OP_TAGGED,
                                .has_data = true,
                                .size = 5,
                                .data = 0x0102030405060708,
                                .tag = 0x1122334455667788},
                      back;

    rxm_packet_put(&packet, raw);
    assert_memory_equal(raw, eager, sizeof(eager));
    assert_null(rxm_packet_get(raw, RXM_PACKET_SIZE + 5, LIMIT, &back));
    assert_true(back.has_data);
    assert_int_equal(back.tag, packet.tag);
    assert_int_equal(back.data, packet.data);
    packet = (struct rxm_packet){.type = RXM_SEGMENT,
                                 .op = RXM_OP_TAGGED,
                                 .segment = RXM_SEGMENT_LAST,
                                 .seg_size = 0x401c,
                                 .seg_no = 2,
                                 .size = 40000};
    rxm_packet_put(&packet, raw);
    assert_memory_equal(raw, segment, sizeof(segment));
    assert_int_equal(raw[24], 3);
    rxm_places_put(&place, 1, raw);
    assert_memory_equal(raw, places, sizeof(places));
    assert_int_equal(rxm_places_get(places, got), 1);
    assert_int_equal(got[0].len, 200000);
    assert_int_equal(got[0].key, 0x80000000);
    rxm_result_put(-FI_EACCES, 0, raw);
    assert_memory_equal(raw, "\xff\xff\xff\xf3\0\0\0\0", 8);
}

/* The short way writes the same bytes as the general one. */
static void plain_messages_are_like_others(void **state)
{
    uint8_t general[RXM_PACKET_SIZE], quick[RXM_PACKET_SIZE];

    for (int i = 0; i < 2; i++) {
        struct rxm_packet packet = {.type = RXM_EAGER,
                                    .op = i ? RXM_OP_TAGGED : RXM_OP_MSG,
                                    .conn_id = UINT64_C(0x123456789),
                                    .size = 8,
                                    .tag = i ? UINT64_C(0xfedcba9876543210) : 0};
        uint64_t tag = 1;
        bool tagged;

        memset(quick, 0xee, sizeof(quick));
        rxm_packet_put(&packet, general);
        rxm_packet_put_plain(quick, packet.conn_id, packet.size, i, packet.tag);
        assert_memory_equal(general, quick, sizeof(general));
        assert_true(rxm_packet_is_plain(general, 72, 64, packet.conn_id, &tagged, &tag));
        assert_int_equal(tagged, i);
        assert_int_equal(tag, packet.tag);
        assert_false(rxm_packet_is_plain(general, 72, 7, packet.conn_id, &tagged, &tag));
        assert_false(rxm_packet_is_plain(general, 71, 64, packet.conn_id, &tagged, &tag));
        assert_false(rxm_packet_is_plain(general, 63, 64, packet.conn_id, &tagged, &tag));
        assert_false(rxm_packet_is_plain(general, 72, 64, packet.conn_id + 1, &tagged, &tag));
        packet.has_data = true;
        rxm_packet_put(&packet, general);
        assert_false(rxm_packet_is_plain(general, 72, 64, packet.conn_id, &tagged, &tag));
        quick[34] = RXM_OP_ATOMIC_WRITE;
        assert_false(rxm_packet_is_plain(quick, 72, 64, packet.conn_id, &tagged, &tag));
        quick[1] = RXM_SEGMENT;
        assert_false(rxm_packet_is_plain(quick, 72, 64, packet.conn_id, &tagged, &tag));
    }
}

static void lengths_must_fit_the_type(void **state)
{
    struct rxm_packet packet = {.type = RXM_EAGER, .size = 10};

    assert_null(get(&packet, 10));
    assert_non_null(get(&packet, 9));
    assert_non_null(get(&packet, 11));
    packet.op = 2;
    assert_non_null(get(&packet, 10));
    packet = (struct rxm_packet){.type = RXM_EAGER, .size = LIMIT + 1};
    assert_non_null(get(&packet, LIMIT + 1));
    assert_non_null(rxm_packet_get(raw, RXM_PACKET_SIZE - 1, LIMIT, &packet));
    packet = (struct rxm_packet){.type = RXM_RNDV_REQUEST, .size = 1};
    assert_null(get(&packet, RXM_PLACES_SIZE));
    assert_non_null(get(&packet, RXM_PLACES_SIZE - 1));
    packet.type = RXM_RNDV_PLACE;
    assert_non_null(get(&packet, RXM_PLACES_SIZE - 1));
    packet = (struct rxm_packet){.type = RXM_CREDIT};
    assert_non_null(get(&packet, 0));
    packet.credits = 64;
    assert_null(get(&packet, 0));
    packet.type = RXM_PACKET_TYPES;
    assert_non_null(get(&packet, 0));
}

static void segments_have_a_kind_that_fits(void **state)
{
    struct rxm_packet packet = {
        .type = RXM_SEGMENT, .segment = RXM_SEGMENT_FIRST, .seg_size = 100, .size = 150};

    assert_null(get(&packet, 100));
    assert_non_null(get(&packet, 99));
    packet.seg_no = 1;
    assert_non_null(get(&packet, 100));
    packet.segment = RXM_SEGMENT_MIDDLE;
    assert_null(get(&packet, 100));
    packet.size = 100;
    assert_non_null(get(&packet, 100));
    packet.segment = RXM_SEGMENT_LAST;
    assert_null(get(&packet, 100));
    packet.segment = 0;
    assert_non_null(get(&packet, 100));
    packet = (struct rxm_packet){
        .type = RXM_SEGMENT, .segment = RXM_SEGMENT_FIRST, .seg_size = 0, .size = 150};
    assert_non_null(get(&packet, 0));
}

static void places_are_counted_and_summed(void **state)
{
    struct rxm_place places[RXM_PLACES] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}};
    struct rxm_place got[RXM_PLACES];

    for (unsigned count = 1; count <= RXM_PLACES; count++) {
        rxm_places_put(places, count, raw);
        assert_int_equal(rxm_places_get(raw, got), count);
    }
    assert_int_equal(rxm_places_len(got, RXM_PLACES), 22);
    raw[96] = 0;
    assert_int_equal(rxm_places_get(raw, got), 0);
    raw[96] = 5;
    assert_int_equal(rxm_places_get(raw, got), 0);
    places[1].len = UINT64_MAX;
    rxm_places_put(places, 2, raw);
    assert_int_equal(rxm_places_get(raw, got), 0);
}

static void atomics_need_their_parts(void **state)
{
    struct rxm_packet packet = {
        .type = RXM_ATOMIC, .op = RXM_OP_ATOMIC_FETCH, .size = RXM_TARGETS_SIZE + 8, .targets = 1};

    assert_null(get(&packet, RXM_TARGETS_SIZE + 8));
    assert_non_null(get(&packet, RXM_TARGETS_SIZE));
    packet.targets = 5;
    assert_non_null(get(&packet, RXM_TARGETS_SIZE + 8));
    packet.targets = 0;
    assert_non_null(get(&packet, RXM_TARGETS_SIZE + 8));
    packet = (struct rxm_packet){.type = RXM_ATOMIC_DONE, .op = RXM_OP_ATOMIC_FETCH, .size = 7};
    assert_non_null(get(&packet, 7));
    packet.op = RXM_OP_MSG;
    packet.size = 8;
    assert_non_null(get(&packet, 8));
}

/* ---- Credits ---- */

/* A peer that does not count may have sent for each receive that is not posted yet. */
static void used_receives_wait_for_each_other_where_both_count(void **state)
{
    struct rxm_credit credit;

    rxm_credit_init(&credit, 8);
    assert_int_equal(credit.batch, 1);
    rxm_credit_agree(&credit, RXM_FLOW_ON, RXM_FLOW_OFF);
    assert_int_equal(credit.batch, 1);
    rxm_credit_agree(&credit, RXM_FLOW_ON, RXM_FLOW_ON);
    assert_int_equal(credit.batch, 4);
    rxm_credit_resize(&credit, 128);
    assert_int_equal(credit.batch, RXM_BATCH);
    assert_true(credit.batch <= credit.quantum);
    rxm_credit_resize(&credit, 1);
    assert_int_equal(credit.batch, 1);
}

static void nobody_counts_unless_both_do(void **state)
{
    struct rxm_credit credit;

    rxm_credit_init(&credit, 128);
    rxm_credit_agree(&credit, RXM_FLOW_OFF, RXM_FLOW_ON);
    assert_false(credit.on);
    rxm_credit_agree(&credit, RXM_FLOW_ON, RXM_FLOW_OFF);
    assert_false(credit.on);
    for (int i = 0; i < 1000; i++)
        assert_true(rxm_credit_take(&credit, false));
    rxm_credit_agree(&credit, RXM_FLOW_ON, RXM_FLOW_UNSAID);
    assert_true(credit.on);
}

static void first_grant_is_one_less_than_posted_and_the_last_credit_is_kept(void **state)
{
    struct rxm_credit credit;

    rxm_credit_init(&credit, 128);
    rxm_credit_agree(&credit, RXM_FLOW_ON, RXM_FLOW_ON);
    for (int i = 0; i < 128; i++)
        rxm_credit_posted(&credit, 1);
    assert_int_equal(rxm_credit_due(&credit), 127);
    rxm_credit_gave(&credit, 127);
    for (int i = 0; i < 63; i++)
        rxm_credit_posted(&credit, 1);
    assert_int_equal(rxm_credit_due(&credit), 0);
    rxm_credit_posted(&credit, 1);
    assert_int_equal(rxm_credit_due(&credit), 64);
    assert_false(rxm_credit_take(&credit, false)); /* the one of the start is for a grant */
    assert_true(rxm_credit_take(&credit, true));
    assert_false(rxm_credit_take(&credit, true));
    assert_true(rxm_credit_granted(&credit, 3));
    assert_true(rxm_credit_take(&credit, false));
    rxm_credit_untake(&credit);
    assert_true(rxm_credit_take(&credit, false));
    assert_true(rxm_credit_take(&credit, false));
    assert_false(rxm_credit_take(&credit, false));
    assert_false(rxm_credit_granted(&credit, UINT64_MAX));
    assert_false(rxm_credit_granted(&credit, 1u << 25));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchange_is_the_captured_one),
        cmocka_unit_test(contexts_are_named_behind_the_exchange),
        cmocka_unit_test(unfit_requests_are_refused_with_a_reason),
        cmocka_unit_test(protocols_refuse_each_other),
        cmocka_unit_test(headers_are_the_captured_ones),
        cmocka_unit_test(plain_messages_are_like_others),
        cmocka_unit_test(lengths_must_fit_the_type),
        cmocka_unit_test(segments_have_a_kind_that_fits),
        cmocka_unit_test(places_are_counted_and_summed),
        cmocka_unit_test(atomics_need_their_parts),
        cmocka_unit_test(used_receives_wait_for_each_other_where_both_count),
        cmocka_unit_test(nobody_counts_unless_both_do),
        cmocka_unit_test(first_grant_is_one_less_than_posted_and_the_last_credit_is_kept),
    };

    return cmocka_run_group_tests_name("packet", tests, NULL, NULL);
}

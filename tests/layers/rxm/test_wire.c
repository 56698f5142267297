/* SPDX-License-Identifier: BSD-2-Clause */
/* The private data of FI_PROTO_XNET, with and without our trailer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "layers/rxm/conn/rxm_proto.h"
#include "layers/rxm/conn/rxm_wire.h"

static const uint8_t plain[RXM_WIRE_BASE] = {1, 0, 0x13, 0x88, 0, 0, 9, 0xae};

static const struct rxm_self self = {
    .port = 5000,
    .pid = 0x9ae,
    .extensions = RXM_WIRE_ATOMICS | RXM_WIRE_CONTEXTS,
    .source = 3,
    .target = 2,
};

static void request_has_both(void **state)
{
    uint8_t data[RXM_PROTO_MAX];
    static const uint8_t trailer[] = {'W', 'E', 'F', 'T', 1, 12, 0, 3, 3, 2, 0, 0};

    assert_int_equal(rxm_proto_xnet.request(&self, data), 20);
    assert_memory_equal(data, plain, 8);
    assert_memory_equal(data + 8, trailer, 12);
}

static void answer_is_as_long_as_was_asked(void **state)
{
    const struct rxm_self other = {.pid = 7, .extensions = RXM_WIRE_CONTEXTS};
    uint8_t asked[RXM_PROTO_MAX], data[RXM_PROTO_MAX];
    struct rxm_hello hello;
    size_t len = rxm_proto_xnet.request(&self, asked);

    assert_null(rxm_proto_xnet.take_request(&other, asked, len, &hello));
    assert_int_equal(hello.extensions, RXM_WIRE_CONTEXTS);
    assert_int_equal(hello.source, 3);
    assert_int_equal(hello.target, 2);
    assert_int_equal(rxm_proto_xnet.answer(&other, asked, len, &hello, data), 20);
    assert_null(rxm_proto_xnet.take_answer(&self, data, 20, &hello));
    assert_int_equal(hello.extensions, RXM_WIRE_CONTEXTS);
    assert_int_equal(hello.pid, 7);
    assert_int_equal(hello.version, 1);

    assert_null(rxm_proto_xnet.take_request(&other, plain, sizeof(plain), &hello));
    assert_int_equal(hello.extensions, 0);
    assert_int_equal(rxm_proto_xnet.answer(&other, plain, sizeof(plain), &hello, data), 8);
}

/* A peer of libfabric's answers with 8 bytes: no extensions, and no contexts. */
static void answer_without_trailer(void **state)
{
    struct rxm_self endpoint = self;
    struct rxm_hello hello;

    assert_non_null(rxm_proto_xnet.take_answer(&self, plain, sizeof(plain), &hello));
    endpoint.source = endpoint.target = 0;
    assert_null(rxm_proto_xnet.take_answer(&endpoint, plain, sizeof(plain), &hello));
    assert_int_equal(hello.extensions, 0);
}

static bool takes(const uint8_t *data, size_t len)
{
    struct rxm_wire_hello hello;

    return rxm_wire_get(data, len, &hello);
}

static void trailers_of_others(void **state)
{
    uint8_t data[RXM_PROTO_MAX] = {0};
    struct rxm_wire_hello hello;

    rxm_proto_xnet.request(&self, data);
    for (size_t len = 0; len < sizeof(data); len++)
        assert_int_equal(takes(data, len), len == 8 || len == 20);
    /* A later version, longer; and one that stops behind the extensions. */
    data[12] = 2;
    data[13] = 16;
    assert_true(rxm_wire_get(data, 24, &hello));
    assert_int_equal(hello.target, 2);
    data[13] = 8;
    assert_true(rxm_wire_get(data, 16, &hello));
    assert_int_equal(hello.extensions, RXM_WIRE_ATOMICS);
    assert_int_equal(hello.target, 0);
    data[12] = 0;
    assert_false(takes(data, 16));
    data[12] = 1;
    data[8] = 'w';
    assert_false(takes(data, 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_has_both),
        cmocka_unit_test(answer_is_as_long_as_was_asked),
        cmocka_unit_test(answer_without_trailer),
        cmocka_unit_test(trailers_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of several rails: what they hold, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "layers/mrail/mrail_addr.h"

static struct mrail_addr addr, back;
static unsigned char raw[MRAIL_ADDR_MAX];
static char why[200];

static void add(uint16_t kind, uint32_t format, const void *bytes, size_t len)
{
    struct mrail_addr_rail *rail = &addr.rail[addr.count++];

    memset(rail, 0, sizeof(*rail));
    rail->kind = kind;
    rail->format = format;
    rail->len = len;
    memcpy(rail->addr, bytes, len);
}

static void add_in(uint16_t kind, uint32_t host)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(4711)};

    in.sin_addr.s_addr = htonl(host);
    add(kind, FI_SOCKADDR_IN, &in, sizeof(in));
}

static void add_in6(uint16_t kind)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(4711)};

    inet_pton(AF_INET6, "fe80::1:2:3:4", &in6.sin6_addr);
    in6.sin6_scope_id = 3;
    add(kind, FI_SOCKADDR_IN6, &in6, sizeof(in6));
}

static int start(void **state)
{
    addr.count = 0;
    addr.packet = 65536;
    return 0;
}

static void come_back(size_t size)
{
    assert_int_equal(mrail_addr_encode(&addr, raw, size), 0);
    assert_int_equal(mrail_addr_decode(raw, size, &back, why, sizeof(why)), 0);
    assert_int_equal(back.count, addr.count);
    assert_int_equal(back.packet, addr.packet);
    for (size_t i = 0; i < addr.count; i++) {
        assert_int_equal(back.rail[i].kind, addr.rail[i].kind);
        assert_memory_equal(back.rail[i].addr, addr.rail[i].addr, addr.rail[i].len);
    }
}

static void two_rails_have_56_bytes(void **state)
{
    add_in6(1);
    add_in6(2);
    come_back(56);
    addr.count = 0;
    add_in(1, 0x0a000001);
    add_in(1, 0x0a000002);
    come_back(56);
}

static void sizes_are_of_the_bracket(void **state)
{
    struct fi_info *info = info_alloc();
    const struct fi_info *rails[MRAIL_RAILS] = {info, info, NULL, info};

    info->addr_format = FI_SOCKADDR_IN;
    assert_int_equal(mrail_addr_size(rails, 2), 56);
    assert_int_equal(mrail_addr_size(rails, 4), 88);
    for (size_t i = 0; i < MRAIL_RAILS; i++)
        rails[i] = info;
    assert_int_equal(mrail_addr_size(rails, MRAIL_RAILS), 216);
    info->addr_format = FI_ADDR_STR;
    assert_int_equal(mrail_addr_size(rails, MRAIL_RAILS), 0);
    info_free(info);
}

static void other_forms_come_as_they_are(void **state)
{
    add(7, FI_ADDR_STR, "loop://7", 9);
    add_in(9, 0x7f000001);
    come_back(56);
    assert_string_equal((char *)back.rail[0].addr, "loop://7");
    add(8, 1u << 31, (unsigned char[64]){1, [40] = 3}, 64);
    assert_int_equal(mrail_addr_encode(&addr, raw, 56), -FI_EINVAL);
    come_back(88);
    assert_int_equal(mrail_addr_len(&back.rail[2], 64), 64);
}

static void rails_meet_in_their_order(void **state)
{
    const uint16_t kinds[] = {5, 6, 5, 7};

    add_in(6, 1);
    add_in(5, 2);
    add_in(5, 3);
    assert_ptr_equal(mrail_addr_meets(&addr, kinds, 0), &addr.rail[1]);
    assert_ptr_equal(mrail_addr_meets(&addr, kinds, 1), &addr.rail[0]);
    assert_ptr_equal(mrail_addr_meets(&addr, kinds, 2), &addr.rail[2]);
    assert_null(mrail_addr_meets(&addr, kinds, 3));
}

static void refused(size_t size, const char *reason)
{
    assert_int_equal(mrail_addr_decode(raw, size, &back, why, sizeof(why)), -FI_EINVAL);
    assert_non_null(strstr(why, reason));
}

static void wrong_bytes_are_refused(void **state)
{
    add_in(1, 0x0a000001);
    add_in(2, 0x0a000002);
    come_back(56);
    refused(57, "no address");
    refused(32, "no address");
    refused(256, "no address");
    raw[0] = 1;
    refused(56, "version 1");
    refused(64, "version 1"); /* as two rails had it then */
    raw[0] = MRAIL_ADDR_VERSION;
    for (size_t i = 2; i < 56; i++) {
        raw[i] ^= 1;
        refused(56, "sum");
        raw[i] ^= 1;
    }
    /* A part of it: its sum is of another length. */
    come_back(88);
    refused(56, "sum");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(two_rails_have_56_bytes, start),
        cmocka_unit_test_setup(sizes_are_of_the_bracket, start),
        cmocka_unit_test_setup(other_forms_come_as_they_are, start),
        cmocka_unit_test_setup(rails_meet_in_their_order, start),
        cmocka_unit_test_setup(wrong_bytes_are_refused, start),
    };

    return cmocka_run_group_tests_name("addr", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
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

#include "layers/lnx/lnx_addr.h"
#include "layers/lnx/lnx_text.h"

static struct lnx_addr addr, back;
static unsigned char raw[LNX_ADDR_MAX];
static char why[200];

static struct lnx_addr_branch *add(uint16_t kind, uint32_t format, const void *bytes, size_t len)
{
    struct lnx_addr_branch *branch = &addr.branch[addr.count++];

    memset(branch, 0, sizeof(*branch));
    branch->kind = kind;
    branch->format = format;
    branch->len = len;
    memcpy(branch->addr, bytes, len);
    return branch;
}

static void add_text(const char *text)
{
    struct lnx_addr_branch *branch = add(0x1234, FI_ADDR_STR, text, strlen(text) + 1);

    branch->reach.len = 8;
    memcpy(branch->reach.token, "token678", 8);
}

static void add_in(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(4711)};

    in.sin_addr.s_addr = htonl(0x0a000001);
    add(0x5678, FI_SOCKADDR_IN, &in, sizeof(in));
}

static void add_in6(const char *text, uint32_t scope)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(4711)};

    inet_pton(AF_INET6, text, &in6.sin6_addr);
    in6.sin6_scope_id = scope;
    add(0x9abc, FI_SOCKADDR_IN6, &in6, sizeof(in6));
}

static void add_efa(const char *gid, uint8_t reserved)
{
    unsigned char bytes[32] = {[16] = 7, [20] = 1, [21] = 2, [22] = 3, [23] = 0x44};

    inet_pton(AF_INET6, gid, bytes);
    bytes[31] = reserved;
    add(0xdef0, reserved ? FI_FORMAT_UNSPEC : FI_ADDR_EFA, bytes, sizeof(bytes));
}

static int start(void **state)
{
    addr.count = 0;
    memset(raw, 0xa5, sizeof(raw));
    return 0;
}

static void assert_comes_back(size_t size)
{
    assert_int_equal(lnx_addr_encode(&addr, raw, size), addr.count);
    assert_int_equal(raw[size], 0xa5);
    assert_int_equal(lnx_addr_decode(raw, size, &back, why, sizeof(why)), 0);
    assert_int_equal(back.count, addr.count);
    for (size_t i = 0; i < addr.count; i++) {
        const struct lnx_addr_branch *a = &addr.branch[i], *b = &back.branch[i];

        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->format, b->format);
        assert_int_equal(a->len, b->len);
        assert_memory_equal(a->addr, b->addr, a->len);
        assert_int_equal(a->reach.len, b->reach.len);
        assert_memory_equal(a->reach.token, b->reach.token, a->reach.len);
    }
}

enum {
    TWO = 56, /* the buffer of aws-ofi-nccl; MPICH's has FI_NAME_MAX */
};

/* The largest process and user, beside an IPv6 address. */
static void the_longest_of_two_branches_has_56_bytes(void **state)
{
    assert_int_equal(lnx_addr_size(1), TWO);
    assert_int_equal(lnx_addr_size(2), TWO);
    assert_int_equal(lnx_addr_size(3), TWO + 32);
    add_text("fi_shm://4194304:4294967295:00000003");
    add_in6("fe80::1:2:3:4", 3);
    assert_comes_back(TWO);
    start(state);
    add_text("fi_shm://4194304:4294967295:12345678");
    add_in6("2001:db8::1:2:3:4", 0);
    assert_comes_back(TWO);
    start(state);
    add_text("fi_shm://4194304:4294967295:12345678");
    add_efa("fe80::5054:ff:fe12:3456", 0);
    assert_comes_back(TWO);
}

static void every_form_comes_back(void **state)
{
    add(1, FI_FORMAT_UNSPEC, "bytes\0of", 8);
    add_in();
    add_text("fi_ns://node:1");
    add_in6("fe80::1:2:3:4", 3);
    add_in6("::1", 0);
    assert_comes_back(lnx_addr_size(5));
    start(state);
    add_efa("fe80::1", 0);
    add_efa("2001:db8::1:2:3:4", 0);
    add_efa("fe80::2", 9); /* as no device has it */
    assert_comes_back(lnx_addr_size(3));
}

static void what_is_too_long_is_left_out(void **state)
{
    add_text("fi_ns://a-name-that-somebody-has-made-up-and-that-is-far-too-long-for-it:1");
    add_in();
    assert_int_equal(lnx_addr_encode(&addr, raw, TWO), 1);
    assert_int_equal(lnx_addr_decode(raw, TWO, &back, why, sizeof(why)), 0);
    assert_int_equal(back.count, 1);
    assert_int_equal(back.branch[0].format, FI_SOCKADDR_IN);
}

static void assert_refused(size_t size, const char *expected)
{
    assert_int_equal(lnx_addr_decode(raw, size, &back, why, sizeof(why)), -FI_EINVAL);
    assert_non_null(strstr(why, expected));
    assert_int_equal(back.count, 0);
}

static void set(size_t at, unsigned char value)
{
    raw[1] = (unsigned char)(raw[1] + value - raw[at]);
    raw[at] = value;
}

static void wrong_addresses_are_refused_with_a_sentence(void **state)
{
    add_text("fi_shm://1:2:00000003");
    add_in();
    lnx_addr_encode(&addr, raw, TWO);
    assert_refused(2, "cut short");
    assert_refused(40, "check sum");
    assert_refused(96, "check sum");
    raw[9]++;
    assert_refused(TWO, "check sum");
    raw[9]--;
    set(0, 1);
    assert_refused(TWO, "version 1, not 2");
    set(0, 2);
    set(2, 0);
    assert_refused(TWO, "0 branches");
    set(2, 9);
    assert_refused(TWO, "9 branches");
    set(2, 3);
    assert_refused(TWO, "branch 3");
    set(2, 1);
    assert_refused(TWO, "more");
    set(2, 2);
    set(5, (unsigned char)(2 << 5 | (REACH_MAX + 1)));
    assert_refused(TWO, "branch 1");
    set(5, 7 << 5);
    assert_refused(TWO, "branch 1");
}

static void texts_are_packed(void **state)
{
    static const char *const texts[] = {
        "fi_shm://1234567:1000:00000003",   "a",   "://",    ":", "fi_ns://x:y", "0123456789",
        "00000000000000000000000000000000", "100", "fi_fi_", "fi"};
    unsigned char packed[64];
    char text[64];

    assert_int_equal(lnx_text_pack(texts[0], packed, sizeof(packed)), 14);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t len = lnx_text_pack(texts[i], packed, sizeof(packed));

        assert_true(len > 0);
        assert_int_equal(lnx_text_unpack(packed, len, text, sizeof(text)), len);
        assert_string_equal(text, texts[i]);
        assert_int_equal(lnx_text_pack(texts[i], packed, len - 1), 0);
        assert_int_equal(lnx_text_unpack(packed, len, text, strlen(texts[i])), 0);
    }
    memset(packed, 0xdd, sizeof(packed));
    assert_int_equal(lnx_text_unpack(packed, sizeof(packed), text, sizeof(text)), 0);
    memset(packed, 0xff, sizeof(packed));
    assert_int_equal(lnx_text_unpack(packed, sizeof(packed), text, sizeof(text)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_longest_of_two_branches_has_56_bytes, start),
        cmocka_unit_test_setup(every_form_comes_back, start),
        cmocka_unit_test_setup(what_is_too_long_is_left_out, start),
        cmocka_unit_test_setup(wrong_addresses_are_refused_with_a_sentence, start),
        cmocka_unit_test_setup(texts_are_packed, start),
    };

    return cmocka_run_group_tests_name("lnx address", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "core/net/addr.h"

/* Valid until the fourth call after it. */
static const struct sockaddr *parse(const char *text)
{
    static union addr ring[4];
    static unsigned turn;
    union addr *addr = &ring[turn++ % 4];

    assert_int_equal(addr_from_str(text, SIZE_MAX, addr), 0);
    return &addr->sa;
}

static void text_forms_read_back(void **state)
{
    static const char *const texts[] = {
        "fi_sockaddr_in://10.0.0.1:7471",
        "fi_sockaddr_in://0.0.0.0:0",
        "fi_sockaddr_in6://[::1]:80",
        "fi_sockaddr_in6://[fe80::1%2]:65535",
    };
    char text[ADDR_TEXT_MAX];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const struct sockaddr *addr = parse(texts[i]);

        assert_int_equal(addr_to_str(addr, text, sizeof(text)), strlen(texts[i]));
        assert_string_equal(text, texts[i]);
        addr_text(addr, text, sizeof(text));
        assert_string_equal(text, strstr(texts[i], "//") + 2);
        assert_true(addr_equal(addr, parse(text)));
    }
}

static void text_is_taken_leniently(void **state)
{
    assert_int_equal(addr_port(parse("fi_sockaddr://10.31.6.12:7471?qos=3")), 7471);
    assert_int_equal(parse("fi_sockaddr_ip://[::2]:1")->sa_family, AF_INET6);
    assert_int_equal(addr_port(parse("10.0.0.1")), 0);
    assert_int_equal(parse("::1")->sa_family, AF_INET6);
    assert_true(addr_is_any(parse("fi_sockaddr_in6://[]:5")));
    assert_true(addr_is_any(parse("fi_sockaddr_in://:5")));
    assert_int_equal(parse("fi_sockaddr_in6://:5")->sa_family, AF_INET6);
}

static void bad_text_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "fi_sockaddr_in://[::1]:80",
        "fi_sockaddr_in6://1.2.3.4:1",
        "1.2.3:x",
        "1.2.3.4:65536",
        "1.2.3.4:-1",
        "fi_shm://7",
        "[::1",
        "[::1]80",
        "1.2.3.4:",
        "host:80",
        "fi_sockaddr_in//1.2.3.4",
        "fe80::1%nosuchif0",
    };
    union addr addr;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(addr_from_str(texts[i], SIZE_MAX, &addr), -FI_EINVAL);
    assert_int_equal(addr_from_str("10.0.0.1:80garbage", 11, &addr), 0);
    assert_int_equal(addr_port(&addr.sa), 80);
}

static void order_is_by_address_then_port(void **state)
{
    static const char *const rising[] = {"1.0.0.1:9", "1.0.0.2:1", "1.0.0.2:256", "255.0.0.0:1",
                                         "[::1]:5",   "[::1]:6",   "[fe00::]:1"};

    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < 7; j++) {
            const struct sockaddr *a = parse(rising[i]), *b = parse(rising[j]);
            int order = addr_compare(a, b);

            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
            assert_int_equal(addr_equal(a, b), i == j);
            if (i != j)
                assert_int_not_equal(addr_hash(a), addr_hash(b));
        }
}

static void import_checks_length_and_family(void **state)
{
    union addr in, in6, out;
    struct sockaddr_un_like {
        sa_family_t family;
        char path[100];
    } local = {AF_UNIX, ""};

    memcpy(&in, parse("1.2.3.4:5"), sizeof(in));
    memcpy(&in6, parse("[::1]:5"), sizeof(in6));
    assert_int_equal(addr_import(FI_SOCKADDR_IN, &in, sizeof(in.in), &out), 0);
    assert_true(addr_equal(&in.sa, &out.sa));
    assert_int_equal(addr_import(FI_SOCKADDR, &in6, sizeof(in6.in6), &out), 0);
    assert_int_equal(addr_import(FI_SOCKADDR_IP, &in, sizeof(in.in), &out), 0);
    assert_int_equal(addr_import(FI_SOCKADDR_IN, &in6, sizeof(in6.in6), &out), -FI_EINVAL);
    assert_int_equal(addr_import(FI_SOCKADDR_IN6, &in, sizeof(in.in), &out), -FI_EINVAL);
    assert_int_equal(addr_import(FI_SOCKADDR_IN, &in, sizeof(in.in) - 1, &out), -FI_EINVAL);
    assert_int_equal(addr_import(FI_SOCKADDR, &in, 1, &out), -FI_EINVAL);
    assert_int_equal(addr_import(FI_SOCKADDR, &local, sizeof(local), &out), -FI_EINVAL);
    assert_int_equal(addr_import(FI_SOCKADDR_IN, NULL, 16, &out), -FI_EINVAL);
    assert_int_equal(addr_import(FI_ADDR_STR, "fi_sockaddr_in://1.2.3.4:5", 27, &out), 0);
    assert_true(addr_equal(&in.sa, &out.sa));
}

static void numbers_resolve_without_a_resolver(void **state)
{
    union addr addrs[4];
    size_t count = 4;
    char why[120];

    assert_int_equal(addr_resolve("127.0.0.1", "80", FI_NUMERICHOST, FI_FORMAT_UNSPEC, addrs,
                                  &count, why, sizeof(why)),
                     0);
    assert_int_equal(count, 1);
    assert_true(addr_is_loopback(&addrs[0].sa));
    assert_int_equal(addr_port(&addrs[0].sa), 80);

    count = 4;
    assert_int_equal(
        addr_resolve(NULL, "81", FI_SOURCE, FI_SOCKADDR_IN, addrs, &count, why, sizeof(why)), 0);
    assert_true(addr_is_any(&addrs[0].sa));
    assert_int_equal(addr_port(&addrs[0].sa), 81);

    count = 4;
    assert_int_equal(addr_resolve("fi_sockaddr_in6://[::1]:9", NULL, 0, FI_SOCKADDR_IN6, addrs,
                                  &count, why, sizeof(why)),
                     0);
    assert_int_equal(count, 1);
    assert_int_equal(addr_port(&addrs[0].sa), 9);
}

static void failures_say_why(void **state)
{
    union addr addrs[1];
    size_t count = 1;
    char why[120];

    assert_int_equal(addr_resolve("nosuch", "80", FI_NUMERICHOST, FI_SOCKADDR_IN, addrs, &count,
                                  why, sizeof(why)),
                     -FI_ENODATA);
    assert_non_null(strstr(why, "cannot resolve 'nosuch:80': "));
    assert_int_equal(
        addr_resolve("::1", "80", FI_NUMERICHOST, FI_SOCKADDR_IN, addrs, &count, why, sizeof(why)),
        -FI_ENODATA);
    assert_int_equal(addr_resolve("fi_sockaddr_in://1.2.3.4:5", "80", 0, FI_SOCKADDR_IN, addrs,
                                  &count, why, sizeof(why)),
                     -FI_ENODATA);
    assert_non_null(strstr(why, "service must not be given"));
    assert_int_equal(addr_resolve("fi_sockaddr_in://1.2.3.4:5", NULL, 0, FI_SOCKADDR_IN6, addrs,
                                  &count, why, sizeof(why)),
                     -FI_ENODATA);
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_forms_read_back),
        cmocka_unit_test(text_is_taken_leniently),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(order_is_by_address_then_port),
        cmocka_unit_test(import_checks_length_and_family),
        cmocka_unit_test(numbers_resolve_without_a_resolver),
        cmocka_unit_test(failures_say_why),
    };

    return cmocka_run_group_tests_name("core/net/addr", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/net/netif.h"

static const struct {
    const char *name, *addr;
    unsigned prefix, index;
    bool loopback;
    long speed;
} machine[] = {
    {"lo", "127.0.0.1", 8, 1, true, 0},           {"lo", "::1", 128, 1, true, 0},
    {"eth0", "fe80::10%1", 64, 2, false, 1000},   {"eth0", "2001:db8::10", 64, 2, false, 1000},
    {"eth0", "192.168.1.10", 24, 2, false, 1000}, {"docker0", "172.17.0.1", 16, 3, false, 100000},
    {"ib0", "10.1.0.10", 13, 4, false, 100000},   {"veth7a1", "fe80::7a%5", 64, 5, false, 10000},
    {"veth-a", "10.77.0.1", 24, 6, false, 10000},
};

enum {
    MACHINE = sizeof(machine) / sizeof(machine[0])
};

static char why[400];

/* The chosen interfaces after sorting, as "name/family name/family ...". */
static const char *pick(const char *choice)
{
    static char text[200];
    struct netif list[MACHINE];
    size_t count = MACHINE;

    memset(list, 0, sizeof(list));
    for (size_t i = 0; i < MACHINE; i++) {
        strcpy(list[i].name, machine[i].name);
        assert_int_equal(addr_from_str(machine[i].addr, SIZE_MAX, &list[i].addr), 0);
        list[i].prefix = machine[i].prefix;
        list[i].index = machine[i].index;
        list[i].loopback = machine[i].loopback;
        list[i].speed = machine[i].speed;
    }
    *text = '\0';
    why[0] = '\0';
    switch (netif_filter(choice, list, &count, why, sizeof(why))) {
    case -FI_EINVAL: return "bad";
    case -FI_ENODATA: return "none";
    }
    netif_sort(list, count);
    for (size_t i = 0; i < count; i++) {
        bool local = list[i].addr.sa.sa_family == AF_INET6 &&
                     IN6_IS_ADDR_LINKLOCAL(&list[i].addr.in6.sin6_addr);

        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%.15s/%s", i ? " " : "",
                 list[i].name,
                 list[i].addr.sa.sa_family == AF_INET ? "4"
                 : local                              ? "ll"
                                                      : "6");
    }
    return text;
}

static void bridges_are_left_out_and_fast_ones_first(void **state)
{
    assert_string_equal(pick(NULL), "ib0/4 veth-a/4 eth0/4 eth0/6 eth0/ll lo/4 lo/6");
    assert_string_equal(pick(""), pick(NULL));
}

static void choice_is_by_name_address_or_block(void **state)
{
    assert_string_equal(pick("eth0"), "eth0/4 eth0/6 eth0/ll");
    assert_string_equal(pick("lo|ib0"), "ib0/4 lo/4 lo/6");
    assert_string_equal(pick("lo, ib0"), "ib0/4 lo/4 lo/6");
    assert_string_equal(pick("docker0"), "docker0/4");
    assert_string_equal(pick("docker*"), "docker0/4");
    assert_string_equal(pick("10.0.0.0/8"), "ib0/4 veth-a/4");
    assert_string_equal(pick("192.168.1.10"), "eth0/4");
    assert_string_equal(pick("2001:db8::/32"), "eth0/6");
    assert_string_equal(pick("172.16.0.0/12"), "docker0/4");
}

static void exclusion_wins(void **state)
{
    assert_string_equal(pick("!lo"), "ib0/4 veth-a/4 eth0/4 eth0/6 eth0/ll");
    assert_string_equal(pick("eth0|!fe80::/10"), "eth0/4 eth0/6");
    assert_string_equal(pick("!lo|!eth0|!veth*"), "ib0/4");
}

static void nothing_left_says_what_there_is(void **state)
{
    assert_string_equal(pick("eth7"), "none");
    assert_non_null(strstr(why, "no interface matches 'eth7'; there are lo (127.0.0.1), "));
    assert_string_equal(pick("!lo|!*eth*|!ib0"), "none");
}

static void bad_choices_are_refused(void **state)
{
    static const char *const bad[] = {"!",
                                      "eth0||lo",
                                      "10.0.0.0/33",
                                      "10.0.0.0/x",
                                      "10.0.0.0/",
                                      "eth0/24",
                                      "|",
                                      "eth0|",
                                      "eth0 lo",
                                      "::1/129",
                                      "averyveryverylongname0"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_string_equal(pick(bad[i]), "bad");
        assert_true(why[0]);
    }
}

static void network_text_clears_host_bits(void **state)
{
    struct netif netif = {.prefix = 13};
    char text[80];

    addr_from_str("10.15.255.255", SIZE_MAX, &netif.addr);
    assert_string_equal(netif_network_text(&netif, text, sizeof(text)), "10.8.0.0/13");
    netif.prefix = 64;
    addr_from_str("2001:db8::10", SIZE_MAX, &netif.addr);
    assert_string_equal(netif_network_text(&netif, text, sizeof(text)), "2001:db8::/64");
}

static void this_machine_has_a_loopback(void **state)
{
    struct netif *list;
    size_t count;

    assert_int_equal(netif_list("127.0.0.0/8", &list, &count, why, sizeof(why)), 0);
    assert_true(count >= 1);
    assert_true(list[0].loopback);
    assert_int_equal(list[0].prefix, 8);
    assert_true(list[0].mtu > 0);
    free(list);
    assert_int_equal(netif_list("nosuchif0", &list, &count, why, sizeof(why)), -FI_ENODATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bridges_are_left_out_and_fast_ones_first),
        cmocka_unit_test(choice_is_by_name_address_or_block),
        cmocka_unit_test(exclusion_wins),
        cmocka_unit_test(nothing_left_says_what_there_is),
        cmocka_unit_test(bad_choices_are_refused),
        cmocka_unit_test(network_text_clears_host_bits),
        cmocka_unit_test(this_machine_has_a_loopback),
    };

    return cmocka_run_group_tests_name("core/net/netif", tests, NULL, NULL);
}

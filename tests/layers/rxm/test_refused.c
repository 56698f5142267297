/* SPDX-License-Identifier: BSD-2-Clause */
/* Warns of a refused host once for each reason, however often its processes ask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "layers/rxm/conn/rxm_refused.h"

static const char *const one = "one protocol", *const other = "another";

static union addr host(const char *text)
{
    union addr addr;

    assert_int_equal(addr_from_str(text, SIZE_MAX, &addr), 0);
    return addr;
}

static void a_host_is_told_of_once_for_each_reason(void **state)
{
    struct rxm_refused refused = {.hosts[0].why = NULL};
    union addr a = host("10.0.0.1:1000"), again = host("10.0.0.1:1001"), b = host("10.0.0.2:1000");

    assert_true(rxm_refused_tell(&refused, &a, one, 5));
    assert_false(rxm_refused_tell(&refused, &a, one, 6));
    assert_false(rxm_refused_tell(&refused, &again, one, 7));
    assert_true(rxm_refused_tell(&refused, &again, other, 8));
    assert_true(rxm_refused_tell(&refused, &b, one, 9));
    assert_false(rxm_refused_tell(&refused, &b, one, 4 + RXM_REFUSED_MS));
    assert_false(rxm_refused_tell(&refused, &a, one, 4 + RXM_REFUSED_MS));
    assert_true(rxm_refused_tell(&refused, &a, one, 5 + RXM_REFUSED_MS));
    assert_false(rxm_refused_tell(&refused, &a, one, 6 + RXM_REFUSED_MS));
}

static void many_hosts_are_not_all_told_of(void **state)
{
    struct rxm_refused refused = {.hosts[0].why = NULL};
    union addr addr = host("10.0.0.1:1000");
    int told = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        addr.in.sin_addr.s_addr = i;
        told += rxm_refused_tell(&refused, &addr, one, i);
    }
    assert_int_equal(told, RXM_REFUSED_HOSTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_told_of_once_for_each_reason),
        cmocka_unit_test(many_hosts_are_not_all_told_of),
    };

    return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}

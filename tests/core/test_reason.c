/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/reason.h"

static void assert_prints(const struct reasons *reasons, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    reasons_print(reasons, out);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

static void a_null_ledger_takes_everything(void **state)
{
    reasons_enter(NULL, "x");
    reasons_add(NULL, "x");
    reasons_leave(NULL, 0);
    reasons_print(NULL, stderr);
    assert_null(reasons_summary(NULL));
    reasons_destroy(NULL);
}

static void an_empty_ledger_says_nothing(void **state)
{
    struct reasons *reasons = reasons_create();

    assert_prints(reasons, "");
    assert_null(reasons_summary(reasons));
    reasons_destroy(reasons);
}

static void the_tree_shows_the_reason_at_each_dead_branch(void **state)
{
    struct reasons *reasons = reasons_create();

    reasons_enter(reasons, "%s;%s", "rxm", "tcp");
    reasons_enter(reasons, "tcp");
    reasons_add(reasons, "caps: asked FI_ATOMIC, offered FI_MSG, FI_TAGGED");
    reasons_leave(reasons, 0);
    reasons_leave(reasons, 0);
    reasons_enter(reasons, "udp");
    reasons_add(reasons, "eth1 has no address");
    reasons_leave(reasons, 1);
    assert_prints(reasons, "rxm;tcp: 0 infos\n"
                           "  tcp: 0 infos\n"
                           "    x caps: asked FI_ATOMIC, offered FI_MSG, FI_TAGGED\n"
                           "udp: 1 info\n"
                           "  - eth1 has no address\n");
    reasons_destroy(reasons);
}

static void equal_reasons_of_a_branch_are_counted(void **state)
{
    struct reasons *reasons = reasons_create();

    reasons_enter(reasons, "tcp");
    for (int i = 0; i < 3; i++)
        reasons_add(reasons, "no address of lo");
    reasons_leave(reasons, 0);
    assert_prints(reasons, "tcp: 0 infos\n  x no address of lo (3 times)\n");
    reasons_destroy(reasons);
}

static void the_summary_is_of_the_branch_that_came_furthest(void **state)
{
    struct reasons *reasons = reasons_create();

    reasons_enter(reasons, "tcp");
    reasons_add_at(reasons, REASON_TYPE, "ep type");
    reasons_leave(reasons, 0);
    reasons_enter(reasons, "udp");
    reasons_add_at(reasons, REASON_LIMIT, "size");
    reasons_leave(reasons, 0);
    reasons_enter(reasons, "shm");
    reasons_add_at(reasons, REASON_CAPS, "caps");
    reasons_leave(reasons, 0);
    assert_string_equal(reasons_summary(reasons), "size");
    reasons_destroy(reasons);
}

static void the_summary_is_not_of_a_branch_that_gave_something(void **state)
{
    struct reasons *reasons = reasons_create();

    reasons_enter(reasons, "fault");
    reasons_add(reasons, "drop");
    reasons_enter(reasons, "rxm");
    reasons_enter(reasons, "tcp");
    reasons_add(reasons, "tags");
    reasons_leave(reasons, 0);
    reasons_leave(reasons, 2);
    reasons_leave(reasons, 0);
    assert_string_equal(reasons_summary(reasons), "drop");
    reasons_destroy(reasons);
    reasons = reasons_create();
    reasons_enter(reasons, "tcp");
    reasons_add(reasons, "no address of lo");
    reasons_leave(reasons, 1);
    assert_string_equal(reasons_summary(reasons), "no address of lo");
    reasons_destroy(reasons);
}

static void many_long_reasons_are_kept(void **state)
{
    struct reasons *reasons = reasons_create();
    char text[900];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    for (int i = 0; i < 1000; i++) {
        reasons_enter(reasons, "branch %d", i);
        reasons_add(reasons, "%d %s", i, text);
        reasons_leave(reasons, 0);
    }
    assert_memory_equal(reasons_summary(reasons), "0 xxx", 5);
    reasons_destroy(reasons);
}

static void leaving_too_often_is_harmless(void **state)
{
    struct reasons *reasons = reasons_create();

    reasons_leave(reasons, 0);
    reasons_add(reasons, "at the root");
    assert_prints(reasons, "at the root\n");
    reasons_destroy(reasons);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_null_ledger_takes_everything),
        cmocka_unit_test(an_empty_ledger_says_nothing),
        cmocka_unit_test(the_tree_shows_the_reason_at_each_dead_branch),
        cmocka_unit_test(equal_reasons_of_a_branch_are_counted),
        cmocka_unit_test(the_summary_is_of_the_branch_that_came_furthest),
        cmocka_unit_test(the_summary_is_not_of_a_branch_that_gave_something),
        cmocka_unit_test(many_long_reasons_are_kept),
        cmocka_unit_test(leaving_too_often_is_harmless),
    };

    return cmocka_run_group_tests_name("reason", tests, NULL, NULL);
}

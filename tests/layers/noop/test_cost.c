/* SPDX-License-Identifier: BSD-2-Clause */
/* The cost of noop in a whole stack, by the public interface: nothing but its calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../pair.h"

static void no_system_call_is_made(void **state)
{
    pair_makes_no_system_call("noop;loop");
}

static void no_lock_is_taken_and_nothing_allocated(void **state)
{
    pair_costs_nothing("noop;noop;loop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_system_call_is_made),
        cmocka_unit_test(no_lock_is_taken_and_nothing_allocated),
    };

    return cmocka_run_group_tests_name("noop's cost", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Times of operations: which are taken, and which are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/hook/op_timer.h"

static struct op_timer timer;
static struct op_timer_turns turns;
static struct op_timed timed;
static char contexts[2];

static int start(void **state)
{
    timer = (struct op_timer){.sample = 1};
    op_timer_turns_start(&turns);
    return 0;
}

static void post(enum op_call call, unsigned user, const void *context)
{
    assert_true(op_timer_due(&turns, call));
    op_timer_begin(&timer, &turns, call, user, context);
    assert_true(op_timer_runs(&timer, context));
}

static void an_operation_ends_once(void **state)
{
    post(OP_SEND, 77, contexts);
    assert_true(op_timer_end(&timer, contexts, FI_SEND, &timed));
    assert_int_equal(timed.class, OP_CLASS_SEND);
    assert_int_equal(timed.user, 77);
    assert_false(op_timer_runs(&timer, contexts));
    assert_false(op_timer_end(&timer, contexts, FI_SEND, &timed));
    assert_int_equal(timer.running, 0);
}

static void what_may_have_waited_for_a_connection_is_told_apart(void **state)
{
    post(OP_SEND, 0, &contexts[0]);
    post(OP_SEND, 0, &contexts[1]); /* before the first has completed */
    assert_true(op_timer_end(&timer, &contexts[0], FI_SEND, &timed) && timed.first);
    assert_true(op_timer_end(&timer, &contexts[1], FI_SEND, &timed) && timed.first);
    while (clock_ns() == timer.settled[OP_CLASS_SEND])
        ;
    post(OP_SEND, 0, &contexts[0]);
    assert_true(op_timer_end(&timer, &contexts[0], FI_SEND, &timed));
    assert_false(timed.first);
}

static void a_send_does_not_end_a_receive_with_its_context(void **state)
{
    post(OP_RECV, 0, contexts);
    assert_false(op_timer_end(&timer, contexts, FI_SEND | FI_MSG, &timed));
    assert_true(op_timer_end(&timer, contexts, FI_RECV | FI_MSG, &timed));
    post(OP_RECV, 0, contexts);
    assert_true(op_timer_end(&timer, contexts, 0, &timed)); /* of a queue without flags */
}

static void a_refused_first_operation_is_still_to_come(void **state)
{
    post(OP_WRITE, 0, contexts);
    op_timer_refused(&timer, &turns, OP_WRITE, contexts);
    assert_false(op_timer_runs(&timer, contexts));
    post(OP_WRITE, 0, contexts);
    assert_true(op_timer_end(&timer, contexts, FI_WRITE, &timed) && timed.first);
}

static void a_context_that_comes_again_has_no_time(void **state)
{
    post(OP_SEND, 0, contexts);
    op_timer_forget(&timer, contexts);
    assert_false(op_timer_end(&timer, contexts, FI_SEND, &timed));
    op_timer_follow(&timer, OP_CLASS_RECV, 5, contexts);
    assert_true(op_timer_end(&timer, contexts, FI_RECV, &timed));
    assert_int_equal(timed.user, 5);
}

static void without_a_sample_nothing_is_timed(void **state)
{
    timer.sample = 0;
    assert_true(op_timer_due(&turns, OP_SEND));
    op_timer_begin(&timer, &turns, OP_SEND, 0, contexts);
    assert_false(op_timer_runs(&timer, contexts));
    assert_false(op_timer_due(&turns, OP_SEND));
}

static void one_in_sample_is_timed(void **state)
{
    const int operations = 100000;
    int count = 0;

    timer.sample = 10;
    for (int i = 0; i < operations; i++) {
        if (!op_timer_due(&turns, OP_SEND))
            continue;
        op_timer_begin(&timer, &turns, OP_SEND, 0, contexts);
        count += op_timer_end(&timer, contexts, FI_SEND, &timed);
    }
    assert_in_range(count, operations / 11, operations / 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_operation_ends_once, start),
        cmocka_unit_test_setup(what_may_have_waited_for_a_connection_is_told_apart, start),
        cmocka_unit_test_setup(a_send_does_not_end_a_receive_with_its_context, start),
        cmocka_unit_test_setup(a_refused_first_operation_is_still_to_come, start),
        cmocka_unit_test_setup(a_context_that_comes_again_has_no_time, start),
        cmocka_unit_test_setup(without_a_sample_nothing_is_timed, start),
        cmocka_unit_test_setup(one_in_sample_is_timed, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

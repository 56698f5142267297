/* SPDX-License-Identifier: BSD-2-Clause */
/* Who offers its core: a thread that waits, not one of whose endpoints another has messages. */
#include <unistd.h>

#include "ends.h"

enum {
    PATIENCE = 60, /* s */
    ROUNDS = 20000,
    ENDS = 4 /* the last ones are silent */
};

static unsigned yields;

/* The library's, too: on a machine that others use. */
int sched_yield(void)
{
    double begin = end_seconds();

    yields++;
    while (end_seconds() - begin < 20e-6)
        ;
    return 0;
}

static void drive(struct end *ends)
{
    for (int i = 0; i < ENDS; i++)
        end_drive(&ends[i], NULL);
}

static void exchange(struct end *ends, fi_addr_t peer)
{
    struct fi_cq_tagged_entry entry;
    char in = 0;

    assert_int_equal(fi_trecv(ends[1].ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    end_post(&ends[0], &ends[1], fi_tinject(ends[0].ep, "y", 1, peer, 1));
    assert_int_equal(end_wait(&ends[1], &ends[0], &entry), 0);
    assert_int_equal(in, 'y');
}

static void until_the_core_is_offered(struct end *ends)
{
    double begin = end_seconds();

    for (yields = 0; !yields;) {
        drive(ends);
        assert_true(end_seconds() - begin < PATIENCE);
    }
}

static void test_silent_ends_beside_a_busy_one(void **state)
{
    struct end ends[ENDS];
    fi_addr_t peer;

    (void)state;
    for (int i = 0; i < ENDS; i++)
        end_open(&ends[i], "shm");
    peer = end_introduce(&ends[0], &ends[1]);
    exchange(ends, peer);
    until_the_core_is_offered(ends);
    exchange(ends, peer);
    yields = 0;
    for (int i = 0; i < ROUNDS; i++) {
        exchange(ends, peer);
        drive(ends);
    }
    assert_int_equal(yields, 0);
    until_the_core_is_offered(ends);
    for (int i = 0; i < ENDS; i++)
        end_close(&ends[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_ends_beside_a_busy_one),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

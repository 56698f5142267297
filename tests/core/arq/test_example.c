/* SPDX-License-Identifier: BSD-2-Clause */
/* The congestion control that docs/congestion-control.md explains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim.h"

extern const struct congestion_ops congestion_reno;
#include "../../../docs/examples/cc_reno.c"

enum {
    MS = 1000 * 1000,
    FLOWS = 4,
};

static void example_fills_a_link_and_shares_it(void **state)
{
    struct sim *sim = sim_create(50);
    struct sim_link link = {.rate = 1250000000, .room = 400000, .marks = 100000};
    uint64_t carried;

    for (unsigned i = 0; i < FLOWS; i++) {
        unsigned a =
            sim_pair(sim, &congestion_reno, 4096, &(struct sim_path){20000, .link = &link});

        sim->end[a + 1].path.link = NULL;
        sim_send(sim, a, UINT64_C(1) << 40, 4000);
    }
    sim_run(sim, sim->now + 50 * MS, NULL);
    carried = link.carried;
    for (unsigned i = 0; i < FLOWS; i++)
        sim->end[2 * i + 1].bytes = 0;
    sim_run(sim, sim->now + 50 * MS, NULL);
    assert_true(link.carried - carried > link.rate / 20 / 100 * 90);
    for (unsigned i = 0; i < FLOWS; i++)
        assert_true(sim->end[2 * i + 1].bytes > (link.carried - carried) / FLOWS / 2);
    sim_destroy(sim);
}

static void example_answers_loss(void **state)
{
    struct sim *sim = sim_create(51);
    unsigned a = sim_pair(sim, &congestion_reno, 1500, &(struct sim_path){50000, .loss = 50});

    sim_send(sim, a, 20000, 64);
    sim_run(sim, UINT64_C(1000000000) * 1000, sim_busy);
    assert_int_equal(sim->end[a].done, 20000);
    assert_int_equal(sim->end[a + 1].delivered, 20000);
    assert_true(sim->end[a].session->traffic->congestion.threshold < CONGESTION_MAX);
    sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_fills_a_link_and_shares_it),
        cmocka_unit_test(example_answers_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

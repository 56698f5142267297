/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads by the rails' own, in virtual time: the model writes what a rail brings for as long as our
 * end of it is open, and fails where that is after the read has ended. WEFT_SEED sets the first of
 * the drawn runs, and WEFT_MRAIL_RUNS their number. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include <setjmp.h>

#include <cmocka.h>

#include "layers/mrail/mrail_keys.h"
#include "model.h"
#include "tests/support/number.h"

#define GBIT 0.125 /* bytes/ns of 1 Gbit/s */
#define LARGE (4 << 20)

static struct model model;

static void open_rails(unsigned count, const double *rates)
{
    model_open(&model, count, 1);
    for (unsigned i = 0; i < count; i++)
        model_rail(&model, i, 20 * MODEL_US, rates[i]);
}

static void all_read(void)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(model.side[i].reads_done, model.side[i].read_count);
        assert_int_equal(model.side[i].reads_failed, 0);
    }
}

/* Bytes/ns, one after the other, once the rails have been measured. */
static double rate_of_reads(uint32_t count)
{
    uint64_t begin;

    model_read(&model, 0, 20, LARGE, 1);
    model_run(&model, model.now + 60 * MODEL_S);
    all_read();
    begin = model.now;
    model_read(&model, 0, count, LARGE, 1);
    model_run(&model, model.now + 60 * MODEL_S);
    all_read();
    return (double)count * LARGE / (double)(model.now - begin);
}

static void reads_have_all_rails(void **state)
{
    static const double rates[][4] = {
        {GBIT, GBIT}, {GBIT, GBIT / 4}, {GBIT, GBIT / 2, GBIT / 3, GBIT}};

    for (unsigned i = 0; i < 3; i++) {
        unsigned count = i == 2 ? 4 : 2;
        double sum = 0, rate;

        open_rails(count, rates[i]);
        for (unsigned rail = 0; rail < count; rail++)
            sum += rates[i][rail];
        rate = rate_of_reads(40);
        print_message("%.3f of the sum\n", rate / sum);
        assert_true(rate > 0.9 * sum);
        model_close(&model);
    }
}

/* A policy for packets of any size is one for stripes. */
static void policies_choose_the_rails_of_stripes(void **state)
{
    static const struct flow_policy fixed = {UINT64_MAX, FLOW_FIXED},
                                    turns = {UINT64_MAX, FLOW_TURNS};

    open_rails(2, (const double[]){GBIT, GBIT});
    model.config.policies = &fixed;
    model.config.policy_count = 1;
    model_read(&model, 0, 4, LARGE, 1);
    model_run(&model, model.now + 60 * MODEL_S);
    all_read();
    assert_int_equal(model.side[0].paths[0].delivered, 4 * LARGE);
    model.config.policies = &turns;
    model_read(&model, 0, 4, LARGE, 1);
    model_run(&model, model.now + 60 * MODEL_S);
    all_read();
    assert_int_equal(model.side[0].paths[1].delivered, 2 * LARGE);
    model_close(&model);
}

static void begin_two_large(void)
{
    open_rails(3, (const double[]){GBIT, GBIT, GBIT});
    model_read(&model, 0, 8, LARGE, 2);
    model_run(&model, model.now + 20 * MODEL_MS);
    assert_true(model.side[0].reads_done < 8);
}

/* The rail that is left fetches the bytes that were on the dead ones; bytes that these had kept
 * land nowhere, though they come. */
static void two_rails_that_die_together_lose_no_byte(void **state)
{
    static const enum model_state deaths[] = {MODEL_LOSES, MODEL_KEEPS, MODEL_FAILS};

    for (unsigned i = 0; i < 3; i++) {
        for (unsigned from = 0; from < 3; from++) {
            begin_two_large();
            model_set(&model, 0, from, deaths[i]);
            model_set(&model, 1, from, deaths[i]);
            model_run(&model, model.now + 2 * MODEL_S);
            model_set(&model, 0, 2, MODEL_ALIVE);
            model_set(&model, 1, 2, MODEL_ALIVE);
            model_run(&model, model.now + 60 * MODEL_S);
            all_read();
            assert_true(model.side[0].closed[0] && model.side[0].closed[1]);
            model_close(&model);
        }
    }
}

static void with_no_rail_left_reads_wait(void **state)
{
    begin_two_large();
    for (unsigned rail = 0; rail < 3; rail++)
        model_set(&model, rail, 2, MODEL_KEEPS);
    model_run(&model, model.now + 20 * MODEL_S);
    assert_int_equal(model.side[0].reads_failed, 0);
    for (unsigned rail = 0; rail < 3; rail++)
        model_set(&model, rail, 2, MODEL_ALIVE);
    model_run(&model, model.now + 60 * MODEL_S);
    all_read();
    model_close(&model);
}

static void patience_ends_reads_once(void **state)
{
    begin_two_large();
    for (unsigned rail = 0; rail < 3; rail++)
        model_set(&model, rail, 2, MODEL_KEEPS);
    model.side[0].read_count = model.side[0].reads_posted; /* no more of them */
    model_run(&model, model.now + 100 * MODEL_S);
    assert_int_equal(model.side[0].reads_done, model.side[0].read_count);
    assert_int_equal(model.side[0].reads_failed, 2);
    for (unsigned rail = 0; rail < 3; rail++)
        model_set(&model, rail, 2, MODEL_ALIVE); /* and what they kept comes */
    model.lasts = true;
    model_run(&model, model.now + 10 * MODEL_S);
    model_close(&model);
}

/* Its packets come and go, but no read of it ends: a connection of its own is broken. */
static void a_rail_that_only_reads_nothing_is_left(void **state)
{
    begin_two_large();
    model.side[1].deaf[1] = true;
    model_run(&model, model.now + 60 * MODEL_S);
    all_read();
    assert_int_equal(model.side[0].downs, 0);
    assert_true(model.side[0].closed[1] > 0);
    model_close(&model);
}

static void a_region_that_is_closed_ends_its_reads(void **state)
{
    begin_two_large();
    model.side[1].shut = true;
    model_run(&model, model.now + 60 * MODEL_S);
    assert_int_equal(model.side[0].reads_done, 8);
    assert_true(model.side[0].reads_failed >= 6);
    assert_int_equal(model.side[0].downs, 0);
    model_close(&model);
}

/* The others go on, by all rails. */
static void a_read_that_is_stopped_ends_at_once(void **state)
{
    begin_two_large();
    assert_true(model_stop(&model, 0));
    model_run(&model, model.now + 60 * MODEL_S);
    assert_int_equal(model.side[0].reads_done, 8);
    assert_int_equal(model.side[0].reads_failed, 1);
    assert_int_equal(model.side[0].downs, 0);
    assert_false(model_stop(&model, 0));
    model_close(&model);
}

/* Its rails are dead, or about to be found so. */
static void a_read_is_stopped_on_dead_rails(void **state)
{
    for (unsigned dead = 1; dead <= 3; dead++) {
        begin_two_large();
        for (unsigned rail = 0; rail < dead; rail++)
            model_set(&model, rail, 2, MODEL_KEEPS);
        model_run(&model, model.now + dead * 300 * MODEL_MS);
        assert_true(model_stop(&model, 0));
        for (unsigned rail = 0; rail < dead; rail++)
            model_set(&model, rail, 2, MODEL_ALIVE);
        model_run(&model, model.now + 60 * MODEL_S);
        assert_int_equal(model.side[0].reads_done, 8);
        assert_int_equal(model.side[0].reads_failed, 1);
        model_close(&model);
    }
}

static void a_read_that_no_rail_has_ends(void **state)
{
    open_rails(2, (const double[]){GBIT, GBIT});
    model_read(&model, 0, 1, LARGE, 1);
    flow_read_known((struct flow_read *)(void *)model.side[0].reads, 0);
    model_run(&model, model.now + 60 * MODEL_S);
    assert_int_equal(model.side[0].reads_failed, 1);
    model_close(&model);
}

/* ---- Keys ---- */

static void wild_keys_are_refused(void **state)
{
    static const struct {
        uint8_t at, value;
    } wild[] = {{0, 0}, {0, 3}, {1, 0}, {1, 3}, {1, 9}, {1, 255}, {2, 1}, {3, 1}};
    struct mrail_keys keys = {.kind = MRAIL_TOLD, .id = 7, .count = 2, .key = {5, 6}}, got;
    uint8_t raw[MRAIL_KEYS_MAX] = {0};
    size_t len = mrail_keys_put(&keys, raw);

    assert_null(mrail_keys_get(raw, len, &got));
    assert_int_equal(got.id, 7);
    assert_int_equal(got.count, 2);
    assert_memory_equal(got.key, keys.key, sizeof(got.key));
    assert_non_null(mrail_keys_get(raw, len - 1, &got));
    assert_non_null(mrail_keys_get(raw, len + 1, &got));
    assert_non_null(mrail_keys_get(raw, 7, &got));
    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        uint8_t was = raw[wild[i].at];

        raw[wild[i].at] = wild[i].value;
        assert_non_null(mrail_keys_get(raw, len, &got));
        raw[wild[i].at] = was;
    }
    raw[0] = MRAIL_ASKED; /* of two keys */
    assert_non_null(mrail_keys_get(raw, len, &got));
}

/* ---- Drawn runs ---- */

static void change_a_rail(void)
{
    static const enum model_state states[] = {MODEL_ALIVE, MODEL_ALIVE, MODEL_LOSES, MODEL_KEEPS,
                                              MODEL_FAILS};
    unsigned rail = (unsigned)model_draw(&model, model.rails);
    enum model_state to = states[model_draw(&model, 5)];
    unsigned from = (unsigned)model_draw(&model, 3);

    model_set(&model, rail, from, to);
    if (!model_draw(&model, 3)) /* together with another */
        model_set(&model, (rail + 1) % model.rails, from, to);
    if (!model_draw(&model, 6))
        model.side[model_draw(&model, 2)].deaf[rail] = true;
}

static void one_run(uint64_t seed)
{
    model_open(&model, 2 + (unsigned)(seed % 3), seed);
    for (unsigned i = 0; i < model.rails; i++)
        model_rail(&model, i, model_draw(&model, 2000) * MODEL_US,
                   GBIT * (1 + (double)model_draw(&model, 100)) / 25);
    model_send(&model, 0, 200, 0, 1 + model_draw(&model, 20));
    model_send(&model, 1, 1 + (uint32_t)model_draw(&model, 200), 0, 1 + model_draw(&model, 20));
    model_read(&model, 0, 12, 0, 1 + model_draw(&model, 4));
    model_read(&model, 1, 1 + (uint32_t)model_draw(&model, 12), 0, 1 + model_draw(&model, 4));
    for (int i = 0; i < 12; i++) {
        model_run(&model, model.now + model_draw(&model, 1500) * MODEL_MS / (1 + i % 3 * 20));
        change_a_rail();
        if (!model_draw(&model, 4))
            model_stop(&model, (unsigned)model_draw(&model, 2));
    }
    for (unsigned rail = 0; rail < model.rails; rail++) {
        model_set(&model, rail, 2, MODEL_ALIVE);
        model.side[0].deaf[rail] = model.side[1].deaf[rail] = false;
    }
    model_run(&model, model.now + 600 * MODEL_S);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(model.side[i].done, model.side[i].count);
        assert_int_equal(model.side[i].reads_done, model.side[i].read_count);
    }
    model_close(&model);
}

static void drawn_deaths_end_each_read_once(void **state)
{
    uint64_t seed = number_of("WEFT_SEED", 1), runs = number_of("WEFT_MRAIL_RUNS", 60);

    for (uint64_t i = 0; i < runs; i++) {
        print_message("seed %llu\n", (unsigned long long)(seed + i));
        one_run(seed + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_have_all_rails),
        cmocka_unit_test(policies_choose_the_rails_of_stripes),
        cmocka_unit_test(two_rails_that_die_together_lose_no_byte),
        cmocka_unit_test(with_no_rail_left_reads_wait),
        cmocka_unit_test(patience_ends_reads_once),
        cmocka_unit_test(a_rail_that_only_reads_nothing_is_left),
        cmocka_unit_test(a_region_that_is_closed_ends_its_reads),
        cmocka_unit_test(a_read_that_is_stopped_ends_at_once),
        cmocka_unit_test(a_read_is_stopped_on_dead_rails),
        cmocka_unit_test(a_read_that_no_rail_has_ends),
        cmocka_unit_test(wild_keys_are_refused),
        cmocka_unit_test(drawn_deaths_end_each_read_once),
    };

    return cmocka_run_group_tests_name("stripe", tests, NULL, NULL);
}

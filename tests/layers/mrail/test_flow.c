/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages over several rails, in virtual time. WEFT_SEED sets the first of the drawn runs, and
 * WEFT_MRAIL_RUNS their number. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include <setjmp.h>

#include <cmocka.h>

#include "model.h"
#include "tests/support/number.h"

#define GBIT 0.125 /* bytes/ns of 1 Gbit/s */

static struct model model;

static void open_two(double first, double second)
{
    model_open(&model, 2, 1);
    model_rail(&model, 0, 20 * MODEL_US, first);
    model_rail(&model, 1, 20 * MODEL_US, second);
}

/* Bytes/ns that side 0 has sent from now until then. */
static double rate_until(uint64_t until)
{
    uint64_t bytes = model.side[0].bytes_done, begin = model.now;

    model_run(&model, until);
    assert_true(model.now == until);
    return (double)(model.side[0].bytes_done - bytes) / (double)(until - begin);
}

static void all_came(void)
{
    for (int i = 0; i < 2; i++) {
        struct model_side *side = &model.side[i];

        assert_int_equal(side->done, side->count);
        assert_int_equal(side->failed, 0);
        assert_int_equal(model.side[!i].got_count, side->count);
    }
}

static void equal_rails_add_up(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 100000, MODEL_PACKET, 128);
    rate_until(model.now + MODEL_S / 10);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * 2 * GBIT);
    model_close(&model);
}

static void unequal_rails_add_up(void **state)
{
    open_two(GBIT, GBIT / 4);
    model_send(&model, 0, 100000, MODEL_PACKET, 128);
    rate_until(model.now + MODEL_S / 10);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * 1.25 * GBIT);
    model_close(&model);
}

static void a_rail_that_is_much_slower_adds_up(void **state)
{
    open_two(GBIT, GBIT / 10);
    model_send(&model, 0, 100000, MODEL_PACKET, 128);
    rate_until(model.now + MODEL_S / 10);
    assert_true(rate_until(model.now + MODEL_S) > 0.97 * 1.1 * GBIT);
    model_close(&model);
}

static void four_rails_add_up(void **state)
{
    model_open(&model, 4, 1);
    for (unsigned i = 0; i < 4; i++)
        model_rail(&model, i, 20 * MODEL_US, GBIT);
    model_send(&model, 0, 100000, MODEL_PACKET, 128);
    rate_until(model.now + MODEL_S / 10);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * 4 * GBIT);
    model_close(&model);
}

enum {
    PIECE = 61360, /* bytes of a message in a packet of rxd's on packets of 60 KiB */
};

/* One of 4 MiB, as rxd sends it: a request with its first bytes, a question, and packets, of which
 * 2 MiB are asked for in advance. */
static void send_large(unsigned from, uint32_t first)
{
    model_send(&model, from, 1, first, 1);
    model_run(&model, model.now + 60 * MODEL_S);
    model_send(&model, !from, 1, 36, 1);
    model_run(&model, model.now + 60 * MODEL_S);
    model.last = (4194304 - first) % PIECE;
    model_send(&model, from, (4194304 - first) / PIECE + 1, PIECE, 35);
    model.last = 0;
    model_run(&model, model.now + 60 * MODEL_S);
}

/* Of the sum of the rails, burst (bytes) taken off. */
static double share_of_large(const double *rate, unsigned rails, double burst, uint32_t first)
{
    double sum = 0, took;
    uint64_t begin = 0;

    model_open(&model, rails, 1);
    for (unsigned rail = 0; rail < rails; rail++) {
        model_rail(&model, rail, 20 * MODEL_US, rate[rail]);
        for (unsigned side = 0; side < 2; side++)
            model.side[side].out[rail].burst = (uint64_t)(burst / rate[rail]);
        sum += rate[rail];
    }
    for (unsigned turn = 0; turn < 40; turn++) {
        if (turn == 8)
            begin = model.now;
        send_large(turn % 2, first);
    }
    took = (double)(model.now - begin) / 32;
    model_close(&model);
    return (4194304 - burst * rails) / sum / took;
}

/* By turns. Rails may be ahead of their rates for a moment, as tbf lets them. */
static void a_message_at_a_time_has_all_rails(void **state)
{
    static const double rates[][4] = {
        {GBIT, GBIT},      {GBIT, GBIT / 4},        {GBIT / 4, GBIT},
        {GBIT, GBIT / 10}, {GBIT / 50, GBIT / 200}, {GBIT, GBIT, GBIT, GBIT}};

    for (unsigned i = 0; i < 12; i++) {
        const double *rate = rates[i / 2], burst = i % 2 ? 262144 : 0;
        unsigned rails = rate[2] > 0 ? 4 : 2;
        double share = share_of_large(rate, rails, burst, 2048);

        print_message("%u rails of %.0f, %.0f ... Mbit/s, burst %.0f: %.3f of the rails; %.3f with "
                      "a whole packet first\n",
                      rails, 8000 * rate[0], 8000 * rate[1], burst, share,
                      share_of_large(rate, rails, burst, PIECE));
        assert_true(share > 0.9);
    }
}

/* A rail dies without a word, and returns. */
static void a_silent_rail_is_left_and_taken_again(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 1000000, MODEL_PACKET, 128);
    rate_until(model.now + MODEL_S);
    model_set(&model, 1, 2, MODEL_KEEPS);
    rate_until(model.now + 2 * MODEL_S);
    assert_int_equal(model.side[0].downs, 1);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * GBIT);
    model_set(&model, 1, 2, MODEL_ALIVE);
    rate_until(model.now + 2 * MODEL_S);
    assert_int_equal(model.side[0].ups, 1);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * 2 * GBIT);
    model_close(&model);
}

static void a_slowed_rail_does_not_slow_the_other(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 1000000, MODEL_PACKET, 128);
    rate_until(model.now + MODEL_S);
    model_rail(&model, 1, 20 * MODEL_US, GBIT / 100);
    rate_until(model.now + 2 * MODEL_S);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * GBIT);
    model_close(&model);
}

static void a_rail_that_was_slow_is_taken_again(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 1000000, MODEL_PACKET, 128);
    rate_until(model.now + MODEL_S);
    model_rail(&model, 1, 20 * MODEL_US, GBIT / 100);
    rate_until(model.now + 5 * MODEL_S);
    model_rail(&model, 1, 20 * MODEL_US, GBIT);
    rate_until(model.now + 5 * MODEL_S);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * 2 * GBIT);
    model_close(&model);
}

static void set_all(unsigned from, enum model_state what)
{
    for (unsigned rail = 0; rail < model.rails; rail++)
        model_set(&model, rail, from, what);
}

/* Its first acknowledgement is late, and says nothing of the rail that it came by. */
static void a_peer_that_was_away_bars_no_rail(void **state)
{
    static const uint32_t lens[] = {96, 60000};

    for (unsigned i = 0; i < 2; i++) {
        double ideal = 70 * 60000 / (2 * GBIT), took;
        uint64_t begin = 0;

        open_two(GBIT, GBIT);
        set_all(2, MODEL_KEEPS);
        model_send(&model, 0, 1, lens[i], 1);
        model_run(&model, model.now + 20 * MODEL_S);
        set_all(2, MODEL_ALIVE);
        model_run(&model, model.now + MODEL_S);
        all_came();
        for (unsigned turn = 0; turn < 40; turn++) {
            if (turn == 20)
                begin = model.now;
            model_send(&model, turn % 2, 70, 60000, 35);
            model_run(&model, model.now + 60 * MODEL_S);
        }
        took = (double)(model.now - begin) / 20;
        print_message("after one of %u bytes: %.3f of the rails\n", lens[i], ideal / took);
        assert_true(ideal / took > 0.9);
        model_close(&model);
    }
}

static void small_ones_keep_to_a_rail(void **state)
{
    uint64_t used;

    open_two(GBIT, GBIT);
    model_send(&model, 0, 1000, 8, 1);
    model_run(&model, model.now + 10 * MODEL_S);
    all_came();
    used = model.side[0].flow.paths[0].delivered ? 0 : 1;
    assert_int_equal(model.side[0].flow.paths[used].delivered, 8000);
    assert_int_equal(model.side[0].flow.paths[!used].delivered, 0);
    model_close(&model);
}

static uint64_t sent_by(unsigned rail)
{
    return model.side[0].paths[rail].delivered;
}

/* Upstream's: up to 1000 bytes by one rail, up to 20000 by each in turn. */
static void policies_choose_the_rail(void **state)
{
    static const struct flow_policy policies[] = {{1000, FLOW_FIXED}, {20000, FLOW_TURNS}};

    open_two(GBIT, GBIT / 4);
    model.config.policies = policies;
    model.config.policy_count = 2;
    model_send(&model, 0, 100, 1000, 4);
    model_run(&model, model.now + 60 * MODEL_S);
    all_came();
    assert_int_equal(sent_by(0), 100 * 1000);
    assert_int_equal(sent_by(1), 0);
    model_send(&model, 0, 100, 20000, 2);
    model_run(&model, model.now + 60 * MODEL_S);
    all_came();
    assert_int_equal(sent_by(0), 100 * 1000 + 50 * 20000);
    assert_int_equal(sent_by(1), 50 * 20000);
    model_send(&model, 0, 100, 20001, 20); /* by the shortest end: most by the faster one */
    model_run(&model, model.now + 60 * MODEL_S);
    all_came();
    assert_true(sent_by(0) - 100 * 1000 - 50 * 20000 > 2 * (sent_by(1) - 50 * 20000));
    model_close(&model);
}

static void small_ones_begin_with_the_rail_that_is_said(void **state)
{
    open_two(GBIT, GBIT);
    model.config.first = 1;
    for (unsigned i = 0; i < 2; i++) {
        flow_init(&model.side[i].flow, &model.config, model.side[i].paths, 2);
        for (unsigned rail = 0; rail < 2; rail++)
            flow_add_path(&model.side[i].flow, rail);
    }
    model_send(&model, 0, 100, 8, 1);
    model_run(&model, model.now + 10 * MODEL_S);
    all_came();
    assert_int_equal(model.side[0].flow.paths[1].delivered, 800);
    model_close(&model);
}

/* The end that follows takes the rail of the other, if it is as near as its own. */
static void small_ones_of_both_ends_share_a_rail(void **state)
{
    for (unsigned near = 0; near < 2; near++) {
        open_two(GBIT, GBIT);
        model.config.near = near ? 3 : 1;
        model.side[0].flow.favourite = 1;
        model.side[1].flow.follows = true;
        model_send(&model, 0, 100, 8, 1);
        model_run(&model, model.now + MODEL_S);
        model_send(&model, 1, 100, 8, 1);
        model_run(&model, model.now + MODEL_S);
        all_came();
        assert_int_equal(model.side[0].flow.paths[1].delivered, 800);
        assert_int_equal(model.side[1].flow.paths[near].delivered, 800);
        model_close(&model);
    }
}

/* A message at a time, and none but those of each millisecond's first needs a run to leave. */
static void a_small_one_leaves_without_a_run(void **state)
{
    open_two(GBIT, GBIT);
    model.quick = true;
    model_send(&model, 0, 1000, 8, 1);
    model_run(&model, model.now + 10 * MODEL_S);
    all_came();
    assert_true(model.side[0].quick > 700);
    /* Both ends have nothing to do then but to acknowledge, and that later. */
    assert_true(model.side[0].settled > 700);
    assert_true(model.side[1].settled > 700);
    model_close(&model);
}

/* The flow settles behind the next message, and loses and changes nothing. */
static void what_follows_a_message_may_wait(void **state)
{
    open_two(GBIT, GBIT);
    model.quick = model.later = true;
    model_send(&model, 0, 1000, 8, 1);
    model_send(&model, 1, 1000, 8, 1);
    model_run(&model, model.now + 10 * MODEL_S);
    all_came();
    for (int i = 0; i < 2; i++) {
        assert_true(model.side[i].settled_late > 700);
        assert_true(model.side[i].lone > 400);
        assert_true(list_empty(&model.side[i].flow.ended));
        assert_int_equal(model.side[i].downs, 0);
    }
    model_close(&model);
}

/* The nearest that lives, in the order that is said. */
static void small_ones_go_on_by_the_nearest_rail(void **state)
{
    static const uint8_t order[] = {2, 3, 0, 1};

    model_open(&model, 4, 1);
    memcpy(model.config.order, order, sizeof(order));
    for (unsigned i = 0; i < 2; i++)
        model.side[i].flow.favourite = 3;
    flow_rail_link(&model.side[0].flow, 3, false, model.now);
    flow_rail_link(&model.side[0].flow, 2, false, model.now);
    model_set(&model, 3, 2, MODEL_LOSES);
    model_set(&model, 2, 2, MODEL_LOSES);
    model_send(&model, 0, 100, 8, 1);
    model_run(&model, model.now + 10 * MODEL_S);
    all_came();
    assert_int_equal(model.side[0].flow.paths[0].delivered, 800);
    model_close(&model);
}

static void half_a_death_is_found_by_who_uses_that_half(void **state)
{
    for (unsigned from = 0; from < 2; from++) {
        open_two(GBIT, GBIT);
        model_send(&model, 0, 20000, MODEL_PACKET, 64);
        model_run(&model, model.now + MODEL_S / 2);
        model_set(&model, 1, from, MODEL_LOSES);
        model_run(&model, model.now + 60 * MODEL_S);
        all_came();
        model_close(&model);
    }
}

/* Long before a timeout could tell. */
static void a_rail_without_link_is_down_at_once(void **state)
{
    open_two(GBIT, GBIT);
    model.config.rail_timeout = 1000 * MODEL_S;
    model_send(&model, 0, 1000000, MODEL_PACKET, 128);
    rate_until(model.now + MODEL_S);
    model_set(&model, 1, 2, MODEL_LOSES);
    flow_rail_link(&model.side[0].flow, 1, false, model.now);
    assert_int_equal(model.side[0].downs, 1);
    rate_until(model.now + MODEL_S / 10);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * GBIT);
    model_set(&model, 1, 2, MODEL_ALIVE);
    flow_rail_link(&model.side[0].flow, 1, true, model.now);
    model.side[0].due = 0;
    rate_until(model.now + MODEL_S / 10);
    assert_int_equal(model.side[0].ups, 1);
    assert_true(rate_until(model.now + MODEL_S) > 0.9 * 2 * GBIT);
    model_close(&model);
}

/* Links that are down are no word of a lower that the peer is gone. */
static void without_any_link_messages_wait(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 2000, MODEL_PACKET, 64);
    model_run(&model, model.now + MODEL_S / 10);
    for (unsigned rail = 0; rail < 2; rail++) {
        model_set(&model, rail, 2, MODEL_LOSES);
        flow_rail_link(&model.side[0].flow, rail, false, model.now);
    }
    model_run(&model, model.now + 20 * MODEL_S);
    assert_int_equal(model.side[0].failed, 0);
    model_set(&model, 0, 2, MODEL_ALIVE);
    flow_rail_link(&model.side[0].flow, 0, true, model.now);
    model_run(&model, model.now + 60 * MODEL_S);
    all_came();
    model_close(&model);
}

static void with_no_rail_left_messages_wait(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 20000, MODEL_PACKET, 64);
    model_run(&model, model.now + MODEL_S / 2);
    model_set(&model, 0, 2, MODEL_KEEPS);
    model_set(&model, 1, 2, MODEL_KEEPS);
    model_run(&model, model.now + 20 * MODEL_S);
    assert_int_equal(model.side[0].failed, 0);
    model_set(&model, 1, 2, MODEL_ALIVE);
    model_run(&model, model.now + 60 * MODEL_S);
    all_came();
    model_close(&model);
}

static void patience_ends_once(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 100, MODEL_PACKET, 100);
    model_set(&model, 0, 2, MODEL_LOSES);
    model_set(&model, 1, 2, MODEL_LOSES);
    model_run(&model, model.now + 100 * MODEL_S);
    assert_int_equal(model.side[0].done, 100);
    assert_int_equal(model.side[0].failed, 100);
    assert_int_equal(model.side[0].err, FI_ETIMEDOUT);
    assert_int_equal(model.side[0].ends, 1);
    model_close(&model);
}

/* Messages that the peer had no memory for, the first and the question that came later, leave
 * again. */
static void a_peer_without_memory_for_a_while_gets_what_was_sent(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 100, MODEL_PACKET, 100);
    model.side[1].no_memory = true;
    model_run(&model, model.now + 5 * MODEL_S);
    model.side[1].no_memory = false;
    model_run(&model, model.now + 20 * MODEL_S);
    all_came();
    model_close(&model);
}

/* A state of ours ends (every rail refuses) before the peer has heard of it, while messages of the
 * peer's to it are under way. The peer takes our next state for our first one. */
static void a_peer_that_had_not_heard_of_a_state_learns_that_it_ended(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 1, 10, MODEL_PACKET, 10);
    model_run(&model, model.now + 555 * MODEL_US);
    assert_int_equal(model.side[1].intro.their_epoch, 0);
    assert_int_equal(model.side[0].intro.their_epoch, 1);
    flow_end(&model.side[0].flow, FI_ETIMEDOUT);
    model_run(&model, model.now + 20 * MODEL_S);
    assert_int_equal(model.side[1].done, 10);
    assert_int_equal(model.side[1].err, FI_ECONNRESET);
    model_send(&model, 0, 10, MODEL_PACKET, 10);
    model_send(&model, 1, 10, MODEL_PACKET, 10);
    model_run(&model, model.now + 20 * MODEL_S);
    all_came();
    model_close(&model);
}

/* A state of ours ends while the peer is silent; it is told with the first word of it. */
static void a_peer_learns_of_a_state_that_ended_meanwhile(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 10, MODEL_PACKET, 10);
    model_send(&model, 1, 10, MODEL_PACKET, 10);
    model_run(&model, model.now + MODEL_S);
    all_came();
    flow_end(&model.side[0].flow, FI_ETIMEDOUT);
    model_send(&model, 1, 10, MODEL_PACKET, 10);
    model_run(&model, model.now + 5 * MODEL_S);
    assert_int_equal(model.side[1].done, 10);
    assert_int_equal(model.side[1].err, FI_ECONNRESET);
    model_close(&model);
}

static void a_peer_that_every_rail_refuses_is_gone(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 100, MODEL_PACKET, 100);
    model_set(&model, 0, 2, MODEL_FAILS);
    model_set(&model, 1, 2, MODEL_FAILS);
    model_run(&model, model.now + 3 * MODEL_S);
    assert_int_equal(model.side[0].failed, 100);
    assert_int_equal(model.side[0].err, FI_ECONNRESET);
    model_close(&model);
}

/* One rail is refused, and the other is silent. */
static void a_refusal_and_silence_are_a_peer_that_is_gone(void **state)
{
    open_two(GBIT, GBIT);
    for (unsigned i = 0; i < 2; i++)
        model.side[i].out[0].err = FI_ECONNREFUSED;
    model_send(&model, 0, 100, MODEL_PACKET, 100);
    model_set(&model, 0, 2, MODEL_FAILS);
    model_set(&model, 1, 2, MODEL_LOSES);
    model_run(&model, model.now + MODEL_S + MODEL_S / 2);
    assert_int_equal(model.side[0].failed, 100);
    assert_int_equal(model.side[0].err, FI_ECONNREFUSED);
    model_close(&model);
}

/* A peer that sleeps for longer than the timeout leaves no rail down. */
static void a_sleeping_peer_is_no_dead_rail(void **state)
{
    open_two(GBIT, GBIT);
    model_send(&model, 0, 5000, MODEL_PACKET, 64);
    model_run(&model, model.now + MODEL_S / 10);
    for (unsigned rail = 0; rail < 2; rail++)
        model_set(&model, rail, 2, MODEL_KEEPS);
    model_run(&model, model.now + 5 * MODEL_S);
    for (unsigned rail = 0; rail < 2; rail++)
        model_set(&model, rail, 2, MODEL_ALIVE);
    model_run(&model, model.now + 60 * MODEL_S);
    all_came();
    assert_int_equal(model.side[0].downs, 0);
    model_close(&model);
}

/* A peer that looks for a millisecond, and then has no core for some: arrived packets wait for it,
 * and rails have enough to carry on meanwhile. */
static void a_peer_that_looks_seldom_gets_all_rails(void **state)
{
    static const unsigned pauses[] = {5, 20, 40};

    for (unsigned i = 0; i < 3; i++) {
        uint64_t bytes = 0, begin = 0;
        double rate;

        open_two(GBIT, GBIT);
        model_send(&model, 0, 100000, MODEL_PACKET, 256);
        for (unsigned turn = 0; turn < 3000 / pauses[i]; turn++) {
            if (turn == 1000 / pauses[i]) {
                begin = model.now;
                bytes = model.side[0].bytes_done;
            }
            for (unsigned rail = 0; rail < 2; rail++)
                model_set(&model, rail, 0, MODEL_KEEPS);
            model_run(&model, model.now + pauses[i] * MODEL_MS);
            for (unsigned rail = 0; rail < 2; rail++)
                model_set(&model, rail, 0, MODEL_ALIVE);
            model_run(&model, model.now + MODEL_MS);
        }
        rate = (double)(model.side[0].bytes_done - bytes) / (double)(model.now - begin);
        print_message("pauses of %u ms: %.3f of the rails\n", pauses[i], rate / (2 * GBIT));
        assert_true(rate > 0.8 * 2 * GBIT);
        assert_int_equal(model.side[0].downs, 0);
        model_close(&model);
    }
}

/* Measured rates of rails, and the serials, outlive a rest. */
static void a_flow_that_rests_goes_on_where_it_was(void **state)
{
    open_two(GBIT, GBIT / 4);
    model_send(&model, 0, 2000, MODEL_PACKET, 128);
    model_run(&model, model.now + 60 * MODEL_S);
    for (unsigned turn = 0; turn < 20; turn++) {
        uint64_t begin;

        all_came();
        model.rests = model.lasts = true;
        model_run(&model, model.now + 2 * MODEL_S);
        for (unsigned side = 0; side < 2; side++)
            assert_true(model.side[side].rests > turn);
        model.rests = model.lasts = false;
        begin = model.now;
        model_send(&model, turn % 2, 70, MODEL_PACKET, 70);
        model_run(&model, model.now + 60 * MODEL_S);
        if (turn > 3) /* by then both sides have measured */
            assert_true(70 * MODEL_PACKET / (double)(model.now - begin) > 0.85 * 1.25 * GBIT);
    }
    assert_int_equal(model.side[0].flow.next_out, 2000 + 10 * 70);
    assert_int_equal(model.side[0].ends + model.side[1].ends, 0);
    model_close(&model);
}

/* ---- Drawn runs ---- */

static void change_a_rail(void)
{
    static const enum model_state states[] = {MODEL_ALIVE, MODEL_ALIVE, MODEL_LOSES, MODEL_KEEPS,
                                              MODEL_FAILS};
    unsigned rail = (unsigned)model_draw(&model, model.rails);

    model_set(&model, rail, (unsigned)model_draw(&model, 3), states[model_draw(&model, 5)]);
}

static void draw_rails(void)
{
    for (unsigned i = 0; i < model.rails; i++)
        model_rail(&model, i, model_draw(&model, 2000) * MODEL_US,
                   GBIT * (1 + (double)model_draw(&model, 100)) / 25);
}

static unsigned rests, quick, late; /* of all runs */

static void one_run(uint64_t seed)
{
    model_open(&model, 2 + (unsigned)(seed % 3), seed);
    model.rests = seed / 3 % 2;
    model.quick = seed / 6 % 2;
    model.later = seed / 12 % 2;
    model.tells = seed / 12 % 4;
    model.config.near = 3;
    model.side[1].flow.follows = model.quick;
    draw_rails();
    model_send(&model, 0, 2000, 0, 1 + model_draw(&model, 200));
    model_send(&model, 1, 1 + (uint32_t)model_draw(&model, 2000), 0, 1 + model_draw(&model, 200));
    for (int i = 0; i < 12; i++) {
        model_run(&model, model.now + model_draw(&model, 1500) * MODEL_MS / (1 + i % 3 * 20));
        change_a_rail();
    }
    for (unsigned rail = 0; rail < model.rails; rail++)
        model_set(&model, rail, 2, MODEL_ALIVE);
    model_run(&model, model.now + 600 * MODEL_S);
    for (int i = 0; i < 2; i++)
        assert_int_equal(model.side[i].done, model.side[i].count);
    if (!model.side[0].ends && !model.side[1].ends)
        all_came();
    rests += model.side[0].rests + model.side[1].rests;
    quick += model.side[0].quick + model.side[1].quick;
    late += model.side[0].settled_late + model.side[1].settled_late;
    model_close(&model);
}

static void drawn_deaths_lose_and_repeat_nothing(void **state)
{
    uint64_t seed = number_of("WEFT_SEED", 1), runs = number_of("WEFT_MRAIL_RUNS", 60);

    for (uint64_t i = 0; i < runs; i++) {
        print_message("seed %llu\n", (unsigned long long)(seed + i));
        one_run(seed + i);
    }
    print_message("%u rests, %u messages without a run, %u settled later\n", rests, quick, late);
    assert_true(runs < 24 || (rests && quick && late));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_rails_add_up),
        cmocka_unit_test(unequal_rails_add_up),
        cmocka_unit_test(a_rail_that_is_much_slower_adds_up),
        cmocka_unit_test(four_rails_add_up),
        cmocka_unit_test(a_message_at_a_time_has_all_rails),
        cmocka_unit_test(a_silent_rail_is_left_and_taken_again),
        cmocka_unit_test(a_slowed_rail_does_not_slow_the_other),
        cmocka_unit_test(a_rail_that_was_slow_is_taken_again),
        cmocka_unit_test(a_peer_that_was_away_bars_no_rail),
        cmocka_unit_test(small_ones_keep_to_a_rail),
        cmocka_unit_test(policies_choose_the_rail),
        cmocka_unit_test(small_ones_begin_with_the_rail_that_is_said),
        cmocka_unit_test(small_ones_go_on_by_the_nearest_rail),
        cmocka_unit_test(small_ones_of_both_ends_share_a_rail),
        cmocka_unit_test(a_small_one_leaves_without_a_run),
        cmocka_unit_test(what_follows_a_message_may_wait),
        cmocka_unit_test(half_a_death_is_found_by_who_uses_that_half),
        cmocka_unit_test(a_rail_without_link_is_down_at_once),
        cmocka_unit_test(without_any_link_messages_wait),
        cmocka_unit_test(with_no_rail_left_messages_wait),
        cmocka_unit_test(patience_ends_once),
        cmocka_unit_test(a_peer_without_memory_for_a_while_gets_what_was_sent),
        cmocka_unit_test(a_peer_that_had_not_heard_of_a_state_learns_that_it_ended),
        cmocka_unit_test(a_peer_learns_of_a_state_that_ended_meanwhile),
        cmocka_unit_test(a_peer_that_every_rail_refuses_is_gone),
        cmocka_unit_test(a_refusal_and_silence_are_a_peer_that_is_gone),
        cmocka_unit_test(a_sleeping_peer_is_no_dead_rail),
        cmocka_unit_test(a_peer_that_looks_seldom_gets_all_rails),
        cmocka_unit_test(a_flow_that_rests_goes_on_where_it_was),
        cmocka_unit_test(drawn_deaths_lose_and_repeat_nothing),
    };

    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}

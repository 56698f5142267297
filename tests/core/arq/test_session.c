/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions over a network in virtual time. WEFT_ARQ_MESSAGES: how many the long runs send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "core/arq/session_impl.h"
#include "sim.h"

enum {
    US = 1000,
    MS = 1000 * US,
};
#define SECOND UINT64_C(1000000000)

static uint64_t messages(uint64_t usual)
{
    const char *text = getenv("WEFT_ARQ_MESSAGES");

    if (text)
        return strtoull(text, NULL, 10);
#ifdef __SANITIZE_ADDRESS__
    return usual / 4; /* the release build sends them all */
#else
    return usual;
#endif
}

static void all_arrived(const struct sim *sim, unsigned from)
{
    const struct sim_end *sender = &sim->end[from], *receiver = &sim->end[sender->peer];

    assert_int_equal(sender->failed, 0);
    assert_int_equal(sender->done, sender->made);
    assert_int_equal(receiver->delivered, sender->made);
}

/* 10 % lost, 5 % twice, and reordered, some so late that 100 others overtake them; both ways at
 * once: a million messages in all. */
static void everything_arrives_once(void **state)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct sim *sim = sim_create(seed);
        const struct sim_path path = {50 * US,   100 * US,    .loss = 100,
                                      .dup = 50, .strays = 5, .stray = 2 * MS};
        unsigned a = sim_pair(sim, congestion_all[seed % 3], 1500, &path);

        print_message("seed %lu\n", (unsigned long)seed);
        sim_send(sim, a, messages(222224), 64);
        sim_send(sim, a + 1, messages(222224) / 2, 1000);
        sim_run(sim, 100000 * SECOND, sim_busy);
        all_arrived(sim, a);
        all_arrived(sim, a + 1);
        for (unsigned i = a; i < a + 2; i++) {
            print_message("%lu packets overtook one\n", (unsigned long)sim->end[i].overtaken);
            assert_true(sim->end[i].overtaken >= 100);
        }
        sim_destroy(sim);
    }
}

static void both_ends_open_at_once(void **state)
{
    struct sim *sim = sim_create(5);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US, .loss = 200});

    sim->end[a + 1].session->open_at = sim->now;
    sim_send(sim, a, 1000, 64);
    sim_send(sim, a + 1, 1000, 64);
    sim_run(sim, 1000 * SECOND, sim_busy);
    all_arrived(sim, a);
    all_arrived(sim, a + 1);
    assert_true(sim->end[a].session->peer == sim->end[a + 1].session->id);
    assert_true(sim->end[a + 1].session->peer == sim->end[a].session->id);
    sim_destroy(sim);
}

static void path_mtu_is_found(void **state)
{
    const uint32_t mtus[] = {1200, 1300, 1500, 4000, 8999, 9000};

    for (size_t i = 0; i < sizeof(mtus) / sizeof(*mtus); i++) {
        struct sim *sim = sim_create(6 + i);
        unsigned a = sim_pair(sim, &congestion_delay, 9000,
                              &(struct sim_path){50 * US, .mtu = mtus[i], .loss = 10});

        sim_send(sim, a, 20000, 500);
        sim_run(sim, 1000 * SECOND, sim_busy);
        all_arrived(sim, a);
        assert_in_range(sim->end[a].session->mtu.size, mtus[i] - PATH_MTU_STEP, mtus[i]);
        sim_destroy(sim);
    }
}

/* Messages that fit no more come in pieces, and whole again when the path takes them. */
static void path_mtu_falls_and_rises(void **state)
{
    struct sim *sim = sim_create(20);
    unsigned a = sim_pair(sim, &congestion_delay, 9000, &(struct sim_path){50 * US, .mtu = 9000});

    sim_send(sim, a, 3000, 8000);
    sim_run(sim, 1000 * SECOND, sim_busy);
    assert_int_equal(sim->end[a].session->mtu.size, 9000);
    sim->end[a].path.mtu = 2000;
    sim_send(sim, a, 3000, 8000);
    sim_run(sim, sim->now + 1000 * SECOND, sim_busy);
    assert_in_range(sim->end[a].session->mtu.size, 1200, 2000);
    sim->end[a].path.mtu = 9000;
    for (int i = 0; i < 100; i++) {
        sim_run(sim, sim->now + 10 * SECOND, NULL);
        sim_send(sim, a, 30, 8000);
        sim_run(sim, sim->now + 1000 * SECOND, sim_busy);
    }
    assert_int_equal(sim->end[a].session->mtu.size, 9000);
    all_arrived(sim, a);
    sim_destroy(sim);
}

static void a_peer_that_computes_is_waited_for(void **state)
{
    struct sim *sim = sim_create(21);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});
    uint64_t woken;

    sim_send(sim, a, 100000, 64);
    sim_run(sim, sim->now + 2 * MS, sim_busy);
    sim->end[a + 1].asleep = true;
    sim_run(sim, sim->now + 300 * SECOND, sim_busy);
    assert_true(sim_busy(sim));
    sim->end[a + 1].asleep = false;
    sim->end[a + 1].deadline = woken = sim->now;
    sim_run(sim, sim->now + 1000 * SECOND, sim_busy);
    all_arrived(sim, a);
    assert_true(sim->now - woken < 2 * SECOND);
    sim_destroy(sim);
}

static void silence_ends_after_patience(void **state)
{
    struct sim *sim = sim_create(22);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});
    uint64_t began;

    sim_send(sim, a, 100000, 64);
    sim_run(sim, sim->now + 2 * MS, sim_busy);
    sim->end[a + 1].asleep = true;
    began = sim->now;
    sim_run(sim, sim->now + 1000 * SECOND, sim_busy);
    assert_int_equal(sim->end[a].session->state, SESSION_ENDED);
    assert_int_equal(sim->end[a].err, FI_ETIMEDOUT);
    assert_true(sim->now - began > 590 * SECOND);
    /* A message that had come, but was not acknowledged, may have failed: never less than came. */
    assert_true(sim->end[a].done <= sim->end[a + 1].delivered);
    sim_destroy(sim);
}

/* No end asks for longer than patience: that is no silence. */
static void idle_session_is_not_silent(void **state)
{
    struct sim *sim = sim_create(28);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});

    sim_send(sim, a, 10, 64);
    sim_run(sim, sim->now + 10 * SECOND, sim_busy);
    sim_run(sim, sim->now + 1000 * SECOND, NULL);
    sim_send(sim, a, 10, 64);
    sim_run(sim, sim->now + 10 * SECOND, sim_busy);
    all_arrived(sim, a);
    sim_destroy(sim);
}

/* Packets under way fill the window, and the peer acknowledges none of them. */
static void loss_of_a_whole_window_is_found(void **state)
{
    for (size_t c = 0; congestion_all[c]; c++) {
        struct sim *sim = sim_create(29);
        unsigned a = sim_pair(sim, congestion_all[c], 1500, &(struct sim_path){50 * US});
        uint64_t before;

        sim_send(sim, a, 100000, 64);
        sim_run(sim, sim->now + 2 * MS, sim_busy);
        sim->end[a].path.down = true;
        sim_run(sim, sim->now + 50 * MS, sim_busy);
        sim->end[a].path.down = false;
        before = sim->end[a].done;
        sim_run(sim, sim->now + SECOND, sim_busy);
        assert_true(sim->end[a].done > before + 1000);
        sim_run(sim, sim->now + 1000 * SECOND, sim_busy);
        all_arrived(sim, a);
        sim_destroy(sim);
    }
}

static void nobody_there_ends_within_a_second(void **state)
{
    struct sim *sim = sim_create(23);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});
    uint64_t began = sim->now;

    sim->end[a + 1].asleep = true;
    sim_send(sim, a, 10, 64);
    sim_run(sim, sim->now + 5 * MS, sim_busy);
    session_unreachable(sim->end[a].session, sim->now);
    sim->end[a].deadline = sim->now;
    sim_run(sim, sim->now + 1000 * SECOND, sim_busy);
    assert_int_equal(sim->end[a].err, FI_ECONNREFUSED);
    assert_true(sim->now - began < SECOND + 200 * MS);
    sim_destroy(sim);
}

static void a_forged_report_ends_nothing(void **state)
{
    struct sim *sim = sim_create(24);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US, .loss = 100});

    sim_send(sim, a, 100000, 64);
    for (int i = 0; i < 50; i++) {
        sim_run(sim, sim->now + MS, sim_busy);
        session_unreachable(sim->end[a].session, sim->now);
        sim->end[a].deadline = sim->now;
    }
    sim_run(sim, sim->now + 1000 * SECOND, sim_busy);
    all_arrived(sim, a);
    sim_destroy(sim);
}

static void a_peer_that_starts_again_resets(void **state)
{
    struct sim *sim = sim_create(25);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});

    sim_send(sim, a, 100000, 64);
    sim_run(sim, sim->now + 5 * MS, sim_busy);
    sim_restart(sim, a + 1);
    sim_run(sim, sim->now + 10 * SECOND, sim_busy);
    assert_int_equal(sim->end[a].session->state, SESSION_ENDED);
    assert_int_equal(sim->end[a].err, FI_ECONNRESET);
    assert_int_equal(sim->end[a].done + sim->end[a].failed, sim->end[a].made);
    sim_destroy(sim);
}

/* The sender has nothing under way but pieces, which such a peer cannot answer, and no probe. */
static void a_peer_that_starts_again_resets_behind_pieces(void **state)
{
    struct sim *sim = sim_create(27);
    unsigned a = sim_pair(sim, &congestion_delay, PATH_MTU_BASE, &(struct sim_path){50 * US});
    const struct session *session = sim->end[a].session;
    const struct session_message *message;

    sim_send(sim, a, 1, 60000);
    while (!session->traffic || !session->traffic->flight.acked)
        sim_run(sim, sim->now + 10 * US, NULL);
    assert_false(list_empty(&session->queued));
    message = list_item(session->queued.next, struct session_message, list);
    assert_true(message->unacked && !(message->unacked & 1));
    sim_restart(sim, a + 1);
    sim_run(sim, sim->now + SECOND, sim_busy);
    assert_int_equal(session->state, SESSION_ENDED);
    assert_int_equal(sim->end[a].err, FI_ECONNRESET);
    assert_int_equal(sim->end[a].failed, 1);
    sim_destroy(sim);
}

/* The receiver has no room; each packet that says it has again is lost at first. */
static void a_closed_window_is_asked_for(void **state)
{
    struct sim *sim = sim_create(26);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});

    session_set_credit(sim->end[a + 1].session, 0);
    sim_send(sim, a, 1000, 64);
    sim_run(sim, sim->now + 10 * SECOND, sim_busy);
    assert_true(sim->end[a].done < 1000);
    session_set_credit(sim->end[a + 1].session, 256);
    sim->end[a + 1].path.down = true;
    sim_run(sim, sim->now + SECOND, sim_busy);
    sim->end[a + 1].path.down = false;
    sim_run(sim, sim->now + 10 * SECOND, sim_busy);
    all_arrived(sim, a);
    sim_destroy(sim);
}

/* The peer answers, and never says that it has room: it is asked at most once a second, what is for
 * it stays with its sender, beside whom others go on, and ends once when the session does. */
static void a_window_that_never_opens_holds_its_own_messages(void **state)
{
    struct sim *sim = sim_create(35);
    struct sim_link link = {.rate = 1250000000, .room = 4000000};
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US, .link = &link});
    unsigned other = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});
    const struct session *session = sim->end[a].session;

    sim->end[a + 1].path.link = NULL;
    session_set_credit(sim->end[a + 1].session, 0);
    sim_send(sim, a, 1000, 64);
    sim_run(sim, sim->now + 10 * SECOND, NULL);
    link.packets = 0;
    sim_send(sim, other, 100000, 64);
    sim_run(sim, sim->now + 1000 * SECOND, NULL); /* longer than patience: it is no silence */
    all_arrived(sim, other);
    assert_int_equal(session->state, SESSION_OPEN);
    assert_int_equal(sim->end[a].done + sim->end[a].failed, 0);
    assert_int_equal(session->traffic->flight.bytes, 0);
    assert_in_range(link.packets, 900, 1100);
    sim->end[a].to_send = 0;
    session_end(sim->end[a].session, FI_ECANCELED, true);
    assert_int_equal(sim->end[a].failed, sim->end[a].made);
    assert_int_equal(sim->end[a].err, FI_ECANCELED);
    sim_destroy(sim);
}

/* It said that it has no room, and has been silent since. */
static void a_closed_window_is_not_waited_for_beyond_patience(void **state)
{
    struct sim *sim = sim_create(36);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});
    uint64_t began;

    session_set_credit(sim->end[a + 1].session, 0);
    sim_send(sim, a, 1000, 64);
    sim_run(sim, sim->now + 10 * SECOND, NULL);
    assert_int_equal(sim->end[a].session->state, SESSION_OPEN);
    sim->end[a + 1].asleep = true;
    began = sim->now;
    sim_run(sim, sim->now + 1000 * SECOND, sim_busy);
    assert_int_equal(sim->end[a].err, FI_ETIMEDOUT);
    assert_int_equal(sim->end[a].failed, sim->end[a].made);
    assert_true(sim->now - began > 590 * SECOND);
    sim_destroy(sim);
}

static void refused_messages_come_again(void **state)
{
    struct sim *sim = sim_create(27);
    unsigned a = sim_pair(sim, &congestion_delay, 1500, &(struct sim_path){50 * US});

    sim_send(sim, a, 5000, 64);
    for (int i = 0; i < 200; i++) {
        sim->end[a + 1].full = i % 2;
        sim_run(sim, sim->now + 200 * US, sim_busy);
    }
    sim->end[a + 1].full = false;
    sim_run(sim, sim->now + 100 * SECOND, sim_busy);
    all_arrived(sim, a);
    sim_destroy(sim);
}

/* ---- Trains ---- */

/* Messages of up to 64 pieces, both ways, through loss of 2 %, repeated and reordered packets, and
 * an MTU that falls and rises while they are under way. */
static void trains_arrive_once(void **state)
{
    const size_t sizes[] = {arq_pieces_room(ARQ_PIECES, PATH_MTU_BASE), 60000, 20000, 1145, 64};

    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct sim *sim = sim_create(seed);
        const struct sim_path path = {50 * US, 100 * US, .loss = 20, .dup = 20, .mtu = 9000};
        unsigned a = sim_pair(sim, congestion_all[seed % 3], 9000, &path);

        sim_use_trains(sim, a);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            sim_send(sim, a, 300, sizes[i]);
            sim_send(sim, a + 1, 300, sizes[(i + seed) % 5]);
            for (int step = 0; step < 20; step++) {
                sim->end[a].path.mtu = step % 2 ? 9000 : 1200 + 100 * (uint32_t)step;
                sim_run(sim, sim->now + 5 * MS, sim_busy);
            }
            sim->end[a].path.mtu = 1500;
            sim_run(sim, sim->now + 10000 * SECOND, sim_busy);
        }
        all_arrived(sim, a);
        all_arrived(sim, a + 1);
        print_message("seed %lu: %lu packets left in trains, %lu came so\n", (unsigned long)seed,
                      (unsigned long)sim->end[a].trains[0],
                      (unsigned long)sim->end[a + 1].trains[1]);
        assert_true(sim->end[a].trains[0] > 5000);
        assert_true(sim->end[a + 1].trains[1] > 1000);
        sim_destroy(sim);
    }
}

/* ---- A shared link ---- */

struct share {
    double fairness, use; /* Jain's index; of the link's rate */
    double wait;          /* us: of a packet in the queue */
    uint64_t dropped;
};

/* Messages of `size` bytes, in trains if they are longer than a packet. */
static struct share share_link(const struct congestion_ops *cc, unsigned flows, size_t size,
                               uint64_t seed)
{
    struct sim *sim = sim_create(seed);
    struct sim_link link = {.rate = 1250000000, .room = 4000000, .marks = 100000};
    const struct sim_path path = {20 * US, 1 * US, .link = &link};
    uint64_t bytes[SIM_ENDS] = {0}, carried;
    double sum = 0, squares = 0;
    struct share share;

    for (unsigned i = 0; i < flows; i++) {
        unsigned a = sim_pair(sim, cc, 4096, &path);

        sim->end[a + 1].path.link = NULL;
        if (size > 4096)
            sim_use_trains(sim, a);
        sim_send(sim, a, UINT64_C(1) << 40, size);
    }
    sim_run(sim, sim->now + 50 * MS, NULL);
    for (unsigned i = 0; i < flows; i++)
        bytes[i] = sim->end[2 * i + 1].bytes;
    link.waited = link.packets = link.dropped = 0;
    carried = link.carried;
    sim_run(sim, sim->now + 50 * MS, NULL);
    for (unsigned i = 0; i < flows; i++) {
        double rate = (double)(sim->end[2 * i + 1].bytes - bytes[i]);

        sum += rate;
        squares += rate * rate;
    }
    share.fairness = sum * sum / (flows * squares);
    share.use = (double)(link.carried - carried) / (0.05 * (double)link.rate);
    share.wait = (double)link.waited / (double)link.packets / 1000;
    share.dropped = link.dropped;
    sim_destroy(sim);
    print_message("%s, %u flows of %zu bytes, seed %lu: fairness %.3f, link %.3f, queue %.1f us, "
                  "%lu dropped\n",
                  cc->name, flows, size, (unsigned long)seed, share.fairness, share.use, share.wait,
                  (unsigned long)share.dropped);
    return share;
}

/* us that an algorithm aims at, at most, for a packet in the queue: `delay` by its margins, the
 * others where the link marks, at 100 kB of 10 Gbit/s. */
static double target_of(const struct congestion_ops *cc)
{
    return cc == &congestion_delay ? 225 : 80;
}

static void share_fairly(const struct congestion_ops *cc, unsigned flows, size_t size,
                         uint64_t seed)
{
    struct share share = share_link(cc, flows, size, seed);

    assert_true(share.fairness >= 0.95);
    assert_true(share.use >= 0.95);
    assert_true(share.wait <= 2 * target_of(cc));
}

/* Equal within 50 ms of their beginning, whatever jitter does. */
static void flows_share_a_link(void **state)
{
    const unsigned flows[] = {2, 4, 16};

    for (size_t c = 0; congestion_all[c]; c++) {
        for (size_t i = 0; i < sizeof(flows) / sizeof(*flows); i++) {
            for (uint64_t seed = 30; seed < 34; seed++)
                share_fairly(congestion_all[c], flows[i], 4000, seed);
        }
        share_fairly(congestion_all[c], 8, 4000, 31);
        share_fairly(congestion_all[c], 32, 4000, 32);
    }
}

static void flows_with_trains_share_a_link(void **state)
{
    for (size_t c = 0; congestion_all[c]; c++) {
        share_fairly(congestion_all[c], 2, 60000, 30);
        share_fairly(congestion_all[c], 8, 60000, 31);
        share_fairly(congestion_all[c], 32, 60000, 32);
    }
}

/* More flows than the path has packets for: each window is below one packet. */
static void many_flows_do_not_collapse(void **state)
{
    for (size_t c = 0; congestion_all[c]; c++) {
        for (uint64_t seed = 40; seed < 43; seed++)
            share_fairly(congestion_all[c], 64, 4000, seed);
    }
}

/* All begin at once towards one, in windows of sixteen packets each: ten times what the shorter
 * queue holds. A sender finds losses without a timeout that leaves the link idle. */
static void many_begin_at_once(const struct congestion_ops *cc, uint64_t room, uint64_t seed)
{
    enum {
        SENDERS = 64,
        EACH = 256,
        SIZE = 4000
    };
    struct sim *sim = sim_create(seed);
    struct sim_link link = {.rate = 1250000000, .room = room, .marks = 100000};
    const struct sim_path path = {20 * US, 1 * US, .link = &link};
    uint64_t began = sim->now;
    double goodput;

    for (unsigned i = 0; i < SENDERS; i++) {
        unsigned a = sim_pair(sim, cc, 4096, &path);

        sim->end[a + 1].path.link = NULL;
        sim_send(sim, a, EACH, SIZE);
    }
    sim_run(sim, 100 * SECOND, sim_busy);
    for (unsigned i = 0; i < SENDERS; i++) {
        all_arrived(sim, 2 * i);
        /* Losses of a queue that is full are no black hole. */
        assert_int_equal(sim->end[2 * i].session->mtu.size, 4096);
    }
    goodput = (double)SENDERS * EACH * SIZE * 1e9 / (double)(sim->now - began) / (double)link.rate;
    print_message("%s, 64 into one, seed %lu: goodput %.3f, %lu of %lu dropped\n", cc->name,
                  (unsigned long)seed, goodput, (unsigned long)link.dropped,
                  (unsigned long)link.packets);
    assert_true(goodput >= 0.9);
    sim_destroy(sim);
}

static void incast_does_not_collapse(void **state)
{
    for (size_t c = 0; congestion_all[c]; c++) {
        many_begin_at_once(congestion_all[c], 4000000, 50);
        for (uint64_t seed = 51; seed < 60; seed++)
            many_begin_at_once(congestion_all[c], 400000, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives_once),
        cmocka_unit_test(both_ends_open_at_once),
        cmocka_unit_test(path_mtu_is_found),
        cmocka_unit_test(path_mtu_falls_and_rises),
        cmocka_unit_test(a_peer_that_computes_is_waited_for),
        cmocka_unit_test(silence_ends_after_patience),
        cmocka_unit_test(idle_session_is_not_silent),
        cmocka_unit_test(loss_of_a_whole_window_is_found),
        cmocka_unit_test(nobody_there_ends_within_a_second),
        cmocka_unit_test(a_forged_report_ends_nothing),
        cmocka_unit_test(a_peer_that_starts_again_resets),
        cmocka_unit_test(a_peer_that_starts_again_resets_behind_pieces),
        cmocka_unit_test(a_closed_window_is_asked_for),
        cmocka_unit_test(a_window_that_never_opens_holds_its_own_messages),
        cmocka_unit_test(a_closed_window_is_not_waited_for_beyond_patience),
        cmocka_unit_test(refused_messages_come_again),
        cmocka_unit_test(trains_arrive_once),
        cmocka_unit_test(flows_share_a_link),
        cmocka_unit_test(flows_with_trains_share_a_link),
        cmocka_unit_test(many_flows_do_not_collapse),
        cmocka_unit_test(incast_does_not_collapse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

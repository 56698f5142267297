/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains of a session: what leaves, and what comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "tests/core/arq/one.h"

/* ---- Out ---- */

static void a_message_leaves_as_few_trains(void **state)
{
    struct session_message message = {.len = LEAVE(ARQ_PIECES) - 5};
    struct session *session = lone_session();

    assert_int_equal(session_train_room(session), LEAVE(54));
    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_int_equal(left.trains, 2);
    assert_int_equal(left.pieces, ARQ_PIECES);
    assert_int_equal(left.singles, 0);
    assert_int_equal(left.train.at, LEAVE(54));
    assert_int_equal(left.train.count, 10 * ROOM - 5);
    assert_int_equal(session->traffic->flight.out, ARQ_PIECES);
    assert_int_equal(session->traffic->flight.bytes, ARQ_PIECES * PATH_MTU_BASE - 5);
    assert_int_equal(session->in_pieces, 1);
    acknowledge(session, SECOND + MS, ARQ_PIECES, UINT64_MAX);
    assert_int_equal(left.ended, 1);
    assert_int_equal(session->traffic->flight.out, 0);
    assert_int_equal(session->traffic->undone, 0);
    close_lone(session);
}

/* A message that fits a packet is none, nor is the last piece alone. */
static void what_is_one_packet_leaves_as_one(void **state)
{
    struct session_message messages[2] = {{.len = WHOLE}, {.len = LEAVE(54) + 1}};
    struct session *session = lone_session();

    session_send(session, &messages[0]);
    run_a_while(session, SECOND);
    assert_true(left.singles == 1 && !left.trains);
    session_send(session, &messages[1]);
    run_a_while(session, SECOND + 200 * US);
    assert_true(left.singles == 2 && left.trains == 1 && left.pieces == 54);
    config.transmit_train = NULL;
    assert_int_equal(session_train_room(session), 0);
    close_lone(session);
}

/* A quarter of the window and a packet, or twelve, and all of them no more than the window. */
static void the_window_bounds_trains(void **state)
{
    struct session_message message = {.len = LEAVE(ARQ_PIECES)};
    struct session *session = lone_session();
    struct session_traffic *traffic = session->traffic;

    traffic->congestion.window = 60 * PATH_MTU_BASE;
    assert_int_equal(session_train_room(session), LEAVE(16));
    session_send(session, &message);
    for (int i = 0; i < 400; i++) {
        unsigned before = left.pieces, trains = left.trains;

        session_run(session, SECOND + (uint64_t)i * 100 * US, SECOND);
        assert_true(left.pieces - before <= 16 * (left.trains - trains));
        assert_in_range(traffic->flight.bytes, 0, traffic->congestion.window + PATH_MTU_BASE);
    }
    assert_in_range(left.pieces + left.singles, 60, 61);
    assert_true(left.trains >= 4);
    traffic->congestion.window = 30 * PATH_MTU_BASE;
    assert_int_equal(session_train_room(session), LEAVE(12));
    traffic->congestion.window = 5 * PATH_MTU_BASE;
    assert_int_equal(session_train_room(session), LEAVE(5));
    traffic->congestion.window = PATH_MTU_BASE;
    assert_int_equal(session_train_room(session), 0);
    close_lone(session);
}

/* A peer that has told of room for ten messages has it for ten packets. */
static void the_peers_room_bounds_trains(void **state)
{
    struct session_message messages[2] = {{.len = LEAVE(ARQ_PIECES)}, {.len = LEAVE(2)}};
    struct session *session = lone_session();

    session->limit = 10;
    session_send(session, &messages[0]);
    session_send(session, &messages[1]);
    run_a_while(session, SECOND);
    assert_int_equal(session->traffic->flight.out, 10);
    assert_int_equal(left.pieces, 10);
    acknowledge(session, SECOND + MS, 5, 0x1f);
    run_a_while(session, SECOND + MS);
    assert_int_equal(session->traffic->flight.out, 10);
    assert_int_equal(left.pieces + left.singles, 15);
    /* Without any room one packet is under way all the same. */
    session->limit = session->next_serial;
    acknowledge(session, SECOND + 2 * MS, 15, UINT64_MAX);
    assert_int_equal(session->traffic->flight.out, 0);
    run_a_while(session, SECOND + 2 * MS);
    assert_int_equal(session->traffic->flight.out, 1);
    close_lone(session);
}

/* One that the peer's room would cut leaves whole if a look finds acknowledgements, else cut: at
 * once where nothing is under way, whose end could come. */
static void a_train_that_is_cut_waits_for_a_look(void **state)
{
    for (int found = 0; found < 2; found++) {
        struct session_message messages[2] = {{.len = LEAVE(20)}, {.len = LEAVE(40)}};
        struct session *session = lone_session();

        session->limit = 30;
        session_send(session, &messages[0]);
        session_send(session, &messages[1]);
        session_run(session, SECOND, SECOND);
        assert_true(left.pieces == 20 && session->unfinished && session->looks);
        assert_false(session->held); /* the peer's room did it */
        if (found)
            acknowledge(session, SECOND + MS, 20, (1 << 20) - 1);
        session_run(session, SECOND + MS, SECOND);
        assert_int_equal(left.pieces, found ? 49 : 30);
        close_lone(session);
    }
}

/* Of what is lost pieces leave as trains that are next to each other. */
static void lost_pieces_leave_as_trains(void **state)
{
    struct session_message message = {.len = LEAVE(40)};
    struct session *session = lone_session();

    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_int_equal(left.pieces, 40);
    assert_true(session_resend(session, &message, UINT64_C(7) << 2 | UINT64_C(1) << 9));
    acknowledge(session, SECOND + MS, 5, 0x19); /* piece 4 has come after all */
    assert_true(message.unsent == (UINT64_C(3) << 2 | UINT64_C(1) << 9));
    memset(&left, 0, sizeof(left));
    run_a_while(session, SECOND + MS);
    assert_int_equal(left.trains, 1);
    assert_int_equal(left.pieces, 2);
    assert_int_equal(left.train.at, LEAVE(2));
    assert_int_equal(left.singles, 1);
    assert_int_equal(left.header.piece, 9);
    /* To the last piece, and all 64 of them. */
    assert_true(session_resend(session, &message, UINT64_C(3) << 38));
    run_a_while(session, SECOND + 2 * MS);
    assert_int_equal(left.train.at, LEAVE(38));
    assert_int_equal(left.train.count, 2 * ROOM);
    acknowledge(session, SECOND + 3 * MS, (uint32_t)session->traffic->flight.next, UINT64_MAX);
    assert_int_equal(left.ended, 1);
    close_lone(session);
}

/* One packet asks whether the peer is there. */
static void after_a_timeout_one_packet_leaves(void **state)
{
    struct session_message message = {.len = LEAVE(40)};
    struct session *session = lone_session();

    session_send(session, &message);
    run_a_while(session, SECOND);
    memset(&left, 0, sizeof(left));
    session->traffic->congestion.window = 10 * PATH_MTU_BASE; /* full */
    session_run(session, 2 * SECOND, 2 * SECOND);
    assert_int_equal(left.trains, 0);
    assert_int_equal(left.singles, 1);
    assert_int_equal(left.header.flags & ~(unsigned)ARQ_ALL, ARQ_NOW);
    close_lone(session);
}

/* The path takes less all at once: the rest leaves in other pieces. */
static void a_path_that_takes_less_cuts_anew(void **state)
{
    struct session_message message = {.len = LEAVE(40)};
    struct session *session;

    session = lone_session();
    config.most = 9000;
    path_mtu_init(&session->mtu, 9000);
    session->mtu.size = 9000;
    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_int_equal(left.train.packet, 9000);
    assert_int_equal(left.pieces, 6);
    session_limit_mtu(session, PATH_MTU_BASE);
    assert_int_equal(session_train_room(session), LEAVE(54));
    assert_true(session_resend(session, &message, 2));
    run_a_while(session, SECOND + MS);
    assert_int_equal(message.pieces, 40);
    assert_int_equal(left.pieces, 6 + 40);
    acknowledge(session, SECOND + 2 * MS, 6, 0x3f); /* says nothing of these */
    assert_int_equal(left.ended, 0);
    acknowledge(session, SECOND + 2 * MS, 46, UINT64_MAX);
    assert_int_equal(left.ended, 1);
    close_lone(session);
}

static void refused_trains_leave_one_by_one(void **state)
{
    struct session_message message = {.len = LEAVE(20)};
    struct session *session = lone_session();

    left.answer = SESSION_REFUSED;
    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_int_equal(left.singles, 20);
    assert_int_equal(session->traffic->flight.out, 20);
    acknowledge(session, SECOND + MS, 20, UINT64_MAX);
    assert_int_equal(left.ended, 1);
    close_lone(session);
}

/* Pieces that the lower does not take now have not left. */
static void a_full_lower_blocks(void **state)
{
    struct session_message message = {.len = LEAVE(20)};
    struct session *session = lone_session();

    left.answer = SESSION_FULL;
    session_send(session, &message);
    assert_true(session_run(session, SECOND, SECOND) == UINT64_MAX);
    assert_true(session->blocked);
    assert_int_equal(session->traffic->flight.out, 0);
    assert_int_equal(session->in_pieces, 0);
    left.answer = SESSION_REFUSED;
    left.full = true;
    session_run(session, SECOND, SECOND);
    assert_true(session->blocked && !session->traffic->flight.out);
    left.answer = SESSION_TAKEN;
    left.full = false;
    run_a_while(session, SECOND);
    assert_false(session->blocked);
    assert_int_equal(left.pieces + left.singles, 20);
    assert_int_equal(message.serial, 0);
    close_lone(session);
}

/* ---- In ---- */

static void a_train_is_taken_where_it_lies(void **state)
{
    struct session *session = lone_session();

    assert_true(come(session, (struct arq_header){.flags = ARQ_NOW, .pieces = 9}, 9, 3));
    assert_int_equal(came.parts, 1);
    check_bytes(0, COME(9, 3));
    assert_null(session->assemblies);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left.acks, 1);
    assert_int_equal(left.end, 9);
    check_told(0, 9);
    /* The same again, as the same packets and as others: it is acknowledged, and has come. */
    assert_false(come(session, (struct arq_header){.pieces = 9}, 9, 3));
    assert_int_equal(session->counts.duplicates, 9);
    assert_false(come(session, (struct arq_header){.number = 9, .pieces = 9}, 9, 3));
    assert_int_equal(session->counts.duplicates, 18);
    assert_int_equal(session->numbers.next, 18);
    assert_int_equal(came.parts + came.whole, 1);
    assert_int_equal(session->counts.ignored, 0);
    close_lone(session);
}

/* It comes in two trains, and in single packets, or as a train behind some of its pieces. */
static void parts_of_a_message_are_put_together(void **state)
{
    struct session *session = lone_session();

    assert_true(come(session, (struct arq_header){.piece = 4, .pieces = 9}, 5, 3));
    assert_int_equal(came.parts + came.whole, 0);
    assert_true(come(session, (struct arq_header){.number = 5, .pieces = 9}, 4, PIECE));
    assert_int_equal(came.whole, 1);
    check_bytes(0, COME(9, 3));
    assert_true(
        come(session, (struct arq_header){.number = 9, .serial = 1, .pieces = 9}, 2, PIECE));
    assert_true(session_has_pieces(session, 1));
    assert_true(come(session, (struct arq_header){.number = 11, .serial = 1, .pieces = 9}, 9, 3));
    assert_int_equal(came.whole, 2);
    assert_int_equal(came.parts, 0);
    check_bytes(1, COME(9, 3));
    assert_false(session_has_pieces(session, 1));
    assert_int_equal(session->numbers.next, 20);
    assert_int_equal(session->serials.next, 2);
    /* The pieces of another message do not matter to one that has all. */
    come(session, (struct arq_header){.number = 20, .serial = 2, .pieces = 9}, 1, PIECE);
    assert_true(come(session, (struct arq_header){.number = 21, .serial = 3, .pieces = 9}, 9, 1));
    assert_int_equal(came.parts, 1);
    check_bytes(3, COME(9, 1));
    /* An owner that takes no parts has them put together. */
    config.deliver_parts = NULL;
    assert_true(come(session, (struct arq_header){.number = 30, .serial = 4, .pieces = 9}, 9, 2));
    assert_int_equal(came.whole, 3);
    check_bytes(4, COME(9, 2));
    close_lone(session);
}

/* An owner without room: nothing is acknowledged, and the message may come again. */
static void a_refused_train_comes_again(void **state)
{
    struct session *session = lone_session();

    came.full = true;
    assert_true(come(session, (struct arq_header){.pieces = 9}, 9, 3));
    assert_int_equal(session->counts.ignored, 9);
    assert_int_equal(session->numbers.end, 0);
    assert_int_equal(session->ack_at, 0);
    /* Put together, it lacks the last piece that came. */
    assert_true(come(session, (struct arq_header){.number = 9, .piece = 0, .pieces = 9}, 4, PIECE));
    assert_true(come(session, (struct arq_header){.number = 13, .piece = 4, .pieces = 9}, 5, 3));
    assert_int_equal(session->counts.ignored, 10);
    assert_int_equal(session->numbers.end, 17);
    came.full = false;
    assert_true(come(session, (struct arq_header){.number = 18, .pieces = 9}, 9, 3));
    assert_int_equal(came.whole, 1);
    check_bytes(0, COME(9, 3));
    close_lone(session);
}

/* Packets that are not of this session, or cannot be, have no effect: each is judged alone. */
static void trains_that_do_not_fit_have_no_effect(void **state)
{
    struct session *session = lone_session();

    assert_false(come(session, (struct arq_header){.to = 3, .pieces = 9}, 9, 3));
    assert_false(come(session, (struct arq_header){.serial = SESSION_SERIALS, .pieces = 9}, 9, 3));
    assert_int_equal(session->counts.ignored, 9);
    assert_int_equal(session->numbers.end, 0);
    assert_int_equal(session->serials.end, 0);
    /* It acknowledges what never was: only that packet says so. */
    assert_false(come(session, (struct arq_header){.end = 1, .pieces = 9}, 9, 3));
    assert_int_equal(session->counts.ignored, 10);
    assert_true(session->numbers.next == 0 && session->numbers.end == 9);
    assert_int_equal(came.parts + came.whole, 0);
    /* Numbers that others have overtaken. */
    assert_true(come(session, (struct arq_header){.number = 30, .serial = 1, .pieces = 9}, 9, 3));
    assert_false(come(session, (struct arq_header){.number = 12, .serial = 2, .pieces = 9}, 9, 3));
    assert_int_equal(came.whole, 1);
    check_bytes(2, COME(9, 3));
    session_end(session, FI_ECONNRESET, false);
    assert_false(come(session, (struct arq_header){.number = 40, .serial = 3, .pieces = 9}, 9, 3));
    assert_int_equal(came.whole + came.parts, 2);
    close_lone(session);
}

/* An owner may end the session as a message comes. */
static void a_session_may_end_with_a_train(void **state)
{
    struct session *session = lone_session();

    came.ends = true;
    assert_true(come(session, (struct arq_header){.pieces = 9}, 9, 3));
    assert_int_equal(session->state, SESSION_ENDED);
    assert_true(session_run(session, SECOND + MS, SECOND + MS) == UINT64_MAX);
    assert_int_equal(left.acks, 0);
    close_lone(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_leaves_as_few_trains),
        cmocka_unit_test(what_is_one_packet_leaves_as_one),
        cmocka_unit_test(the_window_bounds_trains),
        cmocka_unit_test(the_peers_room_bounds_trains),
        cmocka_unit_test(a_train_that_is_cut_waits_for_a_look),
        cmocka_unit_test(lost_pieces_leave_as_trains),
        cmocka_unit_test(after_a_timeout_one_packet_leaves),
        cmocka_unit_test(a_path_that_takes_less_cuts_anew),
        cmocka_unit_test(refused_trains_leave_one_by_one),
        cmocka_unit_test(a_full_lower_blocks),
        cmocka_unit_test(a_train_is_taken_where_it_lies),
        cmocka_unit_test(parts_of_a_message_are_put_together),
        cmocka_unit_test(a_refused_train_comes_again),
        cmocka_unit_test(trains_that_do_not_fit_have_no_effect),
        cmocka_unit_test(a_session_may_end_with_a_train),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

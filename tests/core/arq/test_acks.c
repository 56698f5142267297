/* SPDX-License-Identifier: BSD-2-Clause */
/* A session acknowledges trains and messages, and asks to have its own acknowledged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "tests/core/arq/one.h"

/* Trains that ask for nothing wait for one that does, or for the time that a lone packet waits; so
 * many do not. */
static void trains_are_acknowledged_when_they_ask(void **state)
{
    struct session *session = lone_session();

    for (uint32_t i = 0; i < 3; i++)
        come(session, (struct arq_header){.number = 50 * i, .serial = i, .pieces = 50}, 50, 3);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left.acks, 0);
    come_asking(session, 150, 3, 50);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left.acks, 1);
    check_told(0, 200);
    come(session, (struct arq_header){.number = 200, .serial = 4, .pieces = 50}, 50, 3);
    assert_true(session_run(session, SECOND, SECOND) == SECOND + config.ack_delay);
    session_run(session, SECOND + config.ack_delay, SECOND + config.ack_delay);
    assert_int_equal(left.acks, 2);
    check_told(150, 250);
    for (uint32_t i = 5; i < 12; i++) {
        come(session, (struct arq_header){.number = 50 * i, .serial = i, .pieces = 50}, 50, 3);
        session_run(session, SECOND, SECOND);
    }
    assert_int_equal(left.acks, 3);
    assert_int_equal(session_untold(session), 50);
    close_lone(session);
}

/* A message that answers soon acknowledges a train; else an ACK does. */
static void an_answer_acknowledges_a_train(void **state)
{
    const struct arq_header first = {.flags = ARQ_ASKS, .pieces = 50};
    const struct arq_header second = {.flags = ARQ_ASKS, .number = 50, .serial = 1, .pieces = 50};
    struct session_message message = {.len = 100};
    struct session *session = lone_session();

    come(session, first, 50, 3);
    assert_true(session_run(session, SECOND, SECOND) < SECOND + config.ack_delay);
    assert_int_equal(left.acks, 0);
    session_send(session, &message);
    session_run(session, SECOND, SECOND);
    assert_true(left.singles == 1 && left.header.end == 50);
    session_run(session, SECOND + MS, SECOND + MS);
    assert_int_equal(left.acks, 0);
    come(session, second, 50, 3);
    session_run(session, SECOND + MS, SECOND + MS);
    assert_int_equal(left.acks, 1);
    check_told(50, 100);
    close_lone(session);
}

/* A train that asks for nothing is before one that asks: the answer has its time all the same.
 * Behind another that asks, the ACK leaves at once. */
static void a_silent_train_before_it_hurries_no_ack(void **state)
{
    const struct arq_header trains[] = {
        {.pieces = 50},
        {.flags = ARQ_ASKS, .number = 50, .serial = 1, .pieces = 50},
        {.flags = ARQ_ASKS, .number = 100, .serial = 2, .pieces = 50},
    };
    struct session *session = lone_session();
    uint64_t next;

    come(session, trains[0], 50, 3);
    assert_true(session_run(session, SECOND, SECOND) == SECOND + config.ack_delay);
    come(session, trains[1], 50, 3);
    next = session_run(session, SECOND, SECOND);
    assert_true(next > SECOND && next < SECOND + config.ack_delay);
    assert_int_equal(left.acks, 0);
    come(session, trains[2], 50, 3);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left.acks, 1);
    check_told(0, 150);
    close_lone(session);
}

/* A part of the window at a time, the third to last, whose answer is in no other one's way, and the
 * last; whether they are one message or several. */
static void trains_ask_for_a_part_of_the_window(void **state)
{
    struct session_message messages[8];
    struct session *session = lone_session();

    session->traffic->congestion.window = 480 * PATH_MTU_BASE; /* of which 120 are a part */
    for (unsigned i = 0; i < 8; i++) {
        messages[i] = (struct session_message){.len = LEAVE(50)};
        session_send(session, &messages[i]);
    }
    run_for_long(session, SECOND);
    assert_int_equal(left.trains, 8);
    assert_int_equal(left.asked, 1 << 2 | 1 << 5);
    assert_int_equal(left.asked_soon, 1 << 7);
    close_lone(session);
    session = lone_session();
    messages[0] = (struct session_message){.len = LEAVE(20)};
    session->traffic->congestion.window = 24 * PATH_MTU_BASE; /* trains of twelve */
    session_send(session, &messages[0]);
    run_for_long(session, SECOND);
    assert_int_equal(left.trains, 2);
    assert_int_equal(left.asked, 1);
    assert_int_equal(left.asked_soon, 2);
    close_lone(session);
}

/* The piece that is left of a message after its trains asks, too. */
static void a_last_piece_alone_asks(void **state)
{
    struct session_message message = {.len = LEAVE(54) + 1};
    struct session *session = lone_session();

    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_true(left.singles == 1 && left.trains == 1);
    assert_int_equal(left.header.piece, 54);
    assert_int_equal(left.header.flags, ARQ_ASKS);
    assert_true(left.header.brief);
    close_lone(session);
}

/* More numbers come at once than a packet's word has bits. A message that leaves says that all have
 * come; where one is missing it says what it can, and an ACK the rest. */
static void more_than_a_word_is_told_of(void **state)
{
    struct session_message messages[2] = {{.len = 100}, {.len = 100}};
    struct session *session = lone_session();

    for (uint32_t i = 0; i < 5; i++)
        assert_true(come_asking(session, 50 * i, i, 50));
    session_send(session, &messages[0]);
    session_run(session, SECOND, SECOND);
    assert_true(left.singles == 1 && !left.acks);
    assert_true(left.header.end == 250 && left.header.flags & ARQ_ALL);
    session_run(session, SECOND + MS, SECOND + MS);
    assert_int_equal(left.acks, 0);
    acknowledge(session, SECOND + MS, 1, 1);
    for (uint32_t i = 0; i < 2; i++) /* without number 250 */
        assert_true(come_asking(session, 251 + 50 * i, 5 + i, 50));
    session_send(session, &messages[1]);
    session_run(session, SECOND + MS, SECOND + MS);
    assert_true(left.singles == 2 && left.acks == 1);
    assert_true(left.header.end == 351 && !(left.header.flags & ARQ_ALL));
    check_told(251, 351);
    assert_false(told_of(250));
    assert_true(told_of(249));
    close_lone(session);
}

/* ARQ_ALL covers ARQ_NUMBERS: what is older the peer may have forgotten. */
static void all_is_as_much_as_can_be_told(void **state)
{
    struct session_message messages[30];
    struct session *session = lone_session();
    struct arq_header header = {
        .type = ARQ_ACK, .flags = ARQ_ALL, .to = 1, .from = 2, .below = UINT64_MAX - 2};
    uint8_t bytes[ARQ_HEADER] = {0};

    session->limit = 4000;
    session->traffic->congestion.window = 4 * WINDOW;
    for (unsigned i = 0; i < 30; i++) {
        messages[i] = (struct session_message){.len = LEAVE(50)};
        session_send(session, &messages[i]);
    }
    for (int i = 0; i < 4; i++) {
        session->in_pieces = 0; /* as if the peer had room for more */
        run_for_long(session, SECOND);
    }
    assert_int_equal(session->traffic->flight.out, 1500);
    header.end = 1501;
    session_receive(session, SECOND, &header, bytes, sizeof(bytes), false);
    assert_true(session->counts.ignored == 1 && session->traffic->flight.out == 1500);
    session->in_pieces = 30;
    header.end = 1100;
    session_receive(session, SECOND, &header, bytes, sizeof(bytes), false);
    assert_int_equal(session->traffic->flight.out, 1500 - ARQ_NUMBERS + 1); /* without 1098 */
    assert_int_equal(left.ended, (1100 - 100) / 50 - 1);
    close_lone(session);
}

/* A number that has been missing for so long is no longer told of. */
static void all_does_not_cover_what_was_given_up(void **state)
{
    struct session *session = lone_session();

    for (uint32_t i = 0; i < 21; i++) {
        come(session, (struct arq_header){.number = 1 + 50 * i, .serial = i, .pieces = 50}, 50, 3);
        session_run(session, SECOND, SECOND);
        assert_int_equal(left.acks, i < 20 ? i + 1 : 20); /* at once, while there is a gap */
        check_told(1, left.end);
        assert_false(told_of(0));
    }
    assert_int_equal(left.end, 1001);
    assert_true(session->numbers.next == 1051 && session->numbers.end == 1051);
    session_run(session, SECOND + MS, SECOND);
    assert_int_equal(left.acks, 21);
    assert_int_equal(left.end, 1051);
    check_told(1051 - ARQ_NUMBERS, 1051);
    close_lone(session);
}

/* Pieces behind the first say nothing of what has come: 1 and 2, of numbers that are missing. */
static void pieces_acknowledge_nothing(void **state)
{
    const struct arq_header answer = {.pieces = 9, .end = 40, .below = ~(UINT64_C(3) << 37)};
    struct session_message message = {.len = LEAVE(40)};
    struct session *session = lone_session();

    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_int_equal(left.pieces, 40);
    come(session, answer, 9, 3);
    assert_int_equal(message.unacked, 6);
    session->traffic->pacer.next = 0;
    session_run(session, SECOND + 10 * US, SECOND);
    assert_true(left.pieces == 42 && left.header.piece == 1 && left.header.brief);
    assert_true(session->ack_at && !left.acks);
    session_run(session, SECOND + MS, SECOND);
    assert_int_equal(left.acks, 1);
    check_told(0, 9);
    close_lone(session);
}

/* A peer that has forgotten the session cannot answer a piece. */
static void a_piece_asks_behind_an_ack_after_a_timeout(void **state)
{
    struct session_message message = {.len = LEAVE(40)};
    struct session *session = lone_session();

    session_send(session, &message);
    run_a_while(session, SECOND);
    acknowledge(session, SECOND + MS, 1, 1);
    assert_int_equal(message.unacked & 3, 2);
    session_run(session, 2 * SECOND, 2 * SECOND);
    assert_true(left.singles == 1 && left.header.piece == 1 && left.header.brief);
    assert_true(left.acks == 1 && left.asks_back);
    close_lone(session);
}

/* The next ACK says again what the last one did, which may be lost. */
static void a_lost_ack_of_a_train_is_made_good(void **state)
{
    struct session *session = lone_session();

    for (uint32_t i = 0; i < 4; i++) {
        come_asking(session, 54 * i, i, 54);
        session_run(session, SECOND, SECOND);
        assert_int_equal(left.acks, i + 1);
        check_told(i ? 54 * (i - 1) : 0, 54 * (i + 1));
    }
    close_lone(session);
}

/* Late packets fill a gap far below the highest number: their sender hears of them. */
static void late_trains_are_told_of(void **state)
{
    struct session *session = lone_session();

    come(session, (struct arq_header){.number = 50, .serial = 1, .pieces = 50}, 50, 3);
    come(session, (struct arq_header){.number = 100, .serial = 2, .pieces = 50}, 50, 3);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left.acks, 1);
    assert_false(told_of(0));
    assert_false(come(session, (struct arq_header){.number = 0, .serial = 0, .pieces = 50}, 50, 3));
    assert_int_equal(session->numbers.next, 150);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left.acks, 2);
    check_told(0, 150);
    close_lone(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_are_acknowledged_when_they_ask),
        cmocka_unit_test(an_answer_acknowledges_a_train),
        cmocka_unit_test(a_silent_train_before_it_hurries_no_ack),
        cmocka_unit_test(trains_ask_for_a_part_of_the_window),
        cmocka_unit_test(a_last_piece_alone_asks),
        cmocka_unit_test(more_than_a_word_is_told_of),
        cmocka_unit_test(all_is_as_much_as_can_be_told),
        cmocka_unit_test(all_does_not_cover_what_was_given_up),
        cmocka_unit_test(pieces_acknowledge_nothing),
        cmocka_unit_test(a_piece_asks_behind_an_ack_after_a_timeout),
        cmocka_unit_test(a_lost_ack_of_a_train_is_made_good),
        cmocka_unit_test(late_trains_are_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

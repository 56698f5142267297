/* SPDX-License-Identifier: BSD-2-Clause */
/* One session by itself: its packets are counted, and its peer's answers made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

#include "core/arq/session_impl.h"

enum {
    US = 1000,
    MS = 1000 * US,
};
#define SECOND UINT64_C(1000000000)

static unsigned left_count, left_kept;
static size_t left_bytes;
static uint8_t left_types[2]; /* of the first packets */

static bool count_packet(struct session *session, const struct session_packet *packet)
{
    if (left_count < 2)
        left_types[left_count] = packet->bytes[1] & 15;
    left_count++;
    left_bytes += packet->len + packet->count;
    left_kept = (unsigned)packet->bytes[48] << 8 | packet->bytes[49];
    return true;
}

static unsigned ended;

static void count_end(struct session *session, struct session_message *message, int err)
{
    assert_int_equal(err, 0);
    ended++;
}

static bool take(struct session *session, const uint8_t *bytes, size_t len)
{
    return true;
}

static struct session *lone_session(uint64_t now)
{
    static const struct session_config config = {
        .congestion = &congestion_delay,
        .most = 65507,
        .patience = 600 * SECOND,
        .ack_delay = 100 * US,
        .transmit = count_packet,
        .deliver = take,
        .done = count_end,
    };
    struct session *session = malloc(sizeof(*session));

    assert_non_null(session);
    session_init(session, &config, 1, 2, 64, now);
    session->limit = 4096;
    session_run(session, now, now); /* ACCEPT */
    left_count = left_bytes = ended = 0;
    return session;
}

static void close_lone(struct session *session)
{
    session_finish(session);
    free(session);
}

/* The peer acknowledges `bits` of the packets below `end`, at `now`, and has kept that for kept_ms.
 */
static void acknowledge(struct session *session, uint64_t now, uint32_t end, uint64_t bits,
                        unsigned kept_ms)
{
    struct arq_header header = {.type = ARQ_ACK,
                                .to = 1,
                                .from = 2,
                                .end = end,
                                .below = bits,
                                .kept = (uint16_t)(kept_ms * MS / ARQ_KEPT_UNIT)};
    uint8_t bytes[ARQ_HEADER] = {0};

    session_receive(session, now, &header, bytes, sizeof(bytes), false);
}

/* A packet with data tells of a word of numbers, unless all have come, and the peer would take
 * those before it for lost. */
static void an_ack_goes_before_data_that_does_not_tell_all(void **state)
{
    struct arq_header header = {.type = ARQ_DATA, .to = 1, .from = 2, .pieces = 1};
    uint8_t bytes[ARQ_HEADER + 8] = {0};

    for (unsigned i = 0; i < 4; i++) {
        struct session_message message = {.len = 100};
        struct session *session = lone_session(SECOND);
        uint32_t missing = i < 2 ? 0 : 1, end = missing + SERIAL_WORD + 1;

        for (header.number = header.serial = missing; header.number < end; header.number++) {
            session_receive(session, SECOND, &header, bytes, sizeof(bytes), false);
            header.serial++;
        }
        if (i % 2)
            session_send_now(session, &message, SECOND);
        else
            session_send(session, &message);
        session_run(session, SECOND, SECOND);
        assert_int_equal(left_count, missing ? 2 : 1);
        assert_int_equal(left_types[0], missing ? ARQ_ACK : ARQ_DATA);
        assert_int_equal(left_types[left_count - 1], ARQ_DATA);
        close_lone(session);
    }
}

/* Its answer may be where the owner has not looked yet: after a long sleep, say. */
static void peer_is_not_late_before_its_answer_was_read(void **state)
{
    struct session_message message = {.len = 100};
    struct session *session = lone_session(SECOND);

    session_send(session, &message);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left_count, 1);
    session_run(session, 1000 * SECOND, SECOND + MS);
    assert_int_equal(left_count, 1);
    assert_int_equal(session->state, SESSION_OPEN);
    session_run(session, 1000 * SECOND, 2 * SECOND);
    assert_int_equal(left_count, 2);
    close_lone(session);
}

/* A lone message needs no run of its session, nor does its acknowledgement. The session forgets old
 * samples all the same. */
static void lone_message_leaves_at_once(void **state)
{
    struct session_message messages[2] = {{.len = 100}, {.len = 100}};
    struct session *session = lone_session(SECOND);
    uint64_t now = SECOND;

    assert_true(session_send_now(session, &messages[0], now) > now);
    assert_int_equal(left_count, 1);
    acknowledge(session, now + 20 * US, 1, 1, 0);
    assert_int_equal(ended, 1);
    assert_true(session_rests_until(session, now + 20 * US) == now + 20 * US + SECOND);
    now += 10000 * SECOND;
    assert_true(session_send_now(session, &messages[1], now) > now);
    assert_int_equal(left_count, 2);
    session_run(session, now + US, now + US);
    assert_int_equal(session->state, SESSION_OPEN);
    close_lone(session);
}

/* Behind another that waits it waits too, in its turn. */
static void message_behind_others_waits(void **state)
{
    struct session_message messages[2] = {{.len = 100}, {.len = 100}};
    struct session *session = lone_session(SECOND);

    session_send(session, &messages[0]);
    assert_int_equal(session_send_now(session, &messages[1], SECOND), 0);
    assert_int_equal(left_count, 0);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left_count, 2);
    assert_true(messages[0].serial < messages[1].serial);
    close_lone(session);
}

/* A probe of the path is longer than the window, and no message waits for its answer. */
static void probe_holds_no_message_back(void **state)
{
    struct session_message messages[3] = {{.len = 100}, {.len = 100}, {.len = 100}};
    struct session *session = lone_session(SECOND);
    uint64_t now = SECOND;

    session_send(session, &messages[0]);
    session_run(session, now, now);
    now += 20 * US;
    acknowledge(session, now, 1, 1, 0);
    session_send(session, &messages[1]);
    session_run(session, now, now);
    assert_true(left_bytes > session->traffic->congestion.window); /* with a probe */
    left_count = 0;
    now += 20 * US;
    session_send(session, &messages[2]);
    session_run(session, now, now);
    assert_int_equal(left_count, 1);
    close_lone(session);
}

/* An end that could not read has sent packets again that had come long since: the answer to the
 * first is enough, and the second one carries nothing any more. */
static void late_acknowledgement_ends_a_message(void **state)
{
    struct session_message message = {.len = 100}, other = {.len = 100};
    struct session *session = lone_session(SECOND);
    struct arq_header header = {.type = ARQ_ACK, .to = 1, .from = 2, .end = 1, .below = 1};
    uint8_t bytes[ARQ_HEADER] = {0};

    session_send(session, &message);
    session_run(session, SECOND, SECOND);
    session_run(session, 2 * SECOND, 2 * SECOND); /* a timeout */
    assert_int_equal(left_count, 2);
    session_receive(session, 2 * SECOND, &header, bytes, sizeof(bytes), false);
    assert_int_equal(ended, 1);
    memset(&message, 0xff, sizeof(message)); /* it is its owner's again */
    assert_false(session_has_messages(session));
    session_run(session, 3 * SECOND, 3 * SECOND);
    session_run(session, 4 * SECOND, 4 * SECOND);
    session_send(session, &other);
    session_run(session, 5 * SECOND, 5 * SECOND);
    header.end = 3;
    header.below = 7;
    session_receive(session, 5 * SECOND, &header, bytes, sizeof(bytes), false);
    assert_int_equal(ended, 2);
    close_lone(session);
}

/* An acknowledgement that may have waited for us is no sample of the round trip; and the peer is
 * told that the answer to such a packet is none. */
static void what_was_read_late_says_nothing_of_the_round_trip(void **state)
{
    struct session_message messages[2] = {{.len = 100}, {.len = 100}};
    struct session *session = lone_session(SECOND);
    struct arq_header header = {.type = ARQ_PROBE, .to = 1, .from = 2, .end = 1, .below = 1};
    uint8_t bytes[ARQ_HEADER] = {0};
    uint64_t now = SECOND;

    for (int late = 1; late >= 0; late--) {
        session_send_now(session, &messages[late], now);
        assert_int_equal(ended, 1 - late);
        header.late = late;
        now += 5 * MS;
        session_receive(session, now, &header, bytes, sizeof(bytes), false);
        assert_int_equal(ended, 2 - late);
        assert_true(session->traffic->rtt.smoothed == (late ? 0 : 5 * (uint64_t)MS));
        session_run(session, now + 100 * US, now + 100 * US); /* acknowledges */
        assert_int_equal(left_kept, late ? ARQ_KEPT_MAX : 100 * US / ARQ_KEPT_UNIT);
        header.number = header.serial = 1;
        header.end = (uint32_t)session->traffic->flight.next + 1;
    }
    close_lone(session);
}

/* Three timeouts in a row: the network has lost everything, or the peer did not look. */
static void only_the_network_makes_the_window_collapse(void **state)
{
    for (int came = 0; came < 2; came++) {
        struct session_message messages[2] = {{.len = 100}, {.len = 100}};
        struct session *session = lone_session(SECOND);
        uint64_t now = SECOND, window;

        session_send(session, &messages[0]);
        session_run(session, now, now);
        acknowledge(session, now + 50 * US, 1, 1, 0);
        session_send(session, &messages[1]);
        session_run(session, now, now);
        window = session->traffic->congestion.window;
        for (int i = 0; i < 3; i++) {
            now += 2 * SECOND;
            session_run(session, now, now);
        }
        assert_int_equal(session->timeouts, 3);
        assert_int_equal(session->traffic->congestion.window, window);
        acknowledge(session, now + 50 * US, (uint32_t)session->traffic->flight.next,
                    came ? UINT64_MAX : 1, 0);
        assert_int_equal(ended, 2);
        assert_true(came ? session->traffic->congestion.window >= window
                         : session->traffic->congestion.window < window / 2);
        close_lone(session);
    }
}

/* Packets that leave while the peer does not look have passed the network when it looks again. */
static void peer_that_pauses_is_sent_for(void **state)
{
    static struct session_message messages[600];
    size_t bytes[2];

    for (int pauses = 0; pauses < 2; pauses++) {
        struct session *session = lone_session(SECOND);
        uint64_t now = SECOND;

        messages[0] = (struct session_message){.len = 1000};
        session_send(session, &messages[0]);
        session_run(session, now, now);
        now += 50 * US + (pauses ? 20 * MS : 0);
        acknowledge(session, now, 1, 1, pauses ? 20 : 0);
        left_bytes = 0;
        for (int i = 1; i < 600; i++) {
            messages[i] = (struct session_message){.len = 1000};
            session_send(session, &messages[i]);
        }
        for (int i = 1; i < 400; i++)
            session_run(session, now + (uint64_t)i * 50 * US, SECOND);
        bytes[pauses] = left_bytes - 65507; /* a probe of the path */
        close_lone(session);
    }
    assert_true(bytes[0] < 64 * 1024);
    assert_true(bytes[1] > 400 * 1024);
}

/* Memory comes with use, and goes a second after; what is known of the path stays, and numbers are
 * never used twice. */
static void idle_session_gives_memory_back(void **state)
{
    static struct session_message messages[400];
    struct session *session = lone_session(SECOND);
    uint64_t now = SECOND, number = 0, smoothed = 0;

    assert_true(sizeof(*session) <= 448);
    for (int round = 0; round < 2; round++) {
        uint32_t most = 0;

        if (round) {
            acknowledge(session, now, (uint32_t)number, UINT64_MAX, 0);
            acknowledge(session, now, (uint32_t)number + 1, 1, 0); /* a lie */
            assert_int_equal(session->counts.ignored, 1);
            assert_true(session_traffic_begin(session));
            assert_true(session->traffic->flight.next == number);
            assert_true(session->traffic->rtt.smoothed == smoothed);
        }
        for (int i = 0; i < 400; i++) {
            messages[i] = (struct session_message){.len = 100};
            session_send(session, &messages[i]);
        }
        for (int i = 0; session_has_messages(session); i++) {
            assert_true(i < 10000);
            session_run(session, now, now);
            most = session->traffic->flight.size > most ? session->traffic->flight.size : most;
            now += 20 * US;
            acknowledge(session, now, (uint32_t)session->traffic->flight.next, UINT64_MAX, 0);
        }
        assert_true(most > SESSION_FEW);
        assert_true(session_run(session, now, now) <= now + SECOND);
        assert_int_equal(session->traffic->flight.size, most);
        number = session->traffic->flight.next;
        smoothed = session->traffic->rtt.smoothed;
        assert_true(smoothed > 0);
        now += 2 * SECOND;
        assert_true(session_run(session, now, now) == UINT64_MAX);
        assert_null(session->traffic);
    }
    close_lone(session);
}

static bool deliver_any(struct session *session, const uint8_t *bytes, size_t len)
{
    return true;
}

/* 200 packets overtake the first of each round; then it comes, too. */
static void windows_grow_and_are_given_back(void **state)
{
    struct session_config config;
    struct session *session = lone_session(SECOND);
    uint64_t now = SECOND;
    uint32_t next = 0;

    config = *session->config;
    config.deliver = deliver_any;
    session->config = &config;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 1; i <= 201; i++) {
            uint32_t number = next + (i == 201 ? 0 : i);
            struct arq_header header = {.type = ARQ_DATA,
                                        .to = 1,
                                        .from = 2,
                                        .number = number,
                                        .serial = number,
                                        .pieces = 1};
            uint8_t bytes[ARQ_HEADER] = {0};

            session_receive(session, now, &header, bytes, sizeof(bytes), false);
            assert_int_equal(session->numbers.end, number < next + 1 ? next + 201 : number + 1);
            session_run(session, now, now);
        }
        next += 201;
        assert_int_equal(session->numbers.next, next);
        assert_int_equal(session->serials.next, next);
        assert_ptr_not_equal(session->numbers.bits, &session->number_bits);
        assert_ptr_not_equal(session->serials.bits, &session->serial_bits);
        assert_int_equal(session->counts.ignored + session->counts.duplicates, 0);
        now += 2 * SECOND;
        session_run(session, now, now);
        assert_ptr_equal(session->numbers.bits, &session->number_bits);
        assert_ptr_equal(session->serials.bits, &session->serial_bits);
    }
    close_lone(session);
}

/* One of two pieces that were called lost has come after all. */
static void late_acknowledgement_of_a_piece_is_not_sent_again(void **state)
{
    struct session_message message = {.len = 2000};
    struct session *session = lone_session(SECOND);
    struct arq_header header = {.type = ARQ_ACK, .to = 1, .from = 2, .end = 2, .below = 2};
    uint8_t bytes[ARQ_HEADER] = {0};

    session_send(session, &message);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left_count, 2);
    session->traffic->pacer.next = UINT64_MAX;
    session->blocked = true;
    session_run(session, 2 * SECOND, 2 * SECOND);
    session_receive(session, 2 * SECOND, &header, bytes, sizeof(bytes), false);
    assert_int_equal(ended, 0);
    for (uint64_t now = 3; now < 20; now++)
        session_run(session, now * SECOND, now * SECOND);
    assert_true(session_has_messages(session));
    header.below = 3;
    session_receive(session, 20 * SECOND, &header, bytes, sizeof(bytes), false);
    assert_int_equal(ended, 1);
    assert_false(session_has_messages(session));
    close_lone(session);
}

/* The peer has room for the pieces of 16 messages. */
static void no_more_messages_leave_in_pieces_than_the_peer_keeps(void **state)
{
    struct session_message messages[SESSION_ASSEMBLIES + 4], whole = {.len = 100};
    struct session *session = lone_session(SECOND);
    uint64_t now = SECOND;

    assert_true(session_traffic_begin(session));
    session->traffic->congestion.window = 1 << 20;
    for (size_t i = 0; i < SESSION_ASSEMBLIES + 4; i++) {
        messages[i] = (struct session_message){.len = 2000};
        session_send(session, &messages[i]);
    }
    session_send(session, &whole);
    for (int i = 0; i < 1000; i++, now += US)
        session_run(session, now, SECOND);
    assert_int_equal(left_count, 2 * SESSION_ASSEMBLIES);
    assert_int_equal(session->next_serial, SESSION_ASSEMBLIES);
    acknowledge(session, now, 2, 3, 0);
    assert_int_equal(ended, 1);
    for (int i = 0; i < 1000; i++, now += US)
        session_run(session, now, SECOND);
    assert_int_equal(session->next_serial, SESSION_ASSEMBLIES + 1);
    acknowledge(session, now, (uint32_t)session->traffic->flight.next, UINT64_MAX, 0);
    for (int i = 0; i < 1000; i++, now += US)
        session_run(session, now, SECOND);
    assert_int_equal(session->next_serial, SESSION_ASSEMBLIES + 5); /* the whole one, too */
    acknowledge(session, now, (uint32_t)session->traffic->flight.next, UINT64_MAX, 0);
    assert_int_equal(ended, SESSION_ASSEMBLIES + 5);
    assert_int_equal(session->in_pieces, 0);
    close_lone(session);
}

/* Nor does a packet of another session, in the name of this one's identifier, have an effect. */
static void lies_about_what_was_sent_have_no_effect(void **state)
{
    struct session_message message = {.len = 100};
    struct session *session = lone_session(SECOND);
    struct arq_header header = {.type = ARQ_ACK, .to = 1, .from = 2, .end = 5, .below = 1};
    uint8_t bytes[ARQ_HEADER] = {0};

    session_send(session, &message);
    session_run(session, SECOND, SECOND);
    session_receive(session, SECOND + MS, &header, bytes, sizeof(bytes), false);
    assert_int_equal(session->counts.ignored, 1);
    assert_int_equal(session->heard, SECOND);
    header.end = UINT32_MAX;
    session_receive(session, SECOND + MS, &header, bytes, sizeof(bytes), false);
    header.end = 1;
    header.from = 3;
    session_receive(session, SECOND + MS, &header, bytes, sizeof(bytes), false);
    header.type = ARQ_RESET;
    session_receive(session, SECOND + MS, &header, bytes, sizeof(bytes), false);
    assert_int_equal(session->counts.ignored, 4);
    assert_int_equal(session->state, SESSION_OPEN);
    assert_int_equal(session->traffic->flight.out, 1);
    /* Room without end is none. */
    header = (struct arq_header){.type = ARQ_ACK, .to = 1, .from = 2, .limit = 1U << 30};
    session_receive(session, SECOND + MS, &header, bytes, sizeof(bytes), false);
    assert_int_equal(session->limit, 4096);
    close_lone(session);
}

/* A time is of the packets that leave soon after it. */
static void large_window_leaves_in_bursts(void **state)
{
    static struct session_message messages[16];
    struct session *session = lone_session(SECOND);

    session->mtu.size = 65507;
    assert_true(session_traffic_begin(session));
    session->traffic->congestion.window = 4 << 20;
    for (int i = 0; i < 16; i++) {
        messages[i] = (struct session_message){.len = 40000};
        session_send(session, &messages[i]);
    }
    for (int runs = 1; runs == 1 || session->unfinished; runs++) {
        size_t before = left_bytes;

        session_run(session, (uint64_t)runs * SECOND, SECOND);
        assert_true(left_bytes - before <= 2 * 65536);
        assert_true(runs < 20);
    }
    assert_int_equal(left_count, 16);
    close_lone(session);
}

/* ---- Pieces that come ---- */

static size_t got;

static bool count_bytes(struct session *session, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], 'x');
    got += len;
    return true;
}

static void piece_comes(struct session *session, uint32_t number, unsigned piece, unsigned pieces,
                        size_t size, size_t len)
{
    const struct arq_header header = {.type = ARQ_DATA,
                                      .to = 1,
                                      .from = 2,
                                      .number = number,
                                      .piece = (uint16_t)piece,
                                      .pieces = (uint16_t)pieces,
                                      .size = (uint16_t)size,
                                      .brief = piece > 0};
    uint8_t bytes[ARQ_HEADER + 2000];

    memset(bytes, 'x', sizeof(bytes));
    session_receive(session, SECOND + number, &header, bytes, ARQ_BRIEF + len, false);
}

/* The sender has cut the message anew, and does not send again what was acknowledged since. */
static void late_piece_of_a_former_cut_takes_nothing_away(void **state)
{
    static const struct session_config config = {
        .congestion = &congestion_delay,
        .most = 1500,
        .patience = 600 * SECOND,
        .transmit = count_packet,
        .deliver = count_bytes,
    };
    struct session *session = malloc(sizeof(*session));

    assert_non_null(session);
    got = 0;
    session_init(session, &config, 1, 2, 64, SECOND);
    piece_comes(session, 0, 0, 3, 1400, 1400);
    piece_comes(session, 3, 0, 4, 1000, 1000);
    piece_comes(session, 4, 1, 4, 1000, 1000);
    piece_comes(session, 1, 1, 3, 1400, 1400);
    piece_comes(session, 5, 2, 4, 1000, 1000);
    piece_comes(session, 2, 2, 3, 1400, 400);
    assert_int_equal(got, 0);
    piece_comes(session, 6, 3, 4, 1000, 200);
    assert_int_equal(got, 3200 - (ARQ_HEADER - ARQ_BRIEF));
    assert_int_equal(session->numbers.next, 7);
    session_end(session, FI_ECANCELED, false);
    close_lone(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ack_goes_before_data_that_does_not_tell_all),
        cmocka_unit_test(peer_is_not_late_before_its_answer_was_read),
        cmocka_unit_test(lone_message_leaves_at_once),
        cmocka_unit_test(message_behind_others_waits),
        cmocka_unit_test(probe_holds_no_message_back),
        cmocka_unit_test(late_acknowledgement_ends_a_message),
        cmocka_unit_test(what_was_read_late_says_nothing_of_the_round_trip),
        cmocka_unit_test(only_the_network_makes_the_window_collapse),
        cmocka_unit_test(peer_that_pauses_is_sent_for),
        cmocka_unit_test(idle_session_gives_memory_back),
        cmocka_unit_test(windows_grow_and_are_given_back),
        cmocka_unit_test(late_acknowledgement_of_a_piece_is_not_sent_again),
        cmocka_unit_test(no_more_messages_leave_in_pieces_than_the_peer_keeps),
        cmocka_unit_test(lies_about_what_was_sent_have_no_effect),
        cmocka_unit_test(large_window_leaves_in_bursts),
        cmocka_unit_test(late_piece_of_a_former_cut_takes_nothing_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

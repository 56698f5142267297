/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains of one session by itself: its packets are counted, and its peer's are made here. */
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
    ROOM = PATH_MTU_BASE - ARQ_HEADER, /* of a packet, for payload */
    PIECE = 10,                        /* bytes of the pieces that come */
    SEGMENT = ARQ_HEADER + PIECE,
    WINDOW = 1 << 20, /* bytes: more than any test sends */
};
#define SECOND UINT64_C(1000000000)

/* ---- What leaves ---- */

static struct {
    unsigned trains, singles, acks; /* packets, of messages but for acks */
    unsigned pieces;                /* in trains */
    unsigned asked, asked_soon;     /* bits: trains that want an answer at once, and soon */
    struct session_train train;     /* the last */
    struct arq_header header;       /* its first, or that of the last lone packet of a message */
    enum session_taken answer;      /* to trains */
    bool full;                      /* lone packets are not taken */
    /* The last ACK. */
    uint32_t end;
    uint64_t words[1 + ARQ_WORDS];
    unsigned ended;
} left;

static void read_header(const uint8_t *bytes, size_t payload, struct arq_header *header)
{
    uint8_t packet[ARQ_HEADER + ROOM] = {0};

    memcpy(packet, bytes, ARQ_HEADER);
    assert_int_equal(arq_header_get(packet, ARQ_HEADER + payload, header), ARQ_FINE);
}

static void note_ack(const struct session_packet *packet)
{
    struct arq_header header;

    left.acks++;
    assert_int_equal(arq_header_get(packet->bytes, packet->len, &header), ARQ_FINE);
    left.end = header.end;
    left.words[0] = header.below;
    for (size_t i = 0; i < ARQ_WORDS; i++)
        left.words[1 + i] = arq_ack_word(packet->bytes, packet->len, i);
}

static bool transmit(struct session *session, const struct session_packet *packet)
{
    if (left.full)
        return false;
    if (packet->message) {
        left.singles++;
        read_header(packet->bytes, packet->count, &left.header);
    } else if ((packet->bytes[1] & 15) == ARQ_ACK) {
        note_ack(packet);
    }
    return true;
}

static enum session_taken transmit_train(struct session *session, struct session_train *train)
{
    uint32_t number = (uint32_t)session->traffic->flight.next;
    uint8_t headers[ARQ_PIECES * ARQ_HEADER];
    struct arq_header header;

    if (left.answer != SESSION_TAKEN)
        return left.answer;
    assert_in_range(train->pieces, 2, ARQ_PIECES);
    assert_true(train->at + train->count <= train->message->len);
    assert_true(train->count > (train->pieces - 1) * train->size);
    assert_true(train->count <= train->pieces * train->size);
    assert_true((ARQ_HEADER + train->size) * train->pieces <= UINT16_MAX);
    arq_train_put(train->first, train->pieces, ARQ_HEADER, headers);
    for (unsigned i = 0; i < train->pieces; i++) {
        size_t rest = train->count - i * train->size;

        read_header(headers + i * (size_t)ARQ_HEADER, rest < train->size ? rest : train->size,
                    &header);
        assert_int_equal(header.piece, train->at / train->size + i);
        assert_int_equal(header.number, number + i);
        if (!i)
            left.header = header;
    }
    left.asked |= header.flags & ARQ_NOW ? 1U << left.trains : 0;
    left.asked_soon |= header.flags & ARQ_ASKS ? 1U << left.trains : 0;
    left.trains++;
    left.pieces += train->pieces;
    left.train = *train;
    return SESSION_TAKEN;
}

static void done(struct session *session, struct session_message *message, int err)
{
    assert_int_equal(err, 0);
    left.ended++;
}

/* ---- What comes ---- */

static struct {
    unsigned whole, parts; /* messages: put together, and where they lay */
    size_t len;            /* of the last */
    uint8_t bytes[ARQ_PIECES * PIECE];
    bool full, ends; /* it takes none; it ends the session */
} came;

static bool deliver(struct session *session, const uint8_t *bytes, size_t len)
{
    if (came.full)
        return false;
    came.whole++;
    came.len = len;
    memcpy(came.bytes, bytes, len);
    return true;
}

static bool deliver_parts(struct session *session, const struct iovec *parts, size_t count)
{
    if (came.full)
        return false;
    came.parts++;
    came.len = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(came.bytes + came.len, parts[i].iov_base, parts[i].iov_len);
        came.len += parts[i].iov_len;
    }
    if (came.ends)
        session_end(session, FI_ECONNRESET, false);
    return true;
}

/* ---- A session ---- */

static struct session_config config;

static struct session *lone_session(void)
{
    struct session *session = malloc(sizeof(*session));

    assert_non_null(session);
    config = (struct session_config){
        .congestion = &congestion_delay,
        .most = PATH_MTU_BASE,
        .patience = 600 * SECOND,
        .ack_delay = 100 * US,
        .transmit = transmit,
        .transmit_train = transmit_train,
        .deliver = deliver,
        .deliver_parts = deliver_parts,
        .done = done,
    };
    memset(&left, 0, sizeof(left));
    memset(&came, 0, sizeof(came));
    session_init(session, &config, 1, 2, 64, SECOND);
    session->limit = 1024;
    session_run(session, SECOND, SECOND); /* ACCEPT */
    assert_true(session_traffic_begin(session));
    session->traffic->congestion.window = WINDOW;
    return session;
}

static void close_lone(struct session *session)
{
    session_finish(session);
    free(session);
}

static void acknowledge(struct session *session, uint64_t now, uint32_t end, uint64_t bits)
{
    struct arq_header header = {.type = ARQ_ACK, .to = 1, .from = 2, .end = end, .below = bits};
    uint8_t bytes[ARQ_HEADER] = {0};

    session_receive(session, now, &header, bytes, sizeof(bytes), false);
}

/* For long enough that no pace holds anything back, and too short for a timeout. */
static void run_a_while(struct session *session, uint64_t now)
{
    for (int i = 0; i < 100; i++)
        session_run(session, now + (uint64_t)i * US, now);
}

/* For as long as a slow pace needs, with nothing read, so that no time runs out. */
static void run_for_long(struct session *session, uint64_t now)
{
    for (int i = 0; i < 400; i++)
        session_run(session, now + (uint64_t)i * 100 * US, now);
}

/* ---- Out ---- */

static void a_message_leaves_as_few_trains(void **state)
{
    struct session_message message = {.len = ARQ_PIECES * ROOM - 5};
    struct session *session = lone_session();

    assert_int_equal(session_train_room(session), 54 * ROOM);
    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_int_equal(left.trains, 2);
    assert_int_equal(left.pieces, ARQ_PIECES);
    assert_int_equal(left.singles, 0);
    assert_int_equal(left.train.at, 54 * ROOM);
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
    struct session_message messages[2] = {{.len = ROOM}, {.len = 54 * ROOM + 1}};
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
    struct session_message message = {.len = ARQ_PIECES * ROOM};
    struct session *session = lone_session();
    struct session_traffic *traffic = session->traffic;

    traffic->congestion.window = 60 * PATH_MTU_BASE;
    assert_int_equal(session_train_room(session), 16 * ROOM);
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
    assert_int_equal(session_train_room(session), 12 * ROOM);
    traffic->congestion.window = 5 * PATH_MTU_BASE;
    assert_int_equal(session_train_room(session), 5 * ROOM);
    traffic->congestion.window = PATH_MTU_BASE;
    assert_int_equal(session_train_room(session), 0);
    close_lone(session);
}

/* A peer that has told of room for ten messages has it for ten packets. */
static void the_peers_room_bounds_trains(void **state)
{
    struct session_message messages[2] = {{.len = ARQ_PIECES * ROOM}, {.len = 2 * ROOM}};
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
        struct session_message messages[2] = {{.len = 20 * ROOM}, {.len = 40 * ROOM}};
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
    struct session_message message = {.len = 40 * ROOM};
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
    assert_int_equal(left.train.at, 2 * ROOM);
    assert_int_equal(left.singles, 1);
    assert_int_equal(left.header.piece, 9);
    /* To the last piece, and all 64 of them. */
    assert_true(session_resend(session, &message, UINT64_C(3) << 38));
    run_a_while(session, SECOND + 2 * MS);
    assert_int_equal(left.train.at, 38 * ROOM);
    assert_int_equal(left.train.count, 2 * ROOM);
    acknowledge(session, SECOND + 3 * MS, (uint32_t)session->traffic->flight.next, UINT64_MAX);
    assert_int_equal(left.ended, 1);
    close_lone(session);
}

/* One packet asks whether the peer is there. */
static void after_a_timeout_one_packet_leaves(void **state)
{
    struct session_message message = {.len = 40 * ROOM};
    struct session *session = lone_session();

    session_send(session, &message);
    run_a_while(session, SECOND);
    memset(&left, 0, sizeof(left));
    session->traffic->congestion.window = 10 * PATH_MTU_BASE; /* full */
    session_run(session, 2 * SECOND, 2 * SECOND);
    assert_int_equal(left.trains, 0);
    assert_int_equal(left.singles, 1);
    assert_int_equal(left.header.flags, ARQ_NOW);
    close_lone(session);
}

/* The path takes less all at once: the rest leaves in other pieces. */
static void a_path_that_takes_less_cuts_anew(void **state)
{
    struct session_message message = {.len = 40 * ROOM};
    struct session *session;

    session = lone_session();
    config.most = 9000;
    path_mtu_init(&session->mtu, 9000);
    session->mtu.size = 9000;
    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_int_equal(left.train.size, 9000 - ARQ_HEADER);
    assert_int_equal(left.pieces, 6);
    session_limit_mtu(session, PATH_MTU_BASE);
    assert_int_equal(session_train_room(session), 54 * ROOM);
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
    struct session_message message = {.len = 20 * ROOM};
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
    struct session_message message = {.len = 20 * ROOM};
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

/* A train of a peer's, of message `serial`, with pieces from `piece` on. False: it was not taken,
 * and its packets have been given one by one. */
static bool come(struct session *session, struct arq_header header, unsigned count, size_t last)
{
    uint8_t bytes[ARQ_PIECES * SEGMENT];
    size_t len = (count - 1) * (size_t)SEGMENT + ARQ_HEADER + last;
    bool taken;

    header.type = ARQ_DATA;
    header.to = 1;
    header.from = header.from ? header.from : 2;
    header.size = PIECE;
    arq_train_put(&header, count, SEGMENT, bytes);
    for (unsigned i = 0; i < count; i++)
        memset(bytes + i * (size_t)SEGMENT + ARQ_HEADER,
               (int)(header.serial * 7 + header.piece + i), PIECE);
    assert_int_equal(arq_header_get(bytes, count > 1 ? SEGMENT : len, &header), ARQ_FINE);
    assert_int_equal(arq_train_get(bytes, len, SEGMENT, &header), count);
    taken = session_receive_train(session, SECOND, &header, bytes, len, SEGMENT, count, false);
    for (unsigned i = 0; !taken && i < count; i++) {
        const uint8_t *at = bytes + i * (size_t)SEGMENT;
        size_t its = i + 1 < count ? SEGMENT : ARQ_HEADER + last;

        assert_int_equal(arq_header_get(at, its, &header), ARQ_FINE);
        session_receive(session, SECOND, &header, at, its, false);
    }
    return taken;
}

/* A whole message, whose sender wants an answer. */
static bool come_asking(struct session *session, uint32_t number, uint32_t serial, unsigned pieces)
{
    const struct arq_header header = {
        .flags = ARQ_NOW, .number = number, .serial = serial, .pieces = (uint16_t)pieces};

    return come(session, header, pieces, 3);
}

static void check_bytes(unsigned serial, size_t len)
{
    assert_int_equal(came.len, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(came.bytes[i], (uint8_t)(serial * 7 + i / PIECE));
}

/* Was this number acknowledged by the last ACK? */
static bool told_of(uint32_t number)
{
    uint32_t back = left.end - 1 - number;

    return number < left.end && left.words[back / 64] >> back % 64 & 1;
}

static void check_told(uint32_t from, uint32_t to)
{
    for (uint32_t number = from; number < to; number++)
        assert_true(told_of(number));
}

static void a_train_is_taken_where_it_lies(void **state)
{
    struct session *session = lone_session();

    assert_true(come(session, (struct arq_header){.flags = ARQ_NOW, .pieces = 9}, 9, 3));
    assert_int_equal(came.parts, 1);
    check_bytes(0, 8 * PIECE + 3);
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
    check_bytes(0, 8 * PIECE + 3);
    assert_true(
        come(session, (struct arq_header){.number = 9, .serial = 1, .pieces = 9}, 2, PIECE));
    assert_true(session_has_pieces(session, 1));
    assert_true(come(session, (struct arq_header){.number = 11, .serial = 1, .pieces = 9}, 9, 3));
    assert_int_equal(came.whole, 2);
    assert_int_equal(came.parts, 0);
    check_bytes(1, 8 * PIECE + 3);
    assert_false(session_has_pieces(session, 1));
    assert_int_equal(session->numbers.next, 20);
    assert_int_equal(session->serials.next, 2);
    /* The pieces of another message do not matter to one that has all. */
    come(session, (struct arq_header){.number = 20, .serial = 2, .pieces = 9}, 1, PIECE);
    assert_true(come(session, (struct arq_header){.number = 21, .serial = 3, .pieces = 9}, 9, 1));
    assert_int_equal(came.parts, 1);
    check_bytes(3, 8 * PIECE + 1);
    /* An owner that takes no parts has them put together. */
    config.deliver_parts = NULL;
    assert_true(come(session, (struct arq_header){.number = 30, .serial = 4, .pieces = 9}, 9, 2));
    assert_int_equal(came.whole, 3);
    check_bytes(4, 8 * PIECE + 2);
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
    check_bytes(0, 8 * PIECE + 3);
    close_lone(session);
}

/* Packets that are not of this session, or cannot be, have no effect: each is judged alone. */
static void trains_that_do_not_fit_have_no_effect(void **state)
{
    struct session *session = lone_session();

    assert_false(come(session, (struct arq_header){.from = 3, .pieces = 9}, 9, 3));
    assert_false(come(session, (struct arq_header){.end = 1, .pieces = 9}, 9, 3)); /* never was */
    assert_false(come(session, (struct arq_header){.serial = SESSION_SERIALS, .pieces = 9}, 9, 3));
    assert_int_equal(session->counts.ignored, 27);
    assert_int_equal(came.parts + came.whole, 0);
    assert_int_equal(session->numbers.end, 0);
    assert_int_equal(session->serials.end, 0);
    /* Numbers that others have overtaken. */
    assert_true(come(session, (struct arq_header){.number = 20, .pieces = 9}, 9, 3));
    assert_false(come(session, (struct arq_header){.number = 2, .serial = 1, .pieces = 9}, 9, 3));
    assert_int_equal(came.whole, 1);
    check_bytes(1, 8 * PIECE + 3);
    session_end(session, FI_ECONNRESET, false);
    assert_false(come(session, (struct arq_header){.number = 40, .serial = 2, .pieces = 9}, 9, 3));
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

/* ---- Acknowledgements ---- */

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

/* A message that answers soon acknowledges a train, if it has the bits; else an ACK does. */
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

/* A part of the window at a time, and the last two, whether they are one message or several. */
static void trains_ask_for_a_part_of_the_window(void **state)
{
    struct session_message messages[8];
    struct session *session = lone_session();

    session->traffic->congestion.window = 480 * PATH_MTU_BASE; /* of which 120 are a part */
    for (unsigned i = 0; i < 8; i++) {
        messages[i] = (struct session_message){.len = 50 * ROOM};
        session_send(session, &messages[i]);
    }
    run_for_long(session, SECOND);
    assert_int_equal(left.trains, 8);
    assert_int_equal(left.asked, 1 << 2 | 1 << 5 | 1 << 6);
    assert_int_equal(left.asked_soon, 1 << 7);
    close_lone(session);
    session = lone_session();
    messages[0] = (struct session_message){.len = 20 * ROOM};
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
    struct session_message message = {.len = 54 * ROOM + 1};
    struct session *session = lone_session();

    session_send(session, &message);
    run_a_while(session, SECOND);
    assert_true(left.singles == 1 && left.trains == 1);
    assert_int_equal(left.header.piece, 54);
    assert_int_equal(left.header.flags, ARQ_ASKS);
    close_lone(session);
}

/* More numbers come at once than a packet's word has bits. A message that leaves says what it can,
 * and an ACK the rest. */
static void one_ack_tells_of_many(void **state)
{
    struct session_message message = {.len = 100};
    struct session *session = lone_session();

    for (uint32_t i = 0; i < 5; i++)
        assert_true(come_asking(session, 50 * i, i, 50));
    session_send(session, &message);
    session_run(session, SECOND, SECOND);
    assert_int_equal(left.singles, 1);
    assert_int_equal(left.acks, 1);
    check_told(0, 250);
    session_run(session, SECOND + MS, SECOND + MS);
    assert_int_equal(left.acks, 1);
    /* As few as a packet tells of need no ACK. */
    come_asking(session, 250, 5, 50);
    session->limit = 100;
    acknowledge(session, SECOND + MS, 1, 1);
    session_send(session, &message);
    session_run(session, SECOND + MS, SECOND + MS);
    assert_int_equal(left.singles, 2);
    assert_int_equal(left.header.end, 300);
    assert_int_equal(left.acks, 1);
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
        cmocka_unit_test(trains_are_acknowledged_when_they_ask),
        cmocka_unit_test(an_answer_acknowledges_a_train),
        cmocka_unit_test(trains_ask_for_a_part_of_the_window),
        cmocka_unit_test(a_last_piece_alone_asks),
        cmocka_unit_test(one_ack_tells_of_many),
        cmocka_unit_test(a_lost_ack_of_a_train_is_made_good),
        cmocka_unit_test(late_trains_are_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

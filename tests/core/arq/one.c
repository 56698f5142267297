/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/core/arq/one.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_errno.h>

/* ---- What leaves ---- */

struct one_left left;

static void read_header(const uint8_t *bytes, size_t payload, struct arq_header *header)
{
    uint8_t packet[ARQ_HEADER + ROOM] = {0};
    size_t size = (bytes[1] & 15) == ARQ_PIECE ? ARQ_BRIEF : ARQ_HEADER;

    memcpy(packet, bytes, size);
    assert_int_equal(arq_header_get(packet, size + payload, header), ARQ_FINE);
    assert_int_equal(arq_header_size(header), size);
}

static void note_ack(const struct session_packet *packet)
{
    struct arq_header header;

    left.acks++;
    assert_int_equal(arq_header_get(packet->bytes, packet->len, &header), ARQ_FINE);
    left.end = header.end;
    left.asks_back = header.flags & ARQ_ASKS;
    left.words[0] = header.below;
    for (size_t i = 0; i < ARQ_WORDS; i++)
        left.words[1 + i] =
            header.flags & ARQ_ALL ? UINT64_MAX : arq_ack_word(packet->bytes, packet->len, i);
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
    size_t at = train->at, end = train->at + train->count;
    uint8_t headers[ARQ_PIECES * ARQ_HEADER];
    struct arq_header header;

    if (left.answer != SESSION_TAKEN)
        return left.answer;
    assert_in_range(train->pieces, 2, ARQ_PIECES);
    assert_true(end <= train->message->len);
    assert_true(train->packet * train->pieces <= UINT16_MAX);
    arq_train_put(train->first, train->pieces, ARQ_HEADER, headers);
    for (unsigned i = 0; i < train->pieces; i++) {
        size_t room = train->packet - (i ? ARQ_BRIEF : arq_header_size(train->first));

        room = end - at < room ? end - at : room;
        read_header(headers + i * (size_t)ARQ_HEADER, room, &header);
        assert_int_equal(arq_piece_at(header.piece, header.size), at);
        assert_int_equal(header.number, number + i);
        at += room;
        if (!i)
            left.header = header;
    }
    assert_int_equal(at, end);
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

struct one_came came;

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

struct session_config config;

struct session *lone_session(void)
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

void close_lone(struct session *session)
{
    session_finish(session);
    free(session);
}

void acknowledge(struct session *session, uint64_t now, uint32_t end, uint64_t bits)
{
    struct arq_header header = {.type = ARQ_ACK, .to = 1, .from = 2, .end = end, .below = bits};
    uint8_t bytes[ARQ_HEADER] = {0};

    session_receive(session, now, &header, bytes, sizeof(bytes), false);
}

void run_a_while(struct session *session, uint64_t now)
{
    for (int i = 0; i < 100; i++)
        session_run(session, now + (uint64_t)i * US, now);
}

void run_for_long(struct session *session, uint64_t now)
{
    for (int i = 0; i < 400; i++)
        session_run(session, now + (uint64_t)i * 100 * US, now);
}

/* ---- Trains that come ---- */

bool come(struct session *session, struct arq_header header, unsigned count, size_t last)
{
    uint8_t bytes[ARQ_PIECES * SEGMENT];
    size_t len = (count - 1) * (size_t)SEGMENT + ARQ_BRIEF + last;
    bool taken;

    header.type = ARQ_DATA;
    header.to = header.to ? header.to : 1;
    header.from = 2;
    header.size = PIECE;
    header.brief = header.piece > 0;
    for (unsigned i = 0; i < count; i++)
        memset(bytes + i * (size_t)SEGMENT, (int)(header.serial * 7 + header.piece + i), SEGMENT);
    arq_train_put(&header, count, SEGMENT, bytes);
    assert_int_equal(arq_header_get(bytes, count > 1 ? SEGMENT : len, &header), ARQ_FINE);
    assert_int_equal(arq_train_get(bytes, len, SEGMENT, &header), count);
    taken = session_receive_train(session, SECOND, &header, bytes, len, SEGMENT, count, false);
    for (unsigned i = 0; !taken && i < count; i++) {
        const uint8_t *at = bytes + i * (size_t)SEGMENT;
        size_t its = i + 1 < count ? SEGMENT : ARQ_BRIEF + last;

        assert_int_equal(arq_header_get(at, its, &header), ARQ_FINE);
        session_receive(session, SECOND, &header, at, its, false);
    }
    return taken;
}

bool come_asking(struct session *session, uint32_t number, uint32_t serial, unsigned pieces)
{
    const struct arq_header header = {
        .flags = ARQ_NOW, .number = number, .serial = serial, .pieces = (uint16_t)pieces};

    return come(session, header, pieces, 3);
}

void check_bytes(unsigned serial, size_t len)
{
    assert_int_equal(came.len, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(came.bytes[i], (uint8_t)(serial * 7 + (i + LESS) / PIECE));
}

bool told_of(uint32_t number)
{
    uint32_t back = left.end - 1 - number;

    return number < left.end && left.words[back / 64] >> back % 64 & 1;
}

void check_told(uint32_t from, uint32_t to)
{
    for (uint32_t number = from; number < to; number++)
        assert_true(told_of(number));
}

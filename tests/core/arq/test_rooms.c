/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/arq/congestion.h"
#include "core/arq/flight.h"
#include "core/arq/gate.h"
#include "core/arq/pacer.h"
#include "core/arq/packet.h"
#include "core/arq/path_mtu.h"
#include "core/arq/serial.h"

/* ---- serial ---- */

static void serial_expands_to_the_nearest(void **state)
{
    assert_true(serial_expand(5, 3) == 5);
    assert_true(serial_expand(UINT32_MAX, 3) == UINT32_MAX); /* there is none below 0 */
    assert_true(serial_expand(UINT32_MAX, UINT64_C(1) << 32) == UINT32_MAX);
    assert_true(serial_expand(1, UINT32_MAX) == (UINT64_C(1) << 32 | 1));
}

static void serial_tells_new_from_old(void **state)
{
    uint64_t bits[2];
    struct serial serial;

    serial_init(&serial, bits, 128);
    assert_int_equal(serial_add(&serial, 0), SERIAL_NEW);
    assert_int_equal(serial_add(&serial, 2), SERIAL_NEW);
    assert_int_equal(serial_add(&serial, 2), SERIAL_DUPLICATE);
    assert_int_equal(serial_add(&serial, 0), SERIAL_DUPLICATE);
    assert_true(serial.next == 1 && serial.end == 3);
    assert_true(serial_bits_below(&serial, 3) == 5);
    assert_int_equal(serial_add(&serial, 129), SERIAL_BEYOND);
    assert_int_equal(serial_add(&serial, 1), SERIAL_NEW);
    assert_true(serial.next == 3);
    assert_int_equal(serial_add_sliding(&serial, 100000), SERIAL_NEW);
    assert_true(serial.next == 100000 - 127);
    assert_false(serial_has(&serial, 99999));
}

/* ---- flight ---- */

static unsigned lost_count;

static void count_lost(void *arg, const struct flight_packet *packet)
{
    lost_count++;
}

static void flight_learns_reordering(void **state)
{
    struct flight_packet ring[64], packet;
    struct flight flight;
    struct rtt rtt = {0};

    lost_count = 0;
    rtt_add(&rtt, 1000000, 1000000, 0);
    flight_init(&flight, ring, 64);
    for (int i = 0; i < 10; i++)
        flight_send(&flight, &(struct flight_packet){.sent = 1000000, .bytes = 100});
    assert_true(flight_ack(&flight, 4, 1100000, &packet));
    flight_detect(&flight, 1100000, &rtt, count_lost, NULL);
    assert_int_equal(lost_count, 2); /* 0 and 1 */
    assert_true(flight_ack(&flight, 0, 1200000, &packet));
    assert_int_equal(packet.state, FLIGHT_LOST);
    assert_true(flight.reorder > 4);
    assert_true(flight_ack(&flight, 7, 1200000, &packet));
    flight_detect(&flight, 1200000, &rtt, count_lost, NULL);
    assert_int_equal(lost_count, 2); /* 2 and 3 would have been, before */
    assert_int_equal(flight.out, 6);
    assert_false(flight_ack(&flight, 7, 1200000, &packet));
}

enum {
    RUNS = 40,
    RUN_RING = 4096
};

/* Packets of messages of 1 to 64 pieces, to both: in runs to the one, one by one to the other. */
static void send_runs(struct flight *runs, struct flight *singles)
{
    static char messages[RUNS];
    static const uint8_t kinds[] = {0, 1, FLIGHT_ASIDE};

    for (unsigned i = 0; i < RUNS; i++) {
        unsigned count = i % 5 ? 1 + i * 37 % 64 : 64;
        struct flight_packet packet = {.what = i % 7 ? &messages[i / 2] : NULL,
                                       .sent = 1000 + i / 3,
                                       .bytes = 1000,
                                       .kind = kinds[(i + 1) / 4 % 3]};

        flight_send_run(runs, &packet, count, 10 + i);
        for (; count; count--, packet.piece++) {
            packet.bytes = count > 1 ? 1000 : 10 + i;
            flight_send(singles, &packet);
        }
    }
}

static void are_alike(const struct flight *a, const struct flight *b)
{
    assert_true(a->first == b->first && a->next == b->next && a->acked == b->acked);
    assert_true(a->bytes == b->bytes && a->out == b->out && a->reorder == b->reorder);
    for (uint64_t i = a->first; i < a->next; i++) {
        const struct flight_packet *one = &a->packets[i % RUN_RING];
        const struct flight_packet *other = &b->packets[i % RUN_RING];

        assert_true(one->what == other->what && one->sent == other->sent);
        assert_true(one->bytes == other->bytes && one->piece == other->piece);
        assert_true(one->state == other->state && one->kind == other->kind);
    }
}

/* The same by one call, and by one call for each. */
static unsigned ack_run(struct flight *runs, struct flight *singles, uint64_t number, unsigned most)
{
    struct flight_packet packet;
    struct flight_run run = {.count = 0};
    uint64_t bytes = 0, pieces = 0;
    uint32_t longest = 0;

    if (!flight_ack_run(runs, number, most, 5000, &run)) {
        assert_false(flight_ack(singles, number, 5000, &packet));
        return 1;
    }
    assert_in_range(run.count, 1, most);
    for (unsigned i = 0; i < run.count; i++) {
        assert_true(flight_ack(singles, number - i, 5000, &packet));
        assert_ptr_equal(packet.what, run.packet.what);
        assert_int_equal(packet.sent, run.packet.sent);
        assert_int_equal(packet.kind, run.packet.kind);
        assert_int_equal(packet.state, run.packet.state);
        assert_true(i == 0 || packet.state == FLIGHT_OUT);
        bytes += packet.bytes;
        pieces |= packet.what ? UINT64_C(1) << packet.piece : 0;
        longest = packet.bytes > longest ? packet.bytes : longest;
    }
    assert_int_equal(run.bytes, bytes);
    assert_int_equal(run.pieces, pieces);
    assert_int_equal(run.packet.bytes, longest);
    return run.count;
}

static void runs_are_as_their_packets(void **state)
{
    static struct flight_packet ring[2][RUN_RING];
    struct flight runs, singles;
    struct rtt rtt = {0};
    unsigned longest = 0;

    for (uint64_t seed = 1; seed < 50; seed++) {
        flight_init(&runs, ring[0], RUN_RING);
        flight_init(&singles, ring[1], RUN_RING);
        send_runs(&runs, &singles);
        are_alike(&runs, &singles);
        for (unsigned i = 0; i < 60; i++) {
            uint64_t number = (i * seed * 7919 + seed * seed * 31) % runs.next;
            unsigned count = ack_run(&runs, &singles, number, 1 + (i * 13 + seed) % 64);

            longest = count > longest ? count : longest;
            if (i == 30) {
                flight_detect(&runs, 1020, &rtt, count_lost, NULL);
                flight_detect(&singles, 1020, &rtt, count_lost, NULL);
            }
            are_alike(&runs, &singles);
        }
        for (uint64_t number = runs.next; number;)
            number -= ack_run(&runs, &singles, number - 1, number < 64 ? (unsigned)number : 64);
        are_alike(&runs, &singles);
        assert_int_equal(runs.out, 0);
        assert_int_equal(runs.bytes, 0);
    }
    assert_true(longest > 32);
}

/* ---- rtt ---- */

/* A peer that takes its time is no slow network, and is waited for. */
static void rtt_is_of_the_network_alone(void **state)
{
    struct rtt rtt = {0};

    rtt_add(&rtt, 1000000, 200000, 170000);
    assert_int_equal(rtt.latest, 30000);
    assert_int_equal(rtt.least, 30000);
    rtt_add(&rtt, 2000000, 512000, 500000); /* less than the least so far */
    assert_int_equal(rtt.latest, 12000);
    assert_int_equal(rtt.least, 12000);
    assert_true(rtt_timeout(&rtt, 100000) >= 500000 + rtt.smoothed);
    rtt_add(&rtt, 3000000, 10000, 10000); /* a lie */
    assert_int_equal(rtt.latest, 12000);
    for (int i = 0; i < 100; i++)
        rtt_add(&rtt, 4000000, 20000, 0);
    assert_true(rtt_timeout(&rtt, 0) > 1000000); /* it may pause again */
    for (int i = 0; i < 100; i++)
        rtt_add(&rtt, 3 * UINT64_C(1000000000), 20000, 0);
    assert_true(rtt_timeout(&rtt, 0) < 600000); /* it answers at once by now */
}

/* The call that sends a train may return when the peer has answered: the round trip was no shorter
 * than that call. */
static void the_least_rtt_has_the_call_that_sent(void **state)
{
    struct rtt rtt = {0};

    rtt_add_sample(&rtt, 1000000, &(struct rtt_sample){.since = 500, .took = 9000});
    assert_int_equal(rtt.latest, 500);
    assert_int_equal(rtt.least, 9500);
    rtt_add(&rtt, 2000000, 8000, 0);
    assert_int_equal(rtt.least, 8000);
    rtt_add_sample(&rtt, 3000000, &(struct rtt_sample){.since = 600, .took = 9000});
    assert_int_equal(rtt.least, 8000);
    assert_int_equal(rtt.latest, 600);
}

/* An acknowledgement that may have waited for its reader is no sign of a longer way. */
static void what_waited_to_be_read_is_no_longer_way(void **state)
{
    struct rtt rtt = {0};

    for (int i = 0; i < 20; i++)
        rtt_add(&rtt, 1000000, 10000, 0);
    rtt_add_sample(&rtt, 2000000, &(struct rtt_sample){.since = 50000, .slack = 45000});
    assert_int_equal(rtt.latest, rtt.smoothed);
    assert_in_range(rtt.smoothed, 9000, 10000);
    rtt_add_sample(&rtt, 3000000, &(struct rtt_sample){.since = 50000, .slack = 20000});
    assert_int_equal(rtt.latest, 30000); /* it is longer in any case */
    rtt_add_sample(&rtt, 4000000, &(struct rtt_sample){.since = 5000, .slack = 45000});
    assert_int_equal(rtt.latest, 5000); /* it was no longer than that */
    assert_int_equal(rtt.least, 5000);
}

/* ---- congestion control by delay ---- */

static void ack(struct congestion *cc, struct rtt *rtt, uint64_t time)
{
    struct congestion_ack ack = {.sent = cc->reacted + 1, .rtt = rtt, .bytes = 1000};

    ack.now = ack.sent + 1000000;
    ack.timed = time;
    if (time)
        rtt_add(rtt, ack.now, time, 0);
    cc->ops->acked(cc, &ack);
}

/* A processor that pauses lengthens one, a queue all. */
static void one_long_way_is_no_congestion(void **state)
{
    struct congestion cc;
    struct rtt rtt = {0};
    uint64_t window;

    congestion_init(&cc, &congestion_delay, 1000);
    congestion_set(&cc, 100000);
    for (int i = 0; i < 20; i++)
        ack(&cc, &rtt, 10000);
    window = cc.window;
    ack(&cc, &rtt, 500000);
    assert_int_equal(cc.window, window);
    ack(&cc, &rtt, 10000);
    ack(&cc, &rtt, 500000);
    assert_int_equal(cc.window, window);
    ack(&cc, &rtt, 500000);
    assert_true(cc.window < window);
    window = cc.window;
    for (int i = 0; i < 5; i++)
        ack(&cc, &rtt, 0); /* which say nothing of the way */
    assert_int_equal(cc.window, window);
    ack(&cc, &rtt, 500000);
    assert_true(cc.window < window);
}

/* ---- gate ---- */

/* The vector of the paper: key 00 01 .. 0f, input 00 01 .. 0e. */
static void gate_hash_is_siphash(void **state)
{
    const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    uint8_t input[15];

    for (uint8_t i = 0; i < sizeof(input); i++)
        input[i] = i;
    assert_true(gate_hash(key, input, sizeof(input)) == UINT64_C(0xa129ca6149be45e5));
}

static void gate_takes_its_own_tokens_only(void **state)
{
    const struct gate gate = {{1, 2}}, other = {{1, 3}};
    uint8_t token[ARQ_TOKEN];

    gate_make(&gate, 1000, "here", 4, 7, token);
    assert_true(gate_check(&gate, 2000, "here", 4, 7, token));
    assert_false(gate_check(&gate, 2000, "hers", 4, 7, token));
    assert_false(gate_check(&gate, 2000, "here", 4, 8, token));
    assert_false(gate_check(&other, 2000, "here", 4, 7, token));
    assert_false(gate_check(&gate, 500, "here", 4, 7, token));
    assert_false(gate_check(&gate, 2000 + GATE_TOKEN_AGE, "here", 4, 7, token));
    token[ARQ_TOKEN - 1] = 1;
    assert_false(gate_check(&gate, 2000, "here", 4, 7, token));
}

/* ---- packet ---- */

static void packet_is_read_as_written(void **state)
{
    const struct arq_header header = {.type = ARQ_DATA,
                                      .flags = ARQ_NOW,
                                      .number = 1,
                                      .to = 2,
                                      .from = 3,
                                      .serial = 4,
                                      .limit = 5,
                                      .end = 6,
                                      .marked = 7,
                                      .below = 8,
                                      .kept = 9,
                                      .pieces = 2,
                                      .size = 10 + ARQ_HEADER - ARQ_BRIEF};
    uint8_t bytes[ARQ_HEADER + 10] = {0};
    uint8_t again[ARQ_HEADER];
    struct arq_header read;

    arq_header_put(&header, bytes);
    assert_int_equal(arq_header_get(bytes, sizeof(bytes), &read), ARQ_FINE);
    assert_true(read.type == ARQ_DATA && read.number == 1 && read.to == 2 && read.from == 3);
    assert_true(read.serial == 4 && read.limit == 5 && read.end == 6 && read.marked == 7);
    assert_true(read.below == 8 && read.kept == 9 && read.piece == 0 && read.pieces == 2);
    assert_true(!read.brief && arq_header_size(&read) == ARQ_HEADER);
    arq_header_put(&read, again);
    assert_memory_equal(bytes, again, sizeof(again));
}

static void piece_is_read_as_written(void **state)
{
    const struct arq_header header = {.type = ARQ_DATA,
                                      .flags = ARQ_ASKS,
                                      .number = 0x01020304,
                                      .to = 0x1112131415161718,
                                      .serial = 0x21222324,
                                      .piece = 62,
                                      .pieces = ARQ_PIECES,
                                      .size = 0x0133,
                                      .brief = true};
    const uint8_t expected[ARQ_BRIEF] = {0xa7, 0x28, 0,    2,    1,    2,    3,    4,
                                         0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
                                         0x21, 0x22, 0x23, 0x24, 62,   64,   1,    0x33};
    uint8_t bytes[ARQ_BRIEF + 0x0133] = {0};
    struct arq_header read;

    assert_int_equal(arq_header_size(&header), ARQ_BRIEF);
    arq_header_put(&header, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
    assert_int_equal(arq_header_get(bytes, sizeof(bytes), &read), ARQ_FINE);
    assert_true(read.type == ARQ_DATA && read.brief && read.flags == ARQ_ASKS);
    assert_true(read.number == header.number && read.to == header.to && !read.from);
    assert_true(read.serial == header.serial && read.piece == 62 && read.pieces == ARQ_PIECES);
    assert_true(read.size == header.size && !read.limit && !read.end && !read.below);
    /* A piece begins where those before it end. */
    assert_int_equal(arq_piece_at(0, 100), 0);
    assert_int_equal(arq_piece_at(1, 100), 100 - (ARQ_HEADER - ARQ_BRIEF));
    assert_int_equal(arq_piece_at(3, 100), 300 - (ARQ_HEADER - ARQ_BRIEF));
    assert_int_equal(arq_pieces_room(3, ARQ_BRIEF + 100), arq_piece_at(3, 100));
}

static void packet_refuses(uint8_t *bytes, size_t len, enum arq_fault fault)
{
    struct arq_header read;

    assert_int_equal(arq_header_get(bytes, len, &read), fault);
    assert_true(strlen(arq_fault_text(fault)) > 0);
}

static void packet_that_cannot_be_is_refused(void **state)
{
    struct arq_header header = {.type = ARQ_DATA, .from = 3, .pieces = 1};
    uint8_t bytes[ARQ_HEADER + 10] = {0};

    arq_header_put(&header, bytes);
    packet_refuses(bytes, 1, ARQ_SHORT);
    packet_refuses(bytes, ARQ_HEADER - 1, ARQ_SHORT);
    bytes[0] = 'x';
    packet_refuses(bytes, sizeof(bytes), ARQ_FOREIGN);
    bytes[0] = 2;
    bytes[1] = 3;
    packet_refuses(bytes, sizeof(bytes), ARQ_FOREIGN_RXD);
    bytes[1] = 9; /* as it begins */
    packet_refuses(bytes, sizeof(bytes), ARQ_FOREIGN_RXD);
    bytes[1] = 16;
    packet_refuses(bytes, sizeof(bytes), ARQ_FOREIGN);
    bytes[0] = ARQ_MAGIC;
    bytes[1] = 7 << 4;
    packet_refuses(bytes, sizeof(bytes), ARQ_OTHER_VERSION);
    header.pieces = 0;
    arq_header_put(&header, bytes);
    packet_refuses(bytes, sizeof(bytes), ARQ_MALFORMED);
    header.pieces = ARQ_PIECES + 1;
    header.size = 10;
    arq_header_put(&header, bytes);
    packet_refuses(bytes, sizeof(bytes), ARQ_MALFORMED);
    header.pieces = 2;
    header.piece = 2;
    arq_header_put(&header, bytes);
    packet_refuses(bytes, sizeof(bytes), ARQ_MALFORMED);
    header = (struct arq_header){.type = ARQ_ACK, .from = 3};
    arq_header_put(&header, bytes);
    packet_refuses(bytes, sizeof(bytes), ARQ_SHORT);
    header.flags = 0x8000;
    arq_header_put(&header, bytes);
    packet_refuses(bytes, ARQ_HEADER, ARQ_MALFORMED);
}

static void refuse_piece(struct arq_header header, size_t payload)
{
    uint8_t bytes[ARQ_HEADER + 200] = {0};

    arq_header_put(&header, bytes);
    packet_refuses(bytes, arq_header_size(&header) + payload, ARQ_MALFORMED);
}

static void piece_that_cannot_be_is_refused(void **state)
{
    const struct arq_header good = {
        .type = ARQ_DATA, .piece = 2, .pieces = 4, .size = 100, .brief = true};
    struct arq_header header = good;
    uint8_t bytes[ARQ_BRIEF + 100] = {0};

    arq_header_put(&header, bytes);
    assert_int_equal(arq_header_get(bytes, sizeof(bytes), &header), ARQ_FINE);
    for (size_t len = 2; len < ARQ_BRIEF; len++)
        packet_refuses(bytes, len, ARQ_SHORT);
    for (size_t payload = 0; payload < 100; payload++) /* it is not the last */
        refuse_piece(good, payload);
    refuse_piece(good, 101);
    header.piece = 3;
    refuse_piece(header, 0);
    refuse_piece(header, 101);
    header.piece = 4; /* of four */
    refuse_piece(header, 100);
    header.piece = 0; /* the first has all fields */
    refuse_piece(header, 100);
    header.pieces = 1;
    refuse_piece(header, 100);
    header = good;
    header.brief = false; /* the others have not */
    header.from = 3;
    refuse_piece(header, 100);
    header = good;
    header.pieces = ARQ_PIECES + 1;
    refuse_piece(header, 100);
    header = good;
    header.flags = 0x8000;
    refuse_piece(header, 100);
    header = good;
    header.size = ARQ_HEADER - ARQ_BRIEF; /* the first would have no bytes */
    refuse_piece(header, ARQ_HEADER - ARQ_BRIEF);
    /* The first one's packet is as long as the others. */
    header = (struct arq_header){.type = ARQ_DATA, .from = 3, .pieces = 4, .size = 100};
    refuse_piece(header, 100);
    refuse_piece(header, 100 - (ARQ_HEADER - ARQ_BRIEF) - 1);
}

/* ---- Trains ---- */

enum {
    PIECE = 40,
    SEGMENT = ARQ_BRIEF + PIECE,
};

/* Lays the packets of a train end to end; the last has `last` bytes behind ARQ_BRIEF. Returns how
 * many bytes there are. */
static size_t lay_out(const struct arq_header *first, unsigned count, size_t last, uint8_t *bytes)
{
    memset(bytes, 0, (size_t)count * SEGMENT);
    arq_train_put(first, count, SEGMENT, bytes);
    return (count - 1) * (size_t)SEGMENT + ARQ_BRIEF + last;
}

/* How many packets of them are a train? Where bytes end memory ends, too. */
static unsigned train_of(const uint8_t *bytes, size_t len, size_t segment)
{
    uint8_t *exact = malloc(len);
    struct arq_header header;
    unsigned count;

    assert_non_null(exact);
    memcpy(exact, bytes, len);
    assert_int_equal(arq_header_get(exact, len < segment ? len : segment, &header), ARQ_FINE);
    count = arq_train_get(exact, len, segment, &header);
    free(exact);
    return count;
}

static const struct arq_header train_head = {.type = ARQ_DATA,
                                             .flags = ARQ_NOW,
                                             .number = UINT32_MAX - 1, /* numbers go round */
                                             .to = 2,
                                             .from = 3,
                                             .serial = 4,
                                             .limit = 5,
                                             .end = 6,
                                             .marked = 7,
                                             .below = 8,
                                             .kept = 9,
                                             .pieces = ARQ_PIECES,
                                             .size = PIECE};

/* Each header is one that the packet would have had alone. */
static void train_is_written_as_its_packets(void **state)
{
    uint8_t bytes[ARQ_PIECES * ARQ_HEADER], alone[ARQ_HEADER];

    for (unsigned first = 0; first < 4; first += 3) {
        struct arq_header header = train_head;

        header.piece = (uint16_t)first;
        header.brief = first > 0;
        arq_train_put(&header, ARQ_PIECES - first, ARQ_HEADER, bytes);
        for (unsigned i = 0; i < ARQ_PIECES - first; i++, header.number++, header.piece++) {
            header.brief = first + i > 0;
            arq_header_put(&header, alone);
            assert_memory_equal(bytes + i * (size_t)ARQ_HEADER, alone, arq_header_size(&header));
        }
    }
    assert_int_equal(arq_train_len(&train_head, 4, 100), ARQ_HEADER + 3 * ARQ_BRIEF + 100);
}

static void train_is_read_as_written(void **state)
{
    uint8_t bytes[ARQ_PIECES * SEGMENT];
    struct arq_header header = train_head;
    size_t len = lay_out(&header, ARQ_PIECES, PIECE, bytes);

    assert_int_equal(train_of(bytes, len, SEGMENT), ARQ_PIECES);
    assert_int_equal(train_of(bytes, SEGMENT, SEGMENT), 1);
    /* The last piece of the message may be shorter, but not empty. */
    for (size_t last = 0; last < PIECE; last++) {
        len = lay_out(&header, ARQ_PIECES, last, bytes);
        assert_int_equal(train_of(bytes, len, SEGMENT), last ? ARQ_PIECES : ARQ_PIECES - 1);
    }
    /* No other one: the bytes end in the middle of a packet, or of a header. */
    for (size_t cut = SEGMENT + 1; cut < 2 * SEGMENT; cut++)
        assert_int_equal(train_of(bytes, cut, SEGMENT), 1);
    /* Some of the middle, and the last ones. */
    header.piece = 7;
    header.brief = true;
    len = lay_out(&header, 5, PIECE, bytes);
    assert_int_equal(train_of(bytes, len, SEGMENT), 5);
    header.piece = ARQ_PIECES - 2;
    len = lay_out(&header, 2, 1, bytes);
    assert_int_equal(train_of(bytes, len, SEGMENT), 2);
    /* The message has no more pieces than it says. */
    len = lay_out(&header, 4, PIECE, bytes);
    assert_int_equal(train_of(bytes, len, SEGMENT), 2);
}

/* Any bit of a header that is another one ends the train before it; a payload may be anything. */
static void train_ends_where_a_header_differs(void **state)
{
    const unsigned count = 6, at = 3;
    uint8_t bytes[6 * SEGMENT];
    size_t len = lay_out(&train_head, count, PIECE, bytes);

    for (size_t i = 0; i < SEGMENT; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[at * SEGMENT + i] ^= (uint8_t)(1U << bit);
            assert_int_equal(train_of(bytes, len, SEGMENT), i < ARQ_BRIEF ? at : count);
            bytes[at * SEGMENT + i] ^= (uint8_t)(1U << bit);
        }
    }
    assert_int_equal(train_of(bytes, len, SEGMENT), count);
}

/* Datagrams that are no pieces of one message are no train. */
static void other_packets_are_no_train(void **state)
{
    uint8_t bytes[4 * SEGMENT];
    struct arq_header header = train_head;
    size_t len;

    header.pieces = 1;
    len = lay_out(&header, 1, PIECE, bytes);
    memcpy(bytes + SEGMENT, bytes, SEGMENT);
    assert_int_equal(train_of(bytes, len + SEGMENT, SEGMENT), 1);
    header.pieces = 4;
    header.type = ARQ_PROBE;
    len = lay_out(&header, 4, PIECE, bytes);
    assert_int_equal(train_of(bytes, len, SEGMENT), 1);
    /* Cut to another length than the pieces have. */
    header.type = ARQ_DATA;
    header.piece = 3;
    header.brief = true;
    header.size = 2 * PIECE;
    len = lay_out(&header, 1, PIECE, bytes);
    memcpy(bytes + SEGMENT, bytes, SEGMENT);
    assert_int_equal(train_of(bytes, len + SEGMENT, SEGMENT), 1);
}

/* ---- path_mtu ---- */

static void path_mtu_below_the_base_is_not_believed(void **state)
{
    struct path_mtu mtu;

    path_mtu_init(&mtu, 9000);
    assert_int_equal(mtu.size, PATH_MTU_BASE);
    assert_int_equal(path_mtu_probe(&mtu, 1), 9000);
    path_mtu_sent(&mtu);
    path_mtu_probe_acked(&mtu, 9000);
    assert_int_equal(mtu.size, 9000);
    assert_true(path_mtu_limit(&mtu, 68));
    assert_int_equal(mtu.size, PATH_MTU_BASE);
    assert_false(path_mtu_limit(&mtu, 9000));
}

/* ---- pacer ---- */

/* A peer that was stopped for minutes made the round trip as long: its window does not. */
static void pacer_never_waits_for_minutes(void **state)
{
    assert_int_equal(pacer_interval(1000, 4000, 400000, false), 80000);
    assert_int_equal(pacer_interval(1000, 500, 1000000, true), 2000000);
    assert_int_equal(pacer_interval(1000, 500, UINT64_C(600000000000), true), PACER_LONGEST);
    assert_int_equal(pacer_interval(1000, 1, UINT64_MAX, false), PACER_LONGEST);
}

enum {
    LOST = PATH_MTU_LOSSES,
    NARROW = 1500,
};

static struct path_mtu wide(void)
{
    struct path_mtu mtu;

    path_mtu_init(&mtu, 9000);
    assert_int_equal(path_mtu_probe(&mtu, 1), 9000);
    path_mtu_sent(&mtu);
    path_mtu_probe_acked(&mtu, 9000);
    return mtu;
}

/* A queue that is full takes some packets of a burst, and drops the others. */
static void path_mtu_stays_where_packets_of_the_length_come(void **state)
{
    struct path_mtu mtu = wide();
    struct path_mtu_came came = {0};

    for (uint64_t sent = 10; sent < 20; sent++) {
        path_mtu_acked(&mtu, &came, 9000, sent);
        for (int i = 0; i < 3 * LOST; i++)
            assert_false(path_mtu_lost(&mtu, &came, i % 2 ? 9000 : 5000, sent - (uint64_t)(i % 2)));
    }
    /* It came before they left, or was shorter: that tells nothing of them. */
    for (int i = 0; i < LOST - 1; i++)
        assert_false(path_mtu_lost(&mtu, &came, 9000, 20));
    path_mtu_acked(&mtu, &came, NARROW, 21);
    assert_true(path_mtu_lost(&mtu, &came, 9000, 21));
    assert_int_equal(mtu.size, PATH_MTU_BASE);
}

/* Short ones, which the path takes still, come in between. */
static void path_mtu_falls_beside_short_packets(void **state)
{
    struct path_mtu mtu = wide();
    struct path_mtu_came came = {0};

    for (int i = 0; i < LOST; i++) {
        path_mtu_acked(&mtu, &came, NARROW, 10 + (uint64_t)i);
        assert_int_equal(path_mtu_lost(&mtu, &came, 9000, 10 + (uint64_t)i), i == LOST - 1);
    }
    assert_int_equal(mtu.size, PATH_MTU_BASE);
    /* One of their length ends the row. */
    mtu = wide();
    for (int i = 0; i < 3 * LOST; i++) {
        assert_false(path_mtu_lost(&mtu, &came, 8000, 100 + 2 * (uint64_t)i));
        if (i % 3 == 2)
            path_mtu_acked(&mtu, &came, 8000, 101 + 2 * (uint64_t)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serial_expands_to_the_nearest),
        cmocka_unit_test(serial_tells_new_from_old),
        cmocka_unit_test(flight_learns_reordering),
        cmocka_unit_test(runs_are_as_their_packets),
        cmocka_unit_test(rtt_is_of_the_network_alone),
        cmocka_unit_test(the_least_rtt_has_the_call_that_sent),
        cmocka_unit_test(what_waited_to_be_read_is_no_longer_way),
        cmocka_unit_test(one_long_way_is_no_congestion),
        cmocka_unit_test(gate_hash_is_siphash),
        cmocka_unit_test(gate_takes_its_own_tokens_only),
        cmocka_unit_test(packet_is_read_as_written),
        cmocka_unit_test(piece_is_read_as_written),
        cmocka_unit_test(packet_that_cannot_be_is_refused),
        cmocka_unit_test(piece_that_cannot_be_is_refused),
        cmocka_unit_test(train_is_written_as_its_packets),
        cmocka_unit_test(train_is_read_as_written),
        cmocka_unit_test(train_ends_where_a_header_differs),
        cmocka_unit_test(other_packets_are_no_train),
        cmocka_unit_test(path_mtu_below_the_base_is_not_believed),
        cmocka_unit_test(path_mtu_stays_where_packets_of_the_length_come),
        cmocka_unit_test(path_mtu_falls_beside_short_packets),
        cmocka_unit_test(pacer_never_waits_for_minutes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Heads and records: decoding gives back the encoded fields, and refuses impossible ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layers/rxd/rxd_wire.h"

enum {
    ROOM = 256
};

static uint8_t bytes[2 * ROOM];

static const struct fi_rma_iov segments[] = {{1000, 5000, 1}, {7000, 3000, 2}};

static const char *again(const struct rxd_record *record, size_t cut, struct rxd_record *got)
{
    size_t size = rxd_record_size(record) + record->len, got_size;

    memset(rxd_record_put(record, bytes), 'x', record->len);
    return rxd_record_get(bytes, size - cut, rxd_is_ordered(record->kind), got, &got_size);
}

static const struct rxd_record good[] = {
    {.kind = RXD_MSG,
     .flags = RXD_TAGGED | RXD_HAS_DATA | RXD_WANTS_DONE,
     .id = 1,
     .size = 9,
     .tag = 3,
     .data = 4,
     .len = 5},
    {.kind = RXD_MSG,
     .flags = RXD_TAGGED | RXD_READABLE,
     .id = 4,
     .size = 1000,
     .tag = 3,
     .addr = UINT64_C(0x123456789abcdef0),
     .key = 77,
     .len = 5},
    {.kind = RXD_WRITE,
     .flags = RXD_HAS_DATA,
     .id = 2,
     .size = 8,
     .data = 5,
     .len = 8,
     .place_count = 2,
     .places = {{16, 4, 7}, {32, 4, 8}}},
    {.kind = RXD_WRITE,
     .flags = RXD_READABLE,
     .id = 2,
     .size = 8000,
     .addr = UINT64_C(0x123456789abcdef0),
     .key = 78,
     .len = 8,
     .place_count = 1,
     .places = {{16, 8000, 7}}},
    {.kind = RXD_READ, .id = 3, .taker = 9, .size = 8, .place_count = 1, .places = {{1, 8, 2}}},
    {.kind = RXD_ATOMIC,
     .id = 3,
     .taker = 9,
     .size = 8,
     .place_count = 1,
     .datatype = 3,
     .op = 2,
     .function = RXD_FETCH,
     .len = 8,
     .places = {{1, 1, 2}}},
    {.kind = RXD_PULL, .id = 5, .taker = 6, .size = 1 << 20},
    {.kind = RXD_DATA, .id = 6, .size = 4096, .len = 64},
    {.kind = RXD_DONE, .id = 7, .size = 13},
    {.kind = RXD_GONE, .id = 8},
    {.kind = RXD_ASK, .id = 8},
    {.kind = RXD_HERE, .id = 8},
    {.kind = RXD_MSG,
     .flags = RXD_TAGGED | RXD_TO_CONTEXT,
     .id = 9,
     .size = 5,
     .tag = 3,
     .context = RXD_CONTEXTS - 1,
     .len = 5},
    {.kind = RXD_WRITE,
     .flags = RXD_HAS_DATA | RXD_TO_CONTEXT,
     .size = 4,
     .data = 5,
     .context = 1,
     .len = 4,
     .place_count = 1,
     .places = {{16, 4, 7}}},
    {.kind = RXD_READ,
     .flags = RXD_TO_CONTEXT,
     .id = 3,
     .taker = 9,
     .size = 8,
     .context = 2,
     .place_count = 1,
     .places = {{1, 8, 2}}},
    {.kind = RXD_BYE},
    {.kind = RXD_MSG,
     .flags = RXD_TAGGED | RXD_TO_CONTEXT | RXD_FOLLOWED,
     .id = 9,
     .size = 105,
     .tag = 3,
     .context = 1,
     .follows = 100,
     .len = 5},
    {.kind = RXD_FOLLOW, .id = 9, .size = 5, .len = 100},
    {.kind = RXD_PULL, .flags = RXD_AGAIN, .id = 9, .taker = 6, .size = 105},
    {.kind = RXD_READ,
     .flags = RXD_BORROWS | RXD_TO_CONTEXT,
     .id = 3,
     .taker = 9,
     .size = 8,
     .context = 2,
     .place_count = 1,
     .places = {{1, 8, 2}}},
    {.kind = RXD_LENT,
     .id = 3,
     .taker = 17,
     .size = 12,
     .place_count = 2,
     .places = {{1, 8, 2}, {40, 4, 3}}},
    {.kind = RXD_WRITE,
     .flags = RXD_SEGMENTS | RXD_HAS_DATA,
     .id = 2,
     .size = 8000,
     .data = 5,
     .len = 8,
     .place_count = 1,
     .segment_count = 2,
     .segments = segments,
     .places = {{16, 8000, 7}}},
    {.kind = RXD_MSG,
     .flags = RXD_SEGMENTS | RXD_TAGGED | RXD_TO_CONTEXT,
     .id = 2,
     .size = 8000,
     .tag = 5,
     .context = 3,
     .len = 8,
     .segment_count = 2,
     .segments = segments},
};

static void records_come_out_as_they_went_in(void **state)
{
    struct fi_rma_iov its[RXD_PLACES];
    struct rxd_record got;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_null(again(&good[i], 0, &got));
        assert_int_equal(got.kind, good[i].kind);
        assert_int_equal(got.flags, good[i].flags);
        assert_int_equal(got.id, good[i].id);
        assert_int_equal(got.taker, good[i].taker);
        assert_int_equal(got.context, good[i].context);
        assert_int_equal(got.follows, good[i].follows);
        assert_int_equal(got.size, good[i].size);
        assert_int_equal(got.tag, good[i].tag);
        assert_int_equal(got.data, good[i].data);
        assert_true(got.addr == good[i].addr && got.key == good[i].key);
        assert_int_equal(got.len, good[i].len);
        assert_int_equal(got.place_count, good[i].place_count);
        assert_memory_equal(got.places, good[i].places,
                            good[i].place_count * sizeof(got.places[0]));
        assert_int_equal(got.segment_count, good[i].segment_count);
        rxd_segments(&got, its);
        assert_memory_equal(its, segments, got.segment_count * sizeof(its[0]));
        assert_non_null(again(&good[i], 1, &got));
    }
}

/* Whole messages have a short way of their own, out and in. */
static void whole_messages_are_written_alike(void **state)
{
    for (unsigned flags = 0; flags < RXD_AGAIN; flags++) {
        const struct rxd_fields fields = {.tag = 3, .data = 4, .context = 5};
        struct rxd_record record = {.kind = RXD_MSG,
                                    .flags = (uint8_t)flags,
                                    .size = 9,
                                    .len = 9,
                                    .tag = 3,
                                    .data = 4,
                                    .context = 5};
        uint8_t other[ROOM];

        if (flags & ~(unsigned)(RXD_TAGGED | RXD_HAS_DATA | RXD_TO_CONTEXT))
            continue;
        memset(bytes, 0, ROOM);
        memset(other, 0, ROOM);
        assert_int_equal(rxd_record_put(&record, bytes) - bytes,
                         rxd_message_put(other, flags, 9, &fields) - other);
        assert_memory_equal(bytes, other, ROOM);
    }
}

static const uint8_t *short_way(size_t left)
{
    bool tagged;
    uint64_t tag;
    size_t len;
    const uint8_t *payload = rxd_message_get(bytes, left, &tagged, &tag, &len);

    if (payload)
        assert_true(len == 9 && tag == (tagged ? 3 : 0) && (payload - bytes) + len <= left);
    return payload;
}

static void only_whole_messages_take_the_short_way(void **state)
{
    for (unsigned flags = 0; flags < 2 * RXD_AGAIN; flags++) {
        struct rxd_record record = {
            .kind = RXD_MSG, .flags = (uint8_t)flags, .size = 9, .len = 9, .tag = 3};
        size_t size = rxd_record_size(&record) + 9;

        memset(bytes, 0, ROOM);
        rxd_record_put(&record, bytes);
        if (flags & ~(unsigned)RXD_TAGGED) {
            assert_null(short_way(ROOM));
            continue;
        }
        assert_ptr_equal(short_way(size), bytes + size - 9);
        for (size_t left = 0; left < size; left++)
            assert_null(short_way(left));
        for (unsigned kind = 0; kind < 256; kind++) {
            bytes[0] = (uint8_t)kind;
            assert_true(!short_way(ROOM) == (kind != RXD_MSG));
        }
        record.size = 10; /* the rest is asked for */
        rxd_record_put(&record, bytes);
        assert_null(short_way(ROOM));
    }
}

static void records_that_cannot_be_are_refused(void **state)
{
    struct rxd_record got,
        all[] = {
            {.kind = 0},
            {.kind = RXD_HERE + 1},
            {.kind = RXD_ASK, .len = 1},
            {.kind = RXD_HERE, .flags = RXD_TAGGED},
            {.kind = RXD_MSG, .size = 1, .len = 2},
            {.kind = RXD_MSG, .size = 1},
            {.kind = RXD_READ, .flags = RXD_HAS_DATA, .place_count = 1},
            {.kind = RXD_READ, .flags = RXD_READABLE, .place_count = 1},
            {.kind = RXD_READ, .size = 1, .place_count = 1},
            {.kind = RXD_READ, .place_count = 0},
            {.kind = RXD_WRITE, .place_count = 2, .places = {{0, SIZE_MAX, 0}, {0, 1, 0}}},
            {.kind = RXD_ATOMIC, .place_count = 1, .places = {{0, RXD_PAYLOAD_MAX + 1, 0}}},
            {.kind = RXD_PULL, .len = 1},
            {.kind = RXD_DATA, .size = 1},
            {.kind = RXD_DATA, .size = UINT64_MAX, .len = 1},
            {.kind = RXD_DONE, .size = 4096},
            {.kind = RXD_GONE, .len = 1},
            {.kind = RXD_MSG, .flags = RXD_TO_CONTEXT},
            {.kind = RXD_MSG, .flags = RXD_TO_CONTEXT, .context = RXD_CONTEXTS},
            {.kind = RXD_DATA, .flags = RXD_TO_CONTEXT, .context = 1, .len = 1},
            {.kind = RXD_DATA, .flags = RXD_AGAIN, .len = 1},
            {.kind = RXD_FOLLOW, .size = 1},
            {.kind = RXD_FOLLOW, .size = UINT64_MAX, .len = 1},
            {.kind = RXD_FOLLOW, .flags = RXD_FOLLOWED, .follows = 1, .len = 1},
            {.kind = RXD_MSG, .flags = RXD_FOLLOWED, .size = 2, .len = 1},
            {.kind = RXD_MSG, .flags = RXD_FOLLOWED, .size = 2, .follows = 2, .len = 1},
            {.kind = RXD_MSG, .flags = RXD_FOLLOWED, .size = 0, .follows = 1},
            {.kind = RXD_MSG,
             .flags = RXD_FOLLOWED | RXD_READABLE,
             .size = 2,
             .follows = 1,
             .len = 1},
            {.kind = RXD_WRITE,
             .flags = RXD_FOLLOWED,
             .size = 2,
             .follows = 1,
             .len = 1,
             .place_count = 1,
             .places = {{0, 2, 0}}},
            {.kind = RXD_LENT, .place_count = 1},
            {.kind = RXD_LENT, .size = 1},
            {.kind = RXD_LENT, .size = 2, .place_count = 1, .places = {{0, 1, 0}}},
            {.kind = RXD_LENT, .size = 1, .place_count = 2, .places = {{0, 1, 0}, {0, 0, 0}}},
            {.kind = RXD_LENT, .size = 1, .len = 1, .place_count = 1, .places = {{0, 1, 0}}},
            {.kind = RXD_LENT,
             .flags = RXD_BORROWS,
             .size = 1,
             .place_count = 1,
             .places = {{0, 1, 0}}},
            {.kind = RXD_WRITE, .flags = RXD_BORROWS, .place_count = 1},
            {.kind = RXD_MSG, .flags = RXD_SEGMENTS, .size = 2, .len = 1},
            {.kind = RXD_READ, .flags = RXD_SEGMENTS, .place_count = 1},
        };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_non_null(again(&all[i], 0, &got));
}

static void is_said(const char *reason, const char *wrong)
{
    assert_non_null(wrong);
    assert_string_equal(wrong, reason);
}

/* A loan of full memory that says to have one place more than a record has room for. */
static const char *with_a_place_too_many(struct rxd_record *loan, struct rxd_record *got)
{
    size_t places = RXD_PLACES * (size_t)RXD_PLACE_SIZE, size, got_size;

    loan->place_count = RXD_PLACES;
    size = rxd_record_size(loan);
    memset(bytes, 1, sizeof(bytes));
    rxd_record_put(loan, bytes);
    assert_int_equal(bytes[size - places - 4], RXD_PLACES);
    bytes[size - places - 4]++;
    return rxd_record_get(bytes, size + RXD_PLACE_SIZE, rxd_is_ordered(loan->kind), got, &got_size);
}

static void loans_that_cannot_be_are_refused(void **state)
{
    struct rxd_record got, loan = {.kind = RXD_LENT, .place_count = 1};

    is_said("a place of no bytes", again(&loan, 0, &got));
    loan.size = 2;
    loan.places[0].len = 1;
    is_said("an access of another size than its memory", again(&loan, 0, &got));
    loan.place_count = 2;
    is_said("a place of no bytes", again(&loan, 0, &got));
    is_said("an access of too many places, or none, or a message with places",
            with_a_place_too_many(&loan, &got));
}

/* Of a write, and a message, of 8000 bytes. */
static void segments_that_cannot_be_are_refused(void **state)
{
    static const char count[] = "a request of too many segments, or one",
                      empty[] = "a segment of no bytes, or beyond all memory",
                      other[] = "segments of another size than their request",
                      both[] = "a request that is to be read at several places, and at one or not "
                               "at all";
    static const struct {
        const char *message, *write; /* what is wrong with it */
        unsigned flags, count;
        struct fi_rma_iov segments[5];
    } all[] = {
        {count, count, 0, 0, {{0}}},
        {count, count, 0, 1, {{1, 8000, 1}}},
        {count,
         count,
         0,
         5,
         {{1, 1600, 1}, {1, 1600, 1}, {1, 1600, 1}, {1, 1600, 1}, {1, 1600, 1}}},
        {empty, empty, 0, 2, {{1, 8000, 1}, {1, 0, 1}}},
        {other, other, 0, 2, {{1, 4000, 1}, {1, 4001, 1}}},
        {empty, empty, 0, 2, {{1, 8001, 1}, {1, UINT64_MAX, 1}}},
        {both, both, RXD_READABLE, 2, {{1, 4000, 1}, {1, 4000, 1}}},
        {both,
         "a record with flags that it has not",
         RXD_FOLLOWED,
         2,
         {{1, 4000, 1}, {1, 4000, 1}}},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rxd_record got, record = {.kind = RXD_WRITE,
                                         .flags = (uint8_t)(RXD_SEGMENTS | all[i].flags),
                                         .size = 8000,
                                         .len = 8,
                                         .place_count = 1,
                                         .segment_count = (uint8_t)all[i].count,
                                         .segments = all[i].segments,
                                         .places = {{16, 8000, 7}}};

        is_said(all[i].write, again(&record, 0, &got));
        record.kind = RXD_MSG;
        record.place_count = 0;
        record.follows = 1;
        is_said(all[i].message, again(&record, 0, &got));
    }
}

static void a_message_has_no_places(void **state)
{
    struct rxd_record got, record = {.kind = RXD_MSG,
                                     .flags = RXD_SEGMENTS,
                                     .size = 8000,
                                     .len = 8,
                                     .segment_count = 2,
                                     .segments = segments,
                                     .places = {{16, 8000, 7}}};

    assert_null(again(&record, 0, &got));
    record.place_count = 1;
    assert_non_null(again(&record, 0, &got));
}

static void heads_say_who_sends(void **state)
{
    struct rxd_head got = {0}, head = {.flags = RXD_INTRO | RXD_ORDERED,
                                       .sequence = 5,
                                       .ack = 6,
                                       .life = 7,
                                       .view = 9,
                                       .giving = 8,
                                       .unasked = 200,
                                       .abilities = RXD_LENDS};

    assert_int_equal(addr_from_str("[fe80::1%2]:7471", SIZE_MAX, &head.name.addr), 0);
    rxd_head_put(&head, bytes);
    assert_null(rxd_head_get(bytes, rxd_head_size(&head), &got));
    assert_int_equal(got.sequence, 5);
    assert_int_equal(got.ack, 6);
    assert_int_equal(got.life, 7);
    assert_int_equal(got.view, 9);
    assert_int_equal(got.giving, 8);
    assert_int_equal(got.unasked, 200);
    assert_int_equal(got.abilities, RXD_LENDS);
    assert_true(addr_equal(&got.name.addr.sa, &head.name.addr.sa));
    for (size_t i = 0; i < rxd_head_size(&head); i++)
        assert_non_null(rxd_head_get(bytes, i, &got));
    bytes[2]++;
    assert_non_null(rxd_head_get(bytes, ROOM, &got));
    head.name =
        (struct rxd_name){.own = (const uint8_t *)"an address of the lower's own", .own_len = 29};
    rxd_head_put(&head, bytes);
    assert_null(rxd_head_get(bytes, rxd_head_size(&head), &got));
    assert_true(rxd_name_equal(&got.name, &head.name));
    assert_int_equal(got.unasked, 200);
    assert_int_equal(got.abilities, RXD_LENDS);
    for (size_t i = 0; i < rxd_head_size(&head); i++)
        assert_non_null(rxd_head_get(bytes, i, &got));
    head.flags = RXD_ORDERED; /* of no peer */
    rxd_head_put(&head, bytes);
    assert_non_null(rxd_head_get(bytes, ROOM, &got));
}

static void proposals_have_a_view_and_no_records(void **state)
{
    struct rxd_head got = {0}, head = {.life = 7, .view = 9, .giving = 8};
    static const uint8_t flags[] = {
        RXD_PROPOSES,
        RXD_RENEWS,
        RXD_INTRO | RXD_ORDERED | RXD_PROPOSES,
        RXD_INTRO | RXD_ORDERED | RXD_RENEWS,
        RXD_INTRO | RXD_PROPOSES | RXD_RENEWS,
        RXD_INTRO | 2 * RXD_RENEWS,
    };

    assert_int_equal(addr_from_str("127.0.0.1:7471", SIZE_MAX, &head.name.addr), 0);
    for (uint8_t kind = RXD_PROPOSES; kind <= RXD_RENEWS; kind *= 2) {
        head.flags = RXD_INTRO | kind;
        head.view = 9;
        rxd_head_put(&head, bytes);
        assert_null(rxd_head_get(bytes, rxd_head_size(&head), &got));
        assert_int_equal(got.flags, head.flags);
        assert_non_null(rxd_head_get(bytes, rxd_head_size(&head) + RXD_RECORD_SIZE, &got));
        head.view = 0;
        rxd_head_put(&head, bytes);
        assert_non_null(rxd_head_get(bytes, rxd_head_size(&head), &got));
    }
    head.view = 9;
    head.number = 1;
    for (size_t i = 0; i < sizeof(flags); i++) {
        head.flags = flags[i];
        rxd_head_put(&head, bytes);
        assert_non_null(rxd_head_get(bytes, RXD_HEAD_SIZE + RXD_INTRO_SIZE, &got));
    }
    head.flags = RXD_INTRO;
    head.life = 0;
    rxd_head_put(&head, bytes);
    assert_non_null(rxd_head_get(bytes, rxd_head_size(&head), &got));
}

/* ---- Packets of one DATA or FOLLOW, which may lie in parts ---- */

enum {
    HEADS = RXD_HEAD_SIZE + RXD_RECORD_SIZE
};

static uint8_t lone[HEADS + RXD_PAYLOAD_MAX + 1];

/* As its sender writes it; how long it is. */
static size_t put_lone(enum rxd_kind kind, size_t len)
{
    bool ordered = kind == RXD_FOLLOW;
    const struct rxd_head head = {
        .flags = ordered ? RXD_ORDERED : 0, .number = 5, .sequence = ordered ? 6 : 0, .ack = 7};
    struct rxd_record record = {
        .kind = (uint8_t)kind, .id = 3, .size = UINT64_C(0x123456789), .len = len};

    rxd_head_put(&head, lone);
    assert_ptr_equal(rxd_record_put(&record, lone + RXD_HEAD_SIZE), lone + HEADS);
    return HEADS + len;
}

static void is_bytes(enum rxd_kind kind, size_t first, size_t len)
{
    struct rxd_record got;

    memset(&got, 0xa5, sizeof(got));
    assert_true(rxd_bytes_get(lone, first, len, &got));
    assert_int_equal(got.kind, kind);
    assert_int_equal(got.flags, 0);
    assert_int_equal(got.id, 3);
    assert_true(got.size == UINT64_C(0x123456789));
    assert_int_equal(got.len, len - HEADS);
    assert_true(!got.taker && !got.tag && !got.follows && !got.place_count && !got.payload);
}

static bool is_refused(size_t first, size_t len)
{
    struct rxd_record got;

    return !rxd_bytes_get(lone, first, len, &got);
}

static void a_packet_of_bytes_is_known_by_its_first_part(void **state)
{
    static const size_t lens[] = {1, 1400, 0x1234, RXD_PAYLOAD_MAX - 1, RXD_PAYLOAD_MAX};
    static const enum rxd_kind kinds[] = {RXD_DATA, RXD_FOLLOW};

    for (size_t i = 0; i < 2 * sizeof(lens) / sizeof(lens[0]); i++) {
        enum rxd_kind kind = kinds[i % 2];
        size_t len = put_lone(kind, lens[i / 2]);

        is_bytes(kind, HEADS, len);
        is_bytes(kind, len, len);
        for (size_t first = 0; first < HEADS; first++)
            assert_true(is_refused(first, len));
        /* Its record says another length than the packet has. */
        assert_true(is_refused(HEADS, len - 1));
        assert_true(is_refused(HEADS, len + 1));
    }
}

static void put64_at(uint8_t *raw, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        raw[i] = (uint8_t)(value >> (8 * i));
}

static void a_packet_of_anything_else_is_not(void **state)
{
    for (unsigned kind = 0; kind < 256; kind++) {
        size_t len = put_lone(RXD_DATA, 100);

        lone[RXD_HEAD_SIZE] = (uint8_t)kind;
        assert_int_equal(is_refused(HEADS, len), kind != RXD_DATA);
        lone[3] = RXD_ORDERED;
        assert_int_equal(is_refused(HEADS, len), kind != RXD_FOLLOW);
    }
    for (unsigned flags = 0; flags < 256; flags++) {
        size_t len = put_lone(RXD_DATA, 100);

        lone[3] = (uint8_t)flags; /* an introduction, or what no packet has */
        assert_int_equal(is_refused(HEADS, len), flags != 0);
        len = put_lone(RXD_FOLLOW, 100);
        lone[3] = (uint8_t)flags;
        assert_int_equal(is_refused(HEADS, len), flags != RXD_ORDERED);
        if (!flags)
            continue;
        for (enum rxd_kind kind = RXD_DATA; kind <= RXD_FOLLOW; kind += RXD_FOLLOW - RXD_DATA) {
            len = put_lone(kind, 100);
            lone[RXD_HEAD_SIZE + 1] = (uint8_t)flags;
            assert_true(is_refused(HEADS, len));
        }
    }
}

static void a_packet_of_bytes_that_cannot_be_is_not(void **state)
{
    static const enum rxd_kind kinds[] = {RXD_DATA, RXD_FOLLOW};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t len = put_lone(kinds[i], 0);

        assert_true(is_refused(HEADS, len)); /* it has none */
        len = put_lone(kinds[i], 100);
        put64_at(lone + RXD_HEAD_SIZE + 8, UINT64_MAX - 99);
        assert_true(is_refused(HEADS, len)); /* beyond all memory */
        put64_at(lone + RXD_HEAD_SIZE + 8, UINT64_MAX - 100);
        assert_false(is_refused(HEADS, len));
    }
    /* More than its record can say: what it says is 0. */
    put_lone(RXD_DATA, 0);
    assert_true(is_refused(HEADS, HEADS + RXD_PAYLOAD_MAX + 1));
    assert_true(is_refused(HEADS, HEADS + (size_t)RXD_PAYLOAD_MAX * 2 + 2));
}

/* ---- A message, and the bytes behind it ---- */

/* How long the packet is; *at: where the bytes' record is. */
static size_t put_led(const struct rxd_record *message, size_t len, size_t *at)
{
    const struct rxd_head head = {.flags = RXD_ORDERED, .number = 5, .sequence = 6, .ack = 7};
    const struct rxd_record rest = {.kind = RXD_FOLLOW, .id = 4, .size = 10, .len = len};

    rxd_head_put(&head, lone);
    *at = (size_t)(rxd_record_put(message, lone + RXD_HEAD_SIZE) - lone) + message->len;
    assert_ptr_equal(rxd_record_put(&rest, lone + *at), lone + *at + RXD_RECORD_SIZE);
    return *at + RXD_RECORD_SIZE + len;
}

static void bytes_behind_their_message_are_known(void **state)
{
    const struct rxd_record message = {.kind = RXD_MSG,
                                       .flags = RXD_FOLLOWED | RXD_TAGGED | RXD_HAS_DATA,
                                       .id = 4,
                                       .size = 1000,
                                       .len = 10,
                                       .tag = 1,
                                       .data = 2,
                                       .follows = 990};
    size_t at, len = put_led(&message, 990, &at);
    struct rxd_record got;

    for (size_t first = 0; first <= len; first++) {
        size_t before = rxd_led_bytes_get(lone, first, len, &got);

        assert_int_equal(before, first < at + RXD_RECORD_SIZE ? 0 : at);
        if (!before)
            continue;
        assert_int_equal(got.kind, RXD_FOLLOW);
        assert_true(got.id == 4 && got.size == 10 && got.len == 990);
    }
    assert_int_equal(rxd_led_bytes_get(lone, len, len - 1, &got), 0); /* another length */
    assert_int_equal(rxd_led_bytes_get(lone, len, len + 1, &got), 0);
    lone[3] = 0; /* without an order */
    assert_int_equal(rxd_led_bytes_get(lone, len, len, &got), 0);
}

static void a_message_that_nothing_follows_leads_none(void **state)
{
    struct rxd_record message = {.kind = RXD_MSG, .id = 4, .size = 1000, .len = 10}, got;
    size_t at, len = put_led(&message, 990, &at);

    assert_int_equal(rxd_led_bytes_get(lone, len, len, &got), 0);
    message = (struct rxd_record){
        .kind = RXD_MSG, .flags = RXD_FOLLOWED, .size = 10, .len = 10, .follows = 1};
    len = put_led(&message, 990, &at); /* it cannot be */
    assert_int_equal(rxd_led_bytes_get(lone, len, len, &got), 0);
    message.size = 1000;
    message.follows = 990;
    len = put_led(&message, 990, &at);
    assert_int_equal(rxd_led_bytes_get(lone, len, len, &got), at);
    for (unsigned kind = 0; kind < 256; kind++) {
        lone[at] = (uint8_t)kind;
        assert_int_equal(rxd_led_bytes_get(lone, len, len, &got), kind == RXD_FOLLOW ? at : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_out_as_they_went_in),
        cmocka_unit_test(whole_messages_are_written_alike),
        cmocka_unit_test(only_whole_messages_take_the_short_way),
        cmocka_unit_test(records_that_cannot_be_are_refused),
        cmocka_unit_test(loans_that_cannot_be_are_refused),
        cmocka_unit_test(segments_that_cannot_be_are_refused),
        cmocka_unit_test(a_message_has_no_places),
        cmocka_unit_test(heads_say_who_sends),
        cmocka_unit_test(proposals_have_a_view_and_no_records),
        cmocka_unit_test(a_packet_of_bytes_is_known_by_its_first_part),
        cmocka_unit_test(a_packet_of_anything_else_is_not),
        cmocka_unit_test(bytes_behind_their_message_are_known),
        cmocka_unit_test(a_message_that_nothing_follows_leads_none),
        cmocka_unit_test(a_packet_of_bytes_that_cannot_be_is_not),
    };

    return cmocka_run_group_tests_name("rxd: wire", tests, NULL, NULL);
}

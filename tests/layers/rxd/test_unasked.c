/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that leave behind a large message before its receiver asks: between endpoints, and with one
 * that writes the packets itself. */
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "../../support/end.h"

enum {
    LARGE = 64 << 10,
    FIRST = 2048, /* bytes with the request */
    HEAD = 16,
    INTRO = 56,
    PATIENCE_S = 60,
    STILL_MS = 50, /* in which what was sent is there */
    TELLS = 255,   /* an introduction's: 255 KiB */
};

#define PACKETS "arq;udp(iface=lo)"
#define MESSAGES "rxd;" PACKETS

static struct end a, b;
static char out[LARGE], in[LARGE];

/* Without a lock no thread drives an endpoint that its application does not look at. */
static void open_end(struct end *end, const char *stack)
{
    struct fi_info *info =
        end_info(stack, strncmp(stack, "rxd", 3) ? FI_MSG : FI_MSG | FI_TAGGED, 0);

    info->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    end_open(end, info, FI_CQ_FORMAT_TAGGED);
}

static time_t deadline(void)
{
    return time(NULL) + PATIENCE_S;
}

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* The next completion of `end` alone, or with another, or NULL, that is driven. */
static bool next(struct end *end, struct end *other)
{
    struct fi_cq_tagged_entry entry;
    time_t limit = deadline();

    while (time(NULL) < limit) {
        if (other)
            fi_cq_read(other->cq, NULL, 0);
        if (fi_cq_read(end->cq, &entry, 1) == 1)
            return true;
    }
    return false;
}

static void drive(struct end *end, struct end *other)
{
    for (long long until = now_ms() + STILL_MS; now_ms() < until;) {
        fi_cq_read(end->cq, NULL, 0);
        if (other)
            fi_cq_read(other->cq, NULL, 0);
    }
}

static void get(struct end *end, size_t len, uint64_t tag)
{
    memset(in, 0, sizeof(in));
    assert_int_equal(fi_trecv(end->ep, in, len, NULL, FI_ADDR_UNSPEC, tag, 0, NULL), 0);
}

static void put(struct end *end, size_t len, uint64_t tag)
{
    assert_int_equal(fi_tsend(end->ep, out, len, NULL, end->peer, tag, NULL), 0);
}

/* Both know each other, and nothing is under way. */
static void open_pair(const char *stack)
{
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (char)(i * 7 + i / 251);
    open_end(&a, MESSAGES);
    open_end(&b, stack);
    end_meet(&a, &b);
    for (int i = 0; i < 20; i++) {
        struct end *from = i % 2 ? &b : &a, *to = i % 2 ? &a : &b;

        get(to, 8, 1);
        put(from, 8, 1);
        assert_true(next(to, from));
        assert_true(next(from, to));
    }
    drive(&a, &b);
}

static void close_pair(void)
{
    end_close(&b);
    end_close(&a);
}

/* early: before its receive. */
static void send_large(bool early)
{
    if (!early)
        get(&b, LARGE, 2);
    put(&a, LARGE, 2);
    drive(&a, &b);
    if (early)
        get(&b, LARGE, 2);
    assert_true(next(&b, &a));
    assert_memory_equal(in, out, LARGE);
    assert_true(next(&a, &b));
}

static void large_messages_come_whole(void **state)
{
    open_pair(MESSAGES);
    send_large(false);
    send_large(true);
    close_pair();
    open_pair("rxd(saved_size=65536);" PACKETS); /* of which half is less than what follows */
    send_large(false);
    send_large(true);
    get(&b, 8, 3);
    put(&a, 8, 3);
    assert_true(next(&b, &a));
    close_pair();
}

/* early: it comes before its receive. */
static void cut_short(size_t room, bool early)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    time_t limit = deadline();

    if (!early)
        get(&b, room, 2);
    put(&a, LARGE, 2);
    drive(&a, &b);
    if (early)
        get(&b, room, 2);
    while (fi_cq_read(b.cq, &entry, 1) != -FI_EAVAIL) {
        fi_cq_read(a.cq, NULL, 0);
        assert_true(time(NULL) < limit);
    }
    assert_int_equal(fi_cq_readerr(b.cq, &error, 0), 1);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_int_equal(error.len, room);
    assert_int_equal(error.olen, LARGE - room);
    assert_memory_equal(in, out, room);
    assert_int_equal(in[room], 0);
    assert_true(next(&a, &b));
}

static void short_receives_take_what_they_have_room_for(void **state)
{
    open_pair(MESSAGES);
    for (int i = 0; i < 2; i++) {
        cut_short(20000, i);
        drive(&a, &b);
        cut_short(1000, i);
        drive(&a, &b);
    }
    get(&b, 8, 3);
    put(&a, 8, 3);
    assert_true(next(&b, &a));
    assert_memory_equal(in, out, 8);
    close_pair();
}

/* ---- A peer that writes packets itself ---- */

struct packet {
    uint8_t bytes[LARGE];
    size_t len;
};

static struct writer {
    struct end end;
    struct packet heard; /* the last one */
    uint32_t own, life;  /* its life, and a's for it */
    uint32_t number;     /* that a gave it */
    uint32_t next;       /* sequence */
    uint8_t tells;
} writers[2];

static void hear(struct writer *writer)
{
    assert_int_equal(fi_recv(writer->end.ep, writer->heard.bytes, sizeof(writer->heard.bytes), NULL,
                             FI_ADDR_UNSPEC, &writer->heard),
                     0);
}

/* Drives both; true: a packet with records was heard. */
static bool pump(struct writer *writer)
{
    const uint8_t *bytes = writer->heard.bytes;
    struct fi_cq_tagged_entry entry;
    bool intro;

    fi_cq_read(a.cq, NULL, 0);
    if (fi_cq_read(writer->end.cq, &entry, 1) != 1 || entry.flags & FI_SEND)
        return false;
    writer->heard.len = entry.len;
    intro = bytes[3] & 1;
    if (intro) {
        memcpy(&writer->life, bytes + 16, sizeof(writer->life));
        memcpy(&writer->number, bytes + 24, sizeof(writer->number));
        assert_int_equal(bytes[29], TELLS);
    }
    if (entry.len > (intro ? INTRO : HEAD))
        return true;
    hear(writer);
    return false;
}

/* Its records; hear() is to be called. NULL: nothing comes. */
static const uint8_t *listen(struct writer *writer, bool long_enough)
{
    long long until = now_ms() + (long_enough ? PATIENCE_S * 1000 : STILL_MS);

    while (now_ms() < until) {
        if (pump(writer))
            return writer->heard.bytes + (writer->heard.bytes[3] & 1 ? INTRO : HEAD);
    }
    return NULL;
}

static void say(struct writer *writer, bool ordered, uint32_t ack, const void *records, size_t len)
{
    uint8_t bytes[256];
    const uint8_t *name = writer->end.name;
    uint32_t sequence = ordered ? writer->next++ : 0;

    memset(bytes, 0, INTRO);
    memcpy(bytes, "Wx\3", 3);
    bytes[3] = ordered ? 3 : 1;
    memcpy(bytes + 4, &writer->number, 4);
    memcpy(bytes + 8, &sequence, 4);
    memcpy(bytes + 12, &ack, 4);
    memcpy(bytes + 16, &writer->own, 4);
    memcpy(bytes + 20, &writer->life, 4);
    bytes[24] = 7;
    bytes[28] = 4;
    bytes[29] = writer->tells;
    memcpy(bytes + 30, name + 2, 2);
    memcpy(bytes + 32, name + 4, 4);
    if (len)
        memcpy(bytes + INTRO, records, len);
    assert_int_equal(fi_inject(writer->end.ep, bytes, INTRO + len, writer->end.peer), 0);
}

/* It begins, or begins anew, and a knows that it knows a. */
static void begin(struct writer *writer)
{
    time_t limit = deadline();

    writer->own++;
    writer->number = writer->next = writer->life = 0;
    say(writer, false, 0, NULL, 0);
    while (!writer->number) {
        pump(writer);
        assert_true(time(NULL) < limit);
    }
    say(writer, false, 0, NULL, 0);
    for (long long until = now_ms() + STILL_MS; now_ms() < until;)
        pump(writer);
}

static void open_writer(struct writer *writer, uint8_t tells)
{
    *writer = (struct writer){.tells = tells};
    open_end(&writer->end, PACKETS);
    end_meet(&writer->end, &a);
    hear(writer);
    begin(writer);
}

static uint32_t get32(const uint8_t *raw)
{
    uint32_t value;

    memcpy(&value, raw, sizeof(value));
    return value;
}

static void peer_that_knows_no_such_bytes_is_waited_for(void **state)
{
    struct writer *writer = &writers[0];
    const uint8_t *record;

    open_end(&a, MESSAGES);
    open_writer(writer, 0);
    put(&a, LARGE, 2);
    record = listen(writer, true);
    assert_non_null(record);
    assert_int_equal(record[0], 1);
    assert_int_equal(record[1], 1);
    hear(writer);
    assert_null(listen(writer, false));
    end_close(&writer->end);
    end_close(&a);
}

static void bytes_come_behind_their_message_in_their_order(void **state)
{
    struct writer *writer = &writers[0];
    const uint8_t *record;
    uint32_t id, at = FIRST;

    open_end(&a, MESSAGES);
    open_writer(writer, TELLS);
    put(&a, LARGE, 2);
    record = listen(writer, true);
    assert_non_null(record);
    assert_int_equal(record[0], 1);
    assert_int_equal(record[1], 1 | 32);
    assert_int_equal(get32(record + 8), LARGE);
    assert_int_equal(record[2] | record[3] << 8, FIRST);
    assert_int_equal(get32(record + 24), LARGE - FIRST);
    id = get32(record + 4);
    while (at < LARGE) {
        size_t len;

        hear(writer);
        record = listen(writer, true);
        assert_non_null(record);
        assert_int_equal(record[0], 10);
        assert_int_equal(get32(record + 4), id);
        assert_int_equal(get32(record + 8), at);
        len = (size_t)(record[2] | record[3] << 8);
        assert_true(len > 0 && len <= LARGE - at);
        assert_memory_equal(record + 16, out + at, len);
        at += (uint32_t)len;
    }
    hear(writer);
    assert_null(listen(writer, false));
    end_close(&writer->end);
    end_close(&a);
}

/* Records of a message of `len` bytes: how many it has with its request, and behind it. */
static void send_long(struct writer *writer, size_t len, size_t *first, size_t *next)
{
    static char bytes[128 << 10];
    const uint8_t *record;

    assert_true(len <= sizeof(bytes));
    assert_int_equal(fi_tsend(a.ep, bytes, len, NULL, a.peer, 2, bytes), 0);
    record = listen(writer, true);
    assert_non_null(record);
    *first = (size_t)(record[2] | record[3] << 8);
    hear(writer);
    record = listen(writer, true);
    assert_non_null(record);
    assert_int_equal(record[0], 10);
    *next = (size_t)(record[2] | record[3] << 8);
    hear(writer);
}

/* A short last packet is none. */
static void a_short_rest_goes_with_the_request(void **state)
{
    struct writer *writer = &writers[0];
    size_t len = 100 << 10, first, next, piece = 0, more = 0;

    for (int i = 0; i < 4; i++) {
        open_end(&a, MESSAGES);
        open_writer(writer, TELLS);
        send_long(writer, len + more, &first, &next);
        assert_int_equal(first, i < 3 && i > 0 ? FIRST + more : FIRST);
        assert_true(!piece || next == piece);
        piece = next;
        len = FIRST + 62 * piece; /* more than a packet of the interface */
        if (i)
            more = i == 1 ? (piece / 16 < FIRST ? piece / 16 : FIRST) : more + 1;
        end_close(&writer->end);
        end_close(&a);
    }
}

struct lie {
    size_t len[2]; /* of one packet, and of a second one */
    uint8_t records[2][64];
};

/* Messages of 100 bytes, one of which is with them. */
static const struct lie lies[] = {
    /* Bytes behind no message. */
    {{17}, {{10, 0, 1, 0, 9, [8] = 1}}},
    /* More than were announced, in one piece and in two. */
    {{23}, {{1, 32, 1, 0, 9, [8] = 100, [16] = 2, [21] = 10}}},
    {{21, 19}, {{1, 32, 1, 0, 9, [8] = 100, [16] = 2}, {10, 0, 3, 0, 9, [8] = 1}}},
    /* At another place; more than the message has; more than are taken; none. */
    {{21, 17}, {{1, 32, 1, 0, 9, [8] = 100, [16] = 2}, {10, 0, 1, 0, 9, [8] = 2}}},
    {{21, 17}, {{1, 32, 1, 0, 9, [8] = 100, [16] = 2}, {10, 0, 1, 0, 9, [8] = 0}}},
    {{21}, {{1, 32, 1, 0, 9, [8] = 100, [16] = 100}}},
    {{21}, {{1, 32, 1, 0, 9, [8] = 0, 0, 0, 1, [16] = 1, 0xfc, 3}}},
    {{21}, {{1, 32, 1, 0, 9, [8] = 100}}},
    /* Behind one that is to be read. */
    {{37}, {{1, 32 | 8, 1, 0, 9, [8] = 100, [32] = 2}}},
    /* Another request comes before them. */
    {{21, 17}, {{1, 32, 1, 0, 9, [8] = 100, [16] = 2}, {1, 0, 1, 0, 9, [8] = 1}}},
    /* Without an order, or of no bytes. */
    {{16}, {{10, 0, 0, 0, 9, [8] = 1}}},
};

static void lies_end_what_is_under_way(void **state)
{
    struct writer *writer = &writers[0];

    open_end(&a, MESSAGES);
    open_writer(writer, TELLS);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        uint32_t before = writer->life;
        time_t limit = deadline();

        for (int j = 0; j < 2 && lies[i].len[j]; j++)
            say(writer, true, 0, lies[i].records[j], lies[i].len[j]);
        while (writer->life == before) {
            pump(writer);
            if (time(NULL) > limit)
                fail_msg("lie %zu is believed", i);
        }
        begin(writer);
    }
    end_close(&writer->end);
    end_close(&a);
}

/* A question, again and again, for what has left already. */
static void bytes_are_given_again_once(void **state)
{
    struct writer *writer = &writers[0];
    uint8_t pull[20] = {6, 64, [8] = 0, 0, 1, [16] = 5};
    const uint8_t *record;
    unsigned given = 0;
    uint32_t before;
    time_t limit = deadline();

    open_end(&a, MESSAGES);
    open_writer(writer, TELLS);
    put(&a, LARGE, 2);
    record = listen(writer, true);
    assert_non_null(record);
    memcpy(pull + 4, record + 4, 4);
    hear(writer);
    while ((record = listen(writer, false)))
        hear(writer);
    say(writer, false, 0, pull, sizeof(pull));
    while ((record = listen(writer, false))) {
        assert_int_equal(record[0], 7);
        given += (unsigned)(record[2] | record[3] << 8);
        hear(writer);
    }
    assert_int_equal(given, LARGE - FIRST);
    before = writer->life;
    say(writer, false, 0, pull, sizeof(pull));
    while (writer->life == before) {
        if (pump(writer))
            hear(writer);
        assert_true(time(NULL) < limit);
    }
    end_close(&writer->end);
    end_close(&a);
}

/* A message of which so many bytes follow: what a says once it has a receive for it. */
static const uint8_t *answer_to(struct writer *writer, uint16_t follows, bool sent)
{
    uint8_t message[21] = {1, 32, 1, 0, 9, [8] = 0, 0, 1, [16] = (uint8_t)follows, follows >> 8};
    uint8_t rest[16 + 100] = {10, 0, 100, 0, 9, [8] = 1};
    const uint8_t *record;

    if (sent)
        memcpy(message + 8, "\x65\0\0", 3); /* the 100 are all */
    say(writer, true, 0, message, sizeof(message));
    if (sent)
        say(writer, true, 0, rest, sizeof(rest));
    drive(&a, &writer->end);
    assert_int_equal(fi_recv(a.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, in), 0);
    record = listen(writer, true);
    assert_non_null(record);
    assert_int_equal(get32(record + 4), 9);
    hear(writer);
    return record;
}

static void they_are_kept_where_there_is_room(void **state)
{
    struct writer *writer = &writers[0];
    const uint8_t *answer;

    open_end(&a, "rxd(saved_size=65536);" PACKETS);
    open_writer(writer, TELLS);
    assert_int_equal(answer_to(writer, 100, true)[0], 8);
    begin(writer);
    answer = answer_to(writer, 40000, false);
    assert_int_equal(answer[0], 6);
    assert_int_equal(answer[1], 64);
    end_close(&writer->end);
    end_close(&a);
}

/* Others' messages without receives fill the memory between a message and the bytes behind it. */
static void bytes_are_taken_though_no_message_is(void **state)
{
    static const uint8_t begins[22] = {1, 32, 2, 0, 9, [8] = 100, [16] = 98, [20] = 'a', 'b'};
    static const uint8_t stray[17] = {1, 0, 1, 0, 9, [8] = 1};
    uint8_t rest[16 + 98] = {10, 0, 98, 0, 9, [8] = 2};
    struct fi_cq_tagged_entry entry;
    time_t limit = deadline();

    open_end(&a, "rxd(saved_size=65536);" PACKETS);
    open_writer(&writers[0], TELLS);
    open_writer(&writers[1], TELLS);
    memset(rest + 16, 'c', 98);
    memset(in, 0, sizeof(in));
    assert_int_equal(fi_recv(a.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, in), 0);
    say(&writers[0], true, 0, begins, sizeof(begins));
    drive(&a, &writers[0].end);
    for (int i = 0; i < 300; i++) {
        say(&writers[1], true, 0, stray, sizeof(stray));
        for (int j = 0; j < 100; j++)
            pump(&writers[1]);
    }
    say(&writers[0], true, 0, rest, sizeof(rest));
    while (fi_cq_read(a.cq, &entry, 1) != 1) {
        fi_cq_read(writers[0].end.cq, NULL, 0);
        assert_true(time(NULL) < limit);
    }
    assert_ptr_equal(entry.op_context, in);
    assert_int_equal(entry.len, 100);
    assert_memory_equal(in, "abc", 3);
    assert_int_equal(in[99], 'c');
    end_close(&writers[1].end);
    end_close(&writers[0].end);
    end_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_messages_come_whole),
        cmocka_unit_test(short_receives_take_what_they_have_room_for),
        cmocka_unit_test(peer_that_knows_no_such_bytes_is_waited_for),
        cmocka_unit_test(bytes_come_behind_their_message_in_their_order),
        cmocka_unit_test(a_short_rest_goes_with_the_request),
        cmocka_unit_test(lies_end_what_is_under_way),
        cmocka_unit_test(bytes_are_given_again_once),
        cmocka_unit_test(they_are_kept_where_there_is_room),
        cmocka_unit_test(bytes_are_taken_though_no_message_is),
    };

    return cmocka_run_group_tests_name("rxd: unasked", tests, NULL, NULL);
}

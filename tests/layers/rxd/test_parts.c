/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that the lower shows in several places: an endpoint is handed them by its reader, in the
 * name of a peer that it has met and that is not driven any more.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "layers/rxd/rxd.h"
#include "tests/layers/rxd/acquainted.h"
#include "tests/support/end.h"
#include "tests/support/inside.h"

enum {
    SIZE = 60000, /* of a message: longer than a packet of the lower */
    FIRST = 100,  /* bytes of it in its request */
    GUARD = 64,
    HEADS = RXD_HEAD_SIZE + RXD_RECORD_SIZE,
    PATIENCE_S = 60,
    ID = 9, /* the peer's, of its message */
};

#define STACK "rxd;loop(shape=srd,seed=11)"

/* ---- An endpoint and its peer ---- */

static struct end a, b;
static struct rxd_ep *ep; /* of a */
static struct rxd_peer *peer;
static uint32_t sequence; /* of the peer's next request */
static uint8_t out[SIZE + GUARD], in[SIZE + GUARD];

static void get(struct end *end, size_t len)
{
    memset(in, 0xee, sizeof(in));
    assert_int_equal(fi_recv(end->ep, in, len, NULL, FI_ADDR_UNSPEC, in), 0);
}

static void is_untouched(size_t from)
{
    for (size_t i = from; i < sizeof(in); i++)
        assert_int_equal(in[i], 0xee);
}

static void exchange(struct end *from, struct end *to)
{
    struct fi_cq_tagged_entry entry;
    time_t limit = time(NULL) + PATIENCE_S;
    unsigned ends = 0;

    get(to, 8);
    assert_int_equal(fi_send(from->ep, out, 8, NULL, from->peer, out), 0);
    while (ends < 2) {
        ssize_t sent = fi_cq_read(from->cq, &entry, 1), came = fi_cq_read(to->cq, &entry, 1);

        assert_true(sent == 1 || sent == -FI_EAGAIN);
        assert_true(came == 1 || came == -FI_EAGAIN);
        ends += (sent == 1) + (came == 1);
        assert_true(time(NULL) < limit);
    }
}

/* Without a lock no thread drives an endpoint that its application does not look at. */
static void open_end(struct end *end)
{
    struct fi_info *info = end_info(STACK, FI_MSG, 0);

    info->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    end_open(end, info, FI_CQ_FORMAT_TAGGED);
}

static int open_pair(void **state)
{
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (uint8_t)(i * 7 + i / 251);
    open_end(&a);
    open_end(&b);
    peer = acquainted(&a, &b, exchange);
    ep = rxd_ep_of(peer->base.ep);
    sequence = peer->next_in;
    return 0;
}

static int close_pair(void **state)
{
    end_close(&b);
    end_close(&a);
    return 0;
}

/* ---- What the peer says ---- */

static uint8_t packet[SIZE + 1024];
static size_t packet_len;

static void begin_packet_at(bool ordered, uint32_t at)
{
    rxd_head_put_number(packet, ordered ? RXD_ORDERED : 0, peer->number ^ ep->salt,
                        ordered ? at : 0, peer->acked);
    packet_len = RXD_HEAD_SIZE;
}

static void begin_packet(bool ordered)
{
    begin_packet_at(ordered, ordered ? sequence++ : 0);
}

static void add_record(const struct rxd_record *record, const uint8_t *payload)
{
    rxd_record_put(record, packet + packet_len);
    packet_len += rxd_record_size(record);
    memcpy(packet + packet_len, payload, record->len);
    packet_len += record->len;
}

/* Bytes of the message from `at` on. */
static void put_bytes(enum rxd_kind kind, uint32_t id, size_t at, size_t len)
{
    const struct rxd_record record = {.kind = (uint8_t)kind, .id = id, .size = at, .len = len};

    begin_packet(kind == RXD_FOLLOW);
    add_record(&record, out + at);
}

/* Likewise, `early` packets before it is their turn. */
static void put_early(uint32_t early, size_t at, size_t len)
{
    const struct rxd_record record = {.kind = RXD_FOLLOW, .id = ID, .size = at, .len = len};

    begin_packet_at(true, sequence + early);
    add_record(&record, out + at);
}

static void put_message(size_t size, size_t len, size_t follows)
{
    const struct rxd_record record = {.kind = RXD_MSG,
                                      .flags = follows ? RXD_FOLLOWED : 0,
                                      .id = ID,
                                      .size = size,
                                      .len = len,
                                      .follows = (uint32_t)follows};

    begin_packet(true);
    add_record(&record, out);
}

static bool say_from(size_t part, uint64_t src)
{
    struct iovec parts[2 * RXD_PARTS] = {{NULL, 0}};
    size_t count = 0;
    bool taken;

    for (size_t at = 0; at < packet_len; at += parts[count++].iov_len) {
        size_t len = packet_len - at < part ? packet_len - at : part;

        assert_true(count < 2 * RXD_PARTS);
        parts[count] = (struct iovec){malloc(len), len}; /* nothing is around it */
        assert_non_null(parts[count].iov_base);
        memcpy(parts[count].iov_base, packet + at, len);
    }
    taken = rxd_in_read_parts(&ep->base, parts, count, src);
    while (count--)
        free(parts[count].iov_base);
    return taken;
}

/* In parts of so many bytes. */
static void say(size_t part)
{
    assert_true(say_from(part, peer->base.lower));
}

static size_t longest_packet(void)
{
    size_t longest = ep->heads + ep->room;

    assert_true(longest < SIZE / 2);
    return longest;
}

static bool is_broken(void)
{
    return !list_empty(&peer->base.broken);
}

/* a has nothing to tell, whatever it still has to do. */
static void none_ends(void)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < 100; i++)
        assert_int_equal(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
}

static void comes(size_t len)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_read(a.cq, &entry, 1), 1);
    assert_ptr_equal(entry.op_context, in);
    assert_int_equal(entry.len, len);
    assert_memory_equal(in, out, len);
    is_untouched(len);
    assert_false(is_broken());
}

static void fails(int err, size_t len, size_t olen)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_read(a.cq, &entry, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
    assert_ptr_equal(error.op_context, in);
    assert_int_equal(error.err, err);
    assert_int_equal(error.len, len);
    assert_int_equal(error.olen, olen);
}

/* The peer has lied, and ends; but for the last, another pair follows. */
static void ends_peer(void **state, bool last)
{
    assert_true(is_broken());
    fails(FI_EPROTO, 0, 0);
    is_untouched(FIRST);
    if (last)
        return;
    close_pair(state);
    open_pair(state);
}

/* ---- Bytes that were asked for ---- */

/* A message has come but for what a asks for: by whom, as a says. */
static uint32_t asked(void)
{
    struct rxd_inbound *inbound;

    get(&a, SIZE);
    put_message(SIZE, FIRST, 0);
    say(packet_len);
    none_ends();
    assert_false(list_empty(&peer->base.inbounds));
    inbound = list_item(peer->base.inbounds.prev, struct rxd_inbound, base.link);
    assert_int_equal(inbound->base.taker.asked, SIZE);
    return message_handle_id(&inbound->base.handle);
}

static void they_land_where_they_belong(void **state)
{
    static const size_t parts[] = {HEADS, 1000, 1452, 8000, SIZE, 470, 600};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t piece = parts[i] * RXD_PARTS < SIZE / 2 ? parts[i] * 60 - HEADS : 29000;
        uint32_t taker = asked();

        for (size_t at = FIRST; at < SIZE; at += piece) {
            none_ends();
            put_bytes(RXD_DATA, taker, at, SIZE - at < piece ? SIZE - at : piece);
            say(parts[i]);
        }
        comes(SIZE);
        assert_int_equal(ep->base.takes, 0);
    }
}

/* More parts than a packet has: it is put together. */
static void too_many_parts_are_put_together(void **state)
{
    uint32_t taker = asked();

    put_bytes(RXD_DATA, taker, FIRST, SIZE - FIRST);
    assert_true(packet_len / 500 > RXD_PARTS);
    say(500);
    comes(SIZE);
}

static void more_than_was_asked_for_ends_the_peer(void **state)
{
    static const struct {
        size_t at, len;
    } all[] = {
        {FIRST, SIZE - FIRST + 1}, /* beyond the message */
        {SIZE - 1000, 1001},       /* likewise, of fewer bytes than are asked for */
        {0, SIZE},                 /* what has come already is in it */
        {SIZE + 1, 40},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rxd_record record = {.kind = RXD_DATA, .size = all[i].at, .len = all[i].len};

        record.id = asked();
        begin_packet(false);
        add_record(&record, out);
        say(1452);
        ends_peer(state, i + 1 == sizeof(all) / sizeof(all[0]));
    }
}

static void of_one_that_has_ended_they_do_nothing(void **state)
{
    uint32_t taker = asked();

    put_bytes(RXD_DATA, taker, FIRST, SIZE - FIRST);
    say(1452);
    comes(SIZE);
    memset(in, 0xee, sizeof(in));
    for (uint32_t i = 0; i < 20; i++) {
        put_bytes(RXD_DATA, i ? taker ^ 1U << i : taker, FIRST, 20000);
        say(1452);
        assert_false(is_broken());
        none_ends();
    }
    is_untouched(0);
    /* The peer is heard as before. */
    put_bytes(RXD_DATA, asked(), FIRST, SIZE - FIRST);
    say(1452);
    comes(SIZE);
}

/* ---- Bytes behind a message ---- */

enum {
    PIECE = (SIZE - FIRST) / 2
};

/* First those behind it, which is before it may be read. */
static void say_before(void)
{
    unsigned held = 0;

    assert_true(PIECE + RXD_RECORD_SIZE > longest_packet());
    for (uint32_t i = 0; i < 2; i++) {
        size_t pooled = ep->base.packets.used;

        put_early(2 - i, FIRST + (1 - i) * PIECE, PIECE);
        say(1452);
        assert_int_equal(ep->base.packets.used, pooled);
        none_ends();
        assert_false(is_broken());
    }
    list_for_each (pos, &peer->held) {
        const struct rxd_packet *one = list_item(pos, struct rxd_packet, base.link);

        assert_true(one->base.apart);
        assert_int_equal(one->sequence, sequence + ++held);
        assert_int_equal(one->rest.len, RXD_RECORD_SIZE + PIECE);
    }
    assert_int_equal(held, 2);
    put_message(SIZE, FIRST, SIZE - FIRST);
    say(packet_len);
    sequence += 2;
}

static void say_behind(void)
{
    put_message(SIZE, FIRST, SIZE - FIRST);
    say(packet_len);
    for (uint32_t i = 0; i < 2; i++) {
        none_ends();
        put_bytes(RXD_FOLLOW, ID, FIRST + i * PIECE, PIECE);
        say(1452);
        assert_true(list_empty(&peer->held));
    }
}

static void they_are_taken_in_their_turn(void **state)
{
    get(&a, SIZE);
    say_behind();
    comes(SIZE);
    get(&a, SIZE);
    say_before();
    comes(SIZE);
    assert_true(list_empty(&peer->held));
}

static void they_are_kept_until_there_is_a_receive(void **state)
{
    say_behind();
    none_ends();
    get(&a, SIZE);
    comes(SIZE);
    say_before();
    none_ends();
    get(&a, SIZE);
    comes(SIZE);
    assert_true(list_empty(&peer->held));
    assert_int_equal(ep->base.saved, 0);
}

/* In memory of those that have a packet's length. */
static void a_short_one_is_held_likewise(void **state)
{
    size_t pooled;

    get(&a, FIRST + 50);
    none_ends();
    pooled = ep->base.packets.used;
    put_early(1, FIRST, 50);
    say(HEADS + 10);
    assert_false(list_empty(&peer->held));
    assert_int_equal(ep->base.packets.used, pooled + 1);
    put_message(FIRST + 50, FIRST, 50);
    say(packet_len);
    sequence++;
    comes(FIRST + 50);
    assert_true(list_empty(&peer->held));
}

/* They end in the middle of a part, at the end of one, within the first bytes, in either piece. */
static void short_receives_take_what_they_have_room_for(void **state)
{
    static const size_t rooms[] = {FIRST + 1,
                                   FIRST + 1452 - HEADS,
                                   20000,
                                   FIRST + PIECE,
                                   FIRST + PIECE + 1,
                                   SIZE - 1,
                                   FIRST,
                                   FIRST - 1,
                                   0};

    for (size_t i = 0; i < 2 * sizeof(rooms) / sizeof(rooms[0]); i++) {
        size_t room = rooms[i / 2];

        if (!room && i % 2)
            continue;
        get(&a, room);
        if (i % 2) {
            say_before();
        } else {
            put_message(SIZE, FIRST, SIZE - FIRST);
            say(packet_len);
            for (uint32_t j = 0; j < 2; j++) {
                put_bytes(RXD_FOLLOW, ID, FIRST + j * PIECE, PIECE);
                say(1452);
            }
        }
        fails(FI_ETRUNC, room, SIZE - room);
        assert_memory_equal(in, out, room);
        is_untouched(room);
        assert_false(is_broken());
    }
    get(&a, SIZE);
    say_behind();
    comes(SIZE);
}

/* Of a message of which one piece follows. */
static void what_was_not_announced_ends_the_peer(void **state)
{
    static const struct {
        uint32_t id;
        size_t at, len;
    } all[] = {
        {ID, FIRST, PIECE + 1}, /* more */
        {ID + 1, FIRST, PIECE + 1},
        {ID, FIRST + 1, PIECE}, /* at another place */
        {ID, 0, PIECE},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        get(&a, SIZE);
        put_message(SIZE, FIRST, PIECE);
        say(packet_len);
        put_bytes(RXD_FOLLOW, all[i].id, all[i].at, all[i].len);
        say(1452);
        ends_peer(state, i + 1 == sizeof(all) / sizeof(all[0]));
    }
}

/* ---- A message, and the first bytes behind it in its packet ---- */

enum {
    LED = 9000,
    RECORDS = RXD_HEAD_SIZE + RXD_RECORD_SIZE + 4 + FIRST + RXD_RECORD_SIZE /* in front of those */
};

/* So many packets before it is their turn. */
static void put_led(uint32_t early, size_t follows, size_t at, size_t len)
{
    const struct rxd_record message = {.kind = RXD_MSG,
                                       .flags = RXD_FOLLOWED,
                                       .id = ID,
                                       .size = SIZE,
                                       .len = FIRST,
                                       .follows = (uint32_t)follows};
    const struct rxd_record rest = {.kind = RXD_FOLLOW, .id = ID, .size = at, .len = len};

    begin_packet_at(true, sequence + early);
    add_record(&message, out);
    assert_int_equal(packet_len + RXD_RECORD_SIZE, RECORDS);
    add_record(&rest, out + at);
}

static void say_rest(void)
{
    none_ends();
    put_bytes(RXD_FOLLOW, ID, FIRST + LED, SIZE - FIRST - LED);
    say(1452);
}

/* In parts that end behind both records, and within them; with a receive, and before it. */
static void they_are_taken_with_their_message(void **state)
{
    static const size_t parts[] = {RECORDS, RECORDS - 1, RXD_HEAD_SIZE + 60, 1452, SIZE};

    for (size_t i = 0; i < 2 * sizeof(parts) / sizeof(parts[0]); i++) {
        if (i % 2)
            get(&a, SIZE);
        put_led(0, SIZE - FIRST, FIRST, LED);
        sequence++;
        say(parts[i / 2]);
        assert_true(list_empty(&peer->held));
        assert_int_equal(peer->following, SIZE - FIRST - LED);
        say_rest();
        if (i % 2 == 0)
            get(&a, SIZE);
        comes(SIZE);
        assert_int_equal(ep->base.saved, 0);
    }
}

static void they_are_held_with_their_message(void **state)
{
    for (int i = 0; i < 2; i++) {
        put_led(1, SIZE - FIRST, FIRST, LED);
        say(1452);
        none_ends();
        assert_false(list_empty(&peer->held));
        get(&a, FIRST);
        put_message(FIRST, FIRST, 0);
        say(packet_len);
        comes(FIRST);
        none_ends();
        assert_true(list_empty(&peer->held));
        sequence++;
        if (i)
            get(&a, SIZE);
        say_rest();
        if (!i)
            get(&a, SIZE);
        comes(SIZE);
    }
}

/* More than it announced, and bytes of another place. */
static void lies_behind_a_message_end_the_peer(void **state)
{
    static const struct {
        size_t follows, at;
    } all[] = {{LED - 1, FIRST}, {LED, FIRST + 1}, {LED, 0}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        get(&a, SIZE);
        put_led(0, all[i].follows, all[i].at, LED);
        say(1452);
        ends_peer(state, i + 1 == sizeof(all) / sizeof(all[0]));
    }
}

/* ---- Other packets ---- */

static void a_packet_of_several_records_is_read_whole(void **state)
{
    const struct rxd_record small = {.kind = RXD_MSG, .size = 50, .len = 50};
    const struct rxd_record rest = {.kind = RXD_FOLLOW, .id = ID, .size = FIRST, .len = PIECE};

    for (size_t part = 2; part < 150; part++) { /* two messages */
        begin_packet(true);
        add_record(&small, out);
        add_record(&small, out);
        get(&a, 50);
        say(part);
        comes(50);
        get(&a, 50);
        comes(50);
    }
    /* Bytes behind a message, and another one. */
    get(&a, SIZE);
    put_message(FIRST + PIECE, FIRST, PIECE);
    say(packet_len);
    begin_packet(true);
    add_record(&rest, out + FIRST);
    add_record(&small, out);
    say(1452);
    comes(FIRST + PIECE);
    get(&a, 50);
    comes(50);
}

/* Another number, sender and protocol; and of no whole head. */
static void packets_of_others_change_nothing(void **state)
{
    uint32_t taker = asked();

    for (unsigned i = 0; i < 64; i++) {
        put_bytes(RXD_DATA, taker, FIRST, SIZE - FIRST);
        packet[i < 32 ? i / 8 : 4 + i % 4] ^= (uint8_t)(1 << i % 8);
        if (i >= 24 && i < 32)
            packet_len = i - 20;
        say(1452);
        assert_false(is_broken());
    }
    put_bytes(RXD_DATA, taker, FIRST, SIZE - FIRST);
    assert_true(say_from(1452, peer->base.lower + 1));
    none_ends();
    is_untouched(FIRST);
    put_bytes(RXD_DATA, taker, FIRST, SIZE - FIRST);
    say(1452);
    comes(SIZE);
}

/* ---- Goodbye ---- */

enum {
    SENDS = 300, /* more than the other end has receives for in its lower */
    SEND = 3000
};

static unsigned waiting(void)
{
    unsigned count = 0;

    list_for_each (item, &peer->ordered)
        count++;
    return count;
}

/* The peer says that what a sent has come; and then, perhaps, that it leaves. */
static void put_ack(bool leaves)
{
    const struct rxd_record bye = {.kind = RXD_BYE};

    rxd_head_put_number(packet, leaves ? RXD_ORDERED : 0, peer->number ^ ep->salt,
                        leaves ? sequence++ : 0, peer->next_out - waiting());
    packet_len = RXD_HEAD_SIZE;
    if (leaves)
        add_record(&bye, out);
    say(packet_len);
}

/* How many ended well; the others are added to *lost. */
static unsigned ended(unsigned *lost)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    unsigned count = 0;

    for (int i = 0; i < 100; i++) {
        ssize_t rc = fi_cq_read(a.cq, &entry, 1);

        count += rc == 1;
        if (rc != -FI_EAVAIL)
            continue;
        assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
        assert_int_equal(error.err, FI_ECONNRESET);
        (*lost)++;
    }
    return count;
}

/* The lower has not said yet that they have come, and will not. */
static void what_a_peer_had_when_it_left_ends_well(void **state)
{
    const struct iovec iov = {out, SEND};
    const struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = a.peer, .context = out};
    unsigned posted = 0, count = 0, behind, lost = 0;
    time_t limit = time(NULL) + PATIENCE_S;

    for (; posted < SENDS && !waiting(); count += ended(&lost)) {
        ssize_t rc = fi_sendmsg(a.ep, &msg, FI_TRANSMIT_COMPLETE);

        assert_true(!rc || rc == -FI_EAGAIN);
        posted += !rc;
        put_ack(false);
    }
    behind = waiting();
    assert_int_equal(lost, 0);
    assert_true(count + behind < posted); /* the lower has some */
    put_ack(true);
    for (; count + lost < posted; count += ended(&lost))
        assert_true(time(NULL) < limit);
    assert_int_equal(lost, behind);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(they_land_where_they_belong),
        TEST(too_many_parts_are_put_together),
        TEST(more_than_was_asked_for_ends_the_peer),
        TEST(of_one_that_has_ended_they_do_nothing),
        TEST(they_are_taken_in_their_turn),
        TEST(they_are_kept_until_there_is_a_receive),
        TEST(a_short_one_is_held_likewise),
        TEST(short_receives_take_what_they_have_room_for),
        TEST(what_was_not_announced_ends_the_peer),
        TEST(they_are_taken_with_their_message),
        TEST(they_are_held_with_their_message),
        TEST(lies_behind_a_message_end_the_peer),
        TEST(a_packet_of_several_records_is_read_whole),
        TEST(packets_of_others_change_nothing),
        TEST(what_a_peer_had_when_it_left_ends_well),
    };

    return cmocka_run_group_tests_name("rxd: packets in parts", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains (OPT_TRAINS of core/base/seam.h) that come to the upper as they lie. */
#include "ends.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER = 96 << 10, /* holds more than a read brings */
    BUFFERS = 48,
    MANY = 64, /* datagrams that wait at once: enough for the kernel to put them together */
    WARM_LEN = 10,
    SHORT_TRAINS = 60,
    DATAGRAMS = 20000,
    LEAST = 100,          /* of a buffer's rest */
    LEAST_BUFFER = 24000, /* two take any train */
};

static char out[BUFFER], buffers[BUFFERS][BUFFER];

/* Each datagram begins with its number. */
static size_t lens[DATAGRAMS];
static unsigned char seen[DATAGRAMS];
static uint32_t sent;
static fi_addr_t sender; /* of trains */
static unsigned came, by_train, strangers, given_back;
static struct {
    unsigned count; /* so many came */
    void *context;
    const void *bytes;
    size_t len, segment;
    uint64_t flags, notes;
} last;

static void take_datagram(const char *bytes, size_t len)
{
    uint32_t number;

    assert_true(len >= sizeof(number));
    memcpy(&number, bytes, sizeof(number));
    assert_true(number < sent);
    assert_int_equal(seen[number]++, 0);
    assert_int_equal(len, lens[number]);
    check_filled(bytes + sizeof(number), len - sizeof(number), number);
    came++;
}

static void is_in_its_buffer(void *context, const char *bytes, size_t len)
{
    size_t i = (size_t)((char *)context - buffers[0]) / BUFFER;

    assert_true(i < BUFFERS);
    assert_ptr_equal(context, buffers[i]);
    assert_true(bytes >= buffers[i] && bytes + len <= buffers[i] + BUFFER);
}

static void train_came(void *arg, void *context, uint64_t flags, const struct train *train,
                       uint64_t notes)
{
    const char *bytes = train->bytes;

    assert_ptr_equal(arg, &b);
    assert_int_equal(train->peer, sender);
    assert_null(train->iov);
    assert_true(train->segment && train->len > train->segment);
    assert_int_equal(flags & ~(uint64_t)FI_MULTI_RECV, FI_MSG | FI_RECV);
    given_back += (flags & FI_MULTI_RECV) != 0;
    is_in_its_buffer(context, bytes, train->len);
    for (size_t at = 0; at < train->len; at += train->segment) {
        size_t left = train->len - at;

        take_datagram(bytes + at, left < train->segment ? left : train->segment);
    }
    by_train += (unsigned)((train->len + train->segment - 1) / train->segment);
    last.count++;
    last.context = context;
    last.bytes = bytes;
    last.len = train->len;
    last.segment = train->segment;
    last.flags = flags;
    last.notes = notes;
}

static void want_trains(struct end *end)
{
    const struct train_port port = {.of = end->ep, .came = train_came, .arg = &b};

    if (end == &b)
        assert_int_equal(set_train_port(end, &port, sizeof(port)), 0);
}

/* All completions that b has by now. */
static void read_completions(void)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t src;

    while (fi_cq_readfrom(b.rx, &entry, 1, &src) == 1) {
        given_back += (entry.flags & FI_MULTI_RECV) != 0;
        if (!(entry.flags & FI_RECV))
            continue;
        is_in_its_buffer(entry.op_context, entry.buf, entry.len);
        take_datagram(entry.buf, entry.len);
        assert_true(src == sender || src == FI_ADDR_NOTAVAIL);
        strangers += src == FI_ADDR_NOTAVAIL;
    }
}

/* Until all that was sent has come. */
static void take_all(void)
{
    for (long i = 0; came < sent; i++) {
        read_completions();
        if (i > 1000)
            usleep(1000);
        assert_true(i < 60000);
    }
    read_completions();
    assert_int_equal(came, sent);
}

/* Datagrams of these lengths, end to end from out on, the last perhaps shorter. */
static void number_datagrams(size_t len, size_t segment)
{
    for (size_t at = 0; at < len; at += segment, sent++) {
        assert_true(sent < DATAGRAMS);
        lens[sent] = len - at < segment ? len - at : segment;
        memcpy(out + at, &sent, sizeof(sent));
        fill(out + at + sizeof(sent), lens[sent] - sizeof(sent), sent);
    }
}

static void post_train(struct train_port *port, fi_addr_t peer, size_t len, size_t segment)
{
    const struct iovec iov = {.iov_base = out, .iov_len = len};
    const struct train train = {
        .peer = peer, .iov = &iov, .count = 1, .len = len, .segment = segment};

    number_datagrams(len, segment);
    assert_int_equal(port->send(port->lower, &train), 0);
}

static void post_lone(struct end *from, fi_addr_t peer, size_t len)
{
    number_datagrams(len, len);
    send_flags(from, peer, out, len, FI_INJECT);
}

static void open_cold(struct options options)
{
    options.caps = FI_MULTI_RECV | FI_SOURCE;
    options.min_multi_recv = LEAST;
    sent = came = by_train = strangers = given_back = 0;
    memset(seen, 0, sizeof(seen));
    memset(&last, 0, sizeof(last));
    ends_open(&options);
    sender = b.peer;
}

/* So many wait that the kernel is asked to put together what comes from now on. */
static void open_warm(struct options options)
{
    open_cold(options);
    for (int i = 0; i < MANY; i++)
        post_lone(&a, a.peer, WARM_LEN);
    receive_multi(&b, buffers[0], BUFFER);
    take_all();
}

static void drop_buffer(void)
{
    assert_int_equal(fi_cancel(&b.ep->fid, buffers[0]), 0);
    expect_failure(b.rx, buffers[0], FI_ECANCELED);
}

static void a_train_comes_as_it_left(void **state)
{
    const uint32_t ecn = 1, notes = OPT_NOTES_ECN;
    struct train_port port;

    open_warm((struct options){.prepare = want_trains});
    port = train_port_of(&a);
    assert_int_equal(fi_setopt(&a.ep->fid, FI_OPT_ENDPOINT, OPT_ECN, &ecn, sizeof(ecn)), 0);
    assert_int_equal(fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, OPT_NOTES, &notes, sizeof(notes)), 0);
    by_train = 0;
    for (size_t len = 20000; len > 19000; len -= 332) {
        last.count = 0;
        post_train(&port, a.peer, len, 1000);
        take_all();
        assert_int_equal(last.count, 1);
        assert_ptr_equal(last.context, buffers[0]);
        assert_int_equal(last.len, len);
        assert_int_equal(last.segment, 1000);
        assert_int_equal(last.flags, FI_MSG | FI_RECV);
        assert_int_equal(OPT_NOTE_ECN(last.notes), ecn);
    }
    assert_int_equal(by_train, 20 * 3 + 20);
    /* One alone is none. */
    post_lone(&a, a.peer, 1000);
    take_all();
    assert_int_equal(last.count, 1);
    ends_close();
}

static void the_train_that_ends_a_buffer_says_so(void **state)
{
    static const size_t left[] = {LEAST, LEAST - 1, 0};
    struct train_port port;

    open_warm((struct options){.prepare = want_trains});
    port = train_port_of(&a);
    drop_buffer();
    for (int i = 0; i < 3; i++) {
        receive_multi(&b, buffers[2 * i], 7500 + left[i]);
        receive_multi(&b, buffers[2 * i + 1], 500);
        last.count = given_back = 0;
        post_train(&port, a.peer, 7500, 1000);
        take_all();
        assert_int_equal(last.count, 1);
        assert_ptr_equal(last.bytes, buffers[2 * i]);
        assert_int_equal(last.flags, FI_MSG | FI_RECV | (left[i] < LEAST ? FI_MULTI_RECV : 0));
        assert_int_equal(given_back, left[i] < LEAST);
        /* The buffer takes no more of them, or what it has room for. */
        post_lone(&a, a.peer, LEAST);
        take_all();
        assert_int_equal(given_back, 1);
        post_lone(&a, a.peer, left[i] < LEAST ? 400 : 500);
        take_all();
        assert_int_equal(given_back, 2);
    }
    ends_close();
}

static void each_says_who_sent_it(void **state)
{
    struct train_port port;
    struct end third;
    fi_addr_t there;

    open_warm((struct options){.prepare = want_trains});
    end_open(&third, &(struct options){0});
    there = introduce(&third, &b);
    sender = introduce(&b, &third);
    port = train_port_of(&third);
    assert_true(sender != b.peer);
    post_train(&port, there, 7500, 1000);
    take_all();
    assert_int_equal(last.count, 1);
    sender = b.peer;
    port = train_port_of(&a);
    post_train(&port, a.peer, 7500, 1000);
    take_all();
    assert_int_equal(last.count, 2);
    end_close(&third);
    ends_close();
}

/* Trains, lone datagrams and those of a stranger, of any length, until all buffers are used up. */
static void any_datagrams(const char *spec, unsigned seed)
{
    struct train_port port, its;
    struct end stranger;
    fi_addr_t there;
    unsigned used = 0;

    print_message("seed %u\n", seed);
    srandom(seed);
    open_warm((struct options){.spec = spec, .prepare = want_trains});
    end_open(&stranger, &(struct options){0});
    there = introduce(&stranger, &b);
    port = train_port_of(&a);
    its = train_port_of(&stranger);
    for (given_back = 0; used < BUFFERS - 3;) {
        size_t segment = 8 + (size_t)(random() % 1400);
        size_t len = segment * (size_t)(1 + random() % 30) + 4 + (size_t)random() % (segment - 4);
        size_t room = random() % 2 ? BUFFER : LEAST_BUFFER + (size_t)(random() % 40000);

        for (; used < given_back + 3; used++)
            receive_multi(&b, buffers[used + 1], room);
        switch (random() % 4) {
        case 0: post_lone(&a, a.peer, segment); break;
        case 1: post_train(&its, there, len, segment); break;
        default: post_train(&port, a.peer, len, segment); break;
        }
        take_all();
    }
    end_close(&stranger);
    ends_close();
}

static void every_datagram_comes_once(void **state)
{
    unsigned seed = getenv("WEFT_SEED") ? (unsigned)atoi(getenv("WEFT_SEED")) : 1;

    any_datagrams("udp", seed);
    assert_true(by_train > 0 && by_train < came - strangers);
    assert_true(strangers > 0);
}

static void of_a_stranger_there_are_none(void **state)
{
    struct train_port port;
    struct end stranger;
    fi_addr_t there;

    open_warm((struct options){.prepare = want_trains});
    end_open(&stranger, &(struct options){0});
    there = introduce(&stranger, &b);
    port = train_port_of(&stranger);
    last.count = 0;
    post_train(&port, there, 7500, 1000);
    take_all();
    assert_int_equal(last.count, 0);
    assert_int_equal(strangers, 8);
    end_close(&stranger);
    ends_close();
}

/* One after the other, each of which is too short for a look to bring many. */
static void short_ones_are_found(void **state)
{
    struct train_port port;

    open_cold((struct options){.prepare = want_trains});
    receive_multi(&b, buffers[0], BUFFER);
    port = train_port_of(&a);
    for (int i = 0; i < SHORT_TRAINS && !by_train; i++) {
        post_train(&port, a.peer, 2000, 600);
        take_all();
        if (i % 2 == 0)
            continue;
        post_lone(&a, a.peer, 600);
        take_all();
    }
    assert_int_equal(by_train, 4);
    ends_close();
}

/* Datagrams of one length that each is waited for, and short ones that come together. */
static void others_are_none(void **state)
{
    struct train_port port;

    open_cold((struct options){.prepare = want_trains});
    receive_multi(&b, buffers[0], BUFFER);
    port = train_port_of(&a);
    for (int i = 0; i < SHORT_TRAINS; i++) {
        post_lone(&a, a.peer, 600);
        take_all();
        post_train(&port, a.peer, 200, 60);
        take_all();
    }
    post_train(&port, a.peer, 2000, 600);
    take_all();
    assert_int_equal(by_train, 0);
    ends_close();
}

static void without_gro_there_are_none(void **state)
{
    unsigned seed = getenv("WEFT_SEED") ? (unsigned)atoi(getenv("WEFT_SEED")) : 1;

    any_datagrams("udp(gro=no)", seed);
    assert_int_equal(by_train, 0);
}

/* Each has its completion. */
static void an_upper_that_takes_none_gets_datagrams(void **state)
{
    struct train_port port;

    open_warm((struct options){0});
    port = train_port_of(&a);
    post_train(&port, a.peer, 7500, 1000);
    take_all();
    assert_int_equal(by_train, 0);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_train_comes_as_it_left),
        cmocka_unit_test(the_train_that_ends_a_buffer_says_so),
        cmocka_unit_test(each_says_who_sent_it),
        cmocka_unit_test(every_datagram_comes_once),
        cmocka_unit_test(of_a_stranger_there_are_none),
        cmocka_unit_test(short_ones_are_found),
        cmocka_unit_test(others_are_none),
        cmocka_unit_test(without_gro_there_are_none),
        cmocka_unit_test(an_upper_that_takes_none_gets_datagrams),
    };

    return cmocka_run_group_tests_name("udp: trains that come", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Which datagrams may leave in one piece, and that a piece arrives as what it was made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/net/datagram.h"

/* A datagram need not stand alone. */
struct item {
    struct datagram datagram;
    int more;
};

static struct item items[DATAGRAM_BATCH_MAX];

static void prepare(size_t len)
{
    memset(items, 0, sizeof(items));
    for (size_t i = 0; i < DATAGRAM_BATCH_MAX; i++) {
        assert_int_equal(addr_from_str("10.0.0.1:7", SIZE_MAX, &items[i].datagram.to), 0);
        items[i].datagram.len = len;
        items[i].datagram.count = 1;
    }
}

static unsigned run(unsigned count)
{
    const struct datagrams all = {&items[0].datagram, sizeof(*items), count};

    return datagrams_run(&all);
}

static void neighbours_of_one_length_and_peer_are_one_run(void **state)
{
    prepare(100);
    assert_int_equal(run(DATAGRAM_BATCH_MAX), DATAGRAM_BATCH_MAX);
    assert_int_equal(run(3), 3);
    assert_int_equal(addr_from_str("10.0.0.1:8", SIZE_MAX, &items[5].datagram.to), 0);
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 5);
}

static void those_of_another_source_are_another_run(void **state)
{
    union addr from[2];

    prepare(100);
    for (size_t i = 0; i < DATAGRAM_BATCH_MAX; i++)
        items[i].datagram.from = &from[i >= 7];
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 7);
    items[2].datagram.from = NULL;
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 2);
}

static void a_shorter_one_ends_a_run(void **state)
{
    prepare(100);
    items[4].datagram.len = 99;
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 5);
    items[4].datagram.len = 101;
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 4);
    items[4].datagram.len = 0; /* there is no piece of no bytes */
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 4);
    items[0].datagram.len = 0;
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 1);
}

static void a_run_is_no_longer_than_a_datagram_may_be(void **state)
{
    prepare(10000);
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 6);
    prepare(65507);
    assert_int_equal(run(DATAGRAM_BATCH_MAX), 1);
}

static int open_socket(union addr *addr)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t len = sizeof(*addr);

    assert_true(fd >= 0);
    assert_int_equal(addr_from_str("127.0.0.1:0", SIZE_MAX, addr), 0);
    assert_int_equal(bind(fd, &addr->sa, addr_size(&addr->sa)), 0);
    assert_int_equal(getsockname(fd, &addr->sa, &len), 0);
    return fd;
}

/* Sends all of lengths, cut or not, and compares what comes. */
static void send_and_compare(const size_t *lengths, unsigned count, bool cut)
{
    static char bytes[4096], came[4096];
    union addr from, to;
    int out = open_socket(&from), in = open_socket(&to);
    struct datagrams all = {&items[0].datagram, sizeof(*items), count};

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    for (unsigned i = 0; i < count; i++)
        items[i].datagram = (struct datagram){
            .to = to,
            .len = lengths[i],
            .count = 2,
            .iov = {{bytes + i, 3}, {bytes + i + 3, lengths[i] - 3}},
        };
    assert_int_equal(datagrams_send(out, &all, cut, NULL), count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(recv(in, came, sizeof(came), MSG_DONTWAIT), lengths[i]);
        assert_memory_equal(came, bytes + i, lengths[i]);
    }
    close(in);
    close(out);
}

static void what_left_together_arrives_one_by_one(void **state)
{
    const size_t lengths[] = {1000, 1000, 1000, 40, 50, 50, 9};

    send_and_compare(lengths, 7, false);
    send_and_compare(lengths, 1, false);
    send_and_compare(lengths, 7, true);
}

enum {
    LONG = 9000,
    LONGS = 20,
    HEAD = 8
};

/* Runs of seven: memory for two of them. Each of a head and of payload that lies elsewhere. */
static void runs_are_put_together_as_far_as_memory_goes(void **state)
{
    static char heads[LONGS][HEAD], payload[LONGS + LONG], came[LONG];
    union addr from, to;
    int out = open_socket(&from), in = open_socket(&to), room = 1 << 20;
    struct datagrams all = {.first = &items[0].datagram, .stride = sizeof(*items), .count = LONGS};
    char *memory;

    assert_int_equal(setsockopt(in, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
    datagram_memory(&all.memory);
    memory = all.memory;
    assert_non_null(memory);
    memset(memory, 0, DATAGRAM_MEMORY);
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (char)(i * 11);
    for (int i = 0; i < LONGS; i++) {
        memset(heads[i], 'a' + i, HEAD);
        items[i].datagram = (struct datagram){
            .to = to,
            .len = LONG,
            .count = 2,
            .iov = {{heads[i], HEAD}, {payload + i, LONG - HEAD}},
        };
    }
    assert_int_equal(datagrams_send(out, &all, true, NULL), LONGS);
    assert_memory_equal(memory, heads[0], HEAD);
    assert_memory_equal(memory + 6 * LONG + HEAD, payload + 6, LONG - HEAD);
    for (int i = 0; i < LONGS; i++) {
        assert_int_equal(recv(in, came, sizeof(came), MSG_DONTWAIT), LONG);
        assert_memory_equal(came, heads[i], HEAD);
        assert_memory_equal(came + HEAD, payload + i, LONG - HEAD);
    }
    datagram_memory(&all.memory); /* there is one */
    assert_ptr_equal(all.memory, memory);
    free(memory);
    close(in);
    close(out);
}

static void a_piece_that_is_refused_is_named(void **state)
{
    unsigned refused = 0;
    struct datagrams all = {&items[0].datagram, sizeof(*items), 4};

    prepare(100);
    items[3].datagram.len = 101;
    assert_int_equal(datagrams_send(-1, &all, true, &refused), -1);
    assert_int_equal(refused, 3);
    assert_int_equal(datagrams_send(-1, &all, false, &refused), -1);
    assert_int_equal(refused, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_of_one_length_and_peer_are_one_run),
        cmocka_unit_test(those_of_another_source_are_another_run),
        cmocka_unit_test(a_shorter_one_ends_a_run),
        cmocka_unit_test(a_run_is_no_longer_than_a_datagram_may_be),
        cmocka_unit_test(what_left_together_arrives_one_by_one),
        cmocka_unit_test(runs_are_put_together_as_far_as_memory_goes),
        cmocka_unit_test(a_piece_that_is_refused_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

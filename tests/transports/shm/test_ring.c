/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_ring, shm_name: order and content through many laps, credits, and what a peer may write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "transports/shm/shm_name.h"
#include "transports/shm/shm_ring.h"

enum look {
    NONE,
    MESSAGE,
    BROKEN
};

struct ends {
    void *region;
    struct shm_tx tx;
    struct shm_rx rx;
};

static int open_ends(void **state)
{
    struct ends *ends = calloc(1, sizeof(*ends));

    ends->region = aligned_alloc(4096, SHM_REGION);
    memset(ends->region, 0, SHM_REGION);
    shm_tx_init(&ends->tx, ends->region, 1);
    shm_rx_init(&ends->rx, ends->region, 1);
    *state = ends;
    return 0;
}

static int close_ends(void **state)
{
    struct ends *ends = *state;

    free(ends->region);
    free(ends);
    return 0;
}

/* The view of shm_link_take. */
static enum look look_at(const struct shm_rx *rx, struct shm_head *head, const char **body)
{
    if (!shm_rx_head(rx, head, body))
        return NONE;
    return shm_rx_fits(rx, *head) ? MESSAGE : BROKEN;
}

static bool put(struct ends *ends, unsigned number, size_t size)
{
    char *body = shm_tx_reserve(&ends->tx, size);

    if (!body)
        return false;
    memset(body, (int)(number % 251), size);
    shm_tx_publish(&ends->tx,
                   (struct shm_head){.op = 1, .flags = (uint8_t)number, .bytes = (uint16_t)size});
    return true;
}

static bool take(struct ends *ends, unsigned number, size_t size)
{
    struct shm_head head;
    const char *body;

    for (;;) {
        enum look look = look_at(&ends->rx, &head, &body);

        assert_int_not_equal(look, BROKEN);
        if (look == NONE)
            return false;
        if (head.op != SHM_PAD)
            break;
        shm_rx_consume(&ends->rx, head);
    }
    assert_int_equal(head.flags, (uint8_t)number);
    assert_int_equal(head.bytes, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal((uint8_t)body[i], number % 251);
    shm_rx_consume(&ends->rx, head);
    return true;
}

/* Payload that looks like marks must not be taken for messages. */
static size_t size_of(unsigned number)
{
    return number * 2654435761u % (SHM_BODY_MAX + 1);
}

static void all_sizes_arrive_in_order(void **state)
{
    struct ends *ends = *state;
    unsigned sent = 0, taken = 0;

    srand(7);
    while (taken < 50000) {
        for (int burst = rand() % 40; burst && put(ends, sent, size_of(sent)); burst--)
            sent++;
        for (int burst = rand() % 40; burst && take(ends, taken, size_of(taken)); burst--)
            taken++;
        assert_false(ends->tx.broken);
    }
}

static void old_payload_is_no_message(void **state)
{
    struct ends *ends = *state;

    for (uint32_t lap = 1; lap < 20; lap++) {
        for (int i = 0; i < SHM_LINES / 2; i++) {
            uint64_t mark = (uint64_t)(ends->tx.lap + 1) << 32 | 56 << 16 | 1;
            char *body = shm_tx_reserve(&ends->tx, 64);

            assert_non_null(body);
            for (int word = 0; word < 8; word++)
                memcpy(body + word * 8, &mark, 8);
            shm_tx_publish(&ends->tx, (struct shm_head){.op = 1, .bytes = 64});
            struct shm_head head = {.op = 0};
            const char *seen;
            assert_int_equal(look_at(&ends->rx, &head, &seen), MESSAGE);
            shm_rx_consume(&ends->rx, head);
            assert_int_equal(look_at(&ends->rx, &head, &seen), NONE);
        }
    }
}

static void a_full_ring_takes_nothing_until_room_is_told(void **state)
{
    struct ends *ends = *state;
    unsigned sent = 0;

    while (put(ends, sent, 8))
        sent++;
    assert_int_equal(sent, SHM_LINES);
    for (unsigned i = 0; i < SHM_QUARTER - 1; i++)
        assert_true(take(ends, i, 8));
    assert_false(put(ends, sent, 8));
    assert_true(take(ends, SHM_QUARTER - 1, 8));
    assert_true(put(ends, sent, 8));
    assert_false(ends->tx.broken);
}

/* The ring bounds the messages that the sender puts in before it hears of the hold. */
static void a_hold_is_seen_with_the_next_credits(void **state)
{
    struct ends *ends = *state;
    unsigned sent = 0;

    shm_rx_hold(&ends->rx, true);
    for (unsigned taken = 0; !ends->tx.held; taken++) {
        while (!ends->tx.held && put(ends, sent, 8))
            sent++;
        assert_true(sent <= SHM_LINES + 1);
        assert_true(take(ends, taken, 8));
    }
    assert_true(shm_tx_held(&ends->tx));
    shm_rx_hold(&ends->rx, false);
    assert_false(shm_tx_held(&ends->tx));
    assert_false(ends->tx.held);
}

static void impossible_credits_break_the_sender(void **state)
{
    struct ends *ends = *state;

    while (put(ends, 0, 8))
        ;
    atomic_store(&ends->tx.credits->lines, 1000);
    assert_false(put(ends, 0, 8));
    assert_true(ends->tx.broken);
}

static void impossible_lengths_break_the_receiver(void **state)
{
    struct ends *ends = *state;
    _Atomic uint64_t *line = (void *)ends->rx.lines;
    struct shm_head head;
    const char *body;

    atomic_store(line, 1ull << 32 | 0xffffull << 16 | 1);
    assert_int_equal(look_at(&ends->rx, &head, &body), BROKEN);
    for (int i = 0; i < SHM_LINES - 1; i++) {
        assert_true(put(ends, 0, 8));
        assert_true(take(ends, 0, 8));
    }
    line = (void *)(ends->rx.lines + (SHM_LINES - 1) * SHM_LINE);
    atomic_store(line, 1ull << 32 | 100ull << 16 | 1);
    assert_int_equal(look_at(&ends->rx, &head, &body), BROKEN);
}

static void bulk_goes_round(void **state)
{
    struct ends *ends = *state;
    static const size_t sizes[] = {SHM_CHUNK, 1, 1025, 20000, SHM_CHUNK - 1};

    for (int i = 0; i < 1000; i++) {
        size_t size = sizes[i % 5];
        uint64_t pos;
        char *to = shm_tx_bulk(&ends->tx, size, &pos);

        assert_non_null(to);
        to[0] = (char)i;
        to[size - 1] = (char)i;
        shm_tx_bulk_commit(&ends->tx, pos, size);
        const char *from = shm_rx_bulk(&ends->rx, pos, size);
        assert_ptr_equal(from, to);
        shm_rx_bulk_done(&ends->rx, pos, size);
    }
}

static char *put_bulk(struct ends *ends, size_t size, uint64_t *pos)
{
    char *to = shm_tx_bulk(&ends->tx, size, pos);

    if (to)
        shm_tx_bulk_commit(&ends->tx, *pos, size);
    return to;
}

/* A receiver that keeps up sees few pages, whatever the sizes. */
static void bulk_begins_anew_where_it_can(void **state)
{
    static const size_t sizes[] = {64, 512, 4096, 10000, SHM_STEP / 4};
    struct ends *ends = *state;
    uint64_t pos;

    for (int i = 0; i < 1000; i++) {
        size_t size = sizes[(unsigned)i / 200];
        char *to = put_bulk(ends, size, &pos);

        assert_non_null(to);
        assert_true((size_t)(to - ends->tx.bulk) + size <= 2 * SHM_STEP);
        shm_rx_bulk_done(&ends->rx, pos, size);
    }
    assert_true(ends->tx.bulk_pages <= 2 * SHM_STEP);
}

/* However far the receiver is behind: all of the ring is used, and nothing is overwritten. */
static void bulk_of_a_receiver_behind(void **state)
{
    enum {
        SIZE = 10000,
        MOST = SHM_BULK / SIZE
    };
    struct ends *ends = *state;
    uint64_t pos[MOST + 1];
    size_t most = 0;

    for (size_t behind = 1; behind < MOST; behind++) {
        size_t first = 0, count = 0;

        for (int i = 0; i < 300; i++) {
            char *to = put_bulk(ends, SIZE, &pos[(first + count) % (MOST + 1)]);

            if (to) {
                to[0] = to[SIZE - 1] = (char)i;
                count++;
            }
            most = count > most ? count : most;
            if (!to || count > behind) {
                const char *from = shm_rx_bulk(&ends->rx, pos[first], SIZE);

                assert_true(count > 0);
                assert_int_equal((unsigned char)from[0], (unsigned char)from[SIZE - 1]);
                shm_rx_bulk_done(&ends->rx, pos[first], SIZE);
                first = (first + 1) % (MOST + 1);
                count--;
            }
        }
        for (; count; count--, first = (first + 1) % (MOST + 1)) {
            assert_non_null(shm_rx_bulk(&ends->rx, pos[first], SIZE));
            shm_rx_bulk_done(&ends->rx, pos[first], SIZE);
        }
    }
    assert_true(most >= MOST - 2);
}

static void bulk_outside_is_refused(void **state)
{
    struct ends *ends = *state;

    assert_null(shm_rx_bulk(&ends->rx, 0, SHM_CHUNK + 1));
    assert_null(shm_rx_bulk(&ends->rx, SHM_BULK, 1));
    assert_null(shm_rx_bulk(&ends->rx, SHM_BULK - 1, 2));
    assert_null(shm_rx_bulk(&ends->rx, UINT64_MAX, 1));
    assert_non_null(shm_rx_bulk(&ends->rx, SHM_BULK - 1, 1));
}

static void names_follow_the_manual(void **state)
{
    char name[SHM_NAME_MAX], long_name[600];

    assert_int_equal(shm_name_make("node", "svc", name), 0);
    assert_string_equal(name, "fi_ns://node:svc");
    assert_int_equal(shm_name_make(NULL, "svc", name), 0);
    assert_string_equal(name, "fi_ns://svc");
    assert_int_equal(shm_name_make("node", NULL, name), 0);
    assert_string_equal(name, "fi_shm://node");
    assert_int_equal(shm_name_make("x://y", NULL, name), 0);
    assert_string_equal(name, "x://y");
    assert_true(shm_name_equal("fi_a://n", "fi_b://n"));
    assert_false(shm_name_equal("fi_a://n", "fi_a://m"));
    memset(long_name, 'a', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = 0;
    assert_int_equal(shm_name_make(long_name, NULL, name), -FI_EINVAL);
    assert_int_equal(shm_name_make("a b", NULL, name), -FI_EINVAL);
    assert_int_equal(shm_name_import(long_name, sizeof(long_name), name), -FI_EINVAL);
}

static void all_of_a_name_counts(void **state)
{
    char text[SHM_NAME_MAX], one[SHM_NAME_MAX], other[SHM_NAME_MAX];

    memset(text, 'n', sizeof(text));
    text[SHM_NAME_MAX - 9] = 0;
    assert_int_equal(shm_name_import(text, sizeof(text), one), 0);
    text[SHM_NAME_MAX - 10] = 'm';
    assert_int_equal(shm_name_import(text, sizeof(text), other), 0);
    assert_false(shm_name_equal(one, other));
    text[SHM_NAME_MAX - 9] = 'n';
    text[SHM_NAME_MAX - 8] = 0;
    assert_int_equal(shm_name_import(text, sizeof(text), one), -FI_EINVAL);
}

static void socket_is(const char *name, unsigned uid)
{
    struct sockaddr_un sun;
    char expected[SHM_NAME_MAX];

    snprintf(expected, sizeof(expected), "weft-shm/%u/%s", uid, strstr(name, "://") + 3);
    shm_name_socket(name, 0, &sun);
    assert_string_equal(sun.sun_path + 1, expected);
}

/* A user has other numbers in other user namespaces. */
static void a_complete_name_says_whose_it_is(void **state)
{
    unsigned own = (unsigned)geteuid();

    socket_is("fi_shm://0000123:77:00000000", 77);
    socket_is("fi_shm://of:mine:77:123456789", 77);
    socket_is("fi_ns://123:77:00000004", 77);
    socket_is("fi_ns://node:7471", own);
    socket_is("fi_ns://::1:7471", own);
    socket_is("fi_ns://77:00000000", own);
    socket_is("fi_ns://a:077:00000000", own);
    socket_is("fi_ns://a:77:00000000x", own);
    socket_is("fi_ns://a:99999999999:00000000", own);
    socket_is("fi_ns://::", own);
}

/* Open MPI takes the names of all ranks to be as long as its own. */
static void default_names_are_of_one_length(void **state)
{
    char name[SHM_NAME_MAX], one[SHM_NAME_MAX], other[SHM_NAME_MAX];

    assert_int_equal(shm_name_make(NULL, NULL, name), 0);
    assert_int_equal(strlen(name), strlen("fi_shm://4194304"));
    assert_int_equal(shm_name_complete(name, 9, one), 0);
    assert_int_equal(shm_name_complete(name, 10000000, other), 0);
    assert_int_equal(strlen(one), strlen(other));
    assert_int_equal(shm_name_pid(one), getpid());
    assert_true(strlen(other) < FI_NAME_MAX);
}

int main(void)
{
#define WITH_ENDS(test) cmocka_unit_test_setup_teardown(test, open_ends, close_ends)
    const struct CMUnitTest tests[] = {
        WITH_ENDS(all_sizes_arrive_in_order),
        WITH_ENDS(old_payload_is_no_message),
        WITH_ENDS(a_full_ring_takes_nothing_until_room_is_told),
        WITH_ENDS(impossible_credits_break_the_sender),
        WITH_ENDS(impossible_lengths_break_the_receiver),
        WITH_ENDS(bulk_goes_round),
        WITH_ENDS(bulk_begins_anew_where_it_can),
        WITH_ENDS(bulk_of_a_receiver_behind),
        WITH_ENDS(bulk_outside_is_refused),
        cmocka_unit_test_setup_teardown(a_hold_is_seen_with_the_next_credits, open_ends,
                                        close_ends),
        cmocka_unit_test(names_follow_the_manual),
        cmocka_unit_test(all_of_a_name_counts),
        cmocka_unit_test(a_complete_name_says_whose_it_is),
        cmocka_unit_test(default_names_are_of_one_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages without a receive, more than an endpoint saves: nothing waits behind them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

enum {
    LARGE = 1 << 20,
    EAGER = 20000, /* more than is saved */
    SMALL = 4000,
    MANY = 1000,
    ROUNDS = 2000,
    FIRST = 100, /* tag */
};

static const char spec[] = "shm(cma=off,max_saved_size=16k)";

struct pair {
    struct end from, to;
    fi_addr_t addr;
    char *out, *in;
};

static int set_up(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    end_open(&pair->from, spec);
    end_open(&pair->to, spec);
    pair->addr = end_introduce(&pair->from, &pair->to);
    pair->out = malloc(LARGE);
    pair->in = malloc(LARGE);
    *state = pair;
    return 0;
}

static int clean_up(void **state)
{
    struct pair *pair = *state;

    end_close(&pair->from);
    end_close(&pair->to);
    free(pair->out);
    free(pair->in);
    free(pair);
    return 0;
}

static void post(struct pair *pair, uint64_t tag, size_t len)
{
    assert_int_equal(fi_trecv(pair->to.ep, pair->in, len, NULL, FI_ADDR_UNSPEC, tag, 0, pair->in),
                     0);
}

static void is_received(struct pair *pair, uint64_t tag, size_t len, char byte)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(end_wait(&pair->to, &pair->from, &entry), 0);
    assert_int_equal(entry.tag, tag);
    assert_int_equal(entry.len, len);
    assert_int_equal(pair->in[0], byte);
    assert_int_equal(pair->in[len - 1], byte);
}

static void send_bytes(struct pair *pair, uint64_t tag, size_t len, char byte)
{
    memset(pair->out, byte, len);
    end_post(&pair->from, &pair->to,
             fi_tsend(pair->from.ep, pair->out, len, NULL, pair->addr, tag, NULL));
}

/* The rare order: the bytes of a matched message come behind a message that finds no room. */
static void streamed_bytes_pass(void **state)
{
    struct pair *pair = *state;
    char *other = malloc(EAGER);

    memset(other, 'e', EAGER);
    post(pair, 1, LARGE);
    send_bytes(pair, 1, LARGE, 'l');
    end_post(&pair->from, &pair->to,
             fi_tsend(pair->from.ep, other, EAGER, NULL, pair->addr, 2, NULL));
    is_received(pair, 1, LARGE, 'l');
    post(pair, 2, EAGER);
    is_received(pair, 2, EAGER, 'e');
    free(other);
}

static void what_is_received_passes(void **state)
{
    struct pair *pair = *state;

    send_bytes(pair, 2, EAGER, 'e');
    send_bytes(pair, 3, 8, 's');
    post(pair, 3, 8);
    is_received(pair, 3, 8, 's');
    post(pair, 2, EAGER);
    is_received(pair, 2, EAGER, 'e');
}

/* More than is saved and than there are on their way, injected: they wait at the sender, in order,
 * with a copy of their own. */
static void a_flood_waits_at_the_sender(void **state)
{
    struct pair *pair = *state;

    for (unsigned i = 0; i < MANY; i++) {
        memset(pair->out, (int)('a' + i % 26), SMALL);
        end_post(&pair->from, &pair->to,
                 fi_tinject(pair->from.ep, pair->out, SMALL, pair->addr, FIRST + i));
    }
    for (int i = 0; i < ROUNDS; i++)
        end_drive(&pair->from, &pair->to);
    send_bytes(pair, 1, LARGE, 'l');
    post(pair, 1, LARGE);
    is_received(pair, 1, LARGE, 'l');
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(fi_trecv(pair->to.ep, pair->in, SMALL, NULL, FI_ADDR_UNSPEC, 0, ~0ull, 0),
                         0);
        is_received(pair, FIRST + i, SMALL, (char)('a' + i % 26));
    }
}

/* When there is room again messages come unasked again: a sender that goes leaves them to the
 * receiver. */
static void room_comes_back(void **state)
{
    struct pair *pair = *state;
    struct end third;
    fi_addr_t addr;

    end_open(&third, spec);
    addr = end_introduce(&third, &pair->to);
    for (int time = 0; time < 3; time++) {
        for (unsigned i = 0; i < MANY; i++)
            end_post(&third, &pair->to, fi_tinject(third.ep, "x", 1, addr, 1));
        for (unsigned i = 0; i < MANY; i++) {
            assert_int_equal(fi_trecv(pair->to.ep, pair->in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL),
                             0);
            while (fi_cq_read(pair->to.cq, NULL, 0) == -FI_EAGAIN)
                end_drive(&third, NULL);
            is_received(pair, 1, 1, 'x');
        }
    }
    end_post(&third, &pair->to, fi_tinject(third.ep, "y", 1, addr, 2));
    end_close(&third);
    post(pair, 2, 1);
    is_received(pair, 2, 1, 'y');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(streamed_bytes_pass, set_up, clean_up),
        cmocka_unit_test_setup_teardown(what_is_received_passes, set_up, clean_up),
        cmocka_unit_test_setup_teardown(a_flood_waits_at_the_sender, set_up, clean_up),
        cmocka_unit_test_setup_teardown(room_comes_back, set_up, clean_up),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that go to a branch without a look at anything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../pair.h"

enum {
    MESSAGES = 6000,  /* more than a branch has room for */
    RECEIVES = 64,    /* posted before a message is sent */
    TRIES = 10000000, /* of one message */
    PEERS = 100
};

/* Endpoints without entries for messages and receives: no queue is in the way. */
static void open_silent_ep(struct pair *pair, int i)
{
    char address[256];
    size_t len = sizeof(address);

    assert_int_equal(fi_endpoint(pair->domain, pair->info, &pair->ep[i], NULL), 0);
    assert_int_equal(
        fi_ep_bind(pair->ep[i], &pair->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION),
        0);
    assert_int_equal(fi_ep_bind(pair->ep[i], &pair->av->fid, 0), 0);
    assert_int_equal(fi_enable(pair->ep[i]), 0);
    assert_int_equal(fi_getname(&pair->ep[i]->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(pair->av, address, 1, &pair->to[i], 0, NULL), 1);
}

static void post_receives(struct pair *pair, uint64_t *into, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        ssize_t rc = fi_trecv(pair->ep[1], into, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);

        assert_true(rc == 0 || rc == -FI_EAGAIN);
    }
}

/* How many tries were in vain. */
static unsigned send_by_trying(struct pair *pair, const uint64_t *from)
{
    unsigned tries = 0;
    ssize_t rc;

    while ((rc = fi_tinject(pair->ep[0], from, 8, pair->to[1], 1)) == -FI_EAGAIN)
        assert_true(++tries < TRIES);
    assert_int_equal(rc, 0);
    return tries;
}

static void a_caller_that_only_tries_again_makes_progress(void **state)
{
    const uint64_t from = 1;
    unsigned refused = 0;
    struct pair pair;
    uint64_t into;

    pair_open(&pair, *state);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_close(&pair.ep[i]->fid), 0);
        open_silent_ep(&pair, i);
    }
    post_receives(&pair, &into, RECEIVES);
    for (unsigned i = 0; i < MESSAGES; i++) {
        post_receives(&pair, &into, 1);
        refused += send_by_trying(&pair, &from) > 0;
    }
    assert_true(refused > 0); /* else there was room for all, and nothing is proven */
    pair_close(&pair);
}

static void send_one(struct pair *pair, fi_addr_t to)
{
    static uint64_t from = 1;
    struct fi_cq_tagged_entry entry;
    uint64_t into = 0;
    int left = 2;

    assert_int_equal(fi_trecv(pair->ep[1], &into, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &into), 0);
    from++;
    while (fi_tsend(pair->ep[0], &from, 8, NULL, to, 1, NULL) == -FI_EAGAIN)
        assert_int_equal(fi_cq_read(pair->cq, NULL, 0), -FI_EAGAIN);
    while (left) {
        ssize_t rc = fi_cq_read(pair->cq, &entry, 1);

        assert_true(rc == 1 || rc == -FI_EAGAIN);
        left -= rc == 1;
    }
    assert_int_equal(into, from);
}

/* While calls are made, peers come that the branch has other numbers for, and their table moves. */
static void peers_may_come_at_any_time(void **state)
{
    char address[256];
    size_t len = sizeof(address);
    struct pair pair;
    fi_addr_t to;

    pair_open(&pair, *state);
    assert_int_equal(fi_getname(&pair.ep[1]->fid, address, &len), 0);
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < 3; j++)
            send_one(&pair, pair.to[1]);
        assert_int_equal(fi_av_insert(pair.av, address, 1, &to, 0, NULL), 1);
        send_one(&pair, pair.to[1]);
        send_one(&pair, to);
    }
    pair_close(&pair);
}

/* A peer that is removed is not sent to, and its number is good for another one. */
static void a_peer_that_is_removed_is_not_sent_to(void **state)
{
    const uint64_t from = 1;
    char address[256];
    size_t len = sizeof(address);
    struct pair pair;
    fi_addr_t to;

    pair_open(&pair, *state);
    assert_int_equal(fi_getname(&pair.ep[1]->fid, address, &len), 0);
    send_one(&pair, pair.to[1]);
    send_one(&pair, pair.to[1]);
    assert_int_equal(fi_av_remove(pair.av, &pair.to[1], 1, 0), 0);
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(fi_tsend(pair.ep[0], &from, 8, NULL, pair.to[1], 1, NULL), -FI_EINVAL);
    assert_int_equal(fi_av_insert(pair.av, address, 1, &to, 0, NULL), 1);
    for (int i = 0; i < PEERS; i++)
        send_one(&pair, to);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_caller_that_only_tries_again_makes_progress, "lnx;[shm]"),
        cmocka_unit_test_prestate(a_caller_that_only_tries_again_makes_progress,
                                  "lnx;[shm+rxm;tcp(iface=lo)]"),
        cmocka_unit_test_prestate(a_caller_that_only_tries_again_makes_progress,
                                  "lnx;[rxm;tcp(iface=lo)]"),
        cmocka_unit_test_prestate(peers_may_come_at_any_time, "lnx;[shm]"),
        cmocka_unit_test_prestate(peers_may_come_at_any_time, "lnx;[shm+rxm;tcp(iface=lo)]"),
        cmocka_unit_test_prestate(peers_may_come_at_any_time, "lnx;[rxm;tcp(iface=lo)+shm]"),
        cmocka_unit_test_prestate(a_peer_that_is_removed_is_not_sent_to, "lnx;[shm]"),
        cmocka_unit_test_prestate(a_peer_that_is_removed_is_not_sent_to,
                                  "lnx;[shm+rxm;tcp(iface=lo)]"),
    };

    return cmocka_run_group_tests_name("lnx, calls without a look", tests, NULL, NULL);
}

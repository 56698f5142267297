/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that takes nothing: it never posts a receive or reads a queue, or is never driven at all.
 * Its sender keeps a bounded number of messages for it, other peers of the sender go on, and each
 * operation ends once. */
#include <stdlib.h>
#include <string.h>

#include "../../../transports/udp/live/ends.h"

enum {
    SMALL = 1000,
    LARGE = 300000,
    MOST = 20000, /* messages: more than any bound */
    TALKS = 1000,
};

static struct options messages = {
    .spec = "rxd(saved_size=64k);udp", .type = FI_EP_RDM, .caps = FI_SOURCE, .no_eq = true};
static struct end c;
static char out[LARGE], in[LARGE];
static char contexts[MOST]; /* times that each has ended */
static unsigned accepted, ended, failed;
static int err; /* of the last that failed */

static void note_end(void *context)
{
    char *at = context;

    if (at == out) /* of a talk */
        return;
    assert_true(at >= contexts && at < contexts + accepted);
    assert_int_equal(++*at, 1);
    ended++;
}

/* The sender reads what has ended; true: something has. */
static bool look(void)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(a.tx, &entry, 1);

    if (rc == 1)
        note_end(entry.op_context);
    if (rc != -FI_EAVAIL)
        return rc == 1;
    assert_int_equal(fi_cq_readerr(a.tx, &error, 0), 1);
    note_end(error.op_context);
    failed++;
    err = error.err;
    return true;
}

static bool post(size_t len)
{
    ssize_t rc = fi_send(a.ep, out, len, NULL, a.peer, &contexts[accepted]);

    assert_true(!rc || rc == -FI_EAGAIN);
    accepted += !rc;
    return !rc;
}

/* Messages of both kinds, until no more is taken however long its sender tries. */
static void post_all_that_is_taken(void)
{
    for (int tries = 0; tries < 10000; tries++) {
        if (post(accepted % 2 ? LARGE : SMALL))
            tries = 0;
        look();
        assert_true(accepted < MOST);
    }
}

static void talk_to_another(fi_addr_t to)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < TALKS; i++) {
        receive(&c, in, sizeof(in));
        while (fi_send(a.ep, out, i % 10 ? SMALL : LARGE, NULL, to, out) == -FI_EAGAIN)
            look();
        while (fi_cq_read(c.rx, &entry, 1) != 1)
            look();
    }
}

static fi_addr_t open_all(const char *spec, bool alone)
{
    struct options silent = messages;

    memset(contexts, 0, sizeof(contexts));
    accepted = ended = failed = 0;
    messages.spec = silent.spec = spec;
    silent.alone = alone;
    end_open(&a, &messages);
    end_open(&b, &silent);
    end_open(&c, &messages);
    a.peer = introduce(&a, &b);
    introduce(&c, &a);
    return introduce(&a, &c);
}

/* A thread drives it, and its application does nothing. */
static void a_peer_that_never_reads_is_not_waited_for_by_others(void **state)
{
    fi_addr_t other = open_all("rxd(saved_size=64k);udp", false);
    unsigned room = (unsigned)a.info->tx_attr->size;

    while (accepted < room / 2)
        post(LARGE);
    talk_to_another(other);
    assert_int_equal(ended, 0);
    post_all_that_is_taken();
    assert_true(accepted - ended <= room);
    end_close(&b);
    while (ended < accepted)
        look();
    assert_true(failed >= room / 2);
    talk_to_another(other);
    end_close(&c);
    end_close(&a);
}

/* The sender closes first: fi_close does not wait for the peer for long. */
static void a_sender_may_close_before_a_peer_that_never_reads(void **state)
{
    open_all("rxd(saved_size=64k);udp", false);
    post_all_that_is_taken();
    assert_true(accepted > ended);
    assert_int_equal(fi_close(&a.ep->fid), 0);
    while (look()) {
    }
    assert_int_equal(fi_endpoint(a.domain, a.info, &a.ep, NULL), 0);
    end_close(&a);
    end_close(&b);
    end_close(&c);
}

/* No thread drives it, so its window stays as its sender first knew it, and its acknowledgements do
 * not come. */
static void a_peer_that_is_never_driven_is_given_up(void **state)
{
    fi_addr_t other = open_all("rxd;arq(patience=2s);udp", true);
    unsigned room = (unsigned)a.info->tx_attr->size;

    while (accepted < room / 2)
        post(accepted % 2 ? LARGE : SMALL);
    talk_to_another(other);
    while (ended < accepted)
        look();
    assert_int_equal(failed, accepted);
    assert_int_equal(err, FI_ETIMEDOUT);
    talk_to_another(other);
    end_close(&c);
    end_close(&a);
    end_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_never_reads_is_not_waited_for_by_others),
        cmocka_unit_test(a_sender_may_close_before_a_peer_that_never_reads),
        cmocka_unit_test(a_peer_that_is_never_driven_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

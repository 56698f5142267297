/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints that follow one another at one address, of srd and rxd, over loop, udp and uet, or of
 * the stack of the first argument: messages to the next one come, or end in an error, and messages
 * from it are received.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/support/end.h"
#include "tests/support/patience.h"

enum {
    LARGE = 200000, /* bytes of a message that is asked for */
    TAG = 7,
};

static struct end a, b;
static const char *stack;
static char out[LARGE], in[LARGE], reply[LARGE];

/* ---- Ends ---- */

/* At that address; NULL: at any. */
static void open_at(struct end *end, const uint8_t *name, size_t len)
{
    struct fi_info *info =
        end_info(stack, FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE, FI_ORDER_SAS);

    end_open_at(end, info, FI_CQ_FORMAT_TAGGED, name, len);
}

static int open_all(void **state)
{
    open_at(&a, NULL, 0);
    open_at(&b, NULL, 0);
    end_meet(&a, &b);
    return 0;
}

static int close_all(void **state)
{
    end_close(&a);
    end_close(&b);
    return 0;
}

/* Another one at the same address, which has no others in its vector. */
static void open_next(struct end *end)
{
    uint8_t name[sizeof(end->name)];
    size_t len = end->name_len;

    memcpy(name, end->name, sizeof(name));
    end_close(end);
    open_at(end, name, len);
    assert_int_equal(end->name_len, len);
    assert_memory_equal(end->name, name, len);
}

static void insert(struct end *end, const struct end *other)
{
    assert_int_equal(fi_av_insert(end->av, other->name, 1, &end->peer, 0, NULL), 1);
}

static void insert_again(struct end *end, const struct end *other)
{
    assert_int_equal(fi_av_remove(end->av, &end->peer, 1, 0), 0);
    insert(end, other);
}

/* ---- What goes ---- */

/* 1: a completion came, 0: none, -1: an error. */
static int look(struct end *end)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc = fi_cq_read(end->cq, &entry, 1);

    if (rc != -FI_EAVAIL)
        return rc == 1;
    assert_int_equal(fi_cq_readerr(end->cq, &error, 0), 1);
    return -1;
}

#define POST(call)                                                                                 \
    do {                                                                                           \
        ssize_t post_rc_;                                                                          \
        for (struct patience p_ = {0};                                                             \
             (post_rc_ = (call)) == -FI_EAGAIN && patience_lasts(&p_);) {                          \
            assert_int_equal(look(&a), 0);                                                         \
            assert_int_equal(look(&b), 0);                                                         \
        }                                                                                          \
        assert_int_equal(post_rc_, 0);                                                             \
    } while (0)

/* Both have had so many completions, and no errors. */
static void until(int of_a, int of_b)
{
    for (struct patience p = {0}; patience_lasts(&p) && (of_a || of_b);) {
        int from_a = look(&a), from_b = look(&b);

        assert_true(from_a >= 0 && from_b >= 0);
        of_a -= from_a;
        of_b -= from_b;
    }
    assert_int_equal(of_a, 0);
    assert_int_equal(of_b, 0);
}

static void fill(size_t len)
{
    static unsigned round;

    round++;
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(i * 5 + i / 253 + round);
    memset(in, 0, len);
    memset(reply, 0, len);
}

/* One message each way, of that size. */
static void talk(struct end *from, struct end *to, size_t len, bool tagged)
{
    fill(len);
    if (tagged) {
        POST(fi_trecv(to->ep, in, len, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
        POST(fi_trecv(from->ep, reply, len, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
        POST(fi_tsend(from->ep, out, len, NULL, from->peer, TAG, out));
    } else {
        POST(fi_recv(to->ep, in, len, NULL, FI_ADDR_UNSPEC, in));
        POST(fi_recv(from->ep, reply, len, NULL, FI_ADDR_UNSPEC, in));
        POST(fi_send(from->ep, out, len, NULL, from->peer, out));
    }
    until(1, 1);
    assert_memory_equal(in, out, len);
    if (tagged)
        POST(fi_tsend(to->ep, in, len, NULL, to->peer, TAG, in));
    else
        POST(fi_send(to->ep, in, len, NULL, to->peer, in));
    until(1, 1);
    assert_memory_equal(reply, out, len);
}

/* Writes into the memory of the other. */
static void write_to(struct end *from, struct end *to)
{
    struct fid_mr *mr;
    uint64_t at;

    fill(LARGE);
    assert_int_equal(fi_mr_reg(to->domain, in, LARGE, FI_REMOTE_WRITE, 0, 3, 0, &mr, NULL), 0);
    at = to->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)in : 0;
    POST(fi_write(from->ep, out, LARGE, NULL, from->peer, at, fi_mr_key(mr), out));
    until(from == &a, from == &b);
    assert_memory_equal(in, out, LARGE);
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void all_goes(struct end *first, struct end *second)
{
    talk(first, second, 8, true);
    talk(second, first, 8, false);
    talk(first, second, 20000, true);
    talk(second, first, LARGE, false);
    write_to(first, second);
    write_to(second, first);
    talk(first, second, LARGE, true);
    for (int i = 0; i < 20; i++)
        talk(second, first, 100, true);
}

static void drive(void)
{
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(look(&a), 0);
        assert_int_equal(look(&b), 0);
    }
}

/* ---- Cases ---- */

static void what_is_sent_to_the_next_one_comes(void **state)
{
    all_goes(&a, &b);
    open_next(&b);
    insert_again(&a, &b);
    insert(&b, &a);
    all_goes(&a, &b);
}

static void what_the_next_one_sends_comes(void **state)
{
    all_goes(&a, &b);
    open_next(&b);
    insert_again(&a, &b);
    insert(&b, &a);
    all_goes(&b, &a);
}

/* The next one has not heard of us, and learns of us by what we send. */
static void the_next_one_need_not_know_us(void **state)
{
    talk(&a, &b, 8, true);
    for (int i = 0; i < 4; i++) {
        open_next(&b);
        insert_again(&a, &b);
        fill(8);
        POST(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
        POST(fi_tsend(a.ep, out, 8, NULL, a.peer, TAG, out));
        until(1, 1);
        assert_memory_equal(in, out, 8);
    }
}

/* We have sent to the first one, and heard nothing of it. */
static void one_that_was_never_heard_is_followed(void **state)
{
    fill(8);
    POST(fi_tsend(a.ep, out, 8, NULL, a.peer, TAG, out));
    while (look(&a) != 1)
        look(&b);
    open_next(&b);
    insert_again(&a, &b);
    insert(&b, &a);
    all_goes(&a, &b);
}

/* Messages that come to the next one before it knows us are lost, and those behind them are not. An
 * error may tell of it. */
static void the_address_may_stay(void **state)
{
    int came = 0;

    all_goes(&a, &b);
    open_next(&b);
    fill(8);
    POST(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
    while (!came) { /* some seconds */
        fi_tinject(a.ep, out, 8, a.peer, TAG);
        look(&a);
        came = look(&b);
    }
    assert_int_equal(came, 1);
    assert_memory_equal(in, out, 8);
}

/* The first packet of the next one ends the session with the one before. */
static void the_next_one_may_speak_first(void **state)
{
    all_goes(&a, &b);
    open_next(&b);
    insert(&b, &a);
    all_goes(&b, &a);
}

/* An operation that waits for the closed one ends, once. */
static void what_waits_for_the_closed_one_ends(void **state)
{
    int ended = 0;

    talk(&a, &b, 8, true);
    POST(fi_tsend(a.ep, out, LARGE, NULL, a.peer, 99, out));
    open_next(&b);
    for (struct patience p = {0}; patience_lasts(&p) && !ended;) {
        ended = look(&a);
        assert_int_equal(look(&b), 0);
    }
    assert_int_equal(ended, -1);
    drive();
    insert(&b, &a);
    all_goes(&a, &b);
}

/* One that is removed and inserted may be there still: nothing is lost, or twice. */
static void the_same_one_goes_on(void **state)
{
    talk(&a, &b, 8, true);
    fill(LARGE);
    POST(fi_tsend(b.ep, out, LARGE, NULL, b.peer, TAG, out)); /* waits for its receive */
    POST(fi_tsend(b.ep, out, 100, NULL, b.peer, TAG + 1, out));
    while (look(&b) != 1)
        assert_int_equal(look(&a), 0);
    insert_again(&a, &b);
    POST(fi_tsend(a.ep, out, 50, NULL, a.peer, TAG, out));
    until(1, 0);
    POST(fi_trecv(a.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
    POST(fi_trecv(a.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, TAG + 1, 0, in));
    POST(fi_trecv(b.ep, reply, LARGE, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
    until(2, 2);
    assert_memory_equal(reply, out, 50);
    drive();
    all_goes(&b, &a);
}

/* One that is removed may send still, and be inserted when it has. */
static void a_removed_one_sends_still(void **state)
{
    talk(&a, &b, 8, true);
    assert_int_equal(fi_av_remove(a.av, &a.peer, 1, 0), 0);
    for (int i = 0; i < 5; i++) {
        fill(LARGE);
        POST(fi_trecv(a.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
        POST(fi_tsend(b.ep, out, i % 2 ? LARGE : 8, NULL, b.peer, TAG, out));
        until(1, 1);
        assert_memory_equal(in, out, i % 2 ? LARGE : 8);
    }
    insert(&a, &b);
    all_goes(&a, &b);
}

static void both_may_be_others(void **state)
{
    all_goes(&a, &b);
    open_next(&b);
    open_next(&a);
    insert(&a, &b);
    insert(&b, &a);
    all_goes(&a, &b);
    open_next(&a);
    open_next(&b);
    insert(&a, &b);
    insert(&b, &a);
    POST(fi_tsend(a.ep, out, 8, NULL, a.peer, TAG, out));
    POST(fi_tsend(b.ep, out, 8, NULL, b.peer, TAG, out));
    POST(fi_trecv(a.ep, in, 8, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
    POST(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
    until(2, 2);
    all_goes(&b, &a);
}

/* Is the lower built? */
static bool is_there(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup(stack);
    if (!fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info))
        fi_freeinfo(info);
    fi_freeinfo(hints);
    return info;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_sent_to_the_next_one_comes),
        CASE(what_the_next_one_sends_comes),
        CASE(the_next_one_need_not_know_us),
        CASE(one_that_was_never_heard_is_followed),
        CASE(the_address_may_stay),
        CASE(the_next_one_may_speak_first),
        CASE(what_waits_for_the_closed_one_ends),
        CASE(the_same_one_goes_on),
        CASE(a_removed_one_sends_still),
        CASE(both_may_be_others),
    };

    static const char *const stacks[] = {
        "srd;loop(shape=srd,seed=11)", "srd;udp(iface=lo)", "srd;uet(profile=ai-base,iface=lo)",
        "rxd;loop(shape=srd,seed=11)", "rxd;udp(iface=lo)", "rxd;uet(profile=ai-base,iface=lo)"};
    int failed = 0;
    char port[8];

    /* One of uet that other processes do not use, so that an address stays free between two. */
    snprintf(port, sizeof(port), "%d", 20000 + getpid() % 10000);
    setenv("FI_UET_PORT", port, 0);
    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        stack = argc > 1 ? argv[1] : stacks[i];
        if (is_there())
            failed += cmocka_run_group_tests_name(stack, tests, NULL, NULL);
        if (argc > 1)
            break;
    }
    return failed;
}

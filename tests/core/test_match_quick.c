/* SPDX-License-Identifier: BSD-2-Clause */
/* The quick ways of a receive and of a message, beside the engine's own: one order for both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/match/match_quick.h"
#include "core/op/op_build.h"

enum {
    LEN = 64,
    NONE = -1
};

static struct match *match;
static struct match_source source;
static struct binding binding;
static char buffer[LEN];
static int failed; /* the receive of the last error entry */

static ssize_t took(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len, void *buf,
                    uint64_t data, uint64_t tag, fi_addr_t src)
{
    return 0;
}

static ssize_t took_error(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    failed = (int)(intptr_t)entry->op_context;
    return 0;
}

static struct fi_ops_cq_owner took_ops = {
    .size = sizeof(took_ops), .write = took, .writeerr = took_error};
static struct fid_peer_cq sink = {.owner_ops = &took_ops};
static struct cq queue = {.sink = &sink, .into = &queue, .forwards = true};

static int post(int n, fi_addr_t src, uint64_t tag, uint64_t ignore)
{
    struct iovec iov = {buffer, LEN};
    struct fi_msg_tagged msg = {&iov, NULL, 1, src, tag, ignore, (void *)(intptr_t)n, 0};
    struct op op;

    op_of_tagged(&op, OP_TRECVMSG, &msg, 0);
    return (int)match_receive(match, &op);
}

static int quick_post(int n, uint64_t tag)
{
    struct iovec iov = {buffer, LEN};
    void *desc = NULL;
    struct want want =
        match_want(&match->tag, &iov, 1, &desc, FI_ADDR_UNSPEC, 0, (void *)(intptr_t)n);

    want.tag = tag;
    return match_quick_post(match, &want) ? 0 : -FI_EAGAIN;
}

/* The receive that a message of that tag gets, by the engine's own call, or NONE. */
static int arrive(uint64_t tag)
{
    struct fi_peer_match_attr attr = {.addr = FI_ADDR_UNSPEC, .msg_size = LEN, .tag = tag};
    struct fi_peer_rx_entry *entry;
    int rc = source.srx.owner_ops->get_tag(&source.srx, &attr, &entry);
    int n = rc ? NONE : (int)(intptr_t)entry->context;

    assert_true(!rc || rc == -FI_ENOENT);
    source.srx.owner_ops->free_entry(entry);
    return n;
}

static int quick_arrive(uint64_t tag, size_t len)
{
    struct rx *rx = match_quick_take(match, &match->tag, tag, len);
    int n = rx ? (int)(intptr_t)rx->entry.context : NONE;

    if (rx)
        pool_put(&match->pool, rx);
    return n;
}

static int lay(void **state)
{
    struct match_attr attr = {.size = 16, .iov_limit = 4, .min_multi_recv = LEN, .directed = true};

    memset(&binding, 0, sizeof(binding));
    binding.rx = &queue;
    assert_int_equal(match_create(&attr, &match), 0);
    match_set_binding(match, &binding);
    match_source_init(&source, match, 10);
    /* The engine has memory for receives from the first one on. */
    assert_int_equal(post(99, FI_ADDR_UNSPEC, 0, 0), 0);
    assert_int_equal(match_cancel(match, (void *)(intptr_t)99), 0);
    return 0;
}

static int lift(void **state)
{
    match_source_finish(&source);
    match_destroy(match);
    return 0;
}

static void a_lone_receive_takes_its_message(void **state)
{
    assert_int_equal(quick_post(1, 5), 0);
    assert_int_equal(quick_arrive(6, LEN), NONE);
    assert_int_equal(arrive(6), NONE);
    assert_int_equal(quick_arrive(5, LEN + 1), NONE); /* does not fit: the engine truncates it */
    assert_int_equal(match_posted(match), 1);
    assert_int_equal(quick_arrive(5, LEN), 1);
    assert_int_equal(match_posted(match), 0);
    assert_int_equal(quick_arrive(5, LEN), NONE);
    assert_int_equal(quick_post(2, 5), 0);
    assert_int_equal(arrive(5), 2);
    assert_int_equal(match_posted(match), 0);
    assert_int_equal(arrive(5), NONE);
}

static void a_lone_receive_may_be_cancelled(void **state)
{
    assert_int_equal(quick_post(1, 5), 0);
    assert_int_equal(match_cancel(match, (void *)(intptr_t)1), 0);
    assert_int_equal(failed, 1);
    assert_int_equal(quick_arrive(5, LEN), NONE);
    assert_int_equal(quick_post(2, 5), 0);
    assert_int_equal(quick_post(3, 5), 0);
    assert_int_equal(match_cancel(match, (void *)(intptr_t)2), 0);
    assert_int_equal(quick_arrive(5, LEN), 3);
}

static void receives_match_in_the_order_of_their_posts(void **state)
{
    for (int quick = 0; quick < 8; quick++) {
        for (int n = 0; n < 3; n++)
            assert_int_equal(quick >> n & 1 ? quick_post(n, 5) : post(n, FI_ADDR_UNSPEC, 5, 0), 0);
        for (int n = 0; n < 3; n++)
            assert_int_equal(n % 2 ? quick_arrive(5, LEN) : arrive(5), n);
        assert_int_equal(match_posted(match), 0);
    }
}

static void wild_and_directed_receives_wait_behind_a_lone_one(void **state)
{
    assert_int_equal(quick_post(1, 5), 0);
    assert_int_equal(post(2, FI_ADDR_UNSPEC, 0, ~0ull), 0);
    assert_int_equal(post(3, 10, 5, 0), 0);
    assert_int_equal(quick_arrive(5, LEN), NONE); /* the engine decides among the three */
    assert_int_equal(arrive(5), 1);
    assert_int_equal(arrive(5), 2);
    assert_int_equal(quick_post(4, 5), 0);
    assert_int_equal(arrive(5), 3);
    assert_int_equal(quick_arrive(5, LEN), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lone_receive_takes_its_message, lay, lift),
        cmocka_unit_test_setup_teardown(a_lone_receive_may_be_cancelled, lay, lift),
        cmocka_unit_test_setup_teardown(receives_match_in_the_order_of_their_posts, lay, lift),
        cmocka_unit_test_setup_teardown(wild_and_directed_receives_wait_behind_a_lone_one, lay,
                                        lift),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

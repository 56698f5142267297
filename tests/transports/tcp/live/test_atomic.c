/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics between two endpoints: who may have them, what the target refuses, and how they end when
 * the connection does. The conformance suite has their results. */
#include "pair.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

/* core/part/part.h: the upper tells what the peer understands. */
enum {
    OPT_PEER_FEATURES = -0x57450003,
    OPT_FEATURE_ATOMICS = 1,
    LARGEST = 4096 / 8, /* elements of 8 bytes */
};

static const struct options upper = {.caps = FI_ATOMIC | FI_PEER};
static uint64_t memory[2 * LARGEST], operand[LARGEST], compare[LARGEST], result[LARGEST];

static int clear_buffers(void **state)
{
    memset(memory, 0, sizeof(memory));
    memset(result, 0, sizeof(result));
    for (size_t i = 0; i < LARGEST; i++) {
        operand[i] = i + 1;
        compare[i] = 0;
    }
    return 0;
}

static void know(struct side *side)
{
    uint32_t features = OPT_FEATURE_ATOMICS;

    assert_int_equal(
        fi_setopt(&side->ep->fid, FI_OPT_ENDPOINT, OPT_PEER_FEATURES, &features, sizeof(features)),
        0);
}

static void open_known(struct pair *pair)
{
    pair_open(pair, &upper);
    know(&pair->a);
    know(&pair->b);
}

static struct fid_mr *expose(struct side *side, void *buf, size_t len, uint64_t access,
                             uint64_t key)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(side->domain, buf, len, access, 0, key, 0, &mr, NULL), 0);
    return mr;
}

static ssize_t sum(struct side *side, size_t count, uint64_t key, void *context)
{
    return fi_fetch_atomic(side->ep, operand, count, NULL, result, NULL, 0, 0, key, FI_UINT64,
                           FI_SUM, context);
}

static void are_offered_to_an_upper_that_asks_the_peer(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup("tcp");
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG | FI_ATOMIC;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), -FI_ENODATA);
    hints->caps |= FI_PEER;
    hints->tx_attr->msg_order =
        FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    assert_true(info->caps & FI_ATOMIC);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void nothing_is_sent_to_a_peer_that_is_not_known(void **state)
{
    struct pair pair;
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry done;
    char in = 0;

    pair_open(&pair, &upper);
    struct fid_mr *mr = expose(&pair.b, memory, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, 9);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sum(&pair.a, 1, 9, result), 0);
        assert_int_equal(expect_failure(&pair, pair.a.tx, &error), FI_EOPNOTSUPP);
        assert_ptr_equal(error.op_context, result);
        assert_int_equal(error.flags, FI_ATOMIC | FI_READ);
        assert_int_equal(fi_inject_atomic(pair.a.ep, operand, 1, 0, 0, 9, FI_UINT64, FI_SUM),
                         -FI_EOPNOTSUPP);
    }
    assert_int_equal(fi_recv(pair.b.ep, &in, 1, NULL, 0, NULL), 0);
    assert_int_equal(fi_send(pair.a.ep, "x", 1, NULL, 0, NULL), 0);
    expect_completion(&pair, pair.b.rx, &done);
    expect_completion(&pair, pair.a.tx, &done);
    expect_nothing(pair.a.tx);
    assert_int_equal(memory[0], 0);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

static void are_counted_by_the_endpoint_and_complete_when_done(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    open_known(&pair);
    struct fid_mr *mr = expose(&pair.b, memory, sizeof(memory), FI_REMOTE_WRITE, 9);
    assert_int_equal(
        fi_atomic(pair.a.ep, operand, LARGEST, NULL, 0, 0, 9, FI_UINT64, FI_SUM, operand), 0);
    expect_nothing(pair.a.tx);
    expect_completion(&pair, pair.a.tx, &done);
    assert_int_equal(done.flags, FI_ATOMIC | FI_WRITE);
    assert_memory_equal(memory, operand, sizeof(operand));
    assert_int_equal(fi_cntr_read(pair.b.remote_writes), 1);
    expect_nothing(pair.b.rx);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

struct refusal {
    uint64_t access, addr, key;
    size_t count;
    enum fi_op op;
    int err;
};

static void refusals_say_why_and_the_connection_lives(void **state)
{
    static const uint64_t both = FI_REMOTE_READ | FI_REMOTE_WRITE;
    const struct refusal refusals[] = {
        {both, 0, 8, 1, FI_SUM, FI_EACCES},
        {FI_REMOTE_READ, 0, 9, 1, FI_SUM, FI_EACCES},
        {FI_REMOTE_WRITE, 0, 9, 1, FI_SUM, FI_EACCES},
        {FI_REMOTE_WRITE, 0, 9, 1, FI_ATOMIC_READ, FI_EACCES},
        {both, 64, 9, 1, FI_SUM, FI_EINVAL},
        {both, 0, 9, 9, FI_SUM, FI_EINVAL},
        {both, UINT64_MAX - 3, 9, LARGEST, FI_BOR, FI_EINVAL},
        {both, 0, 9, 8, FI_PROD, 0},
    };
    struct pair pair;
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry done;

    open_known(&pair);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *one = &refusals[i];
        struct fid_mr *mr = expose(&pair.b, memory, 64, one->access, 9);

        assert_int_equal(fi_fetch_atomic(pair.a.ep, operand, one->count, NULL, result, NULL, 0,
                                         one->addr, one->key, FI_UINT64, one->op, result),
                         0);
        if (one->err)
            assert_int_equal(expect_failure(&pair, pair.a.tx, &error), one->err);
        else
            expect_completion(&pair, pair.a.tx, &done);
        assert_int_equal(memory[0], 0);
        assert_int_equal(fi_close(&mr->fid), 0);
    }
    expect_no_event(&pair);
    pair_close(&pair);
}

static void an_element_in_two_pieces_is_refused(void **state)
{
    struct iovec pieces[] = {{memory, 12}, {memory + 4, 20}};
    struct pair pair;
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry done;
    struct fid_mr *mr;

    open_known(&pair);
    assert_int_equal(
        fi_mr_regv(pair.b.domain, pieces, 2, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 9, 0, &mr, NULL),
        0);
    assert_int_equal(sum(&pair.a, 2, 9, result), 0);
    assert_int_equal(expect_failure(&pair, pair.a.tx, &error), FI_EINVAL);
    assert_int_equal(memory[0], 0);
    assert_int_equal(sum(&pair.a, 1, 9, result), 0);
    expect_completion(&pair, pair.a.tx, &done);
    assert_int_equal(memory[0], 1);
    /* Elements of 4 bytes fit both. */
    assert_int_equal(fi_atomic(pair.a.ep, operand, 4, NULL, 0, 0, 9, FI_UINT32, FI_BOR, NULL), 0);
    expect_completion(&pair, pair.a.tx, &done);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

/* Both ways at once, in buffers of their own, more than the sockets hold. */
static void many_large_ones_are_answered_in_order(void **state)
{
    enum {
        EACH = 1500
    };
    struct pair pair;
    struct side *sides[2];
    struct fid_mr *mrs[2];
    struct fi_cq_tagged_entry done;
    uintptr_t posted[2] = {0}, ended[2] = {0};
    long long limit = now_ms() + 60000;

    open_known(&pair);
    sides[0] = &pair.a;
    sides[1] = &pair.b;
    for (int s = 0; s < 2; s++)
        mrs[s] = expose(sides[s], memory + s * LARGEST, 4096, FI_REMOTE_READ | FI_REMOTE_WRITE, 9);
    while (ended[0] < EACH || ended[1] < EACH) {
        assert_true(now_ms() < limit);
        for (int s = 0; s < 2; s++) {
            if (posted[s] < EACH &&
                !fi_compare_atomic(sides[s]->ep, operand, LARGEST, NULL, compare, NULL, result,
                                   NULL, 0, 0, 9, FI_UINT64, FI_CSWAP_NE, (void *)(posted[s] + 1)))
                posted[s]++;
            else if (fi_cq_read(sides[s]->tx, &done, 1) == 1)
                assert_int_equal((uintptr_t)done.op_context, ++ended[s]);
        }
    }
    for (int s = 0; s < 2; s++)
        assert_int_equal(fi_close(&mrs[s]->fid), 0);
    pair_close(&pair);
}

static void a_fence_waits_for_the_answer(void **state)
{
    struct iovec iov = {compare, 8};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = compare};
    struct pair pair;
    struct fi_cq_tagged_entry done;

    open_known(&pair);
    struct fid_mr *mr = expose(&pair.b, memory, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, 9);
    assert_int_equal(fi_recv(pair.b.ep, result + 8, 8, NULL, 0, NULL), 0);
    assert_int_equal(sum(&pair.a, 1, 9, result), 0);
    assert_int_equal(fi_sendmsg(pair.a.ep, &msg, FI_FENCE), 0);
    expect_nothing(pair.a.tx);
    expect_completion(&pair, pair.a.tx, &done);
    assert_ptr_equal(done.op_context, result);
    expect_completion(&pair, pair.a.tx, &done);
    assert_ptr_equal(done.op_context, compare);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

/* The bytes of a read may leave long after it was asked for: an atomic behind it is no older. */
static void are_no_older_than_the_read_before(void **state)
{
    enum {
        WORDS = (8 << 20) / 8 /* more than sockets hold */
    };
    uint64_t *words = calloc(WORDS, 8), *in = calloc(WORDS, 8);
    struct fi_cq_tagged_entry done;
    struct pair pair;

    assert_true(words && in);
    open_known(&pair);
    struct fid_mr *mr = expose(&pair.b, words, WORDS * 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 9);
    assert_int_equal(fi_read(pair.a.ep, in, WORDS * 8, NULL, 0, 0, 9, in), 0);
    assert_int_equal(sum(&pair.a, 1, 9, result), 0);
    for (int i = 0; i < 200; i++)
        fi_cq_read(pair.b.rx, &done, 0); /* b has both requests, a takes no answer */
    for (size_t i = 0; i < WORDS; i++)
        words[i] += 1000;
    expect_completion(&pair, pair.a.tx, &done);
    assert_ptr_equal(done.op_context, in);
    expect_completion(&pair, pair.a.tx, &done);
    assert_ptr_equal(done.op_context, result);
    assert_int_equal(in[WORDS - 1], 1000);
    assert_int_equal(result[0], 1000);
    assert_int_equal(words[0], 1001);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
    free(words);
    free(in);
}

static void end_with_the_connection(void **state)
{
    struct pair pair;
    struct fi_cq_err_entry error;
    struct fi_eq_cm_entry entry;

    open_known(&pair);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(sum(&pair.a, i % 2 ? LARGEST : 1, 9, operand + i), 0);
    assert_int_equal(fi_close(&pair.b.ep->fid), 0);
    pair.b.ep = NULL;
    for (size_t i = 0; i < 20; i++) {
        expect_failure(&pair, pair.a.tx, &error);
        assert_ptr_equal(error.op_context, operand + i);
    }
    expect_event(&pair, FI_SHUTDOWN, &entry);
    expect_nothing(pair.a.tx);
    pair_close(&pair);
}

static void are_discarded_by_close(void **state)
{
    struct pair pair;

    open_known(&pair);
    struct fid_mr *mr =
        expose(&pair.b, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 9);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(sum(&pair.a, i % 2 ? LARGEST : 1, 9, NULL), 0);
    assert_int_equal(fi_close(&pair.a.ep->fid), 0);
    pair.a.ep = NULL;
    memset(result, 0xa5, sizeof(result));
    settle(&pair);
    expect_nothing(pair.a.tx);
    for (size_t i = 0; i < LARGEST; i++)
        assert_int_equal(result[i], 0xa5a5a5a5a5a5a5a5u);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(are_offered_to_an_upper_that_asks_the_peer, clear_buffers),
        cmocka_unit_test_setup(nothing_is_sent_to_a_peer_that_is_not_known, clear_buffers),
        cmocka_unit_test_setup(are_counted_by_the_endpoint_and_complete_when_done, clear_buffers),
        cmocka_unit_test_setup(refusals_say_why_and_the_connection_lives, clear_buffers),
        cmocka_unit_test_setup(an_element_in_two_pieces_is_refused, clear_buffers),
        cmocka_unit_test_setup(many_large_ones_are_answered_in_order, clear_buffers),
        cmocka_unit_test_setup(a_fence_waits_for_the_answer, clear_buffers),
        cmocka_unit_test_setup(are_no_older_than_the_read_before, clear_buffers),
        cmocka_unit_test_setup(end_with_the_connection, clear_buffers),
        cmocka_unit_test_setup(are_discarded_by_close, clear_buffers),
    };

    return cmocka_run_group_tests_name("tcp atomic", tests, NULL, NULL);
}

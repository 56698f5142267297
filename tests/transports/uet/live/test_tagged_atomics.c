/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics whose target is the receive of a tag (fi_atomic(3), FI_TAGGED). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "../../../support/end.h"

enum {
    TAG = 77,
    WORDS = 8,
};

static uint64_t target[WORDS], operand, compare, result;
static struct end a, b;

static void open_end(struct end *end, const char *provider, uint64_t order)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_TAGGED | FI_ATOMIC;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    end_open(end, info, FI_CQ_FORMAT_TAGGED);
}

static void open_both(const char *provider, uint64_t order)
{
    open_end(&a, provider, order);
    open_end(&b, "uet", order);
    end_meet(&a, &b);
    for (unsigned i = 0; i < WORDS; i++)
        target[i] = 100 + i;
    result = 0;
}

static void close_both(void)
{
    end_close(&b);
    end_close(&a);
}

static void receive(size_t words)
{
    assert_int_equal(fi_trecv(b.ep, target, words * 8, NULL, FI_ADDR_UNSPEC, TAG, 0, target), 0);
}

/* The end of an operation: 0 or FI_E. */
static int end_of(struct end *at, struct end *other, struct fi_cq_tagged_entry *entry)
{
    struct fi_cq_err_entry error = {0};
    ssize_t rc;

    while ((rc = fi_cq_read(at->cq, entry, 1)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    if (rc == 1)
        return 0;
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(at->cq, &error, 0), 1);
    return error.err;
}

/* An atomic on one word of the receive, `at` bytes from its start. */
static int post(uint64_t function, enum fi_op op, uint64_t at)
{
    struct fi_ioc ioc = {&operand, 1}, compared = {&compare, 1}, old = {&result, 1};
    struct fi_rma_ioc place = {.addr = at, .count = 1, .key = TAG};
    struct fi_msg_atomic msg = {.msg_iov = &ioc,
                                .iov_count = 1,
                                .addr = a.peer,
                                .rma_iov = &place,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = op,
                                .context = &operand};

    if (function == FI_COMPARE_ATOMIC)
        return (int)fi_compare_atomicmsg(a.ep, &msg, &compared, NULL, 1, &old, NULL, 1,
                                         FI_TAGGED | FI_COMPLETION);
    if (function == FI_FETCH_ATOMIC)
        return (int)fi_fetch_atomicmsg(a.ep, &msg, &old, NULL, 1, FI_TAGGED | FI_COMPLETION);
    return (int)fi_atomicmsg(a.ep, &msg, FI_TAGGED | FI_COMPLETION);
}

static void each_takes_a_receive(uint64_t order)
{
    static const uint64_t functions[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
    struct fi_cq_tagged_entry entry;

    open_both("uet", order);
    for (int late = 0; late < 2; late++) {
        for (int i = 0; i < 3; i++) {
            uint64_t before = target[2];

            operand = 5;
            compare = before;
            if (!late)
                receive(WORDS);
            assert_int_equal(
                post(functions[i], functions[i] == FI_COMPARE_ATOMIC ? FI_CSWAP : FI_SUM, 16), 0);
            for (int polls = 0; late && polls < 100; polls++) { /* it waits, and so does its end */
                fi_cq_read(b.cq, NULL, 0);
                assert_int_equal(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
                assert_int_equal(target[2], before);
            }
            if (late)
                receive(WORDS);
            assert_int_equal(end_of(&b, &a, &entry), 0);
            assert_ptr_equal(entry.op_context, target);
            assert_int_equal(entry.tag, TAG);
            assert_int_equal(entry.len, 8);
            assert_int_equal(end_of(&a, &b, &entry), 0);
            assert_ptr_equal(entry.op_context, &operand);
            assert_int_equal(target[2], functions[i] == FI_COMPARE_ATOMIC ? 5 : before + 5);
            assert_int_equal(result, functions[i] ? before : 0);
            result = 0;
        }
    }
    assert_int_equal(target[1], 101);
    assert_int_equal(target[3], 103);
    close_both();
}

static void atomics_of_a_tag_are_done_in_its_receive(void **state)
{
    each_takes_a_receive(0);
    each_takes_a_receive(FI_ORDER_SAS);
}

static void a_receive_that_is_too_short_is_not_touched(void **state)
{
    struct fi_cq_tagged_entry entry;

    open_both("uet", 0);
    operand = 5;
    for (int late = 0; late < 2; late++) {
        if (!late)
            receive(2);
        assert_int_equal(post(FI_FETCH_ATOMIC, FI_SUM, 9), 0);
        for (int polls = 0; late && polls < 100; polls++)
            fi_cq_read(b.cq, NULL, 0);
        if (late)
            receive(2);
        assert_int_equal(end_of(&b, &a, &entry), FI_EMSGSIZE);
        assert_int_equal(end_of(&a, &b, &entry), FI_ETRUNC);
        assert_int_equal(result, 0);
        for (unsigned i = 0; i < WORDS; i++)
            assert_int_equal(target[i], 100 + i);
    }
    close_both();
}

/* One that waits is seen, taken and thrown away as a message is. */
static void an_atomic_that_is_not_wanted_was_not_done(void **state)
{
    struct fi_cq_tagged_entry entry;
    struct fi_context2 claim;
    struct fi_msg_tagged look = {.addr = FI_ADDR_UNSPEC, .tag = TAG, .context = &claim};
    int err;

    open_both("uet", 0);
    operand = 5;
    assert_int_equal(post(0, FI_SUM, 0), 0);
    do {
        assert_int_equal(fi_trecvmsg(b.ep, &look, FI_PEEK | FI_DISCARD), 0);
        err = end_of(&b, &a, &entry);
    } while (err == FI_ENOMSG);
    assert_int_equal(err, 0);
    assert_int_equal(end_of(&a, &b, &entry), FI_EIO);
    close_both();
}

static void only_endpoints_of_hpc_have_them(void **state)
{
    struct fi_atomic_attr attr;
    struct fi_rma_ioc places[2] = {{.count = 1, .key = TAG}, {.count = 1, .key = TAG}};
    struct fi_ioc ioc = {target, 2};
    struct fi_msg_atomic msg = {.msg_iov = &ioc,
                                .iov_count = 1,
                                .rma_iov = places,
                                .rma_iov_count = 2,
                                .datatype = FI_UINT64,
                                .op = FI_SUM};

    open_both("uet(profile=ai-full)", 0);
    assert_int_equal(fi_query_atomic(a.domain, FI_UINT64, FI_SUM, &attr, FI_TAGGED),
                     -FI_EOPNOTSUPP);
    assert_int_equal(post(0, FI_SUM, 0), -FI_EOPNOTSUPP);
    close_both();
    open_both("uet", 0);
    assert_int_equal(fi_query_atomic(a.domain, FI_UINT64, FI_SUM, &attr, FI_TAGGED), 0);
    assert_true(attr.count > 1);
    assert_int_equal(
        fi_query_atomic(a.domain, FI_UINT64, FI_CSWAP, &attr, FI_TAGGED | FI_COMPARE_ATOMIC), 0);
    assert_int_equal(attr.count, 1);
    msg.addr = a.peer;
    assert_int_equal(fi_atomicmsg(a.ep, &msg, FI_TAGGED), -FI_EINVAL); /* one receive each */
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(atomics_of_a_tag_are_done_in_its_receive),
        cmocka_unit_test(a_receive_that_is_too_short_is_not_touched),
        cmocka_unit_test(an_atomic_that_is_not_wanted_was_not_done),
        cmocka_unit_test(only_endpoints_of_hpc_have_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

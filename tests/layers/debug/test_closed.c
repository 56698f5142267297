/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls on objects that are closed, and what atomics and collectives are given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_trigger.h>

#include "../../support/patience.h"
#include "reports.h"

/* Every class: the call is reported, answered, and does not reach what was freed. */
static void what_is_closed_is_not_called(void **state)
{
    struct fi_cq_tagged_entry entry;
    struct fid_cntr *cntr;
    struct fid_eq *eq;
    struct fid_mr *mr;
    struct pair pair;
    size_t len = 0;

    pair_open(&pair, stack(",limit=100", "loop"));
    assert_int_equal(fi_cntr_open(pair.domain, NULL, &cntr, NULL), 0);
    assert_int_equal(fi_eq_open(pair.fabric, NULL, &eq, NULL), 0);
    assert_int_equal(fi_mr_reg(pair.domain, to, 8, FI_RECV, 0, 7, 0, &mr, NULL), 0);
    fi_close(&cntr->fid);
    fi_close(&eq->fid);
    fi_close(&mr->fid);
    assert_int_equal(fi_cntr_read(cntr), 0);
    reports("fi_cntr_read", "closed");
    assert_int_equal(fi_cntr_wait(cntr, 1, -1), -FI_EINVAL);
    reports("fi_cntr_wait", "closed");
    assert_int_equal(fi_eq_read(eq, NULL, NULL, 0, 0), -FI_EINVAL);
    reports("fi_eq_read", "closed");
    assert_int_equal(fi_close(&mr->fid), -FI_EINVAL);
    reports("fi_close", "closed");
    pair_close(&pair);
    is_silent();
    assert_int_equal(fi_tsend(pair.ep[0], from, 8, NULL, 0, 1, NULL), -FI_EINVAL);
    reports("fi_tsend", "closed");
    assert_int_equal(fi_barrier(pair.ep[0], 0, NULL), -FI_EINVAL);
    reports("fi_barrier", "closed");
    assert_int_equal(fi_atomicvalid(pair.ep[0], FI_INT8, FI_SUM, &len), -FI_EINVAL);
    reports("fi_atomicvalid", "closed");
    assert_int_equal(fi_getname(&pair.ep[0]->fid, NULL, &len), -FI_EINVAL);
    reports("fi_getname", "closed");
    assert_int_equal(fi_enable(pair.ep[0]), -FI_EINVAL);
    reports("fi_enable", "closed");
    assert_int_equal(fi_cq_read(pair.cq, &entry, 1), -FI_EINVAL);
    reports("fi_cq_read", "closed");
    assert_int_equal(fi_av_remove(pair.av, pair.to, 1, 0), -FI_EINVAL);
    reports("fi_av_remove", "closed");
    assert_int_equal(fi_cq_open(pair.domain, NULL, &pair.cq, NULL), -FI_EINVAL);
    reports("fi_cq_open", "closed");
    assert_int_equal(fi_mr_reg(pair.domain, to, 8, FI_RECV, 0, 7, 0, &mr, NULL), -FI_EINVAL);
    reports("fi_mr_reg", "closed");
    assert_int_equal(fi_close(&pair.fabric->fid), -FI_EINVAL);
    reports("fi_close", "closed");
}

static void what_is_closed_is_not_named(void **state)
{
    struct fi_av_set_attr attr = {.count = 1, .stride = 1};
    struct fid_av_set *set[2];
    struct fid_mc *mc;
    struct pair pair;

    pair_caps = FI_COLLECTIVE;
    pair_open(&pair, stack("", "coll;loop"));
    attr.start_addr = attr.end_addr = pair.to[0];
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_av_set(pair.av, &attr, &set[i], NULL), 0);
    assert_int_equal(fi_av_set_union(set[0], set[1]), 0);
    fi_close(&set[1]->fid);
    is_silent();
    assert_int_equal(fi_av_set_union(set[0], set[1]), -FI_EINVAL);
    reports("fi_av_set_union", "closed");
    assert_int_equal(fi_join_collective(pair.ep[0], 0, set[1], 0, &mc, NULL), -FI_EINVAL);
    reports("fi_join_collective", "closed");
    assert_int_equal(fi_av_set_insert(set[1], 0), -FI_EINVAL);
    reports("fi_av_set_insert", "closed");
    fi_close(&set[0]->fid);
    pair_close(&pair);
}

/* Sets, what is in them, and both after the close. */
static void sets_close_last(void **state)
{
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
    struct fi_cq_tagged_entry entry;
    struct fid_poll *poll_set;
    struct fid_wait *set;
    struct fid_cq *cq;
    struct pair pair;
    void *context;

    pair_open(&pair, stack("", "loop"));
    assert_int_equal(fi_wait_open(pair.fabric, &attr, &set), 0);
    assert_int_equal(fi_poll_open(pair.domain, NULL, &poll_set), 0);
    cq_attr.wait_set = set;
    assert_int_equal(fi_cq_open(pair.domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_poll_add(poll_set, &cq->fid, 0), 0);
    is_silent();
    assert_int_equal(fi_close(&set->fid), -FI_EBUSY);
    reports("fi_close", "close_order");
    assert_int_equal(fi_close(&cq->fid), -FI_EBUSY);
    reports("fi_close", "close_order");
    assert_int_equal(fi_cq_sread(cq, &entry, 1, NULL, 0), -FI_EAGAIN);
    reports("fi_cq_sread", "wait_obj");
    assert_int_equal(fi_poll_del(poll_set, &cq->fid, 0), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    is_silent();
    assert_int_equal(fi_poll_add(poll_set, &cq->fid, 0), -FI_EINVAL);
    reports("fi_poll_add", "closed");
    assert_int_equal(fi_close(&poll_set->fid), 0);
    assert_int_equal(fi_close(&set->fid), 0);
    is_silent();
    assert_int_equal(fi_poll(poll_set, &context, 1), -FI_EINVAL);
    reports("fi_poll", "closed");
    assert_int_equal(fi_wait(set, 0), -FI_EINVAL);
    reports("fi_wait", "closed");
    assert_int_equal(fi_cq_open(pair.domain, &cq_attr, &cq, NULL), -FI_EINVAL);
    reports("fi_cq_open", "closed");
    pair_close(&pair);
}

/* The oldest are forgotten, regions do not push out the rest. */
static void closed_objects_are_bounded(void **state)
{
    struct fid_cntr *cntr;
    struct pair pair;
    size_t before;

    pair_open(&pair, stack(",limit=100000", "loop"));
    assert_int_equal(fi_cntr_open(pair.domain, NULL, &cntr, NULL), 0);
    fi_close(&cntr->fid);
    for (int i = 0; i < 1100; i++) {
        struct fid_mr *mr;

        assert_int_equal(fi_mr_reg(pair.domain, to, 8, FI_RECV, 0, 7, 0, &mr, NULL), 0);
        fi_close(&mr->fid);
    }
    before = heap_in_use();
    for (int i = 0; i < 10000; i++) {
        struct fid_mr *mr;

        assert_int_equal(fi_mr_reg(pair.domain, to, 8, FI_RECV, 0, 7, 0, &mr, NULL), 0);
        fi_close(&mr->fid);
    }
    assert_true(heap_in_use() < before + 100000);
    fi_cntr_read(cntr);
    reports("fi_cntr_read", "closed");
    pair_close(&pair);
}

/* ---- Atomics, collectives, deferred work ---- */

static void atomics_have_operands(void **state)
{
    struct fi_ioc one = {from, 4}, less = {to, 3};
    void *desc;
    struct fid_mr *mr, *target;
    struct pair pair;
    uint64_t at, key;
    size_t most;

    pair_caps = FI_ATOMIC;
    pair_open(&pair, stack(",demand=mr_local", "loop"));
    mr = region(&pair, from, 64, FI_READ | FI_WRITE);
    target = region(&pair, to, sizeof(to), FI_REMOTE_READ | FI_REMOTE_WRITE);
    desc = fi_mr_desc(mr);
    key = fi_mr_key(target);
    at = pair.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)to : 0;
    assert_int_equal(fi_atomicvalid(pair.ep[0], FI_INT64, FI_SUM, &most), 0);
    assert_int_equal(fi_fetch_atomic(pair.ep[0], from, 4, desc, from + 32, desc, pair.to[1], at,
                                     key, FI_INT64, FI_SUM, NULL),
                     0);
    assert_int_equal(fi_inject_atomic(pair.ep[0], from, 1, pair.to[1], at, key, FI_INT64, FI_SUM),
                     0);
    drain(&pair, 1);
    is_silent();
    fi_atomic(pair.ep[0], from, 9, desc, pair.to[1], at, key, FI_INT64, FI_SUM, NULL);
    reports("fi_atomic", "range");
    fi_fetch_atomic(pair.ep[0], from, 4, desc, from + 40, desc, pair.to[1], at, key, FI_INT64,
                    FI_SUM, NULL);
    reports("fi_fetch_atomic", "range");
    fi_compare_atomic(pair.ep[0], from, 1, desc, from, NULL, from + 32, desc, pair.to[1], at, key,
                      FI_INT64, FI_CSWAP, NULL);
    reports("fi_compare_atomic", "descriptor");
    fi_atomic(pair.ep[0], from, 1, desc, pair.to[1], at, key, FI_INT64, FI_CSWAP, NULL);
    reports("fi_atomic", "atomic_op");
    fi_inject_atomic(pair.ep[0], from, 100, pair.to[1], at, key, FI_INT64, FI_SUM);
    reports("fi_inject_atomic", "inject_size");
    one = (struct fi_ioc){from, 4};
    fi_fetch_atomicv(pair.ep[0], &one, &desc, 1, &less, &desc, 1, pair.to[1], at, key, FI_INT8,
                     FI_SUM, NULL);
    assert_non_null(strstr(read_report(), "the result buffers have 3 elements"));
    assert_non_null(strstr(report, "(operands: fi_"));
    unlink(path);
    fi_close(&mr->fid);
    unlink(path);
    fi_close(&target->fid);
    pair_close(&pair);
}

static void atomics_have_a_count(void **state)
{
    struct pair pair;
    size_t most;

    pair_caps = FI_ATOMIC;
    pair_open(&pair, stack("", "loop"));
    assert_int_equal(fi_atomicvalid(pair.ep[0], FI_INT8, FI_SUM, &most), 0);
    fi_atomic(pair.ep[0], from, most, NULL, pair.to[1], 0, 0, FI_INT8, FI_SUM, NULL);
    is_silent();
    fi_atomic(pair.ep[0], from, most + 1, NULL, pair.to[1], 0, 0, FI_INT8, FI_SUM, NULL);
    reports("fi_atomic", "atomic_count");
    pair_close(&pair);
}

/* A group of one member: that is joined at once. */
static struct fid_mc *joined(struct pair *pair, struct fid_eq *eq)
{
    struct fi_av_set_attr attr = {
        .count = 1, .start_addr = pair->to[0], .end_addr = pair->to[0], .stride = 1};
    struct fi_eq_entry entry;
    struct fid_av_set *set;
    struct fid_mc *mc;
    fi_addr_t address;
    uint32_t event = 0;
    ssize_t rc = 0;

    assert_int_equal(fi_av_set(pair->av, &attr, &set, NULL), 0);
    assert_int_equal(fi_av_set_addr(set, &address), 0);
    assert_int_equal(fi_join_collective(pair->ep[0], address, set, 0, &mc, NULL), 0);
    for (struct patience p = {0}; patience_lasts(&p) && rc <= 0;) {
        fi_cq_read(pair->cq, NULL, 0);
        rc = fi_eq_read(eq, &event, &entry, sizeof(entry), 0);
    }
    assert_int_equal(event, FI_JOIN_COMPLETE);
    fi_close(&set->fid);
    return mc;
}

static void collectives_have_a_group(void **state)
{
    struct fid_mr *mr;
    struct pair pair;
    struct fid_eq *eq;
    struct fid_mc *mc;
    fi_addr_t group;
    char address[64];
    size_t len = sizeof(address);
    void *desc;

    pair_caps = FI_COLLECTIVE;
    pair_open(&pair, stack(",demand=mr_local", "coll;loop"));
    fi_close(&pair.ep[0]->fid);
    assert_int_equal(fi_eq_open(pair.fabric, NULL, &eq, NULL), 0);
    assert_int_equal(fi_endpoint(pair.domain, pair.info, &pair.ep[0], NULL), 0);
    assert_int_equal(fi_ep_bind(pair.ep[0], &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(pair.ep[0], &pair.av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(pair.ep[0], &eq->fid, 0), 0);
    assert_int_equal(fi_enable(pair.ep[0]), 0);
    assert_int_equal(fi_getname(&pair.ep[0]->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(pair.av, address, 1, &pair.to[0], 0, NULL), 1);
    mc = joined(&pair, eq);
    group = fi_mc_addr(mc);
    mr = region(&pair, from, 64, FI_SEND | FI_RECV);
    desc = fi_mr_desc(mr);
    assert_int_equal(fi_barrier(pair.ep[0], group, NULL), 0);
    assert_int_equal(
        fi_allreduce(pair.ep[0], from, 4, desc, from + 32, desc, group, FI_INT64, FI_SUM, 0, NULL),
        0);
    drain(&pair, 2);
    is_silent();
    fi_allreduce(pair.ep[0], from, 5, desc, from + 32, desc, group, FI_INT64, FI_SUM, 0, NULL);
    reports("fi_allreduce", "range");
    fi_allgather(pair.ep[0], from, 4, desc, from + 32, NULL, group, FI_INT64, 0, NULL);
    reports("fi_allgather", "descriptor");
    drain(&pair, 2);
    fi_broadcast(pair.ep[0], from, SIZE_MAX / 4, NULL, group, 0, FI_INT64, 0, NULL);
    reports("fi_broadcast", "collective_count");
    fi_barrier(pair.ep[0], group + 1, NULL);
    reports("fi_barrier", "group");
    fi_close(&mc->fid);
    fi_barrier(pair.ep[0], group, NULL);
    reports("fi_barrier", "group");
    fi_close(&mr->fid);
    fi_close(&pair.ep[0]->fid);
    fi_close(&eq->fid);
    assert_int_equal(fi_endpoint(pair.domain, pair.info, &pair.ep[0], NULL), 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_closed_is_not_called),
        TEST(what_is_closed_is_not_named),
        TEST(sets_close_last),
        TEST(closed_objects_are_bounded),
        TEST(atomics_have_operands),
        TEST(atomics_have_a_count),
        TEST(collectives_have_a_group),
    };

    return cmocka_run_group_tests_name("debug: closed", tests, NULL, NULL);
}

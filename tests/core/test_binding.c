/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/queue/binding.h"
#include "tests/core/objects.h"

static struct bare bare, foreign;

static struct fid_cq *open_cq(struct bare *at)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_cq *cq;

    assert_int_equal(cq_open(&at->domain, &attr, &cq, NULL), 0);
    return cq;
}

static struct fid_cntr *open_cntr(struct bare *at)
{
    struct fid_cntr *cntr;

    assert_int_equal(cntr_open(&at->domain, NULL, &cntr, NULL), 0);
    return cntr;
}

static int setup(void **state)
{
    bare_init(&bare, true);
    bare_init(&foreign, true);
    return 0;
}

static void done(struct binding *binding, enum binding_kind kind, bool wanted, uintptr_t context)
{
    complete(binding, kind, wanted, (void *)context, 0, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

static void completions_and_counts_go_where_they_are_bound(void **state)
{
    struct fid_cq *tx = open_cq(&bare), *rx = open_cq(&bare);
    struct fid_cntr *cntr = open_cntr(&bare);
    struct fi_cq_err_entry error = {.err = FI_EIO};
    struct fi_cq_entry entries[4];
    struct binding binding = {0};

    assert_int_equal(
        binding_add(&binding, &bare.domain, &tx->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION), 0);
    assert_int_equal(binding_add(&binding, &bare.domain, &rx->fid, FI_RECV), 0);
    assert_int_equal(binding_add(&binding, &bare.domain, &cntr->fid, FI_SEND | FI_REMOTE_WRITE), 0);
    assert_true(binding.tx_selective);
    assert_false(binding.rx_selective);
    assert_false(completion_wanted(binding.tx_selective, 0));
    assert_true(completion_wanted(binding.tx_selective, FI_COMPLETION));
    assert_true(completion_wanted(binding.rx_selective, 0));
    assert_ptr_equal(progress_root(object_of(tx, struct cq, fid)->progress),
                     progress_root(object_of(cntr, struct cntr, fid)->progress));

    done(&binding, BIND_SEND, true, 1);
    done(&binding, BIND_SEND, false, 2);
    done(&binding, BIND_READ, true, 3);
    done(&binding, BIND_RECV, true, 4);
    done(&binding, BIND_REMOTE_WRITE, true, 5);
    assert_int_equal(fi_cq_read(tx, entries, 4), 2);
    assert_int_equal((uintptr_t)entries[0].op_context, 1);
    assert_int_equal((uintptr_t)entries[1].op_context, 3);
    assert_int_equal(fi_cq_read(rx, entries, 4), 2);
    assert_int_equal((uintptr_t)entries[1].op_context, 5);
    assert_int_equal(fi_cntr_read(cntr), 3);
    complete_error(&binding, BIND_SEND, &error);
    assert_int_equal(fi_cq_read(tx, entries, 4), -FI_EAVAIL);
    assert_int_equal(fi_cntr_readerr(cntr), 1);

    assert_int_equal(fi_close(&tx->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&cntr->fid), -FI_EBUSY);
    binding_finish(&binding);
    assert_int_equal(fi_close(&tx->fid), 0);
    assert_int_equal(fi_close(&rx->fid), 0);
    assert_int_equal(fi_close(&cntr->fid), 0);
    assert_false(children_any(&bare.domain.children));
}

static void unbound_ends_are_dropped(void **state)
{
    struct fi_cq_err_entry error = {.err = FI_EIO};
    struct binding binding = {0};

    done(&binding, BIND_SEND, true, 1);
    complete_error(&binding, BIND_RECV, &error);
    binding_finish(&binding);
}

static void wrong_bindings_are_refused(void **state)
{
    struct fid_cq *cq = open_cq(&bare), *away = open_cq(&foreign);
    struct fid_cntr *cntr = open_cntr(&bare);
    struct fi_ops_cq ops = {0};
    struct fid_cq alien = {.fid.fclass = FI_CLASS_CQ, .ops = &ops};
    struct binding binding = {0};

    assert_int_equal(binding_add(&binding, &bare.domain, &cq->fid, 0), -FI_EINVAL);
    assert_int_equal(binding_add(&binding, &bare.domain, &cq->fid, FI_RECV | FI_READ), -FI_EINVAL);
    assert_int_equal(binding_add(&binding, &bare.domain, &away->fid, FI_RECV), -FI_EINVAL);
    assert_int_equal(binding_add(&binding, &bare.domain, &alien.fid, FI_RECV), -FI_EINVAL);
    assert_int_equal(binding_add(&binding, &bare.domain, &cq->fid, FI_RECV), 0);
    assert_int_equal(binding_add(&binding, &bare.domain, &cq->fid, FI_RECV), -FI_EINVAL);
    assert_int_equal(binding_add(&binding, &bare.domain, &cntr->fid, 0), -FI_EINVAL);
    assert_int_equal(binding_add(&binding, &bare.domain, &cntr->fid, FI_READ), 0);
    assert_int_equal(binding_add(&binding, &bare.domain, &cntr->fid, FI_READ), -FI_EINVAL);
    binding_finish(&binding);
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&away->fid), 0);
    assert_int_equal(fi_close(&cntr->fid), 0);
}

static int polls;

static void count_poll(struct progress_source *source)
{
    polls++;
}

static int is_idle(struct progress_source *source)
{
    return 0;
}

/* How often a sibling is polled while an endpoint waits in fi_close for so many turns, under an
 * upper or not. */
static int polls_of_a_sibling(enum fi_threading threading, bool under, int turns)
{
    struct fi_domain_attr attr = {.threading = threading,
                                  .control_progress = FI_PROGRESS_CONTROL_UNIFIED,
                                  .data_progress = FI_PROGRESS_MANUAL};
    struct progress_source source = {.poll = count_poll, .trywait = is_idle, .fd = -1};
    struct cq cq = {0};
    struct fid_peer_cq upper = {0};
    struct binding binding = {.rx = &cq};
    struct progress_group *group;
    struct progress *sibling;

    cq.sink = under ? &upper : &cq.peer;
    list_init(&source.link);
    assert_int_equal(progress_group_create(&group), 0);
    assert_int_equal(progress_create(&attr, "test", group, &binding.progress), 0);
    assert_int_equal(progress_create(&attr, "test", group, &sibling), 0);
    progress_lock(sibling);
    assert_int_equal(progress_attach(sibling, &source), 0);
    progress_unlock(sibling);
    polls = 0;
    for (int i = 0; i < turns; i++)
        binding_drive_others(&binding);
    progress_lock(sibling);
    progress_detach(sibling, &source);
    progress_unlock(sibling);
    progress_release(sibling);
    progress_release(binding.progress);
    progress_group_release(group);
    return polls;
}

/* Without a lock of its own a sibling is another upper lock's. */
static void siblings_under_a_layer_are_left_to_it(void **state)
{
    assert_int_equal(polls_of_a_sibling(FI_THREAD_DOMAIN, true, 1), 0);
    assert_int_equal(polls_of_a_sibling(FI_THREAD_DOMAIN, false, 1), 1);
    assert_int_equal(polls_of_a_sibling(FI_THREAD_SAFE, true, 1), 1);
    assert_int_equal(polls_of_a_sibling(FI_THREAD_SAFE, false, 1), 1);
}

/* A sibling may have work that a close waits for, and no other thread to drive it. */
static void siblings_are_driven_each_second_turn_at_least(void **state)
{
    assert_in_range(polls_of_a_sibling(FI_THREAD_DOMAIN, false, 32), 16, 32);
    assert_in_range(polls_of_a_sibling(FI_THREAD_SAFE, true, 32), 16, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(completions_and_counts_go_where_they_are_bound, setup),
        cmocka_unit_test_setup(unbound_ends_are_dropped, setup),
        cmocka_unit_test_setup(wrong_bindings_are_refused, setup),
        cmocka_unit_test(siblings_under_a_layer_are_left_to_it),
        cmocka_unit_test(siblings_are_driven_each_second_turn_at_least),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/queue/cntr.h"
#include "core/queue/eq.h"
#include "tests/core/objects.h"

static struct bare bare;

static struct cntr *open_cntr(enum fi_wait_obj obj, bool elided)
{
    struct fi_cntr_attr attr = {.wait_obj = obj};
    struct fid_cntr *cntr;

    bare_init(&bare, elided);
    assert_int_equal(cntr_open(&bare.domain, &attr, &cntr, NULL), 0);
    return object_of(cntr, struct cntr, fid);
}

static void close_cntr(struct cntr *cntr)
{
    assert_int_equal(fi_close(&cntr->fid.fid), 0);
    assert_false(children_any(&bare.domain.children));
}

struct ticker {
    struct progress_source source;
    struct cntr *cntr;
    int calls, due, error_due;
};

static void tick(struct progress_source *source)
{
    struct ticker *ticker = object_of(source, struct ticker, source);

    ticker->calls++;
    if (ticker->calls == ticker->due)
        cntr_add_one(ticker->cntr);
    if (ticker->calls == ticker->error_due)
        cntr_add_error(ticker->cntr);
}

static int may_sleep(struct progress_source *source)
{
    return 0;
}

static void add_ticker(struct ticker *ticker, struct cntr *cntr)
{
    *ticker = (struct ticker){.cntr = cntr};
    ticker->source = (struct progress_source){.poll = tick, .trywait = may_sleep, .fd = -1};
    list_init(&ticker->source.link);
    progress_lock(cntr->progress);
    assert_int_equal(progress_attach(cntr->progress, &ticker->source), 0);
    progress_unlock(cntr->progress);
}

static void remove_ticker(struct ticker *ticker)
{
    progress_lock(ticker->cntr->progress);
    progress_detach(ticker->cntr->progress, &ticker->source);
    progress_unlock(ticker->cntr->progress);
}

static void values_are_set_added_and_read(void **state)
{
    struct cntr *cntr = open_cntr(FI_WAIT_NONE, true);
    struct ticker ticker;

    assert_int_equal(fi_cntr_set(&cntr->fid, 5), 0);
    assert_int_equal(fi_cntr_add(&cntr->fid, 2), 0);
    assert_int_equal(fi_cntr_seterr(&cntr->fid, 1), 0);
    assert_int_equal(fi_cntr_adderr(&cntr->fid, 3), 0);
    assert_int_equal(fi_cntr_read(&cntr->fid), 7);
    assert_int_equal(fi_cntr_readerr(&cntr->fid), 4);
    add_ticker(&ticker, cntr);
    ticker.due = 1;
    ticker.error_due = 2;
    assert_int_equal(fi_cntr_read(&cntr->fid), 8);
    assert_int_equal(fi_cntr_readerr(&cntr->fid), 5);
    remove_ticker(&ticker);
    close_cntr(cntr);
}

static void wait_ends_by_value_error_or_timeout(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_NONE, FI_WAIT_YIELD, FI_WAIT_UNSPEC, FI_WAIT_FD,
                                            FI_WAIT_MUTEX_COND};

    for (size_t i = 0; i < sizeof(objs) / sizeof(objs[0]); i++) {
        struct cntr *cntr = open_cntr(objs[i], i % 2);
        struct ticker ticker;
        long long start;

        add_ticker(&ticker, cntr);
        ticker.due = 3;
        assert_int_equal(fi_cntr_wait(&cntr->fid, 1, -1), 0);
        assert_int_equal(fi_cntr_wait(&cntr->fid, 1, 0), 0);
        start = clock_ms();
        assert_int_equal(fi_cntr_wait(&cntr->fid, 2, 10), -FI_ETIMEDOUT);
        assert_true(clock_ms() - start >= 10);
        ticker.error_due = ticker.calls + 3;
        assert_int_equal(fi_cntr_wait(&cntr->fid, 2, -1), -FI_EAVAIL);
        assert_int_equal(fi_cntr_wait(&cntr->fid, 2, 1), -FI_ETIMEDOUT);
        remove_ticker(&ticker);
        close_cntr(cntr);
    }
}

static void *count_to_a_thousand(void *arg)
{
    struct cntr *cntr = arg;

    for (int i = 0; i < 1000; i++) {
        progress_lock(cntr->progress);
        cntr_add_one(cntr);
        progress_unlock(cntr->progress);
    }
    return NULL;
}

static void *wait_for_five_hundred(void *arg)
{
    struct cntr *cntr = arg;

    return fi_cntr_wait(&cntr->fid, 500, -1) ? arg : NULL;
}

static void a_sleeper_signals_nobody_but_others(void **state)
{
    struct cntr *cntr = open_cntr(FI_WAIT_FD, false);
    struct ticker ticker;

    add_ticker(&ticker, cntr);
    ticker.due = 3;
    assert_int_equal(fi_cntr_wait(&cntr->fid, 1, -1), 0);
    assert_int_equal(ticker.calls, 3);
    assert_int_equal(atomic_load(&cntr->wait.armed), WAIT_IDLE);
    remove_ticker(&ticker);
    close_cntr(cntr);
}

static void sleepers_with_different_thresholds_all_wake(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_FD, FI_WAIT_MUTEX_COND};

    for (size_t i = 0; i < 2; i++) {
        struct cntr *cntr = open_cntr(objs[i], false);
        pthread_t writer, readers[2];
        void *failed;

        for (int t = 0; t < 2; t++)
            pthread_create(&readers[t], NULL, wait_for_five_hundred, cntr);
        pthread_create(&writer, NULL, count_to_a_thousand, cntr);
        assert_int_equal(fi_cntr_wait(&cntr->fid, 1000, -1), 0);
        pthread_join(writer, NULL);
        for (int t = 0; t < 2; t++) {
            pthread_join(readers[t], &failed);
            assert_null(failed);
        }
        close_cntr(cntr);
    }
}

static void trywait_reports_each_change_once(void **state)
{
    struct cntr *cntr = open_cntr(FI_WAIT_FD, false);
    struct fid *fids[] = {&cntr->fid.fid};
    struct pollfd poll_fd = {.events = POLLIN};

    assert_int_equal(fi_control(&cntr->fid.fid, FI_GETWAIT, &poll_fd.fd), 0);
    assert_int_equal(fids_trywait(fids, 1), 0);
    assert_int_equal(poll(&poll_fd, 1, 0), 0);
    fi_cntr_add(&cntr->fid, 1);
    assert_int_equal(poll(&poll_fd, 1, 0), 1);
    assert_int_equal(fids_trywait(fids, 1), -FI_EAGAIN);
    assert_int_equal(fids_trywait(fids, 1), 0);
    assert_int_equal(poll(&poll_fd, 1, 0), 0);
    close_cntr(cntr);
}

static int incremented;

static void count_inc(struct fid_peer_cntr *cntr)
{
    incremented++;
}

static void peer_counter_counts_at_its_owner(void **state)
{
    struct fi_ops_cntr_owner owner_ops = {.size = sizeof(owner_ops), .inc = count_inc};
    struct fid_peer_cntr owner = {.owner_ops = &owner_ops};
    struct fi_peer_cntr_context context = {.size = sizeof(context), .cntr = &owner};
    struct fi_cntr_attr attr = {.flags = FI_PEER};
    struct ticker ticker;
    struct fid_cntr *fid;

    incremented = 0;
    bare_init(&bare, true);
    assert_int_equal(cntr_open(&bare.domain, &attr, &fid, NULL), -FI_EINVAL);
    assert_int_equal(cntr_open(&bare.domain, &attr, &fid, &context), 0);
    add_ticker(&ticker, object_of(fid, struct cntr, fid));
    ticker.due = 1;
    assert_int_equal(fi_cntr_read(fid), 0);
    assert_int_equal(incremented, 1);
    assert_int_equal(fi_cntr_add(fid, 1), -FI_ENOSYS);
    assert_int_equal(fi_cntr_wait(fid, 1, 0), -FI_ENOSYS);
    remove_ticker(&ticker);
    close_cntr(object_of(fid, struct cntr, fid));
}

static void bad_attributes_are_refused(void **state)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_BYTES};
    struct fid_cntr *fid;

    bare_init(&bare, true);
    assert_int_equal(cntr_open(&bare.domain, &attr, &fid, NULL), -FI_ENOSYS);
    attr = (struct fi_cntr_attr){.flags = FI_SEND};
    assert_int_equal(cntr_open(&bare.domain, &attr, &fid, NULL), -FI_EINVAL);
    attr = (struct fi_cntr_attr){.wait_obj = FI_WAIT_SET};
    assert_int_equal(cntr_open(&bare.domain, &attr, &fid, NULL), -FI_EINVAL);
    assert_false(children_any(&bare.domain.children));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_set_added_and_read),
        cmocka_unit_test(wait_ends_by_value_error_or_timeout),
        cmocka_unit_test(a_sleeper_signals_nobody_but_others),
        cmocka_unit_test(sleepers_with_different_thresholds_all_wake),
        cmocka_unit_test(trywait_reports_each_change_once),
        cmocka_unit_test(peer_counter_counts_at_its_owner),
        cmocka_unit_test(bad_attributes_are_refused),
    };

    return cmocka_run_group_tests_name("cntr", tests, NULL, NULL);
}

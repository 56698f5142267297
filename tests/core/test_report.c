/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/report.h"
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

static void done(struct report *report, enum report_kind kind, bool wanted, uintptr_t context)
{
    report_done(report, kind, wanted, (void *)context, 0, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

static void completions_and_counts_go_where_they_are_bound(void **state)
{
    struct fid_cq *tx = open_cq(&bare), *rx = open_cq(&bare);
    struct fid_cntr *cntr = open_cntr(&bare);
    struct fi_cq_err_entry error = {.err = FI_EIO};
    struct fi_cq_entry entries[4];
    struct report report = {0};

    assert_int_equal(
        report_bind(&report, &bare.domain, &tx->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION), 0);
    assert_int_equal(report_bind(&report, &bare.domain, &rx->fid, FI_RECV), 0);
    assert_int_equal(report_bind(&report, &bare.domain, &cntr->fid, FI_SEND | FI_REMOTE_WRITE), 0);
    assert_true(report.tx_selective);
    assert_false(report.rx_selective);
    assert_false(report_wanted(report.tx_selective, 0));
    assert_true(report_wanted(report.tx_selective, FI_COMPLETION));
    assert_true(report_wanted(report.rx_selective, 0));
    assert_ptr_equal(unit_root(object_of(tx, struct cq, fid)->unit),
                     unit_root(object_of(cntr, struct cntr, fid)->unit));

    done(&report, REPORT_SEND, true, 1);
    done(&report, REPORT_SEND, false, 2);
    done(&report, REPORT_READ, true, 3);
    done(&report, REPORT_RECV, true, 4);
    done(&report, REPORT_REMOTE_WRITE, true, 5);
    assert_int_equal(fi_cq_read(tx, entries, 4), 2);
    assert_int_equal((uintptr_t)entries[0].op_context, 1);
    assert_int_equal((uintptr_t)entries[1].op_context, 3);
    assert_int_equal(fi_cq_read(rx, entries, 4), 2);
    assert_int_equal((uintptr_t)entries[1].op_context, 5);
    assert_int_equal(fi_cntr_read(cntr), 3);
    report_failed(&report, REPORT_SEND, &error);
    assert_int_equal(fi_cq_read(tx, entries, 4), -FI_EAVAIL);
    assert_int_equal(fi_cntr_readerr(cntr), 1);

    assert_int_equal(fi_close(&tx->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&cntr->fid), -FI_EBUSY);
    report_finish(&report);
    assert_int_equal(fi_close(&tx->fid), 0);
    assert_int_equal(fi_close(&rx->fid), 0);
    assert_int_equal(fi_close(&cntr->fid), 0);
    assert_false(children_any(&bare.domain.children));
}

static void unbound_ends_are_dropped(void **state)
{
    struct fi_cq_err_entry error = {.err = FI_EIO};
    struct report report = {0};

    done(&report, REPORT_SEND, true, 1);
    report_failed(&report, REPORT_RECV, &error);
    report_finish(&report);
}

static void wrong_bindings_are_refused(void **state)
{
    struct fid_cq *cq = open_cq(&bare), *away = open_cq(&foreign);
    struct fid_cntr *cntr = open_cntr(&bare);
    struct fi_ops_cq ops = {0};
    struct fid_cq alien = {.fid.fclass = FI_CLASS_CQ, .ops = &ops};
    struct report report = {0};

    assert_int_equal(report_bind(&report, &bare.domain, &cq->fid, 0), -FI_EINVAL);
    assert_int_equal(report_bind(&report, &bare.domain, &cq->fid, FI_RECV | FI_READ), -FI_EINVAL);
    assert_int_equal(report_bind(&report, &bare.domain, &away->fid, FI_RECV), -FI_EINVAL);
    assert_int_equal(report_bind(&report, &bare.domain, &alien.fid, FI_RECV), -FI_EINVAL);
    assert_int_equal(report_bind(&report, &bare.domain, &cq->fid, FI_RECV), 0);
    assert_int_equal(report_bind(&report, &bare.domain, &cq->fid, FI_RECV), -FI_EINVAL);
    assert_int_equal(report_bind(&report, &bare.domain, &cntr->fid, 0), -FI_EINVAL);
    assert_int_equal(report_bind(&report, &bare.domain, &cntr->fid, FI_READ), 0);
    assert_int_equal(report_bind(&report, &bare.domain, &cntr->fid, FI_READ), -FI_EINVAL);
    report_finish(&report);
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&away->fid), 0);
    assert_int_equal(fi_close(&cntr->fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(completions_and_counts_go_where_they_are_bound, setup),
        cmocka_unit_test_setup(unbound_ends_are_dropped, setup),
        cmocka_unit_test_setup(wrong_bindings_are_refused, setup),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The lower's domain has queues and counters of core's, which it may refuse to close. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/layer/peer_cq.h"
#include "core/queue/eq.h"
#include "tests/core/objects.h"
#include "tests/support/enosys_tables.h"

struct fixture {
    struct bare upper, below;
    struct fi_ops_domain ops;
    struct fi_ops_fabric fabric_ops;
    struct lower lower;
    struct cq *lower_cq;
    struct cntr *lower_cntr;
    unsigned cntrs;
    struct fi_ops refusing;
    struct peer_cq *cq;
    struct peer_cntr *cntr;
};

static struct fixture fixture;

static int open_cq(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    int rc = cq_open(&fixture.below.domain, attr, cq, context);

    if (!rc)
        fixture.lower_cq = object_of(*cq, struct cq, fid);
    return rc;
}

static int open_cntr(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                     void *context)
{
    int rc = cntr_open(&fixture.below.domain, attr, cntr, context);

    if (!rc)
        fixture.lower_cntr = object_of(*cntr, struct cntr, fid);
    fixture.cntrs += !rc;
    return rc;
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return fids_trywait(fids, count);
}

static int refuse(struct fid *fid)
{
    return -FI_EBUSY;
}

static int set_up(void **state)
{
    struct fi_cq_attr cq_attr = {.size = 8, .format = FI_CQ_FORMAT_CONTEXT};
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cq *cq;
    struct fid_cntr *cntr;

    memset(&fixture, 0, sizeof(fixture));
    bare_init(&fixture.upper, false);
    bare_init(&fixture.below, true);
    fixture.ops = enosys_domain_ops;
    fixture.ops.cq_open = open_cq;
    fixture.ops.cntr_open = open_cntr;
    fixture.below.domain.fid.ops = &fixture.ops;
    fixture.fabric_ops = enosys_fabric_ops;
    fixture.fabric_ops.trywait = trywait;
    fixture.below.fabric.fid.ops = &fixture.fabric_ops;
    fixture.lower = (struct lower){.fabric = &fixture.below.fabric.fid, .peer = true};
    fixture.refusing.close = refuse;
    if (peer_cq_open(&fixture.upper.domain.fid, &cq_attr, &cq, NULL))
        return -1;
    fixture.cq = peer_cq_of(object_of(cq, struct cq, fid));
    if (peer_cntr_open(&fixture.upper.domain.fid, &cntr_attr, &cntr, NULL))
        return -1;
    fixture.cntr = peer_cntr_of(object_of(cntr, struct cntr, fid));
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(fi_close(&fixture.cq->cq.fid.fid), 0);
    assert_int_equal(fi_close(&fixture.cntr->cntr.fid.fid), 0);
    assert_false(children_any(&fixture.below.domain.children));
    assert_false(children_any(&fixture.upper.domain.children));
    return 0;
}

static void open_lower(void)
{
    struct cq *cq = &fixture.cq->cq;

    assert_int_equal(lower_source_open(&fixture.cq->lower, &fixture.lower,
                                       &fixture.below.domain.fid, 8, cq->sink, cq->progress),
                     0);
}

static void *read_one(void)
{
    struct fi_cq_entry entry;

    return fi_cq_read(&fixture.cq->cq.fid, &entry, 1) == 1 ? entry.op_context : NULL;
}

static void lower_writes_into_the_ring(void **state)
{
    open_lower();
    cq_write(fixture.lower_cq, &fixture, 0, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    assert_ptr_equal(read_one(), &fixture);
    assert_null(read_one());
}

static void second_opening_does_nothing(void **state)
{
    struct cq *first;

    open_lower();
    first = fixture.lower_cq;
    open_lower();
    assert_ptr_equal(fixture.lower_cq, first);
}

static void refused_close_leaves_it_driven(void **state)
{
    struct fi_ops *ops;

    open_lower();
    ops = fixture.lower_cq->fid.fid.ops;
    fixture.lower_cq->fid.fid.ops = &fixture.refusing;
    assert_int_equal(fi_close(&fixture.cq->cq.fid.fid), -FI_EBUSY);
    fixture.lower_cq->fid.fid.ops = ops;
    assert_false(list_empty(&fixture.cq->lower.source.link));
    cq_write(fixture.lower_cq, &fixture, 0, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
    assert_ptr_equal(read_one(), &fixture);
}

static void counter_has_one_of_the_lowers(void **state)
{
    struct fid_cntr *first, *second;

    for (int i = 0; i < 2; i++)
        assert_int_equal(peer_cntr_lower(fixture.cntr, &fixture.below.domain.fid,
                                         fixture.cntr->cntr.sink, i ? &second : &first),
                         0);
    assert_ptr_equal(first, second);
    assert_int_equal(fixture.cntrs, 1);
    cntr_add_one(fixture.lower_cntr);
    assert_int_equal(fi_cntr_read(&fixture.cntr->cntr.fid), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lower_writes_into_the_ring, set_up, tear_down),
        cmocka_unit_test_setup_teardown(second_opening_does_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_close_leaves_it_driven, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counter_has_one_of_the_lowers, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

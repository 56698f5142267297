/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation or file descriptor number N fails, for N = 1, 2, ... until none does: an error, and
 * nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/queue/binding.h"
#include "core/queue/cntr.h"
#include "core/queue/cq.h"
#include "core/queue/eq.h"
#include "nomem.h"
#include "tests/core/objects.h"

static int idle(struct progress_source *source)
{
    return 0;
}

static void nothing(struct progress_source *source)
{
}

/* Two queues and a counter bound to one endpoint with a source, and an event queue. */
static int use_everything(enum fi_progress progress)
{
    struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_FD};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD, .flags = FI_WRITE};
    struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_FD};
    struct progress_source source = {.poll = nothing, .trywait = idle, .fd = -1};
    struct fid_cq *tx = NULL, *rx = NULL;
    struct fid_cntr *cntr = NULL;
    struct binding binding = {0};
    struct progress *control = NULL;
    struct fid_eq *eq = NULL;
    static struct bare bare;
    int rc;

    bare_init(&bare, false);
    bare.domain_attr.data_progress = progress;
    list_init(&source.link);
    rc = progress_create_control("test", &control);
    rc = rc ? rc : eq_open(&bare.fabric, control, &eq_attr, &eq, NULL);
    rc = rc ? rc : cq_open(&bare.domain, &cq_attr, &tx, NULL);
    rc = rc ? rc : cq_open(&bare.domain, &cq_attr, &rx, NULL);
    rc = rc ? rc : cntr_open(&bare.domain, &cntr_attr, &cntr, NULL);
    rc = rc ? rc : binding_add(&binding, &bare.domain, &tx->fid, FI_TRANSMIT);
    if (!rc) {
        source.fd = eventfd(0, EFD_NONBLOCK);
        rc = source.fd < 0 ? -FI_EMFILE : 0;
    }
    if (!rc) {
        progress_lock(binding.progress);
        rc = progress_attach(binding.progress, &source);
        progress_unlock(binding.progress);
    }
    rc = rc ? rc : binding_add(&binding, &bare.domain, &rx->fid, FI_RECV);
    rc = rc ? rc : binding_add(&binding, &bare.domain, &cntr->fid, FI_READ);
    if (!list_empty(&source.link)) {
        progress_lock(binding.progress);
        progress_detach(binding.progress, &source);
        progress_unlock(binding.progress);
    }
    if (source.fd >= 0)
        close(source.fd);
    binding_finish(&binding);
    if (cntr)
        assert_int_equal(fi_close(&cntr->fid), 0);
    if (rx)
        assert_int_equal(fi_close(&rx->fid), 0);
    if (tx)
        assert_int_equal(fi_close(&tx->fid), 0);
    if (eq)
        assert_int_equal(fi_close(&eq->fid), 0);
    if (control)
        progress_release(control);
    assert_false(children_any(&bare.domain.children));
    assert_false(children_any(&bare.fabric.children));
    return rc;
}

static int open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void every_allocation_may_fail(void **state)
{
    int before_fds = open_fds();
    long before, n;
    bool reached = true;

    if (!NOMEM_WORKS)
        skip();
    assert_int_equal(use_everything(FI_PROGRESS_MANUAL), 0);
    before = nomem_live;
    for (n = 1; reached; n++) {
        int rc;

        nomem_at = n;
        rc = use_everything(FI_PROGRESS_MANUAL);
        reached = nomem_at == 0;
        nomem_at = 0;
        assert_int_equal(rc, reached ? -FI_ENOMEM : 0);
        assert_int_equal(nomem_live, before);
    }
    assert_true(n > 8);
    assert_int_equal(open_fds(), before_fds);
}

static void sweep_fds(enum fi_progress progress)
{
    int before_fds = open_fds(), first = dup(0), rc = -1;
    struct rlimit limit, saved;

    assert_true(first >= 0);
    close(first);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
    limit = saved;
    for (int n = 0; rc && n < 64; n++) {
        limit.rlim_cur = (rlim_t)(first + n);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        rc = use_everything(progress);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
        assert_true(rc == -FI_EMFILE || (rc == 0 && n > 8));
        assert_int_equal(open_fds(), before_fds);
    }
    assert_int_equal(rc, 0);
}

static void every_descriptor_may_fail(void **state)
{
    sweep_fds(FI_PROGRESS_MANUAL);
    sweep_fds(FI_PROGRESS_AUTO);
}

/* Entries in the queue stay; what could not be kept is reported, once. */
static void a_queue_that_cannot_grow_reports_one_overrun(void **state)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_cq_err_entry error = {0};
    struct fi_cq_entry entries[256];
    static struct bare bare;
    struct fid_cq *fid;
    struct cq *cq;

    if (!NOMEM_WORKS)
        skip();
    bare_init(&bare, true);
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), 0);
    cq = object_of(fid, struct cq, fid);
    for (uintptr_t i = 0; i < 128; i++) {
        nomem_at = 1;
        cq_write(cq, (void *)i, 0, 0, NULL, 0, 0, 0);
    }
    for (int i = 0; i < 3; i++) {
        nomem_at = 1;
        cq_write(cq, (void *)1000, 0, 0, NULL, 0, 0, 0);
    }
    nomem_at = 1;
    error.err = FI_EIO;
    cq_write_error(cq, &error);
    nomem_at = 0;
    assert_int_equal(fi_cq_read(fid, entries, 256), 128);
    assert_int_equal((uintptr_t)entries[127].op_context, 127);
    assert_int_equal(fi_cq_read(fid, entries, 256), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(fid, &error, 0), 1);
    assert_int_equal(error.err, FI_EIO); /* one error needs no memory */
    assert_int_equal(fi_cq_readerr(fid, &error, 0), 1);
    assert_int_equal(error.err, FI_EOVERRUN);
    assert_int_equal(fi_cq_read(fid, entries, 256), -FI_EAGAIN);
    assert_int_equal(fi_close(&fid->fid), 0);
}

/* Each completion and error arrives when an allocation fails now and then. */
static void a_queue_loses_nothing_for_one_allocation(void **state)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_cq_err_entry error = {.err = FI_EIO};
    struct fi_cq_entry entries[256];
    static struct bare bare;
    struct fid_cq *fid;
    struct cq *cq;

    if (!NOMEM_WORKS)
        skip();
    bare_init(&bare, true);
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), 0);
    cq = object_of(fid, struct cq, fid);
    nomem_at = 1;
    for (uintptr_t i = 0; i < 200; i++)
        cq_write(cq, (void *)i, 0, 0, NULL, 0, 0, 0);
    assert_int_equal(nomem_at, 0);
    assert_int_equal(fi_cq_read(fid, entries, 256), 200);
    for (int round = 0; round < 3; round++) {
        nomem_at = 1;
        error.err = FI_EIO;
        cq_write_error(cq, &error);
        nomem_at = 0;
        cq_write_error(cq, &error);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(fi_cq_readerr(fid, &error, 0), 1);
            assert_int_equal(error.err, FI_EIO);
        }
        assert_int_equal(fi_cq_read(fid, entries, 256), -FI_EAGAIN);
    }
    assert_int_equal(fi_close(&fid->fid), 0);
}

/* The end of a peer is told without memory too, again and again, if it is read in between. */
static void an_event_needs_no_memory(void **state)
{
    struct progress *control = NULL;
    static struct bare bare;
    struct fid_eq *eq;

    if (!NOMEM_WORKS)
        skip();
    bare_init(&bare, false);
    assert_int_equal(progress_create_control("test", &control), 0);
    assert_int_equal(eq_open(&bare.fabric, control, NULL, &eq, NULL), 0);
    for (int i = 0; i < 3; i++) {
        struct fi_eq_entry entry = {.data = 7}, got = {0};
        uint32_t event;

        nomem_at = 1;
        assert_int_equal(eq_write(eq_of(&eq->fid), FI_NOTIFY, &entry, sizeof entry), 0);
        nomem_at = 1;
        assert_int_equal(eq_write(eq_of(&eq->fid), FI_NOTIFY, &entry, sizeof entry), -FI_ENOMEM);
        nomem_at = 0;
        assert_int_equal(fi_eq_read(eq, &event, &got, sizeof got, 0), sizeof got);
        assert_int_equal(got.data, 7);
    }
    assert_int_equal(fi_close(&eq->fid), 0);
    progress_release(control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_descriptor_may_fail),
        cmocka_unit_test(a_queue_loses_nothing_for_one_allocation),
        cmocka_unit_test(a_queue_that_cannot_grow_reports_one_overrun),
        cmocka_unit_test(an_event_needs_no_memory),
    };

    return cmocka_run_group_tests_name("nomem", tests, NULL, NULL);
}

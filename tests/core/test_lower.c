/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/layer/lower.h"
#include "core/queue/cq.h"
#include "core/queue/eq.h"
#include "tests/core/objects.h"
#include "tests/support/enosys_tables.h"

/* The lower: a domain whose queues are core's, and a source that completes what the test says. */
static struct bare bare;
static struct cq *lower_queue;
static int refuse_peer, refuse_fd;

static int open_cq(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    int rc;

    if (refuse_peer && attr->flags & FI_PEER)
        return -FI_EINVAL;
    if (refuse_fd && attr->wait_obj != FI_WAIT_NONE)
        return -FI_ENOSYS;
    rc = cq_open(&bare.domain, attr, cq, context);
    if (!rc)
        lower_queue = object_of(*cq, struct cq, fid);
    return rc;
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return fids_trywait(fids, count);
}

static struct fi_ops_domain domain_ops;
static struct fi_ops_fabric fabric_ops;

/* The upper: a peer queue that adds up what it is given. */
static uintptr_t contexts;
static fi_addr_t last_src;
static int writes, errors;

static ssize_t add_up(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len, void *buf,
                      uint64_t data, uint64_t tag, fi_addr_t src)
{
    writes++;
    contexts = contexts * 10 + (uintptr_t)context;
    last_src = src;
    return 0;
}

static ssize_t add_error(struct fid_peer_cq *cq, const struct fi_cq_err_entry *entry)
{
    errors++;
    contexts = contexts * 10 + (uintptr_t)entry->op_context;
    return 0;
}

static struct fi_ops_cq_owner sink_ops = {
    .size = sizeof(sink_ops),
    .write = add_up,
    .writeerr = add_error,
};

static struct fid_peer_cq sink = {.owner_ops = &sink_ops};

struct completer {
    struct progress_source source;
    int calls;
};

/* 1, 2, error 3, 4 at the first call. */
static void complete(struct progress_source *source)
{
    struct completer *completer = object_of(source, struct completer, source);
    struct fi_cq_err_entry error = {.op_context = (void *)3, .err = FI_EIO};

    if (completer->calls++)
        return;
    cq_write(lower_queue, (void *)1, 0, 0, NULL, 0, 0, 21);
    cq_write(lower_queue, (void *)2, 0, 0, NULL, 0, 0, 22);
    cq_write_error(lower_queue, &error);
    cq_write(lower_queue, (void *)4, 0, 0, NULL, 0, 0, 24);
}

static int may_sleep(struct progress_source *source)
{
    return 0;
}

static int setup(void **state)
{
    bare_init(&bare, true);
    domain_ops = enosys_domain_ops;
    domain_ops.cq_open = open_cq;
    bare.domain.fid.ops = &domain_ops;
    fabric_ops = enosys_fabric_ops;
    fabric_ops.trywait = trywait;
    bare.fabric.fid.ops = &fabric_ops;
    refuse_peer = refuse_fd = 0;
    return 0;
}

static void run(bool peer)
{
    struct lower lower = {.fabric = &bare.fabric.fid, .peer = peer};
    struct completer completer = {.source = {.poll = complete, .trywait = may_sleep, .fd = -1}};
    struct fi_cq_attr attr = {.size = 16};
    struct progress_source watcher = {.fd = -2};
    struct lower_cq *lower_cq;

    contexts = 0;
    writes = errors = 0;
    assert_int_equal(lower_cq_open(&lower, &bare.domain.fid, &attr, true, &sink, &lower_cq), 0);
    assert_ptr_equal(lower_cq_fid(lower_cq), &lower_queue->fid);
    lower_cq_watch(lower_cq, &watcher);
    assert_int_equal(watcher.fd >= 0, !refuse_fd);
    assert_ptr_equal(watcher.below, peer && !refuse_fd ? lower_queue->progress : NULL);
    assert_int_equal(lower_cq_trywait(&lower, lower_cq), 0);
    list_init(&completer.source.link);
    assert_int_equal(progress_attach(lower_queue->progress, &completer.source), 0);
    lower_cq_progress(lower_cq);
    assert_int_equal(contexts, 1234);
    assert_int_equal(writes, 3);
    assert_int_equal(errors, 1);
    assert_int_equal(last_src, 24);
    lower_cq_progress(lower_cq);
    assert_int_equal(writes, 3);
    progress_detach(lower_queue->progress, &completer.source);
    assert_int_equal(lower_cq_close(lower_cq), 0);
    assert_int_equal(lower_cq_close(NULL), 0);
}

static void peer_writes_by_itself(void **state)
{
    run(true);
}

static void others_are_polled_in_order(void **state)
{
    refuse_peer = 1;
    run(false);
}

static void without_a_wait_fd_they_are_polled(void **state)
{
    refuse_fd = 1;
    run(true);
    run(false);
}

static void failing_to_open_leaves_nothing(void **state)
{
    struct lower lower = {.fabric = &bare.fabric.fid, .peer = true};
    struct fi_cq_attr attr = {0};
    struct lower_cq *lower_cq;

    refuse_peer = 1;
    assert_int_equal(lower_cq_open(&lower, &bare.domain.fid, &attr, true, &sink, &lower_cq),
                     -FI_EINVAL);
    assert_false(children_any(&bare.domain.children));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(peer_writes_by_itself, setup),
        cmocka_unit_test_setup(others_are_polled_in_order, setup),
        cmocka_unit_test_setup(without_a_wait_fd_they_are_polled, setup),
        cmocka_unit_test_setup(failing_to_open_leaves_nothing, setup),
    };

    return cmocka_run_group_tests_name("lower", tests, NULL, NULL);
}

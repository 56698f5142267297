/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/ep/op_queue.h"
#include "core/queue/cq.h"

enum {
    MOST = 16
};

/* A queue of an upper, which sees what is reported. */
struct sink {
    struct fid_peer_cq fid;
    struct fi_cq_err_entry errors[MOST];
    unsigned count;
    struct op_queue *cancels; /* from inside of the next report: the operation of that context */
    void *context;
};

struct fixture {
    struct cq cq;
    struct sink sink;
    struct binding binding;
    struct op_queue queue;
    struct list peer, other;
    char data[8], contexts[MOST];
};

static struct fixture fixture;

static ssize_t writeerr(struct fid_peer_cq *fid, const struct fi_cq_err_entry *entry)
{
    struct sink *sink = object_of(fid, struct sink, fid);
    struct op_queue *cancels = sink->cancels;

    sink->errors[sink->count++] = *entry;
    sink->cancels = NULL;
    if (cancels)
        assert_int_equal(op_queue_cancel(cancels, sink->context), 0);
    return 0;
}

static struct fi_ops_cq_owner sink_ops = {.size = sizeof(sink_ops), .writeerr = writeerr};

static int set_up(void **state)
{
    memset(&fixture, 0, sizeof(fixture));
    fixture.sink.fid.owner_ops = &sink_ops;
    fixture.cq.sink = &fixture.sink.fid;
    fixture.cq.into = &fixture.cq;
    fixture.binding.tx = &fixture.cq;
    op_queue_init(&fixture.queue, &fixture.binding);
    list_init(&fixture.peer);
    list_init(&fixture.other);
    return 0;
}

static int tear_down(void **state)
{
    op_queue_finish(&fixture.queue);
    return 0;
}

static struct queued_op *add(struct list *peer, unsigned context)
{
    struct iovec iov = {fixture.data, sizeof(fixture.data)};
    struct op op = {
        .kind = FI_MSG | FI_SEND,
        .group = OP_GROUP_MSG,
        .iov = &iov,
        .count = 1,
        .peer = 7,
        .context = &fixture.contexts[context],
    };
    struct queued_op *queued = op_queue_add(&fixture.queue, &op, peer);

    assert_non_null(queued);
    return queued;
}

static void copies_wait_in_the_order_of_their_peer(void **state)
{
    struct queued_op *first = add(&fixture.peer, 0), *second = add(&fixture.peer, 1);
    struct queued_op *apart = add(&fixture.other, 2);

    assert_int_equal(fixture.queue.count, 3);
    assert_ptr_equal(op_queue_first(&fixture.peer), first);
    assert_ptr_equal(op_queue_first(&fixture.other), apart);
    assert_int_equal(first->op.iov[0].iov_len, sizeof(fixture.data));
    assert_ptr_equal(first->op.iov[0].iov_base, fixture.data);
    assert_int_equal(first->op.peer, FI_ADDR_UNSPEC);
    op_queue_take(first);
    assert_ptr_equal(op_queue_first(&fixture.peer), second);
    op_queue_return(&fixture.queue, first, &fixture.peer);
    assert_ptr_equal(op_queue_first(&fixture.peer), first);
    op_queue_take(first);
    op_queue_posted(&fixture.queue, first);
    assert_int_equal(fixture.queue.count, 2);
    assert_int_equal(fixture.sink.count, 0);
}

static void failing_a_peer_ends_each_of_its_operations(void **state)
{
    add(&fixture.peer, 0);
    add(&fixture.other, 1);
    add(&fixture.peer, 2);
    op_queue_fail_peer(&fixture.queue, &fixture.peer, FI_ECONNREFUSED, "no one listens");
    assert_int_equal(fixture.sink.count, 2);
    assert_ptr_equal(fixture.sink.errors[0].op_context, &fixture.contexts[0]);
    assert_ptr_equal(fixture.sink.errors[1].op_context, &fixture.contexts[2]);
    assert_int_equal(fixture.sink.errors[0].err, FI_ECONNREFUSED);
    assert_int_equal(fixture.sink.errors[0].prov_errno, CQ_ERR_TEXT + FI_ECONNREFUSED);
    assert_string_equal(fixture.sink.errors[0].err_data, "no one listens");
    assert_true(list_empty(&fixture.peer));
    assert_false(list_empty(&fixture.other));
    assert_int_equal(fixture.queue.count, 1);
}

static void cancel_ends_the_oldest_of_the_context(void **state)
{
    struct queued_op *second;

    add(&fixture.peer, 0);
    second = add(&fixture.other, 0);
    assert_int_equal(op_queue_cancel(&fixture.queue, &fixture.contexts[1]), -FI_ENOENT);
    assert_int_equal(op_queue_cancel(&fixture.queue, &fixture.contexts[0]), 0);
    assert_int_equal(fixture.sink.count, 1);
    assert_int_equal(fixture.sink.errors[0].err, FI_ECANCELED);
    assert_true(list_empty(&fixture.peer));
    assert_ptr_equal(op_queue_first(&fixture.other), second);
}

static void cancel_from_inside_of_an_error_ends_once(void **state)
{
    add(&fixture.peer, 0);
    add(&fixture.peer, 1);
    add(&fixture.peer, 2);
    fixture.sink.cancels = &fixture.queue;
    fixture.sink.context = &fixture.contexts[1];
    op_queue_fail_peer(&fixture.queue, &fixture.peer, FI_EHOSTUNREACH, NULL);
    assert_int_equal(fixture.sink.count, 3);
    assert_int_equal(fixture.sink.errors[1].err, FI_ECANCELED);
    assert_int_equal(fixture.sink.errors[2].err, FI_EHOSTUNREACH);
    assert_int_equal(fixture.queue.count, 0);
}

static void what_is_left_is_freed_without_completions(void **state)
{
    add(&fixture.peer, 0);
    add(&fixture.other, 1);
    op_queue_finish(&fixture.queue);
    assert_int_equal(fixture.queue.count, 0);
    assert_int_equal(fixture.sink.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies_wait_in_the_order_of_their_peer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_a_peer_ends_each_of_its_operations, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(cancel_ends_the_oldest_of_the_context, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancel_from_inside_of_an_error_ends_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_left_is_freed_without_completions, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

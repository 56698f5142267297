/* SPDX-License-Identifier: BSD-2-Clause */
/* Triggered operations and deferred work through two noops: what the end of the stack is given, and
 * what the application's memory holds afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_trigger.h>

#include "core/base/enosys.h"
#include "core/base/table.h"
#include "core/domain/base.h"
#include "core/hook/hook.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "tests/support/enosys_tables.h"

extern const struct part noop_part;

#define DEPTH 2

/* ---- The end of the stack: it accepts or refuses, and remembers ---- */

static struct fabric fabric;
static struct fid_domain bottom_domain;
static struct fid_ep bottom_ep, bottom_alias;
static struct fid_cntr bottom_cntrs[3];
static int cntrs_opened;

static ssize_t answer;
static struct fid_ep *called;
static struct fid_cntr *triggered; /* in the context of the last call */
static int command;
static void *argument;

static int close_nothing(struct fid *fid)
{
    return 0;
}

static ssize_t look(struct fid_ep *ep, void *context)
{
    called = ep;
    triggered = context ? ((struct fi_triggered_context *)context)->trigger.threshold.cntr : NULL;
    return answer;
}

static ssize_t take_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                         void *context)
{
    return look(ep, context);
}

static ssize_t take_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return look(ep, msg->context);
}

static ssize_t take_compare(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                            const struct fi_ioc *compare, void **compare_desc, size_t compare_count,
                            struct fi_ioc *result, void **desc, size_t count, uint64_t flags)
{
    return look(ep, msg->context);
}

static int take_control(struct fid *fid, int cmd, void *arg)
{
    command = cmd;
    argument = arg;
    return (int)answer;
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops), .send = take_send, .sendmsg = take_sendmsg};
static struct fi_ops_atomic atomic_ops = {.size = sizeof(atomic_ops), .compwritemsg = take_compare};

static int alias_control(struct fid *fid, int cmd, void *arg)
{
    assert_int_equal(cmd, FI_ALIAS);
    bottom_alias = bottom_ep;
    *((struct fi_alias *)arg)->fid = &bottom_alias.fid;
    return 0;
}

static struct fi_ops ep_fid_ops = {.size = sizeof(ep_fid_ops),
                                   .close = close_nothing,
                                   .bind = enosys_bind,
                                   .control = alias_control};
static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops), .close = close_nothing, .bind = enosys_bind, .control = take_control};

static int open_ep(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context)
{
    fid_init(&bottom_ep.fid, FI_CLASS_EP, context, &ep_fid_ops);
    bottom_ep.msg = &msg_ops;
    bottom_ep.atomic = &atomic_ops;
    *ep = &bottom_ep;
    return 0;
}

static int open_cntr(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                     void *context)
{
    *cntr = &bottom_cntrs[cntrs_opened++];
    fid_init(&(*cntr)->fid, FI_CLASS_CNTR, context, &fid_ops);
    return 0;
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops), .endpoint = open_ep, .cntr_open = open_cntr};

static int open_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    fid_init(&bottom_domain.fid, FI_CLASS_DOMAIN, context, &fid_ops);
    bottom_domain.ops = &domain_ops;
    *domain = &bottom_domain;
    return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = open_domain};

/* ---- Two noops over it ---- */

static struct lower holds[DEPTH];
static struct fid_fabric *top;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cntr *cntrs[3];

static int close_hold(struct lower *lower)
{
    return lower->fabric == &fabric.fid ? 0 : fi_close(&lower->fabric->fid);
}

static void open_stack(uint64_t caps)
{
    struct open_args args = {
        .part = &noop_part, .api_version = FI_VERSION(2, 6), .abi = ABI_1_9, .lower_count = 1};
    struct fi_info *info = info_alloc();

    info->caps = caps;
    table_inherit(&domain_ops, &enosys_domain_ops);
    table_inherit(&fabric_ops, &enosys_fabric_ops);
    answer = 0;
    cntrs_opened = 0;
    fabric_init(&fabric, &args, &fid_ops, &fabric_ops, NULL);
    top = &fabric.fid;
    for (int i = 0; i < DEPTH; i++) {
        struct lower *hold = &holds[i];

        *hold = (struct lower){.fabric = top, .peer = true, .close = close_hold};
        args.lowers = &hold;
        assert_int_equal(noop_part.open_fabric(&args, &top, NULL), 0);
    }
    assert_int_equal(fi_domain(top, info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fi_cntr_open(domain, NULL, &cntrs[i], NULL), 0);
    info_free(info);
}

static void close_stack(void)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(fi_close(&cntrs[i]->fid), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&top->fid), 0);
}

static struct fi_triggered_context at(struct fid_cntr *cntr)
{
    struct fi_triggered_context context = {.event_type = FI_TRIGGER_THRESHOLD};

    context.trigger.threshold.cntr = cntr;
    context.trigger.threshold.threshold = 1;
    return context;
}

/* ---- Triggered operations ---- */

static void without_the_capability_the_post_is_the_parts_own(void **state)
{
    ssize_t (*plain)(struct ep *, struct op *);
    struct fi_triggered_context context;
    struct fi_msg msg = {.context = &context};

    open_stack(FI_MSG);
    plain = ((struct ep *)ep)->post;
    close_stack();
    open_stack(FI_MSG | FI_TRIGGER);
    assert_ptr_not_equal(((struct ep *)ep)->post, plain);
    context = at(cntrs[0]);
    assert_int_equal(fi_sendmsg(ep, &msg, 0), 0); /* not triggered: an ordinary context */
    assert_ptr_equal(triggered, cntrs[0]);
    close_stack();
}

static void a_counter_is_exchanged(void **state)
{
    struct fi_triggered_context context;
    struct fi_msg msg = {.context = &context};
    struct fi_msg_atomic atomic = {.context = &context};

    open_stack(FI_MSG | FI_ATOMIC | FI_TRIGGER);
    context = at(cntrs[1]);
    assert_int_equal(fi_sendmsg(ep, &msg, FI_TRIGGER), 0);
    assert_ptr_equal(triggered, &bottom_cntrs[1]);
    triggered = NULL;
    assert_int_equal(fi_sendmsg(ep, &msg, FI_TRIGGER), 0); /* again, as it is now */
    assert_ptr_equal(triggered, &bottom_cntrs[1]);
    context = at(cntrs[2]);
    assert_int_equal(fi_compare_atomicmsg(ep, &atomic, NULL, NULL, 0, NULL, NULL, 0, FI_TRIGGER),
                     0);
    assert_ptr_equal(triggered, &bottom_cntrs[2]);
    close_stack();
}

static void what_is_refused_is_as_it_was(void **state)
{
    struct fi_triggered_context context;
    struct fi_msg msg = {.context = &context};

    open_stack(FI_MSG | FI_TRIGGER);
    answer = -FI_EAGAIN;
    context = at(cntrs[0]);
    assert_int_equal(fi_sendmsg(ep, &msg, FI_TRIGGER), -FI_EAGAIN);
    assert_ptr_equal(triggered, &bottom_cntrs[0]);
    assert_ptr_equal(context.trigger.threshold.cntr, cntrs[0]);
    context.event_type = FI_TRIGGER_XPU; /* no counter: goes down as it is */
    assert_int_equal(fi_sendmsg(ep, &msg, FI_TRIGGER), -FI_EAGAIN);
    assert_ptr_equal(triggered, cntrs[0]);
    msg.context = NULL;
    assert_int_equal(fi_sendmsg(ep, &msg, FI_TRIGGER), -FI_EAGAIN);
    close_stack();
}

static void every_call_on_an_alias_is_triggered(void **state)
{
    struct fi_triggered_context context;
    struct fid_ep *plain = NULL, *alias = NULL;

    open_stack(FI_MSG | FI_TRIGGER);
    assert_int_equal(fi_ep_alias(ep, &plain, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_TRIGGER), 0);
    context = at(cntrs[0]);
    assert_int_equal(fi_send(plain, NULL, 0, NULL, 0, &context), 0);
    assert_ptr_equal(triggered, cntrs[0]);
    assert_int_equal(fi_send(alias, NULL, 0, NULL, 0, &context), 0);
    assert_ptr_equal(called, &bottom_alias);
    assert_ptr_equal(triggered, &bottom_cntrs[0]);
    assert_int_equal(fi_close(&alias->fid), 0);
    assert_int_equal(fi_close(&plain->fid), 0);
    close_stack();
}

/* ---- Deferred work ---- */

static int control(int cmd, void *arg)
{
    return fi_control(&domain->fid, cmd, arg);
}

static void work_goes_down_as_a_copy(void **state)
{
    struct fi_op_compare_atomic op, op_before;
    struct fi_deferred_work work, before, *down;

    open_stack(FI_MSG | FI_TRIGGER);
    memset(&op, 0x5a, sizeof(op));
    op.ep = ep;
    memset(&work, 0, sizeof(work));
    work = (struct fi_deferred_work){.threshold = 7,
                                     .triggering_cntr = cntrs[0],
                                     .completion_cntr = cntrs[1],
                                     .op_type = FI_OP_COMPARE_ATOMIC,
                                     .op.compare_atomic = &op};
    before = work;
    op_before = op;
    assert_int_equal(control(FI_QUEUE_WORK, &work), 0);
    assert_memory_equal(&work, &before, sizeof(work));
    assert_memory_equal(&op, &op_before, sizeof(op));
    down = argument;
    assert_ptr_equal(down->triggering_cntr, &bottom_cntrs[0]);
    assert_ptr_equal(down->completion_cntr, &bottom_cntrs[1]);
    assert_int_equal(down->threshold, 7);
    assert_ptr_equal(down->op.compare_atomic->ep, &bottom_ep);
    assert_memory_equal(&down->op.compare_atomic->msg, &op.msg,
                        sizeof(op) - offsetof(struct fi_op_compare_atomic, msg));
    assert_int_equal(control(FI_CANCEL_WORK, &work), 0);
    assert_int_equal(command, FI_CANCEL_WORK);
    assert_ptr_equal(argument, down);
    close_stack();
}

/* The second cancel finds nothing: then the lower is asked for work that was never queued. */
static void cancelled_work_is_forgotten(void **state)
{
    struct fi_op_cntr op = {.value = 3};
    struct fi_deferred_work work = {.op_type = FI_OP_CNTR_ADD, .op.cntr = &op}, *down;

    open_stack(FI_MSG | FI_TRIGGER);
    work.triggering_cntr = cntrs[0];
    op.cntr = cntrs[2];
    assert_int_equal(control(FI_QUEUE_WORK, &work), 0);
    down = argument;
    assert_ptr_equal(down->op.cntr->cntr, &bottom_cntrs[2]);
    assert_int_equal(down->op.cntr->value, 3);
    answer = -FI_EBUSY;
    assert_int_equal(control(FI_CANCEL_WORK, &work), -FI_EBUSY);
    assert_ptr_equal(argument, down);
    answer = 0;
    assert_int_equal(control(FI_CANCEL_WORK, &work), 0);
    assert_ptr_equal(argument, down);
    answer = -FI_ENOENT;
    assert_int_equal(control(FI_CANCEL_WORK, &work), -FI_ENOENT);
    assert_ptr_equal(argument, &work);
    close_stack();
}

/* A refused queueing leaves the queued work; an accepted one replaces work that has ended. Nothing
 * is left over when the domain closes, which the sanitizer sees. */
static void a_struct_is_queued_again(void **state)
{
    struct fi_op_cntr op = {.value = 3};
    struct fi_deferred_work work = {.op_type = FI_OP_CNTR_SET, .op.cntr = &op}, *first, *second;

    open_stack(FI_MSG | FI_TRIGGER);
    work.triggering_cntr = cntrs[0];
    op.cntr = cntrs[2];
    assert_int_equal(control(FI_QUEUE_WORK, &work), 0);
    first = argument;
    answer = -FI_EINVAL;
    assert_int_equal(control(FI_QUEUE_WORK, &work), -FI_EINVAL);
    assert_ptr_not_equal(argument, first);
    assert_int_equal(control(FI_CANCEL_WORK, &work), -FI_EINVAL);
    assert_ptr_equal(argument, first);
    answer = 0;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(control(FI_QUEUE_WORK, &work), 0);
    second = argument;
    assert_int_equal(control(FI_CANCEL_WORK, &work), 0);
    assert_ptr_equal(argument, second);
    answer = -FI_ENOENT;
    assert_int_equal(control(FI_CANCEL_WORK, &work), -FI_ENOENT);
    assert_ptr_equal(argument, &work);
    answer = 0;
    assert_int_equal(control(FI_QUEUE_WORK, &work), 0); /* of a domain that closes */
    close_stack();
}

static void counters_are_flushed(void **state)
{
    open_stack(FI_MSG | FI_TRIGGER);
    assert_int_equal(control(FI_FLUSH_WORK, cntrs[1]), 0);
    assert_int_equal(command, FI_FLUSH_WORK);
    assert_ptr_equal(argument, &bottom_cntrs[1]);
    assert_int_equal(control(FI_FLUSH_WORK, NULL), 0);
    assert_null(argument);
    close_stack();
}

static void bad_work_is_refused_here(void **state)
{
    struct fi_op_cntr op = {.value = 3};
    struct fi_deferred_work work = {.op_type = (enum fi_op_type)77, .op.cntr = &op};

    open_stack(FI_MSG | FI_TRIGGER);
    command = 0;
    assert_int_equal(control(FI_QUEUE_WORK, NULL), -FI_EINVAL);
    assert_int_equal(control(FI_QUEUE_WORK, &work), -FI_EINVAL);
    work.op_type = FI_OP_SEND;
    work.op.msg = NULL;
    assert_int_equal(control(FI_QUEUE_WORK, &work), -FI_EINVAL);
    assert_int_equal(command, 0);
    close_stack();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_capability_the_post_is_the_parts_own),
        cmocka_unit_test(a_counter_is_exchanged),
        cmocka_unit_test(what_is_refused_is_as_it_was),
        cmocka_unit_test(every_call_on_an_alias_is_triggered),
        cmocka_unit_test(work_goes_down_as_a_copy),
        cmocka_unit_test(cancelled_work_is_forgotten),
        cmocka_unit_test(a_struct_is_queued_again),
        cmocka_unit_test(counters_are_flushed),
        cmocka_unit_test(bad_work_is_refused_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that a provider at the bottom, one that is not ours, gets under order. Receives are the
 * calls that the application made. A transmission is the *msg call of its group, with the arguments
 * of the call; what differs is needed for the order:
 *
 *   the context    an item of the layer, which knows the operation's place
 *   the flags      the endpoint's defaults and FI_COMPLETION are added: the layer has to learn of
 *                  each end, of an operation without a completion and of an inject too
 *
 * Only *msg functions, and those of collectives, take flags.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "layers/order/order.h"

#define DEFAULTS FI_TRANSMIT_COMPLETE
#define RETURNED 4711

/* A call, whichever struct it had. Segments of atomics look as those of others do. */
struct call {
    const char *name;
    uint64_t flags;
    void *context;
    uint64_t peer, data, tag, ignore;
    size_t count, remote_count;
    struct iovec local[2];
    void *desc[2];
    struct fi_rma_iov remote[2];
    int datatype, op;
    void *compare, *compare_desc, *result, *result_desc;
};

static struct call seen;
static int calls;

/* Of the application. */
static char memory[4][16];
static void *descs[2] = {&memory[2], &memory[3]};
static int context;

static ssize_t note(const char *name, uint64_t flags, const void *op_context, uint64_t peer)
{
    calls++;
    seen = (struct call){
        .name = name, .flags = flags, .context = (void *)(uintptr_t)op_context, .peer = peer};
    return RETURNED;
}

static void note_local(const struct iovec *iov, void **desc, size_t count)
{
    assert_in_range(count, 1, 2);
    seen.count = count;
    memcpy(seen.local, iov, count * sizeof(*iov));
    if (desc)
        memcpy(seen.desc, desc, count * sizeof(*desc));
}

static void note_remote(const struct fi_rma_iov *iov, size_t count)
{
    assert_in_range(count, 1, 2);
    seen.remote_count = count;
    memcpy(seen.remote, iov, count * sizeof(*iov));
}

/* ---- The provider ---- */

static ssize_t recv_(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *op)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    ssize_t rc = note("recv", 0, op, src);

    note_local(&iov, &desc, 1);
    return rc;
}

static ssize_t sendmsg_(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    ssize_t rc = note("sendmsg", flags, msg->context, msg->addr);

    note_local(msg->msg_iov, msg->desc, msg->iov_count);
    seen.data = msg->data;
    return rc;
}

static ssize_t trecv_(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                      uint64_t tag, uint64_t ignore, void *op)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    ssize_t rc = note("trecv", 0, op, src);

    note_local(&iov, &desc, 1);
    seen.tag = tag;
    seen.ignore = ignore;
    return rc;
}

static ssize_t tsendmsg_(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    ssize_t rc = note("tsendmsg", flags, msg->context, msg->addr);

    note_local(msg->msg_iov, msg->desc, msg->iov_count);
    seen.data = msg->data;
    seen.tag = msg->tag;
    return rc;
}

static ssize_t note_rma(const char *name, const struct fi_msg_rma *msg, uint64_t flags)
{
    ssize_t rc = note(name, flags, msg->context, msg->addr);

    note_local(msg->msg_iov, msg->desc, msg->iov_count);
    note_remote(msg->rma_iov, msg->rma_iov_count);
    seen.data = msg->data;
    return rc;
}

static ssize_t readmsg_(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return note_rma("readmsg", msg, flags);
}

static ssize_t writemsg_(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return note_rma("writemsg", msg, flags);
}

_Static_assert(sizeof(struct fi_ioc) == sizeof(struct iovec), "kept as segments");
_Static_assert(sizeof(struct fi_rma_ioc) == sizeof(struct fi_rma_iov), "kept as segments");

static ssize_t note_atomic(const char *name, const struct fi_msg_atomic *msg, uint64_t flags)
{
    ssize_t rc = note(name, flags, msg->context, msg->addr);

    note_local((const struct iovec *)msg->msg_iov, msg->desc, msg->iov_count);
    note_remote((const struct fi_rma_iov *)msg->rma_iov, msg->rma_iov_count);
    seen.data = msg->data;
    seen.datatype = msg->datatype;
    seen.op = msg->op;
    return rc;
}

static ssize_t amsg_(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    return note_atomic("atomicmsg", msg, flags);
}

static ssize_t fetchmsg_(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *result,
                         void **result_desc, size_t result_count, uint64_t flags)
{
    ssize_t rc = note_atomic("fetch_atomicmsg", msg, flags);

    assert_int_equal(result_count, 1);
    seen.result = result->addr;
    seen.result_desc = result_desc[0];
    return rc;
}

static ssize_t comparemsg_(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                           const struct fi_ioc *compare, void **compare_desc, size_t compare_count,
                           struct fi_ioc *result, void **result_desc, size_t result_count,
                           uint64_t flags)
{
    ssize_t rc = note_atomic("compare_atomicmsg", msg, flags);

    assert_int_equal(compare_count, 1);
    assert_int_equal(result_count, 1);
    seen.compare = compare->addr;
    seen.compare_desc = compare_desc[0];
    seen.result = result->addr;
    seen.result_desc = result_desc[0];
    return rc;
}

static ssize_t broadcast_(struct fid_ep *ep, void *buf, size_t count, void *desc, fi_addr_t group,
                          fi_addr_t root, enum fi_datatype datatype, uint64_t flags, void *op)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = count};
    ssize_t rc = note("broadcast", flags, op, group);

    note_local(&iov, &desc, 1);
    seen.datatype = datatype;
    seen.tag = root;
    return rc;
}

static ssize_t barrier2_(struct fid_ep *ep, fi_addr_t group, uint64_t flags, void *op)
{
    return note("barrier2", flags, op, group);
}

/* Functions that are missing here may not be called. */
static struct fi_ops_msg msg_ops = {.recv = recv_, .sendmsg = sendmsg_};
static struct fi_ops_tagged tagged_ops = {.recv = trecv_, .sendmsg = tsendmsg_};
static struct fi_ops_rma rma_ops = {.readmsg = readmsg_, .writemsg = writemsg_};
static struct fi_ops_atomic atomic_ops = {
    .writemsg = amsg_, .readwritemsg = fetchmsg_, .compwritemsg = comparemsg_};
static struct fi_ops_collective collective_ops = {
    .size = sizeof(collective_ops), .broadcast = broadcast_, .barrier2 = barrier2_};
static struct fid_ep provider = {.msg = &msg_ops,
                                 .tagged = &tagged_ops,
                                 .rma = &rma_ops,
                                 .atomic = &atomic_ops,
                                 .collective = &collective_ops};

/* ---- order over it ---- */

static struct fi_info *hints, *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct op_target target;

/* Opened over loop, whose endpoint then gives way to the provider. */
static int open_it(void **state)
{
    struct hook_ep *hook;

    hints = info_alloc();
    assert_non_null(hints);
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->op_flags = DEFAULTS;
    setenv("FI_PROVIDER", "order;loop", 1);
    assert_int_equal(getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &info), 0);
    assert_int_equal(fabric_open(info->fabric_attr, NULL, ABI_1_9, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    hook = object_of(ep, struct hook_ep, fid);
    target = hook->target;
    hook->target = (struct op_target){.fid = &provider};
    hook->base.groups = OP_GROUP_ALL;
    return 0;
}

static int close_it(void **state)
{
    object_of(ep, struct hook_ep, fid)->target = target;
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    info_free(info);
    info_free(hints);
    return 0;
}

/* ---- What is expected ---- */

/* Of a call with one segment, to or from peer 14. */
static struct call expected(const char *name, uint64_t flags)
{
    return (struct call){.name = name,
                         .flags = flags,
                         .context = &context,
                         .peer = 14,
                         .count = 1,
                         .local = {{memory[0], 12}},
                         .desc = {descs[0]}};
}

static struct call expected_rma(const char *name, uint64_t flags, size_t len)
{
    struct call want = expected(name, flags);

    want.remote_count = 1;
    want.remote[0] = (struct fi_rma_iov){.addr = 15, .len = len, .key = 16};
    return want;
}

static struct call expected_atomic(const char *name, uint64_t flags)
{
    struct call want = expected_rma(name, flags, 12);

    want.datatype = FI_UINT32;
    want.op = FI_SUM;
    return want;
}

/* An inject has no descriptor. */
static struct call injected(struct call want)
{
    want.desc[0] = NULL;
    return want;
}

static struct call with_data(struct call want)
{
    want.data = 17;
    return want;
}

static struct call with_tag(struct call want)
{
    want.tag = 18;
    return want;
}

static void check(ssize_t rc, bool transmission, struct call want)
{
    const struct layer_domain *own = layer_domain_of(domain);

    assert_int_equal(rc, RETURNED);
    assert_int_equal(calls, 1);
    calls = 0;
    assert_string_equal(seen.name, want.name);
    assert_int_equal(seen.flags, want.flags);
    if (transmission)
        assert_true(pool_owns(&own->items, seen.context));
    else
        assert_ptr_equal(seen.context, want.context);
    assert_int_equal(seen.peer, want.peer);
    assert_int_equal(seen.data, want.data);
    assert_int_equal(seen.tag, want.tag);
    assert_int_equal(seen.ignore, want.ignore);
    assert_int_equal(seen.count, want.count);
    assert_memory_equal(seen.local, want.local, sizeof(seen.local));
    assert_memory_equal(seen.desc, want.desc, sizeof(seen.desc));
    assert_int_equal(seen.remote_count, want.remote_count);
    assert_memory_equal(seen.remote, want.remote, sizeof(seen.remote));
    assert_int_equal(seen.datatype, want.datatype);
    assert_int_equal(seen.op, want.op);
    assert_ptr_equal(seen.compare, want.compare);
    assert_ptr_equal(seen.compare_desc, want.compare_desc);
    assert_ptr_equal(seen.result, want.result);
    assert_ptr_equal(seen.result_desc, want.result_desc);
}

#define SENT(want, call) check(call, true, want)
#define AS_CALLED(want, call) check(call, false, want)

#define USUAL (DEFAULTS | FI_COMPLETION)
#define INJECTED (FI_INJECT | FI_COMPLETION)
#define OWN FI_DELIVERY_COMPLETE /* the flags of a *msg call */

static const struct iovec two[2] = {{memory[0], 12}, {memory[1], 13}};

static struct call with_two(struct call want)
{
    want.count = 2;
    memcpy(want.local, two, sizeof(two));
    memcpy(want.desc, descs, sizeof(descs));
    return want;
}

/* ---- Cases ---- */

static void receives_are_as_called(void **state)
{
    struct call tagged = with_tag(expected("trecv", 0));

    tagged.ignore = 19;
    AS_CALLED(expected("recv", 0), fi_recv(ep, memory[0], 12, descs[0], 14, &context));
    AS_CALLED(tagged, fi_trecv(ep, memory[0], 12, descs[0], 14, 18, 19, &context));
}

static void messages_keep_their_arguments(void **state)
{
    const struct fi_msg msg = {
        .msg_iov = two, .desc = descs, .iov_count = 2, .addr = 14, .context = &context, .data = 17};

    SENT(expected("sendmsg", USUAL), fi_send(ep, memory[0], 12, descs[0], 14, &context));
    SENT(with_two(expected("sendmsg", USUAL)), fi_sendv(ep, two, descs, 2, 14, &context));
    SENT(with_two(with_data(expected("sendmsg", OWN | FI_REMOTE_CQ_DATA | FI_COMPLETION))),
         fi_sendmsg(ep, &msg, OWN | FI_REMOTE_CQ_DATA));
    SENT(injected(expected("sendmsg", INJECTED)), fi_inject(ep, memory[0], 12, 14));
    SENT(with_data(expected("sendmsg", USUAL | FI_REMOTE_CQ_DATA)),
         fi_senddata(ep, memory[0], 12, descs[0], 17, 14, &context));
    SENT(with_data(injected(expected("sendmsg", INJECTED | FI_REMOTE_CQ_DATA))),
         fi_injectdata(ep, memory[0], 12, 17, 14));
}

static void tagged_messages_keep_their_arguments(void **state)
{
    const struct fi_msg_tagged msg = {
        .msg_iov = two, .desc = descs, .iov_count = 2, .addr = 14, .tag = 18, .context = &context};

    SENT(with_tag(expected("tsendmsg", USUAL)),
         fi_tsend(ep, memory[0], 12, descs[0], 14, 18, &context));
    SENT(with_tag(with_two(expected("tsendmsg", USUAL))),
         fi_tsendv(ep, two, descs, 2, 14, 18, &context));
    SENT(with_tag(with_two(expected("tsendmsg", OWN | FI_COMPLETION))), fi_tsendmsg(ep, &msg, OWN));
    SENT(with_tag(injected(expected("tsendmsg", INJECTED))), fi_tinject(ep, memory[0], 12, 14, 18));
    SENT(with_tag(with_data(expected("tsendmsg", USUAL | FI_REMOTE_CQ_DATA))),
         fi_tsenddata(ep, memory[0], 12, descs[0], 17, 14, 18, &context));
    SENT(with_tag(with_data(injected(expected("tsendmsg", INJECTED | FI_REMOTE_CQ_DATA)))),
         fi_tinjectdata(ep, memory[0], 12, 17, 14, 18));
}

static void accesses_keep_their_arguments(void **state)
{
    const struct fi_rma_iov remote = {.addr = 15, .len = 25, .key = 16};
    const struct fi_msg_rma msg = {.msg_iov = two,
                                   .desc = descs,
                                   .iov_count = 2,
                                   .addr = 14,
                                   .rma_iov = &remote,
                                   .rma_iov_count = 1,
                                   .context = &context};

    SENT(expected_rma("readmsg", USUAL, 12),
         fi_read(ep, memory[0], 12, descs[0], 14, 15, 16, &context));
    SENT(with_two(expected_rma("readmsg", USUAL, 25)),
         fi_readv(ep, two, descs, 2, 14, 15, 16, &context));
    SENT(with_two(expected_rma("readmsg", OWN | FI_COMPLETION, 25)), fi_readmsg(ep, &msg, OWN));
    SENT(expected_rma("writemsg", USUAL, 12),
         fi_write(ep, memory[0], 12, descs[0], 14, 15, 16, &context));
    SENT(with_two(expected_rma("writemsg", USUAL, 25)),
         fi_writev(ep, two, descs, 2, 14, 15, 16, &context));
    SENT(with_two(expected_rma("writemsg", OWN | FI_COMPLETION, 25)), fi_writemsg(ep, &msg, OWN));
    SENT(injected(expected_rma("writemsg", INJECTED, 12)),
         fi_inject_write(ep, memory[0], 12, 14, 15, 16));
    SENT(with_data(expected_rma("writemsg", USUAL | FI_REMOTE_CQ_DATA, 12)),
         fi_writedata(ep, memory[0], 12, descs[0], 17, 14, 15, 16, &context));
    SENT(with_data(injected(expected_rma("writemsg", INJECTED | FI_REMOTE_CQ_DATA, 12))),
         fi_inject_writedata(ep, memory[0], 12, 17, 14, 15, 16));
}

static void atomics_keep_their_arguments(void **state)
{
    struct call fetch = expected_atomic("fetch_atomicmsg", USUAL), compare;

    SENT(expected_atomic("atomicmsg", USUAL),
         fi_atomic(ep, memory[0], 12, descs[0], 14, 15, 16, FI_UINT32, FI_SUM, &context));
    SENT(injected(expected_atomic("atomicmsg", INJECTED)),
         fi_inject_atomic(ep, memory[0], 12, 14, 15, 16, FI_UINT32, FI_SUM));
    fetch.result = memory[2];
    fetch.result_desc = &descs[1];
    SENT(fetch, fi_fetch_atomic(ep, memory[0], 12, descs[0], memory[2], &descs[1], 14, 15, 16,
                                FI_UINT32, FI_SUM, &context));
    compare = fetch;
    compare.name = "compare_atomicmsg";
    compare.op = FI_CSWAP;
    compare.compare = memory[1];
    compare.compare_desc = &descs[0];
    SENT(compare, fi_compare_atomic(ep, memory[0], 12, descs[0], memory[1], &descs[0], memory[2],
                                    &descs[1], 14, 15, 16, FI_UINT32, FI_CSWAP, &context));
}

/* They take flags, so that each stays the function that was called; but for fi_barrier. */
static void collectives_stay_what_they_are(void **state)
{
    struct call want = with_tag(expected("broadcast", OWN | FI_COMPLETION));

    want.datatype = FI_UINT32;
    SENT(want, fi_broadcast(ep, memory[0], 12, descs[0], 14, 18, FI_UINT32, OWN, &context));
    SENT(((struct call){.name = "barrier2", .flags = USUAL, .peer = 14}),
         fi_barrier(ep, 14, &context));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receives_are_as_called),
        cmocka_unit_test(messages_keep_their_arguments),
        cmocka_unit_test(tagged_messages_keep_their_arguments),
        cmocka_unit_test(accesses_keep_their_arguments),
        cmocka_unit_test(atomics_keep_their_arguments),
        cmocka_unit_test(collectives_stay_what_they_are),
    };

    return cmocka_run_group_tests_name("order_calls", tests, open_it, close_it);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Triggered operations and deferred work. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_trigger.h>

#include "conf.h"

static const uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_TRIGGER;

static struct conf_pair *open_pair(struct conf_want want)
{
    struct conf_pair *p;

    conf_need("triggers");
    want.caps = caps;
    p = conf_pair_open(want);
    conf_check(p->home.info->caps & FI_TRIGGER, "granted");
    return p;
}

static struct fid_cntr *counter(struct conf_pair *p)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;

    must("fi_cntr_open", fi_cntr_open(p->home.domain, &attr, &cntr, NULL));
    return cntr;
}

/* Waits until it has that value. */
static void reaches(struct conf_pair *p, struct fid_cntr *cntr, uint64_t value)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;

    while (fi_cntr_read(cntr) < value) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < deadline, "a counter stays at %lu instead of %lu",
                   (unsigned long)fi_cntr_read(cntr), (unsigned long)value);
    }
    conf_check(fi_cntr_read(cntr) == value, "%lu instead of %lu", (unsigned long)fi_cntr_read(cntr),
               (unsigned long)value);
}

/* A tagged send of one byte, with the tag as data, when cntr has reached the threshold. */
static ssize_t send_at(struct conf_pair *p, struct fi_triggered_context2 *context,
                       struct fid_cntr *cntr, size_t threshold, char *byte, uint64_t tag)
{
    struct iovec iov = {byte, 1};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = p->a.peer, .tag = tag, .context = context};

    context->event_type = FI_TRIGGER_THRESHOLD;
    context->trigger.threshold.cntr = cntr;
    context->trigger.threshold.threshold = threshold;
    return fi_tsendmsg(p->a.ep, &msg, FI_TRIGGER);
}

static void by_receives(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fi_triggered_context2 context;
    char in[3], out[3] = {'a', 'b', 'c'};

    for (int i = 0; i < 2; i++)
        conf_post(p, fi_recv(p->a.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, &in[i]));
    conf_post(p, fi_trecv(p->b.ep, &in[2], 1, NULL, FI_ADDR_UNSPEC, 9, 0, &in[2]));
    conf_post(p, send_at(p, &context, p->a.received, 2, &out[2], 9));
    conf_post(p, fi_send(p->b.ep, &out[0], 1, NULL, p->b.peer, &out[0]));
    conf_wait(p, &p->b, &out[0]);
    conf_wait(p, &p->a, &in[0]);
    conf_quiet(p, 20);
    conf_post(p, fi_send(p->b.ep, &out[1], 1, NULL, p->b.peer, &out[1]));
    conf_wait(p, &p->b, &out[1]);
    conf_wait(p, &p->a, &in[1]);
    conf_check(!conf_wait(p, &p->b, &in[2]).err && in[2] == 'c', "what was triggered");
    conf_check(!conf_wait(p, &p->a, &context).err, "its completion");
    conf_quiet(p, 5);
    reaches(p, p->a.sent, 1);
    conf_pair_close(p);
}

/* By threshold; equal ones by age; one that is passed at once. */
static void in_order(void)
{
    static const size_t thresholds[] = {3, 1, 2, 1, 3};
    static const uint64_t order[] = {1, 3, 2, 0, 4};
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fi_triggered_context2 contexts[6];
    struct fid_cntr *cntr = counter(p);
    char in[6], out[6] = {0};
    uint64_t tags[6];

    for (int i = 0; i < 6; i++)
        conf_post(p, fi_trecv(p->b.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, 0, ~0ull, &in[i]));
    for (uint64_t i = 0; i < 5; i++)
        conf_post(p, send_at(p, &contexts[i], cntr, thresholds[i], &out[i], i));
    must("fi_cntr_add", fi_cntr_add(cntr, 3));
    conf_post(p, send_at(p, &contexts[5], cntr, 2, &out[5], 5));
    for (int i = 0; i < 6; i++) {
        tags[i] = conf_wait(p, &p->b, &in[i]).tag;
        conf_wait(p, &p->a, &contexts[i]);
    }
    for (int i = 0; i < 5; i++)
        conf_check(tags[i] == order[i], "number %d is %lu", i, (unsigned long)tags[i]);
    conf_check(tags[5] == 5, "the one that came late");
    conf_quiet(p, 5);
    must("fi_close", fi_close(&cntr->fid));
    conf_pair_close(p);
}

/* ---- Deferred work ---- */

static struct fi_deferred_work work_of(struct fid_cntr *trigger, uint64_t threshold,
                                       struct fid_cntr *done, enum fi_op_type type, void *op)
{
    struct fi_deferred_work work = {.threshold = threshold,
                                    .triggering_cntr = trigger,
                                    .completion_cntr = done,
                                    .op_type = type};

    work.op.msg = op;
    return work;
}

static int queue(struct conf_pair *p, struct fi_deferred_work *work)
{
    return fi_control(&p->home.domain->fid, FI_QUEUE_WORK, work);
}

/* Both kinds of messages, from receives that are deferred too; silent but for what is asked. */
static void messages(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fid_cntr *go = counter(p), *sent = counter(p), *received = counter(p);
    char in[2] = {0}, out[2] = {'m', 't'};
    struct iovec to[2] = {{&in[0], 1}, {&in[1], 1}}, from[2] = {{&out[0], 1}, {&out[1], 1}};
    struct fi_op_msg recv = {
        p->b.ep, {.msg_iov = &to[0], .iov_count = 1, .addr = FI_ADDR_UNSPEC}, 0};
    struct fi_op_msg send = {p->a.ep, {.msg_iov = &from[0], .iov_count = 1, .addr = p->a.peer}, 0};
    struct fi_op_tagged trecv = {
        p->b.ep,
        {.msg_iov = &to[1], .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 4, .context = &in[1]},
        FI_COMPLETION};
    struct fi_op_tagged tsend = {
        p->a.ep, {.msg_iov = &from[1], .iov_count = 1, .addr = p->a.peer, .tag = 4}, 0};
    struct fi_deferred_work works[] = {
        work_of(go, 1, received, FI_OP_RECV, &recv), work_of(go, 1, received, FI_OP_TRECV, &trecv),
        work_of(go, 2, sent, FI_OP_SEND, &send), work_of(go, 2, NULL, FI_OP_TSEND, &tsend)};
    struct conf_seen seen;

    for (int i = 0; i < 4; i++)
        must("FI_QUEUE_WORK", queue(p, &works[i]));
    conf_quiet(p, 10);
    must("fi_cntr_add", fi_cntr_add(go, 1));
    conf_quiet(p, 10);
    conf_check(!in[0] && !in[1], "too early");
    must("fi_cntr_add", fi_cntr_add(go, 1));
    reaches(p, received, 2);
    reaches(p, sent, 1);
    conf_check(in[0] == 'm' && in[1] == 't', "data");
    seen = conf_wait(p, &p->b, &in[1]);
    conf_check(!seen.err && seen.len == 1 && seen.tag == 4 && seen.flags & FI_RECV, "the entry");
    conf_quiet(p, 20);
    conf_check(fi_cntr_read(p->a.sent) == 0 && fi_cntr_read(p->b.received) == 0,
               "the endpoints' own counters");
    must("fi_close", fi_close(&go->fid));
    must("fi_close", fi_close(&sent->fid));
    must("fi_close", fi_close(&received->fid));
    conf_pair_close(p);
}

static struct fid_mr *region(struct conf_pair *p, void *buf, size_t len)
{
    struct fid_mr *mr;

    must("fi_mr_reg",
         fi_mr_reg(p->home.domain, buf, len, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
                   0, 77, 0, &mr, NULL));
    if (p->home.info->domain_attr->mr_mode & FI_MR_ENDPOINT)
        must("fi_mr_enable", fi_mr_enable(mr));
    return mr;
}

/* A write, whose end fires a read, whose end is counted; then one that fails. */
static void remote_memory(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fid_cntr *go = counter(p), *written = counter(p), *read = counter(p);
    char remote[16] = "remote memory", from[4] = "new", to[16] = {0};
    bool virtual = p->home.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    struct fid_mr *mr = region(p, remote, sizeof remote);
    struct fi_rma_iov at = {virtual ? (uintptr_t)remote : 0, sizeof remote, fi_mr_key(mr)};
    struct fi_rma_iov first = {at.addr, 3, at.key}, nowhere = {at.addr, 3, at.key + 1};
    struct iovec source = {from, 3}, target = {to, sizeof to};
    struct fi_op_rma write = {
        p->a.ep, {&source, NULL, 1, p->a.peer, &first, 1, NULL, 0}, FI_DELIVERY_COMPLETE};
    struct fi_op_rma fetch = {p->a.ep, {&target, NULL, 1, p->a.peer, &at, 1, NULL, 0}, 0};
    struct fi_op_rma fail = {
        p->a.ep, {&source, NULL, 1, p->a.peer, &nowhere, 1, NULL, 0}, FI_DELIVERY_COMPLETE};
    struct fi_deferred_work works[] = {work_of(written, 1, read, FI_OP_READ, &fetch),
                                       work_of(go, 1, written, FI_OP_WRITE, &write),
                                       work_of(go, 2, written, FI_OP_WRITE, &fail)};
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;

    for (int i = 0; i < 3; i++)
        must("FI_QUEUE_WORK", queue(p, &works[i]));
    must("fi_cntr_add", fi_cntr_add(go, 1));
    reaches(p, read, 1);
    conf_check(!memcmp(to, "newote memory", 14), "what was read: %.16s", to);
    conf_quiet(p, 10);
    must("fi_cntr_add", fi_cntr_add(go, 1));
    while (fi_cntr_readerr(written) < 1) {
        conf_drive_pair(p);
        conf_check(conf_now_ms() < deadline, "no error is counted");
    }
    conf_check(fi_cntr_read(written) == 1 && fi_cntr_readerr(p->a.sent) == 0, "where it counts");
    conf_quiet(p, 10);
    must("fi_close", fi_close(&mr->fid));
    must("fi_close", fi_close(&go->fid));
    must("fi_close", fi_close(&written->fid));
    must("fi_close", fi_close(&read->fid));
    conf_pair_close(p);
}

/* All three kinds, one after the other by their completion counter; then one that is triggered. */
static void atomics(void)
{
    struct conf_pair *p;
    struct fid_cntr *go, *done;
    uint64_t remote = 5, add = 3, fetched = 0, swap = 99, expected = 8, seen = 0, more = 1;
    struct fi_ioc operand = {&add, 1}, result = {&fetched, 1}, value = {&swap, 1};
    struct fi_ioc compare = {&expected, 1}, old = {&seen, 1}, last = {&more, 1};
    struct fi_rma_ioc at = {0, 1, 0};
    struct fi_op_atomic write;
    struct fi_op_fetch_atomic fetch;
    struct fi_op_compare_atomic swapping;
    struct fi_deferred_work works[3];
    struct fi_triggered_context2 context = {.event_type = FI_TRIGGER_THRESHOLD};
    struct fi_msg_atomic msg;
    struct fid_mr *mr;

    conf_need("triggers");
    conf_need("ATOMIC");
    p = conf_pair_open((struct conf_want){.caps = caps | FI_ATOMIC});
    go = counter(p);
    done = counter(p);
    mr = region(p, &remote, sizeof remote);
    at.key = fi_mr_key(mr);
    at.addr = p->home.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)&remote : 0;
    msg = (struct fi_msg_atomic){&operand, NULL, 1, p->a.peer, &at, 1, FI_UINT64, FI_SUM, NULL, 0};
    write = (struct fi_op_atomic){p->a.ep, msg, FI_DELIVERY_COMPLETE};
    fetch = (struct fi_op_fetch_atomic){p->a.ep, msg, {&result, NULL, 1}, 0};
    msg.msg_iov = &value;
    msg.op = FI_CSWAP;
    swapping = (struct fi_op_compare_atomic){p->a.ep, msg, {&old, NULL, 1}, {&compare, NULL, 1}, 0};
    expected = 11;
    works[0] = work_of(go, 1, done, FI_OP_ATOMIC, &write);
    works[1] = work_of(done, 1, done, FI_OP_FETCH_ATOMIC, &fetch);
    works[2] = work_of(done, 2, done, FI_OP_COMPARE_ATOMIC, &swapping);
    for (int i = 0; i < 3; i++)
        must("FI_QUEUE_WORK", queue(p, &works[i]));
    context.trigger.threshold.cntr = done;
    context.trigger.threshold.threshold = 3;
    msg.msg_iov = &last;
    msg.op = FI_SUM;
    msg.context = &context;
    conf_post(p, fi_atomicmsg(p->a.ep, &msg, FI_TRIGGER | FI_DELIVERY_COMPLETE));
    last = (struct fi_ioc){NULL, 0}; /* it was copied */
    must("fi_cntr_add", fi_cntr_add(go, 1));
    reaches(p, done, 3);
    conf_check(fetched == 8 && seen == 11, "fetched %lu, then %lu", (unsigned long)fetched,
               (unsigned long)seen);
    conf_wait(p, &p->a, &context);
    conf_check(remote == 100, "%lu in the end", (unsigned long)remote);
    conf_quiet(p, 5);
    conf_check(fi_cntr_read(p->a.sent) == 1, "the endpoint's counter");
    must("fi_close", fi_close(&mr->fid));
    must("fi_close", fi_close(&go->fid));
    must("fi_close", fi_close(&done->fid));
    conf_pair_close(p);
}

/* Counters that change counters; errors count toward the threshold too. */
static void chains(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fid_cntr *a = counter(p), *b = counter(p), *c = counter(p);
    struct fi_op_cntr add = {b, 5}, set = {c, 40}, more = {c, 2};
    struct fi_deferred_work works[] = {work_of(a, 2, NULL, FI_OP_CNTR_ADD, &add),
                                       work_of(b, 5, NULL, FI_OP_CNTR_SET, &set),
                                       work_of(c, 40, NULL, FI_OP_CNTR_ADD, &more)};

    for (int i = 0; i < 3; i++)
        must("FI_QUEUE_WORK", queue(p, &works[i]));
    works[0].completion_cntr = b;
    conf_check(queue(p, &works[0]) == -FI_EINVAL, "a completion counter of a counter");
    must("fi_cntr_add", fi_cntr_add(a, 1));
    conf_check(fi_cntr_read(b) == 0, "too early");
    must("fi_cntr_adderr", fi_cntr_adderr(a, 1));
    reaches(p, b, 5);
    reaches(p, c, 42);
    must("fi_close", fi_close(&a->fid));
    must("fi_close", fi_close(&b->fid));
    must("fi_close", fi_close(&c->fid));
    conf_pair_close(p);
}

static void cancelling(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fid_domain *domain = p->home.domain;
    struct fid_cntr *a = counter(p), *b = counter(p), *c = counter(p);
    struct fi_op_cntr add = {c, 1};
    struct fi_deferred_work works[4];
    struct fi_triggered_context2 context;
    char byte = 0;

    for (int i = 0; i < 4; i++) {
        works[i] = work_of(i < 2 ? a : b, 1, NULL, FI_OP_CNTR_ADD, &add);
        must("FI_QUEUE_WORK", queue(p, &works[i]));
    }
    conf_check(fi_close(&a->fid) == -FI_EBUSY && fi_close(&c->fid) == -FI_EBUSY,
               "closing what is waited for, or changed");
    must("FI_CANCEL_WORK", fi_control(&domain->fid, FI_CANCEL_WORK, &works[0]));
    conf_check(fi_control(&domain->fid, FI_CANCEL_WORK, &works[0]) == -FI_ENOENT, "twice");
    must("FI_FLUSH_WORK", fi_control(&domain->fid, FI_FLUSH_WORK, b));
    must("fi_cntr_add", fi_cntr_add(b, 1));
    must("fi_cntr_add", fi_cntr_add(a, 1));
    reaches(p, c, 1);
    must("FI_QUEUE_WORK", queue(p, &works[2])); /* already due */
    reaches(p, c, 2);
    works[3].threshold = 100;
    must("FI_QUEUE_WORK", queue(p, &works[3]));
    must("FI_FLUSH_WORK", fi_control(&domain->fid, FI_FLUSH_WORK, NULL));
    conf_post(p, send_at(p, &context, a, 50, &byte, 1));
    must("fi_cancel", fi_cancel(&p->a.ep->fid, &context));
    conf_check(conf_wait(p, &p->a, &context).err == FI_ECANCELED, "a cancelled operation");
    conf_quiet(p, 5);
    must("fi_close", fi_close(&a->fid));
    must("fi_close", fi_close(&b->fid));
    must("fi_close", fi_close(&c->fid));
    conf_pair_close(p);
}

/* An endpoint takes its work with it. */
static void closing(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fid_cntr *go = counter(p), *done = counter(p);
    struct conf_ep *extra = calloc(1, sizeof *extra);
    struct fi_triggered_context2 context;
    struct iovec iov = {&context, 1};
    struct fi_op_msg send = {NULL, {.msg_iov = &iov, .iov_count = 1}, 0};
    struct fi_deferred_work work = work_of(go, 1, done, FI_OP_SEND, &send);
    char byte = 0;

    conf_ep_open(extra, &p->home, &p->want);
    conf_introduce(extra, &p->b);
    send.ep = extra->ep;
    send.msg.addr = extra->peer;
    must("FI_QUEUE_WORK", queue(p, &work));
    conf_post(p, send_at(p, &context, go, 1, &byte, 1));
    conf_ep_close(extra);
    free(extra);
    conf_post(p, fi_trecv(p->b.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &byte));
    must("fi_cntr_add", fi_cntr_add(go, 1));
    conf_wait(p, &p->a, &context);
    conf_wait(p, &p->b, &byte);
    conf_check(fi_cntr_read(done) == 0, "work of a closed endpoint");
    conf_quiet(p, 5);
    must("fi_close", fi_close(&go->fid));
    must("fi_close", fi_close(&done->fid));
    conf_pair_close(p);
}

/* More at once than the lower's queues take, and all of it in order. */
static void many(void)
{
    enum {
        COUNT = 2000
    };
    struct conf_pair *p = open_pair((struct conf_want){.tx_size = 32});
    struct fi_triggered_context2 *contexts = calloc(COUNT, sizeof *contexts);
    uint32_t *in = calloc(COUNT, sizeof *in), *out = calloc(COUNT, sizeof *out);
    struct fid_cntr *go = counter(p);
    struct iovec iov;
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = p->a.peer};

    conf_check(contexts && in && out, "no memory");
    for (uint32_t i = 0; i < COUNT; i++) {
        contexts[i].event_type = FI_TRIGGER_THRESHOLD;
        contexts[i].trigger.threshold.cntr = go;
        contexts[i].trigger.threshold.threshold = 1 + i / 500;
        out[i] = i;
        iov = (struct iovec){&out[i], sizeof out[i]};
        msg.context = &contexts[i];
        conf_post(p, fi_sendmsg(p->a.ep, &msg, FI_TRIGGER | FI_COMPLETION));
    }
    must("fi_cntr_set", fi_cntr_set(go, 4));
    for (uint32_t i = 0; i < COUNT; i++) {
        conf_post(p, fi_recv(p->b.ep, &in[i], sizeof in[i], NULL, FI_ADDR_UNSPEC, &in[i]));
        conf_wait(p, &p->b, &in[i]);
        conf_check(in[i] == i, "number %u is %u", i, in[i]);
        conf_wait(p, &p->a, &contexts[i]);
    }
    conf_quiet(p, 5);
    must("fi_close", fi_close(&go->fid));
    free(contexts);
    free(in);
    free(out);
    conf_pair_close(p);
}

/* With FI_PROGRESS_AUTO an arriving message fires a send, though no queue is read there. */
static void automatic(void)
{
    struct conf_pair *p =
        open_pair((struct conf_want){.threading = FI_THREAD_SAFE, .progress = FI_PROGRESS_AUTO});
    struct fi_triggered_context2 context;
    struct fi_cq_tagged_entry entry;
    char in[2] = {0}, out[2] = {'x', 'y'};
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    ssize_t rc;

    must("fi_recv", fi_recv(p->a.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, &in[0]));
    must("fi_trecv", fi_trecv(p->b.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, 3, 0, &in[1]));
    must("triggered", send_at(p, &context, p->a.received, 1, &out[1], 3));
    while ((rc = fi_send(p->b.ep, &out[0], 1, NULL, p->b.peer, &out[0])) == -FI_EAGAIN)
        conf_check(conf_now_ms() < deadline, "no connection");
    must("fi_send", rc);
    while (fi_cq_read(p->b.rx, &entry, 1) == -FI_EAGAIN)
        conf_check(conf_now_ms() < deadline, "the answer does not come");
    conf_check(in[1] == 'y', "data");
    conf_wait(p, &p->a, &context);
    conf_wait(p, &p->a, &in[0]);
    conf_wait(p, &p->b, &out[0]);
    conf_pair_close(p);
}

/* On an alias with FI_TRIGGER the plain calls are triggered; the endpoint itself is as it was. */
static void alias(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fid_cntr *go = counter(p);
    struct fi_triggered_context2 contexts[2];
    char in[2] = {0}, out[2] = {'x', 'y'}, now = 'n', got = 0;
    struct fid_ep *ep = NULL;
    int rc;

    conf_need("aliases");
    rc = fi_ep_alias(p->a.ep, &ep, FI_TRANSMIT | FI_TRIGGER | FI_COMPLETION);
    must("fi_ep_alias", rc);
    for (int i = 0; i < 2; i++) {
        contexts[i].event_type = FI_TRIGGER_THRESHOLD;
        contexts[i].trigger.threshold.cntr = go;
        contexts[i].trigger.threshold.threshold = 1;
    }
    conf_post(p, fi_trecv(p->b.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in[0]));
    conf_post(p, fi_recv(p->b.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, &in[1]));
    conf_post(p, fi_trecv(p->b.ep, &got, 1, NULL, FI_ADDR_UNSPEC, 2, 0, &got));
    must("fi_tsend", fi_tsend(ep, &out[0], 1, NULL, p->a.peer, 1, &contexts[0]));
    must("fi_send", fi_send(ep, &out[1], 1, NULL, p->a.peer, &contexts[1]));
    conf_post(p, fi_tsend(p->a.ep, &now, 1, NULL, p->a.peer, 2, &now));
    conf_wait(p, &p->a, &now);
    conf_wait(p, &p->b, &got);
    conf_quiet(p, 10);
    must("fi_close(alias)", fi_close(&ep->fid));
    must("fi_cntr_add", fi_cntr_add(go, 1));
    for (int i = 0; i < 2; i++) {
        conf_wait(p, &p->a, &contexts[i]);
        conf_wait(p, &p->b, &in[i]);
    }
    conf_check(in[0] == 'x' && in[1] == 'y', "data");
    conf_quiet(p, 5);
    must("fi_close", fi_close(&go->fid));
    conf_pair_close(p);
}

static void arguments(void)
{
    struct conf_pair *p = open_pair((struct conf_want){0});
    struct fid_cntr *go = counter(p);
    struct fi_triggered_context2 context;
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct fi_op_msg recv = {
        p->b.ep, {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC}, FI_MULTI_RECV};
    struct fi_deferred_work work = work_of(go, 1, NULL, FI_OP_RECV, &recv);
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = p->a.peer, .context = &context};

    conf_check(queue(p, &work) == -FI_ENOSYS, "a deferred multi-receive");
    recv.flags = 0;
    work.triggering_cntr = NULL;
    conf_check(queue(p, &work) == -FI_EINVAL, "no counter");
    work.triggering_cntr = go;
    work.op_type = (enum fi_op_type)99;
    conf_check(queue(p, &work) == -FI_EINVAL, "no such operation");
    conf_check(send_at(p, &context, NULL, 1, &byte, 1) == -FI_EINVAL, "no counter");
    context.event_type = (enum fi_trigger_event)9;
    conf_check(fi_sendmsg(p->a.ep, &msg, FI_TRIGGER) < 0, "no such event");
    conf_check(fi_control(&p->home.domain->fid, FI_CANCEL_WORK, &work) == -FI_ENOENT,
               "what was not queued");
    conf_quiet(p, 5);
    must("fi_close", fi_close(&go->fid));
    conf_pair_close(p);
}

const struct conf_case conf_trigger_cases[] = {
    {"trigger: by receives", by_receives},
    {"trigger: thresholds in order", in_order},
    {"trigger: deferred messages", messages},
    {"trigger: deferred remote memory access, an error", remote_memory},
    {"trigger: deferred atomics", atomics},
    {"trigger: counters that change counters", chains},
    {"trigger: cancel and flush", cancelling},
    {"trigger: closing an endpoint", closing},
    {"trigger: more than the queues take", many},
    {"trigger: automatic progress", automatic},
    {"trigger: an alias", alias},
    {"trigger: arguments", arguments},
    {0},
};

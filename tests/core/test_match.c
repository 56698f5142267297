/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/match/match.h"
#include "core/op/op_build.h"
#include "core/queue/binding.h"

enum kind {
    MATCHED = 1,
    RELEASED,
    FAILED,
    PEEKED,
    DISCARDED
};

/* Seen by the lower (a message got a buffer, or is discarded) and on the queue. */
struct event {
    enum kind kind;
    int recv, message;  /* numbers; -1: none */
    size_t offset, len; /* into the receive's buffer; the message's bytes that fit */
    int err;
    uint64_t flags;
};

enum {
    LOG_MAX = 4096,
    BUF = 1 << 16
};

static struct event events[LOG_MAX];
static size_t event_count;
static char buffer[BUF];
static bool hold_entries; /* the lower keeps started entries until told */
static struct fi_peer_rx_entry *held[64];
static size_t held_count;
static void (*on_write)(void); /* what an application does from inside a completion */

static void note(struct event event)
{
    assert_true(event_count < LOG_MAX);
    events[event_count++] = event;
}

static void *number(int n)
{
    return (void *)(intptr_t)(n + 1);
}

static int number_of(const void *context)
{
    return (int)(intptr_t)context - 1;
}

/* ---- The queue ---- */

static ssize_t cq_took(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                       void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    if (flags == FI_MULTI_RECV)
        note((struct event){.kind = RELEASED, .recv = number_of(context), .message = -1});
    else
        note((struct event){.kind = PEEKED,
                            .recv = number_of(context),
                            .message = (int)data,
                            .len = len,
                            .flags = flags});
    if (on_write)
        on_write();
    return 0;
}

static ssize_t cq_took_error(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    note((struct event){.kind = FAILED,
                        .recv = number_of(entry->op_context),
                        .message = -1,
                        .err = entry->err,
                        .flags = entry->flags});
    if (on_write)
        on_write();
    return 0;
}

static struct fi_ops_cq_owner took_ops = {
    .size = sizeof(struct fi_ops_cq_owner), .write = cq_took, .writeerr = cq_took_error};
static struct fid_peer_cq took = {.owner_ops = &took_ops};
static struct cq queue = {.sink = &took, .into = &queue};
static struct binding binding;

/* ---- The lower ---- */

static void note_match(struct fi_peer_rx_entry *entry)
{
    note((struct event){
        .kind = MATCHED,
        .recv = number_of(entry->context),
        .message = (int)entry->cq_data,
        .offset = entry->count ? (size_t)((char *)entry->iov[0].iov_base - buffer) : 0,
        .len = entry->count && entry->iov[0].iov_len < entry->msg_size ? entry->iov[0].iov_len
                                                                       : entry->msg_size,
        .flags = entry->flags & (FI_MULTI_RECV | FI_COMPLETION),
    });
    if (hold_entries)
        held[held_count++] = entry;
    else
        entry->srx->owner_ops->free_entry(entry);
}

static int lower_start(struct fi_peer_rx_entry *entry)
{
    note_match(entry);
    return 0;
}

static int lower_discard(struct fi_peer_rx_entry *entry)
{
    note((struct event){.kind = DISCARDED, .recv = -1, .message = (int)entry->cq_data});
    entry->srx->owner_ops->free_entry(entry);
    return 0;
}

static struct fi_ops_srx_peer lower_ops = {
    .size = sizeof(struct fi_ops_srx_peer),
    .start_msg = lower_start,
    .start_tag = lower_start,
    .discard_msg = lower_discard,
    .discard_tag = lower_discard,
};

/* ---- The bed ---- */

static struct match *match;
static struct match_source sources[4];

static void lay(size_t size, size_t min_multi_recv)
{
    struct match_attr attr = {
        .size = size, .iov_limit = 4, .min_multi_recv = min_multi_recv, .directed = true};

    event_count = held_count = 0;
    hold_entries = false;
    on_write = NULL;
    memset(&binding, 0, sizeof(binding));
    binding.rx = &queue;
    assert_int_equal(match_create(&attr, &match), 0);
    match_set_binding(match, &binding);
    for (int i = 0; i < 4; i++) {
        match_source_init(&sources[i], match, (fi_addr_t)i + 10);
        sources[i].srx.peer_ops = &lower_ops;
    }
}

static ssize_t post(bool tagged, int n, size_t offset, size_t len, fi_addr_t src, uint64_t tag,
                    uint64_t ignore, uint64_t flags)
{
    struct iovec iov = {buffer + offset, len};
    struct fi_msg_tagged msg = {&iov, NULL, 1, src, tag, ignore, number(n), 0};
    struct op op;

    op_of_tagged(&op, OP_TRECVMSG, &msg, flags);
    if (!tagged)
        op.group = OP_GROUP_RECV;
    return match_receive(match, &op);
}

/* A message as a lower brings it: get, then the buffer or the queue. */
static void arrive(struct match_source *source, bool tagged, int n, uint64_t tag, size_t len)
{
    struct fi_peer_match_attr attr = {.addr = FI_ADDR_UNSPEC, .msg_size = len, .tag = tag};
    struct fi_ops_srx_owner *ops = source->srx.owner_ops;
    struct fi_peer_rx_entry *entry;
    int rc = (tagged ? ops->get_tag : ops->get_msg)(&source->srx, &attr, &entry);

    assert_ptr_equal(entry->srx, &source->srx);
    assert_true(entry->addr == source->addr);
    assert_int_equal(entry->msg_size, len);
    assert_int_equal(entry->tag, tagged ? tag : 0);
    assert_int_equal(entry->flags & (FI_RECV | FI_MSG | FI_TAGGED),
                     FI_RECV | (tagged ? FI_TAGGED : FI_MSG));
    entry->cq_data = (uint64_t)n;
    if (!rc) {
        note_match(entry);
        return;
    }
    assert_int_equal(rc, -FI_ENOENT);
    assert_int_equal((tagged ? ops->queue_tag : ops->queue_msg)(entry), 0);
}

static void expect(size_t at, enum kind kind, int recv, int message)
{
    assert_true(at < event_count);
    assert_int_equal(events[at].kind, kind);
    assert_int_equal(events[at].recv, recv);
    assert_int_equal(events[at].message, message);
}

static void let_go(size_t i)
{
    held[i]->srx->owner_ops->free_entry(held[i]);
}

/* ---- Behaviour ---- */

static void the_earliest_of_exact_wild_and_directed_wins(void **state)
{
    const fi_addr_t any = FI_ADDR_UNSPEC;

    lay(0, 0);
    post(true, 0, 0, 8, 11, 5, 0, 0);
    post(true, 1, 0, 8, any, 4, 1, 0);
    post(true, 2, 0, 8, any, 5, 0, 0);
    post(true, 3, 0, 8, 10, 5, 0, 0);
    post(true, 4, 0, 8, any, 0, ~0ull, 0);
    assert_int_equal(match_posted(match), 5);
    for (int i = 0; i < 4; i++)
        arrive(&sources[0], true, i, 5, 8);
    expect(0, MATCHED, 1, 0);
    expect(1, MATCHED, 2, 1);
    expect(2, MATCHED, 3, 2);
    expect(3, MATCHED, 4, 3);
    arrive(&sources[1], true, 4, 5, 8);
    expect(4, MATCHED, 0, 4);
    assert_int_equal(match_posted(match), 0);
    match_destroy(match);
}

static void queued_messages_come_in_order_of_arrival(void **state)
{
    lay(0, 0);
    arrive(&sources[0], true, 0, 7, 8);
    arrive(&sources[1], true, 1, 7, 8);
    arrive(&sources[1], true, 2, 9, 8);
    arrive(&sources[0], false, 3, 0, 8);
    assert_int_equal(match_queued(match), 4);
    post(true, 0, 0, 8, 11, 7, 0, 0);
    post(true, 1, 0, 8, FI_ADDR_UNSPEC, 0, ~0ull, 0);
    post(true, 2, 0, 8, FI_ADDR_UNSPEC, 9, 0, 0);
    post(false, 3, 0, 8, FI_ADDR_UNSPEC, 0, 0, 0);
    expect(0, MATCHED, 0, 1);
    expect(1, MATCHED, 1, 0);
    expect(2, MATCHED, 2, 2);
    expect(3, MATCHED, 3, 3);
    assert_int_equal(match_queued(match), 0);
    match_destroy(match);
}

static void a_source_without_address_waits_for_it(void **state)
{
    lay(0, 0);
    sources[0].addr = FI_ADDR_UNSPEC;
    post(true, 0, 0, 8, 10, 7, 0, 0);
    arrive(&sources[0], true, 0, 7, 8);
    arrive(&sources[0], true, 1, 7, 8);
    assert_int_equal(match_queued(match), 2);
    post(true, 1, 0, 8, FI_ADDR_UNSPEC, 7, 0, 0);
    expect(0, MATCHED, 1, 0);
    match_source_resolve(&sources[0], 10);
    expect(1, MATCHED, 0, 1);
    assert_int_equal(event_count, 2);
    arrive(&sources[0], true, 2, 7, 8);
    post(true, 2, 0, 8, 10, 7, 0, 0);
    expect(2, MATCHED, 2, 2);
    match_destroy(match);
}

static fi_addr_t even_is_known(struct fi_peer_rx_entry *entry)
{
    return entry->cq_data % 2 ? FI_ADDR_UNSPEC : 42;
}

static void one_source_may_stand_for_many(void **state)
{
    struct fi_peer_match_attr attr = {.addr = 33, .msg_size = 4, .tag = 1};
    struct fi_ops_srx_owner *ops;
    struct fi_peer_rx_entry *entry;

    lay(0, 0);
    ops = sources[0].srx.owner_ops;
    sources[0].many = true;
    post(true, 0, 0, 8, 33, 1, 0, 0);
    assert_int_equal(ops->get_tag(&sources[0].srx, &attr, &entry), 0);
    assert_int_equal(entry->addr, 33);
    ops->free_entry(entry);
    attr.addr = FI_ADDR_UNSPEC;
    for (int i = 1; i < 4; i++) {
        assert_int_equal(ops->get_tag(&sources[0].srx, &attr, &entry), -FI_ENOENT);
        entry->cq_data = (uint64_t)i;
        ops->queue_tag(entry);
    }
    post(true, 1, 0, 8, 42, 1, 0, 0);
    ops->foreach_unspec_addr(&sources[0].srx, even_is_known);
    expect(0, MATCHED, 1, 2);
    assert_int_equal(match_queued(match), 2);
    match_destroy(match);
    expect(1, DISCARDED, -1, 1);
    expect(2, DISCARDED, -1, 3);
}

static void a_receive_posted_between_get_and_queue_is_found(void **state)
{
    struct fi_peer_match_attr attr = {.msg_size = 4, .tag = 1};
    struct fi_peer_rx_entry *entry;

    lay(0, 0);
    assert_int_equal(sources[0].srx.owner_ops->get_tag(&sources[0].srx, &attr, &entry), -FI_ENOENT);
    entry->cq_data = 77;
    post(true, 5, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0);
    sources[0].srx.owner_ops->queue_tag(entry);
    expect(0, MATCHED, 5, 77);
    match_destroy(match);
}

static void limits_are_kept(void **state)
{
    struct iovec iov[5] = {{buffer, 1}, {buffer, 1}, {buffer, 1}, {buffer, 1}, {buffer, 1}};
    struct op op;

    op_of_msg(&op, OP_RECVMSG, &(struct fi_msg){.msg_iov = iov, .iov_count = 5}, 0);
    lay(2, 0);
    assert_int_equal(match_receive(match, &op), -FI_EINVAL);
    op_set_iov(&op, NULL, NULL, 0);
    assert_int_equal(match_receive(match, &op), 0);
    assert_int_equal(post(true, 1, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0), 0);
    assert_int_equal(post(true, 2, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0), -FI_EAGAIN);
    arrive(&sources[0], true, 0, 1, 8);
    assert_int_equal(post(true, 2, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0), 0);
    match_destroy(match);
}

static void selective_completion_decides_on_the_flag(void **state)
{
    lay(0, 0);
    post(true, 0, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0);
    binding.rx_selective = true;
    post(true, 1, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0);
    post(true, 2, 0, 8, FI_ADDR_UNSPEC, 1, 0, FI_COMPLETION);
    for (int i = 0; i < 3; i++)
        arrive(&sources[0], true, i, 1, 8);
    assert_true(events[0].flags & FI_COMPLETION);
    assert_false(events[1].flags & FI_COMPLETION);
    assert_true(events[2].flags & FI_COMPLETION);
    match_destroy(match);
}

static void cancel_and_fail_end_receives_in_errors(void **state)
{
    lay(0, 0);
    for (int i = 0; i < 4; i++)
        post(i % 2, i, 0, 8, i < 2 ? FI_ADDR_UNSPEC : 12, 1, 0, 0);
    assert_int_equal(match_cancel(match, number(1)), 0);
    expect(0, FAILED, 1, -1);
    assert_int_equal(events[0].err, FI_ECANCELED);
    assert_int_equal(match_cancel(match, number(1)), -FI_ENOENT);
    match_fail(match, &sources[2], FI_ECONNABORTED);
    assert_int_equal(event_count, 3);
    expect(1, FAILED, 2, -1);
    expect(2, FAILED, 3, -1);
    assert_int_equal(events[2].err, FI_ECONNABORTED);
    match_fail(match, NULL, FI_ECANCELED);
    expect(3, FAILED, 0, -1);
    assert_int_equal(match_posted(match), 0);
    match_destroy(match);
}

static void post_again(void)
{
    assert_int_equal(post(true, 50, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0), 0);
}

static void posting_from_a_completion_is_allowed(void **state)
{
    lay(0, 0);
    for (int i = 0; i < 3; i++)
        post(true, i, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0);
    on_write = post_again;
    match_fail(match, NULL, FI_ECANCELED);
    assert_int_equal(event_count, 3);
    assert_int_equal(match_posted(match), 3);
    match_destroy(match);
}

static void a_source_that_goes_takes_its_messages_along(void **state)
{
    lay(0, 0);
    for (int i = 0; i < 6; i++)
        arrive(&sources[i % 2], i % 3, i, 1, 8);
    post(true, 0, 0, 0, 11, 1, 0, FI_PEEK | FI_CLAIM);
    expect(0, PEEKED, 0, 1);
    match_source_finish(&sources[1]);
    assert_int_equal(event_count, 4);
    assert_int_equal(match_queued(match), 3);
    post(true, 0, 0, 8, FI_ADDR_UNSPEC, 1, 0, 0);
    expect(4, MATCHED, 0, 2);
    assert_int_equal(post(true, 0, 0, 8, FI_ADDR_UNSPEC, 1, 0, FI_CLAIM), -FI_EINVAL);
    match_destroy(match);
    assert_int_equal(event_count, 7);
}

static void peek_claim_and_discard(void **state)
{
    const fi_addr_t any = FI_ADDR_UNSPEC;

    lay(0, 0);
    assert_int_equal(post(true, 0, 0, 0, any, 1, 0, FI_PEEK), 0);
    expect(0, FAILED, 0, -1);
    assert_int_equal(events[0].err, FI_ENOMSG);
    for (int i = 0; i < 4; i++)
        arrive(&sources[0], true, i, 1, 100 + (size_t)i);
    post(true, 1, 0, 0, any, 1, 0, FI_PEEK);
    expect(1, PEEKED, 1, 0);
    assert_int_equal(events[1].len, 100);
    post(true, 2, 0, 0, any, 0, ~0ull, FI_PEEK | FI_CLAIM);
    expect(2, PEEKED, 2, 0);
    post(true, 3, 0, 0, any, 1, 0, FI_PEEK | FI_DISCARD);
    expect(3, PEEKED, 3, 1);
    expect(4, DISCARDED, -1, 1);
    post(true, 4, 0, 0, 10, 1, 0, FI_PEEK | FI_CLAIM);
    expect(5, PEEKED, 4, 2);
    assert_int_equal(match_queued(match), 1);
    post(true, 5, 0, 200, any, 1, 0, 0);
    expect(6, MATCHED, 5, 3);
    assert_int_equal(post(true, 4, 0, 0, any, 1, 0, FI_CLAIM | FI_DISCARD), 0);
    expect(7, PEEKED, 4, 2);
    expect(8, DISCARDED, -1, 2);
    assert_int_equal(post(true, 2, 16, 200, any, 1, 0, FI_CLAIM), 0);
    expect(9, MATCHED, 2, 0);
    assert_int_equal(events[9].offset, 16);
    assert_int_equal(post(true, 2, 0, 200, any, 1, 0, FI_CLAIM), -FI_EINVAL);
    assert_int_equal(post(true, 2, 0, 200, any, 1, 0, FI_DISCARD), -FI_EINVAL);
    match_destroy(match);
}

static void multi_receive_packs_and_is_released_once(void **state)
{
    lay(0, 64);
    post(false, 0, 0, 300, FI_ADDR_UNSPEC, 0, 0, FI_MULTI_RECV);
    for (int i = 0; i < 3; i++)
        arrive(&sources[i], false, i, 0, 100);
    for (int i = 0; i < 3; i++) {
        expect((size_t)i, MATCHED, 0, i);
        assert_int_equal(events[i].offset, i * 100);
        assert_int_equal(!!(events[i].flags & FI_MULTI_RECV), i == 2);
    }
    assert_int_equal(event_count, 3);
    /* A message that does not fit in the rest goes to the next buffer, and releases this one. */
    post(false, 1, 0, 300, FI_ADDR_UNSPEC, 0, 0, FI_MULTI_RECV);
    post(false, 2, 1000, 300, FI_ADDR_UNSPEC, 0, 0, FI_MULTI_RECV);
    arrive(&sources[0], false, 3, 0, 200);
    arrive(&sources[0], false, 4, 0, 200);
    expect(3, MATCHED, 1, 3);
    expect(4, RELEASED, 1, -1);
    expect(5, MATCHED, 2, 4);
    assert_int_equal(events[5].offset, 1000);
    /* Longer than a whole buffer: truncated. */
    post(false, 3, 2000, 300, FI_ADDR_UNSPEC, 0, 0, FI_MULTI_RECV);
    arrive(&sources[0], false, 5, 0, 500);
    expect(6, RELEASED, 2, -1);
    expect(7, MATCHED, 3, 5);
    assert_int_equal(events[7].len, 300);
    assert_true(events[7].flags & FI_MULTI_RECV);
    assert_int_equal(match_posted(match), 0);
    match_destroy(match);
}

static void slices_out_of_order_release_after_the_last(void **state)
{
    lay(0, 64);
    hold_entries = true;
    binding.rx_selective = true;
    post(false, 0, 0, 200, FI_ADDR_UNSPEC, 0, 0, FI_MULTI_RECV);
    arrive(&sources[0], false, 0, 0, 100);
    arrive(&sources[1], false, 1, 0, 100);
    assert_int_equal(event_count, 2);
    assert_false(events[1].flags & FI_MULTI_RECV);
    let_go(1);
    assert_int_equal(event_count, 2);
    let_go(0);
    expect(2, RELEASED, 0, -1);
    /* A cancelled buffer ends after its slices too. */
    post(false, 1, 0, 200, FI_ADDR_UNSPEC, 0, 0, FI_MULTI_RECV);
    arrive(&sources[0], false, 2, 0, 100);
    assert_int_equal(match_cancel(match, number(1)), 0);
    assert_int_equal(event_count, 4);
    let_go(2);
    expect(4, FAILED, 1, -1);
    assert_true(events[4].flags & FI_MULTI_RECV);
    match_destroy(match);
}

static void multi_receive_takes_what_is_queued(void **state)
{
    lay(0, 64);
    for (int i = 0; i < 5; i++)
        arrive(&sources[0], true, i, (uint64_t)(i == 2), 100);
    post(true, 0, 0, 1000, FI_ADDR_UNSPEC, 0, 0, FI_MULTI_RECV);
    assert_int_equal(event_count, 4);
    expect(3, MATCHED, 0, 4);
    assert_int_equal(events[3].offset, 300);
    arrive(&sources[1], true, 5, 0, 100);
    expect(4, MATCHED, 0, 5);
    assert_int_equal(match_posted(match), 1);
    match_destroy(match);
}

/* ---- The model: lists, walked from the front ---- */

struct model_recv {
    int n;
    bool tagged, multi;
    fi_addr_t src;
    uint64_t tag, ignore;
    size_t offset, len;
};

struct model_message {
    int n, source;
    bool tagged;
    uint64_t tag;
    size_t len;
};

enum {
    MODEL_MAX = 400,
    MODEL_MIN = 50
};

static struct model_recv recvs[MODEL_MAX];
static struct model_message messages[MODEL_MAX];
static size_t recv_count, message_count;
static struct event expected[LOG_MAX];
static size_t expected_count;

static void model_drop_recv(size_t i)
{
    memmove(&recvs[i], &recvs[i + 1], (--recv_count - i) * sizeof(recvs[0]));
}

static void model_drop_message(size_t i)
{
    memmove(&messages[i], &messages[i + 1], (--message_count - i) * sizeof(messages[0]));
}

static bool model_fit(const struct model_recv *recv, const struct model_message *message)
{
    fi_addr_t src = sources[message->source].addr;

    return recv->tagged == message->tagged && (recv->src == FI_ADDR_UNSPEC || recv->src == src) &&
           (message->tag | recv->ignore) == (recv->tag | recv->ignore);
}

/* The message goes into receive i. false: a multi-receive buffer that it does not fit was dropped.
 */
static bool model_place(size_t i, const struct model_message *message)
{
    struct model_recv *recv = &recvs[i];
    struct event event = {.kind = MATCHED,
                          .recv = recv->n,
                          .message = message->n,
                          .offset = recv->offset,
                          .flags = FI_COMPLETION};

    event.len = message->len < recv->len ? message->len : recv->len;
    if (!recv->multi) {
        model_drop_recv(i);
    } else if (recv->offset && message->len > recv->len) {
        expected[expected_count++] =
            (struct event){.kind = RELEASED, .recv = recv->n, .message = -1};
        model_drop_recv(i);
        return false;
    } else {
        recv->offset += event.len;
        recv->len -= event.len;
        if (!recv->len || recv->len < MODEL_MIN) {
            event.flags |= FI_MULTI_RECV;
            model_drop_recv(i);
        }
    }
    expected[expected_count++] = event;
    return true;
}

static bool model_offer(const struct model_message *message)
{
    for (size_t i = 0; i < recv_count;) {
        if (!model_fit(&recvs[i], message))
            i++;
        else if (model_place(i, message))
            return true;
        else
            i = 0;
    }
    return false;
}

static void model_post(const struct model_recv *recv)
{
    size_t at = recv_count;

    recvs[recv_count++] = *recv;
    for (size_t i = 0; i < message_count && at < recv_count;) {
        struct model_message message = messages[i];

        if (!model_fit(&recvs[at], &message)) {
            i++;
            continue;
        }
        if (!model_place(at, &message))
            return;
        model_drop_message(i);
    }
}

static void model_resolve(int source)
{
    for (size_t i = 0; i < message_count;) {
        struct model_message message = messages[i];

        if (message.source == source && model_offer(&message))
            model_drop_message(i);
        else
            i++;
    }
}

static void random_recv(unsigned *seed, int n)
{
    struct model_recv recv = {.n = n, .tagged = rand_r(seed) % 4 != 0, .src = FI_ADDR_UNSPEC};

    if (rand_r(seed) % 3 == 0)
        recv.src = 10 + (fi_addr_t)(rand_r(seed) % 4);
    if (recv.tagged) {
        recv.tag = (uint64_t)(rand_r(seed) % 12);
        if (rand_r(seed) % 4 == 0)
            recv.ignore = rand_r(seed) % 2 ? 3 : ~0ull;
    }
    recv.multi = rand_r(seed) % 8 == 0;
    recv.len = (size_t)(rand_r(seed) % 300 + 1);
    assert_int_equal(post(recv.tagged, n, 0, recv.len, recv.src, recv.tag, recv.ignore,
                          recv.multi ? FI_MULTI_RECV : 0),
                     0);
    model_post(&recv);
}

static void random_message(unsigned *seed, int n)
{
    struct model_message message = {.n = n,
                                    .source = rand_r(seed) % 4,
                                    .tagged = rand_r(seed) % 4 != 0,
                                    .len = (size_t)(rand_r(seed) % 150)};

    if (message.tagged)
        message.tag = (uint64_t)(rand_r(seed) % 12);
    arrive(&sources[message.source], message.tagged, n, message.tag, message.len);
    if (!model_offer(&message))
        messages[message_count++] = message;
}

static void random_cancel(unsigned *seed)
{
    size_t i;

    if (!recv_count)
        return;
    i = (size_t)rand_r(seed) % recv_count;
    assert_int_equal(match_cancel(match, number(recvs[i].n)), 0);
    expected[expected_count++] =
        (struct event){.kind = FAILED,
                       .recv = recvs[i].n,
                       .message = -1,
                       .err = FI_ECANCELED,
                       .flags = FI_RECV | (recvs[i].tagged ? FI_TAGGED : FI_MSG) |
                                (recvs[i].multi ? FI_MULTI_RECV : 0)};
    model_drop_recv(i);
}

static void check_against_model(unsigned seed, int step)
{
    bool same = event_count == expected_count && match_posted(match) == recv_count &&
                match_queued(match) == message_count;

    for (size_t i = 0; same && i < event_count; i++)
        same = !memcmp(&events[i], &expected[i], sizeof(events[i]));
    if (!same)
        print_error("seed %u, step %d: events %zu, expected %zu\n", seed, step, event_count,
                    expected_count);
    assert_true(same);
    event_count = expected_count = 0;
}

static void model_run(unsigned seed)
{
    unsigned state = seed;
    int next[4] = {0};

    lay(0, MODEL_MIN);
    memset(events, 0, sizeof(events));
    memset(expected, 0, sizeof(expected));
    recv_count = message_count = expected_count = 0;
    sources[3].addr = FI_ADDR_UNSPEC;
    for (int step = 0; step < 3000; step++) {
        unsigned what = (unsigned)rand_r(&state) % 100;
        /* Phases in which receives, or messages, prevail. */
        unsigned bias = step / 300 % 2 ? 65 : 30;

        if (step == 1500) {
            match_source_resolve(&sources[3], 13);
            model_resolve(3);
        } else if (what < 3) {
            random_cancel(&state);
        } else if (what < bias && recv_count < MODEL_MAX) {
            random_recv(&state, next[0]++);
        } else if (message_count < MODEL_MAX) {
            random_message(&state, next[1]++);
        }
        check_against_model(seed, step);
    }
    match_destroy(match);
}

static void random_runs_agree_with_the_model(void **state)
{
    const char *given = getenv("MATCH_SEED");
    unsigned first = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);

    print_message("MATCH_SEED=%u\n", first);
    for (unsigned i = 0; i < (given ? 1u : 40u); i++)
        model_run(first + i);
}

/* A watcher hears of each meeting, may put its own context there, and may keep a buffer. */
static void *kept[8];
static int watched;

static void on_match(struct match_watch *watch, struct fi_peer_rx_entry *entry)
{
    kept[watched] = match_hold(entry);
    entry->context = number(100 + watched++);
}

static void a_watcher_hears_of_every_match(void **state)
{
    struct match_watch watch = {on_match};

    lay(0, 16);
    watched = 0;
    arrive(&sources[0], true, 0, 7, 8);
    match_set_watch(match, &watch);
    post(true, 0, 0, 8, FI_ADDR_UNSPEC, 7, 0, 0); /* one that was queued */
    expect(0, MATCHED, 100, 0);
    post(true, 1, 0, 8, FI_ADDR_UNSPEC, 8, 0, 0); /* one that was posted */
    arrive(&sources[0], true, 1, 8, 8);
    expect(1, MATCHED, 101, 1);
    assert_true(!kept[0] && !kept[1]);
    post(false, 3, 0, 40, FI_ADDR_UNSPEC, 0, 0, FI_MULTI_RECV);
    arrive(&sources[0], false, 2, 0, 20);
    arrive(&sources[1], false, 3, 0, 20);
    expect(2, MATCHED, 102, 2);
    expect(3, MATCHED, 103, 3);
    match_release(match, kept[3]);
    assert_int_equal(event_count, 4); /* both have ended, and it is not released */
    match_release(match, kept[2]);
    expect(4, RELEASED, 3, -1);
    match_destroy(match);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_of_exact_wild_and_directed_wins),
        cmocka_unit_test(queued_messages_come_in_order_of_arrival),
        cmocka_unit_test(a_source_without_address_waits_for_it),
        cmocka_unit_test(one_source_may_stand_for_many),
        cmocka_unit_test(a_receive_posted_between_get_and_queue_is_found),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(selective_completion_decides_on_the_flag),
        cmocka_unit_test(cancel_and_fail_end_receives_in_errors),
        cmocka_unit_test(posting_from_a_completion_is_allowed),
        cmocka_unit_test(a_source_that_goes_takes_its_messages_along),
        cmocka_unit_test(peek_claim_and_discard),
        cmocka_unit_test(multi_receive_packs_and_is_released_once),
        cmocka_unit_test(slices_out_of_order_release_after_the_last),
        cmocka_unit_test(multi_receive_takes_what_is_queued),
        cmocka_unit_test(a_watcher_hears_of_every_match),
        cmocka_unit_test(random_runs_agree_with_the_model),
    };

    return cmocka_run_group_tests_name("core/match", tests, NULL, NULL);
}

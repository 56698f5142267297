/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads whose target lends its memory: both ends, over a lower of the test's own, which completes
 * reads when the test wants; and peers that say what no peer of ours does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/base/seam.h"
#include "core/domain/mr_watch.h"
#include "tests/layers/rxd/bare.h"
#include "tests/support/nomem.h"

enum {
    ROOM = 512,
    HALF = 4096,
    SIZE = 2 * HALF,
    LOAN = 99,
};

static uint8_t memory[SIZE];

/* ---- The lower ---- */

static struct {
    struct fi_rma_iov from;
    struct iovec to;
    void *context;
} last; /* read; context NULL: none */
static unsigned reads, regions;
static int refuses; /* what it says to a read */

static ssize_t take_read(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    if (refuses)
        return refuses;
    assert_null(last.context);
    last.from = *msg->rma_iov;
    last.to = *msg->msg_iov;
    last.context = msg->context;
    reads++;
    return 0;
}

static void complete_read(int err)
{
    void *context = last.context;
    struct fi_cq_err_entry error = {.op_context = context, .err = err};

    assert_non_null(context);
    last.context = NULL;
    if (err)
        message_sink_ops.writeerr(&ep.base.sink.peer, &error);
    else
        message_sink_ops.write(&ep.base.sink.peer, context, FI_RMA | FI_READ, 0, NULL, 0, 0,
                               FI_ADDR_NOTAVAIL);
}

static int region_close(struct fid *fid)
{
    regions--;
    free(fid);
    return 0;
}

static int region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    return 0;
}

static int region_open(struct fid *fid, const void *buf, size_t len, uint64_t access,
                       uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                       void *context)
{
    static struct fi_ops ops = {.size = sizeof(ops), .close = region_close, .bind = region_bind};

    assert_int_equal(access, FI_REMOTE_READ);
    *mr = calloc(1, sizeof(**mr));
    assert_non_null(*mr);
    (*mr)->fid = (struct fid){.fclass = FI_CLASS_MR, .ops = &ops};
    (*mr)->key = key;
    regions++;
    return 0;
}

static int set_option(fid_t fid, int level, int name, const void *value, size_t len)
{
    return -FI_ENOPROTOOPT;
}

/* ---- The ends ---- */

static unsigned ends;
static int last_err;

static void count_end(struct message_op *op)
{
    ends++;
    last_err = op->err;
    rxd_op_put(op);
}

static const struct message_wire wire = {.name = "rxd",
                                         .sent = rxd_sent,
                                         .pull = rxd_pull,
                                         .is_over = rxd_op_is_over,
                                         .op_stays = rxd_op_stays,
                                         .op_put = count_end,
                                         .unlend = rxd_loan_end};

static int open_endpoint(void **state)
{
    static const struct bare_lower lower = {.take_read = take_read, .set_option = set_option};
    static struct fi_ops_mr regions_ops = {.size = sizeof(regions_ops), .reg = region_open};
    static struct fid_domain fid_domain = {.fid = {.fclass = FI_CLASS_DOMAIN}, .mr = &regions_ops};
    static struct lower_domain domain = {.lower = &fid_domain};

    bare_open(&wire, &lower, ROOM, 8);
    ep.base.domain = &domain;
    ep.base.own.closing = true; /* nothing is reported */
    ep.base.own.ep = &ep.base;
    ep.read_max = SIZE;
    ep.base.result_room = ROOM - RXD_RECORD_SIZE;
    peer.lends = true;
    return 0;
}

/* The next record that would leave, or kind 0. */
static struct rxd_record said(void)
{
    struct rxd_record record = {.kind = 0};
    struct rxd_packet *packet;
    size_t size;

    if (list_empty(&peer.base.out))
        return record;
    packet = list_item(peer.base.out.next, struct rxd_packet, base.link);
    assert_null(rxd_record_get(packet->records, packet->base.len, false, &record, &size));
    assert_int_equal(size, packet->base.len); /* one */
    message_packet_put(&packet->base);
    return record;
}

static void nothing_is_left(void)
{
    assert_int_equal(said().kind, 0);
    assert_true(list_empty(&ep.reading) && list_empty(&peer.base.accesses));
    assert_int_equal(ep.base.packets.used, 0);
    assert_int_equal(ep.base.ops.used, 0);
    assert_int_equal(ep.base.takes, 0);
    assert_int_equal(peer.base.takes, 0);
    assert_int_equal(peer.base.busy, 0);
    assert_int_equal(regions, 0);
    assert_true(list_empty(&peer.base.broken));
}

/* ---- The requester ---- */

static struct rxd_op *begin(void)
{
    struct iovec iov[2] = {{memory, 3000}, {memory + 3000, SIZE - 3000}};
    struct op post = {
        .group = OP_GROUP_RMA, .kind = FI_RMA | FI_READ, .iov = iov, .count = 2, .len = SIZE};
    struct message_posting posting = {.op = &post, .from = &ep.base.own};
    struct message_op *base = message_op_get(&peer.base, &posting, MESSAGE_READ, true);
    struct rxd_op *op = rxd_op_of(base);

    assert_non_null(base);
    ends = reads = 0;
    refuses = 0;
    last.context = NULL;
    message_op_copy_segments(base, &post);
    base->len = SIZE;
    message_take(&base->taker, &base->handle, 0, 0, SIZE, SIZE);
    op->sent = true;
    op->lent_count = 0;
    op->borrowed = NULL;
    op->again = false;
    op->owes = 0;
    op->unasked = 0;
    op->borrows = rxd_may_borrow(&peer, &post);
    assert_true(op->borrows);
    list_init(&op->in_packet);
    return op;
}

static struct rxd_record a_loan(struct rxd_op *op)
{
    return (struct rxd_record){.kind = RXD_LENT,
                               .id = message_handle_id(&op->base.handle),
                               .taker = LOAN,
                               .size = SIZE,
                               .place_count = 2,
                               .places = {{1000, HALF, 5}, {70000, HALF, 6}}};
}

static struct rxd_op *begin_to_read(void)
{
    struct rxd_op *op = begin();
    struct rxd_record loan = a_loan(op);

    assert_null(rxd_borrow(&peer, &loan));
    assert_int_equal(reads, 1);
    return op;
}

static void was_read(uint64_t addr, uint64_t key, size_t at, size_t len)
{
    assert_int_equal(last.from.addr, addr);
    assert_int_equal(last.from.key, key);
    assert_int_equal(last.from.len, len);
    assert_ptr_equal(last.to.iov_base, memory + at);
    assert_int_equal(last.to.iov_len, len);
}

static void a_loan_is_read_piece_by_piece_and_given_back(void **state)
{
    struct rxd_record record;

    begin_to_read();
    was_read(1000, 5, 0, 3000);
    complete_read(0);
    was_read(4000, 5, 3000, HALF - 3000);
    complete_read(0);
    was_read(70000, 6, HALF, HALF);
    assert_int_equal(ends, 0);
    assert_int_equal(said().kind, 0);
    complete_read(0);
    record = said();
    assert_true(record.kind == RXD_DONE && record.id == LOAN && !record.size);
    assert_int_equal(ends, 1);
    assert_int_equal(last_err, 0);
    nothing_is_left();
}

static void is_pulled(const struct rxd_op *op)
{
    struct rxd_record record = said(), data = {.size = 0, .len = HALF};

    assert_int_equal(record.kind, RXD_PULL);
    assert_int_equal(record.id, LOAN);
    assert_int_equal(record.taker, message_handle_id(&op->base.handle));
    assert_int_equal(record.size, SIZE);
    assert_int_equal(record.flags, 0);
    data.id = record.taker;
    data.payload = memory;
    assert_null(rxd_take_data(&peer, &data));
    assert_int_equal(ends, 0);
    data.size = HALF;
    assert_null(rxd_take_data(&peer, &data));
    assert_int_equal(ends, 1);
    assert_int_equal(last_err, 0);
}

static void what_cannot_be_read_is_asked_for(void **state)
{
    struct rxd_record loan;
    struct rxd_op *op = begin_to_read();

    complete_read(0);
    complete_read(FI_EIO); /* the second piece */
    is_pulled(op);
    nothing_is_left();

    op = begin();
    loan = a_loan(op);
    refuses = -FI_EAGAIN;
    assert_null(rxd_borrow(&peer, &loan));
    is_pulled(op);
    nothing_is_left();

    op = begin(); /* pieces that fit a packet */
    loan = a_loan(op);
    loan.place_count = RXD_PLACES;
    for (unsigned i = 0; i < RXD_PLACES; i++)
        loan.places[i] = (struct fi_rma_iov){1000, SIZE / RXD_PLACES, 5};
    ep.room = SIZE;
    assert_null(rxd_borrow(&peer, &loan));
    ep.room = ROOM;
    is_pulled(op);
    nothing_is_left();
}

/* Once the lower is through with it: it writes to its memory. */
static void a_read_of_a_peer_that_ends_stays_until_it_is_read(void **state)
{
    for (int failing = 0; failing < 2; failing++) {
        struct rxd_op *op = begin_to_read();

        message_op_end(&op->base, FI_ECONNRESET);
        assert_int_equal(ends, 0);
        complete_read(failing ? FI_ECANCELED : 0);
        assert_int_equal(ends, 1);
        assert_int_equal(last_err, FI_ECONNRESET);
        nothing_is_left(); /* a loan of a state that is over is not given back */
    }
}

static void a_read_that_its_target_ends_stays_likewise(void **state)
{
    struct rxd_op *op = begin_to_read();

    message_op_answered(&op->base, FI_EACCES, 0);
    assert_int_equal(ends, 0);
    complete_read(0);
    assert_int_equal(ends, 1);
    assert_int_equal(reads, 1);
    assert_int_equal(last_err, FI_EACCES);
    nothing_is_left();
}

static void an_endpoint_that_closes_forgets_it(void **state)
{
    struct rxd_op *op = begin_to_read();

    ep.base.closing = true;
    message_op_end(&op->base, FI_ECANCELED);
    ep.base.closing = false;
    assert_int_equal(ends, 1);
    peer.base.takes = 0; /* it is gone with the endpoint */
    ep.base.takes = 0;
    complete_read(0);
    nothing_is_left();
}

static void bytes_that_were_not_asked_for_are_none(void **state)
{
    struct rxd_op *op = begin_to_read();
    struct rxd_record data = {.id = message_handle_id(&op->base.handle),
                              .payload = memory,
                              .len = HALF},
                      gone = {.kind = RXD_GONE, .id = data.id};

    rxd_take_gone(&peer, &gone);
    assert_null(rxd_take_data(&peer, &data)); /* it reads them itself */
    assert_int_equal(op->base.taker.got, 0);
    for (int i = 0; i < 3; i++)
        complete_read(0);
    assert_int_equal(ends, 1);
    assert_int_equal(last_err, 0);
    assert_int_equal(said().kind, RXD_DONE);
    nothing_is_left();
}

static void a_loan_that_is_gone_ends_the_read(void **state)
{
    struct rxd_op *op = begin_to_read();
    struct rxd_record gone = {.kind = RXD_GONE, .id = message_handle_id(&op->base.handle)};

    complete_read(FI_EIO);
    assert_int_equal(said().kind, RXD_PULL);
    rxd_take_gone(&peer, &gone);
    assert_int_equal(ends, 1);
    assert_int_equal(last_err, FI_EIO);
    nothing_is_left();
}

static void is_wrong(const struct rxd_record *loan)
{
    const char *wrong = rxd_borrow(&peer, loan);

    assert_non_null(wrong);
    assert_string_equal(wrong, "a loan that was not asked for, or of another size");
}

static void wrong_loans_are_refused(void **state)
{
    struct rxd_op *op = begin();
    struct rxd_record loan = a_loan(op), record;

    loan.size--;
    is_wrong(&loan);
    loan.size++;
    op->base.taker.got = 1; /* after some bytes of it */
    is_wrong(&loan);
    op->base.taker.got = 0;
    op->borrows = false;
    is_wrong(&loan);
    op->borrows = true;
    assert_null(op->borrowed);
    assert_int_equal(reads, 0);
    assert_null(rxd_borrow(&peer, &loan));
    is_wrong(&loan); /* twice */
    for (int i = 0; i < 3; i++)
        complete_read(0);
    assert_int_equal(said().kind, RXD_DONE);
    assert_null(rxd_borrow(&peer, &loan)); /* of one that has ended */
    record = said();
    assert_true(record.kind == RXD_DONE && record.id == LOAN && record.size);
    assert_int_equal(reads, 3);
    nothing_is_left();
}

/* Another answer waits for a packet of the lower's already. */
static void lose_memory(void)
{
    ep.base.bare = 1;
    nomem_all = 1;
}

static void have_memory(void)
{
    ep.base.bare = 0;
    nomem_all = 0;
    rxd_pay(&peer);
    list_detach(&peer.base.attended);
}

/* And so does the operation. */
static void what_is_said_of_a_loan_waits_for_memory(void **state)
{
    struct rxd_record record;
    struct rxd_op *op;

    if (!NOMEM_WORKS)
        skip();
    begin_to_read();
    complete_read(0);
    complete_read(0);
    lose_memory();
    complete_read(0);
    rxd_pay(&peer); /* it is tried, and still waits */
    assert_true(list_empty(&peer.base.broken));
    assert_int_equal(ends, 0);
    have_memory();
    record = said();
    assert_true(record.kind == RXD_DONE && record.id == LOAN && !record.size);
    assert_int_equal(ends, 1);
    nothing_is_left();

    op = begin_to_read();
    lose_memory();
    complete_read(FI_EIO);
    assert_true(list_empty(&peer.base.broken));
    have_memory();
    is_pulled(op);
    nothing_is_left();
}

/* ---- Peers of before ---- */

static bool lends(enum rxd_kind kind, size_t first, struct rxd_record *record)
{
    struct iovec iov[3] = {{memory, first}, {memory + first, 0}, {memory + first, SIZE - first}};
    struct op post = {.group = OP_GROUP_RMA, .iov = iov, .count = 3, .len = SIZE};
    struct rxd_lent lent;
    bool done;

    *record = (struct rxd_record){.kind = (uint8_t)kind};
    done = rxd_read_lend(&peer, &post, record, &lent);
    assert_int_equal(regions, lent.count);
    assert_int_equal(record->segment_count, lent.count > 1 ? lent.count : 0);
    rxd_take_back(lent.mr, lent.count);
    return done;
}

static void a_peer_that_does_not_know_of_loans_hears_nothing_of_them(void **state)
{
    struct iovec iov = {memory, SIZE};
    struct op post = {.group = OP_GROUP_RMA, .kind = FI_READ, .iov = &iov, .count = 1, .len = SIZE};
    struct rxd_record record;

    for (int kind = RXD_MSG; kind <= RXD_WRITE; kind++) {
        peer.lends = false;
        assert_false(rxd_may_borrow(&peer, &post));
        assert_false(lends((enum rxd_kind)kind, HALF, &record));
        assert_int_equal(record.flags, 0);
        peer.lends = true;
        assert_true(rxd_may_borrow(&peer, &post));
        assert_true(lends((enum rxd_kind)kind, HALF, &record));
        assert_int_equal(record.flags, RXD_SEGMENTS);
        assert_true(lends((enum rxd_kind)kind, SIZE, &record)); /* one, that has bytes */
        assert_int_equal(record.flags, RXD_READABLE);
    }
    post.len = ep.base.result_room; /* it fits the answer */
    assert_false(rxd_may_borrow(&peer, &post));
    nothing_is_left();
}

/* ---- The target ---- */

static struct mr *region;

static const char *ask(size_t pieces)
{
    struct message_request request = {
        .kind = MESSAGE_READ, .id = 5, .taker = 5, .size = SIZE, .borrows = true};
    struct remote remote = {.mr_count = 1, .count = pieces};

    region = calloc(1, sizeof(*region)); /* with this test's hold; the access has one, too */
    assert_non_null(region);
    list_init(&region->watches);
    atomic_init(&region->users, 2);
    remote.mrs[0] = region;
    for (size_t i = 0; i < pieces; i++)
        remote.iov[i] = (struct iovec){memory + i * (SIZE / pieces), SIZE / pieces};
    return rxd_access_read(&peer.base, &request, &remote);
}

/* The loan's number. */
static uint32_t ask_and_get(void)
{
    struct rxd_record record;

    assert_null(ask(2));
    record = said();
    assert_int_equal(record.kind, RXD_LENT);
    assert_int_equal(record.id, 5);
    assert_int_equal(record.size, SIZE);
    assert_int_equal(record.place_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(record.places[i].addr, (uintptr_t)memory + i * HALF);
        assert_int_equal(record.places[i].len, HALF);
    }
    assert_int_not_equal(record.places[0].key, record.places[1].key);
    assert_int_equal(regions, 2);
    assert_int_equal(peer.base.busy, 1); /* later requests wait */
    assert_int_equal(peer.base.takes, 1);
    return record.taker;
}

static void let_go(void)
{
    assert_int_equal(atomic_load(&region->users), 1);
    assert_int_equal(atomic_load(&region->watched), 0);
    free(region);
    nothing_is_left();
}

static struct message_access *the_access(void)
{
    assert_false(list_empty(&peer.base.accesses));
    return list_item(peer.base.accesses.next, struct message_access, link);
}

static void a_loan_that_comes_back_ends_the_access(void **state)
{
    for (unsigned err = 0; err < 2; err++) {
        struct rxd_record back = {.kind = RXD_DONE, .id = ask_and_get(), .size = err};

        back.id ^= 1; /* of another loan */
        rxd_loan_back(&peer.base, &back);
        assert_int_equal(regions, 2);
        back.id ^= 1;
        rxd_loan_back(&peer.base, &back);
        let_go();
    }
}

static void a_loan_that_is_asked_for_in_packets_is_over(void **state)
{
    struct rxd_record pull = {.kind = RXD_PULL, .id = ask_and_get(), .taker = 5, .size = SIZE};
    struct message_access *access = the_access();

    assert_true(rxd_loan_pulled(&peer.base, &pull));
    assert_int_equal(regions, 0);
    assert_int_equal(access->move.limit, SIZE);
    assert_true(list_empty(&peer.base.broken));
    rxd_loan_back(&peer.base, &(struct rxd_record){.kind = RXD_DONE, .id = pull.id});
    assert_ptr_equal(the_access(), access); /* its bytes end it */
    assert_false(rxd_loan_pulled(&peer.base, &pull));
    message_access_put(access);
    let_go();
}

static void wrong_questions_for_it_break_the_peer(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        struct rxd_record pull = {.kind = RXD_PULL,
                                  .flags = i == 0 ? RXD_AGAIN : 0,
                                  .id = ask_and_get(),
                                  .taker = i == 1 ? 6 : 5,
                                  .size = SIZE + (i == 2)};

        assert_true(rxd_loan_pulled(&peer.base, &pull));
        assert_false(list_empty(&peer.base.broken));
        assert_int_equal(the_access()->move.limit, 0);
        list_detach(&peer.base.broken);
        message_remote_fail(&peer.base);
        let_go();
    }
}

static void a_region_that_is_closed_ends_the_loan(void **state)
{
    ask_and_get();
    atomic_store(&region->closed, true);
    mr_watches_tell(region);
    assert_int_equal(regions, 0); /* no reader has it any more */
    assert_false(list_empty(&peer.base.broken));
    list_detach(&peer.base.broken);
    message_remote_fail(&peer.base);
    let_go();
}

static void a_requester_that_ends_leaves_nothing(void **state)
{
    ask_and_get();
    message_remote_fail(&peer.base);
    let_go();
}

/* In too many pieces, under a layer that holds no lock when it closes a region, without reads. */
static void what_cannot_be_lent_is_sent(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        ep.base.own.top = i != 1;
        ep.reads = i != 2;
        ep.room = i == 3 ? SIZE : ROOM;
        assert_null(ask(i == 0 ? RXD_PLACES + 1 : 2));
        ep.base.own.top = ep.reads = true;
        ep.room = ROOM;
        assert_null(the_access()->loan);
        assert_int_equal(the_access()->move.limit, SIZE);
        message_access_put(the_access());
        let_go();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loan_is_read_piece_by_piece_and_given_back),
        cmocka_unit_test(what_cannot_be_read_is_asked_for),
        cmocka_unit_test(a_read_of_a_peer_that_ends_stays_until_it_is_read),
        cmocka_unit_test(a_read_that_its_target_ends_stays_likewise),
        cmocka_unit_test(an_endpoint_that_closes_forgets_it),
        cmocka_unit_test(bytes_that_were_not_asked_for_are_none),
        cmocka_unit_test(a_loan_that_is_gone_ends_the_read),
        cmocka_unit_test(wrong_loans_are_refused),
        cmocka_unit_test(what_is_said_of_a_loan_waits_for_memory),
        cmocka_unit_test(a_peer_that_does_not_know_of_loans_hears_nothing_of_them),
        cmocka_unit_test(a_loan_that_comes_back_ends_the_access),
        cmocka_unit_test(a_loan_that_is_asked_for_in_packets_is_over),
        cmocka_unit_test(wrong_questions_for_it_break_the_peer),
        cmocka_unit_test(a_region_that_is_closed_ends_the_loan),
        cmocka_unit_test(a_requester_that_ends_leaves_nothing),
        cmocka_unit_test(what_cannot_be_lent_is_sent),
    };

    return cmocka_run_group_tests_name("rxd: loans", tests, open_endpoint, bare_close);
}

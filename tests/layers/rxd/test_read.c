/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads that the lower carries out, over a lower of the test's own, which completes them when the
 * test wants. */
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

enum {
    SIZE = 4096,
    FIRST = 100,
};

static struct rxd_inbound inbound;
static void *context; /* of the read that the lower has */
static unsigned stops, pulls;
static struct iovec read_to;
static struct fi_rma_iov read_from;

static ssize_t take_read(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    assert_int_equal(msg->iov_count, 1);
    assert_int_equal(msg->rma_iov_count, 1);
    read_to = *msg->msg_iov;
    read_from = *msg->rma_iov;
    context = msg->context;
    return 0;
}

/* Memory of packets that was used before. */
static void soil(struct mr_pool *pool)
{
    char *packet = mr_pool_get(pool);

    assert_non_null(packet);
    memset(packet + sizeof(struct mr_buffer), 0xa5, pool->item_size - sizeof(struct mr_buffer));
    mr_pool_put(pool, packet);
}

static void begin_a_read(void)
{
    static uint8_t to[SIZE];
    static struct iovec iov = {to, SIZE};
    static struct fi_peer_rx_entry entry = {.iov = &iov, .count = 1};
    static const struct fi_rma_iov place = {.addr = 1000, .len = SIZE, .key = 9};

    inbound = (struct rxd_inbound){.place_count = 1, .places = &place, .first = FIRST};
    inbound.base.handle.peer = &peer.base;
    inbound.base.entry = &entry;
    context = NULL;
    soil(&ep.base.packets);
    assert_true(rxd_read_start(&inbound, SIZE));
    assert_non_null(context);
    assert_int_equal(read_to.iov_len, SIZE - FIRST);
}

/* A lower that stops reads: their end comes from inside. */
static int set_option(fid_t fid, int level, int name, const void *value, size_t len)
{
    struct fi_cq_err_entry error = {.op_context = context, .err = FI_ECANCELED};

    assert_int_equal(name, OPT_STOP_READ);
    assert_ptr_equal(*(void *const *)value, context);
    stops++;
    message_sink_ops.writeerr(&ep.base.sink.peer, &error);
    return 0;
}

static void count_pull(struct message_taker *taker)
{
    assert_int_equal(taker->from, 5);
    assert_int_equal(taker->got, FIRST);
    assert_int_equal(taker->want, SIZE);
    pulls++;
}

static int open_endpoint(void **state)
{
    static const struct bare_lower lower = {.take_read = take_read, .set_option = set_option};
    static const struct message_wire wire = {.name = "rxd",
                                             .sent = rxd_sent,
                                             .pull = count_pull,
                                             .lost = rxd_access_lost,
                                             .fetch = rxd_read_write,
                                             .unfetch = rxd_unread_write};

    bare_open(&wire, &lower, 0, 1);
    ep.stops = true;
    ep.read_max = SIZE;
    return 0;
}

static void nothing_is_left(void)
{
    assert_true(list_empty(&ep.reading));
    assert_int_equal(ep.base.packets.used, 0);
    assert_int_equal(ep.base.outgoing, 0);
    assert_int_equal(ep.base.flying, 0);
    assert_int_equal(ep.base.takes, 0);
}

static void complete_read(int err)
{
    struct fi_cq_err_entry error = {.op_context = context, .err = err};

    if (err)
        message_sink_ops.writeerr(&ep.base.sink.peer, &error);
    else
        message_sink_ops.write(&ep.base.sink.peer, context, FI_RMA | FI_READ, 0, NULL, 0, 0,
                               FI_ADDR_NOTAVAIL);
}

/* With either result of the lower it is no packet. */
static void a_read_that_was_forgotten_is_no_packet(void **state)
{
    for (int failing = 0; failing < 2; failing++) {
        begin_a_read();
        rxd_read_forget(&inbound.base.handle);
        ep.base.takes = 0; /* the message has ended otherwise */
        complete_read(failing ? FI_ECANCELED : 0);
        nothing_is_left();
    }
}

/* From two segments of the sender's into two of the receive, one piece after the other. */
static void a_message_of_several_segments_is_read_piece_by_piece(void **state)
{
    static const struct fi_rma_iov places[] = {{1000, 1000, 9}, {5000, SIZE - 1000, 8}};
    static uint8_t to[SIZE];
    static struct iovec iov[] = {{to, 3000}, {to + 3000, SIZE - 3000}};
    static struct fi_peer_rx_entry entry = {.iov = iov, .count = 2};
    static const struct {
        uint64_t addr, key;
        size_t at, len;
    } pieces[] = {
        {1000 + FIRST, 9, FIRST, 1000 - FIRST},
        {5000, 8, 1000, 2000},
        {7000, 8, 3000, SIZE - 3000},
    };

    inbound = (struct rxd_inbound){.place_count = 2, .places = places, .first = FIRST};
    inbound.base.handle.peer = &peer.base;
    inbound.base.told.size = SIZE;
    inbound.base.entry = &entry;
    assert_true(rxd_read_start(&inbound, SIZE));
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        assert_true(inbound.reading);
        assert_int_equal(read_from.addr, pieces[i].addr);
        assert_int_equal(read_from.key, pieces[i].key);
        assert_int_equal(read_from.len, pieces[i].len);
        assert_int_equal(read_to.iov_len, pieces[i].len);
        assert_ptr_equal(read_to.iov_base, to + pieces[i].at);
        if (i < 2)
            complete_read(0);
    }
    rxd_read_forget(&inbound.base.handle);
    ep.base.takes = 0;
    complete_read(0);
    nothing_is_left();
    /* Pieces that fit a packet are asked for. */
    ep.room = SIZE;
    inbound.fetched = 0;
    assert_false(rxd_read_start(&inbound, SIZE));
    ep.room = 0;
}

/* All that did not come with it, also what was read before. */
static void a_message_of_which_a_piece_cannot_be_read_is_asked_for(void **state)
{
    begin_a_read();
    inbound.id = 5;
    inbound.base.told.size = SIZE;
    inbound.base.taker.got = FIRST;
    pulls = 0;
    inbound.fetched = 1; /* of a piece before */
    complete_read(FI_EIO);
    assert_false(inbound.reading);
    assert_int_equal(pulls, 1);
    message_take_stop(&inbound.base.taker);
    message_handle_close(&inbound.base.handle);
    nothing_is_left();
}

/* ---- Writes that their target reads ---- */

static struct mr *region;

static struct message_access *begin_a_write(void)
{
    static const struct fi_rma_iov lent = {.addr = 1000, .len = SIZE, .key = 9};
    static uint8_t to[SIZE];
    struct message_request request = {
        .kind = MESSAGE_WRITE, .id = 5, .size = SIZE, .len = FIRST, .lent_count = 1, .lent = &lent};
    struct remote remote = {.mr_count = 1, .iov = {{to, SIZE}}, .count = 1};
    struct message_access *access;

    region = calloc(1, sizeof(*region)); /* with this test's hold; the access has one, too */
    assert_non_null(region);
    list_init(&region->watches);
    atomic_init(&region->users, 2);
    remote.mrs[0] = region;
    context = NULL;
    stops = pulls = 0;
    soil(&ep.base.packets);
    access = message_access_begin(&peer.base, &request, &remote);
    assert_non_null(access);
    assert_true(rxd_read_write(access));
    assert_non_null(context);
    assert_true(access->reading);
    return access;
}

static void let_go(void)
{
    assert_int_equal(peer.base.busy, 0);
    assert_int_equal(atomic_load(&region->users), 1);
    assert_int_equal(atomic_load(&region->watched), 0);
    free(region);
    nothing_is_left();
}

static void what_cannot_be_read_is_asked_for(void **state)
{
    struct message_access *access = begin_a_write();

    complete_read(FI_EACCES);
    assert_false(access->reading);
    assert_int_equal(pulls, 1);
    message_access_put(access);
    let_go();
}

/* The peer's next state waits for it. */
static void a_write_of_a_peer_that_ends_stays_until_it_is_read(void **state)
{
    begin_a_write();
    message_remote_fail(&peer.base);
    assert_int_equal(peer.base.busy, 1);
    complete_read(0);
    assert_int_equal(stops + pulls, 0);
    let_go();
}

static void a_region_that_is_closed_stops_the_read(void **state)
{
    struct message_access *access = begin_a_write();

    atomic_store(&region->closed, true);
    mr_watches_tell(region);
    assert_int_equal(stops, 1);
    assert_int_equal(pulls, 0);
    assert_false(access->reading);
    assert_false(list_empty(&peer.base.broken)); /* its requester hears of it */
    list_detach(&peer.base.broken);
    message_remote_fail(&peer.base);
    let_go();
}

static void an_endpoint_that_closes_stops_the_read(void **state)
{
    begin_a_write();
    ep.base.closing = true;
    message_remote_fail(&peer.base);
    ep.base.closing = false;
    assert_int_equal(stops, 1);
    ep.base.takes = 0;
    let_go();
}

/* Its lower is driven by a layer above, which does not wait for fi_close of a region. */
static void under_a_layer_writes_are_asked_for(void **state)
{
    struct message_access *access = begin_a_write();

    complete_read(FI_EIO);
    ep.base.own.top = false;
    assert_false(rxd_read_write(access));
    ep.base.own.top = true;
    message_access_put(access);
    let_go();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_that_was_forgotten_is_no_packet),
        cmocka_unit_test(a_message_of_several_segments_is_read_piece_by_piece),
        cmocka_unit_test(a_message_of_which_a_piece_cannot_be_read_is_asked_for),
        cmocka_unit_test(what_cannot_be_read_is_asked_for),
        cmocka_unit_test(a_write_of_a_peer_that_ends_stays_until_it_is_read),
        cmocka_unit_test(a_region_that_is_closed_stops_the_read),
        cmocka_unit_test(an_endpoint_that_closes_stops_the_read),
        cmocka_unit_test(under_a_layer_writes_are_asked_for),
    };

    return cmocka_run_group_tests_name("rxd: reads", tests, open_endpoint, bare_close);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads that the lower carries out, over a lower of the test's own, which completes them when the
 * test wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/base/enosys.h"
#include "layers/rxd/rxd.h"

enum {
    SIZE = 4096,
    FIRST = 100,
};

static struct rxd_ep ep;
static struct rxd_peer peer;
static struct rxd_inbound inbound;
static void *context; /* of the read that the lower has */

static ssize_t take_read(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    assert_int_equal(msg->msg_iov->iov_len, SIZE - FIRST);
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

    inbound = (struct rxd_inbound){.readable = true, .first = FIRST};
    inbound.base.handle.peer = &peer.base;
    inbound.base.entry = &entry;
    context = NULL;
    soil(&ep.base.packets);
    assert_true(rxd_read_start(&inbound, SIZE));
    assert_non_null(context);
}

/* Whatever the lower says of it: it is no packet. */
static void a_read_that_was_forgotten_is_no_packet(void **state)
{
    static struct fi_ops_rma rma = {.size = sizeof(rma), .readmsg = take_read};
    static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .ops_open = enosys_ops_open};
    static struct fid_ep lower = {.fid = {.fclass = FI_CLASS_EP, .ops = &fid_ops}, .rma = &rma};
    static struct fi_domain_attr domain;
    static struct fi_info info = {.domain_attr = &domain};
    static const struct message_wire wire = {.name = "rxd", .sent = rxd_sent};
    struct fi_cq_err_entry error = {.err = FI_ECANCELED};

    ep.base.wire = &wire;
    ep.base.target = op_target_of(&lower);
    ep.base.lower_info = &info;
    ep.reads = true;
    ep.read_max = SIZE;
    list_init(&ep.reading);
    list_init(&ep.base.stalled);
    list_init(&ep.base.attention);
    mr_pool_init(&ep.base.packets, "rxd", NULL, sizeof(struct rxd_packet), 1, 1);
    peer.base.ep = &ep.base;
    for (int failing = 0; failing < 2; failing++) {
        begin_a_read();
        rxd_read_forget(&inbound);
        error.op_context = context;
        if (failing)
            message_sink_ops.writeerr(&ep.base.sink, &error);
        else
            message_sink_ops.write(&ep.base.sink, context, FI_RMA | FI_READ, 0, NULL, 0, 0,
                                   FI_ADDR_NOTAVAIL);
        assert_true(list_empty(&ep.reading));
        assert_int_equal(ep.base.packets.used, 0);
        assert_int_equal(ep.base.outgoing, 0);
        assert_int_equal(ep.base.flying, 0);
    }
    mr_pool_finish(&ep.base.packets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_that_was_forgotten_is_no_packet),
    };

    return cmocka_run_group_tests_name("rxd: reads", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions and counts that go into an upper's tables (FI_PEER). */
#include <string.h>

#include "ends.h"
#include "upper.h"

static char out[3000], in[3000];
static struct upper_queue of_tx, of_rx;
static struct upper_count received;

static void open_upper(struct end *end)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .flags = FI_PEER};
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP, .flags = FI_PEER};
    struct fi_peer_cq_context tx = {.size = sizeof(tx), .cq = &of_tx.cq};
    struct fi_peer_cq_context rx = {.size = sizeof(rx), .cq = &of_rx.cq};
    struct fi_peer_cntr_context count = {.size = sizeof(count), .cntr = &received.cntr};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};

    memset(end, 0, sizeof(*end));
    upper_queue_init(&of_tx);
    upper_queue_init(&of_rx);
    upper_count_init(&received);
    end->info = ask(&(struct options){.caps = FI_SOURCE | FI_PEER});
    assert_non_null(end->info);
    assert_int_equal(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), 0);
    assert_int_equal(fi_eq_open(end->fabric, &eq_attr, &end->eq, NULL), 0);
    assert_int_equal(fi_domain(end->fabric, end->info, &end->domain, NULL), 0);
    assert_int_equal(fi_cq_open(end->domain, &cq_attr, &end->tx, &tx), 0);
    assert_int_equal(fi_cq_open(end->domain, &cq_attr, &end->rx, &rx), 0);
    assert_int_equal(fi_cntr_open(end->domain, &cntr_attr, &end->received, &count), 0);
    cntr_attr.flags = 0;
    assert_int_equal(fi_cntr_open(end->domain, &cntr_attr, &end->sent, NULL), 0);
    assert_int_equal(fi_av_open(end->domain, &av_attr, &end->av, NULL), 0);
    assert_int_equal(fi_endpoint(end->domain, end->info, &end->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->tx->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->rx->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->received->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_enable(end->ep), 0);
}

static struct upper_done take(struct end *end, struct upper_queue *queue)
{
    struct upper_done done;

    while (!upper_queue_take(queue, &done))
        fi_cq_read(end->rx, NULL, 0); /* drives */
    return done;
}

static void an_uppers_tables_get_all(void **state)
{
    struct upper_done done;
    struct end end;
    fi_addr_t a_is;

    end_open(&a, &(struct options){0});
    open_upper(&end);
    a.peer = introduce(&a, &end);
    a_is = introduce(&end, &a);
    for (unsigned i = 0; i < 5; i++) {
        fill(out, 1000, i);
        assert_int_equal(fi_recv(end.ep, in, 1000, NULL, FI_ADDR_UNSPEC, in), 0);
        send_to(&a, a.peer, out, 1000);
        done = take(&end, &of_rx);
        assert_ptr_equal(done.entry.op_context, in);
        assert_int_equal(done.entry.err, 0);
        assert_int_equal(done.entry.len, 1000);
        assert_int_equal(done.src, a_is);
        check_filled(in, 1000, i);
        assert_int_equal(received.value, i + 1);
    }
    assert_int_equal(fi_recv(end.ep, in, 10, NULL, FI_ADDR_UNSPEC, in), 0);
    send_to(&a, a.peer, out, 1000);
    done = take(&end, &of_rx);
    assert_int_equal(done.entry.err, FI_ETRUNC);
    assert_int_equal(received.errors, 1);
    assert_int_equal(fi_send(end.ep, out, 10, NULL, a_is, out), 0);
    assert_ptr_equal(take(&end, &of_tx).entry.op_context, out);
    end_close(&end);
    end_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_uppers_tables_get_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

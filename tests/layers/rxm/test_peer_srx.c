/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives of an upper's context (FI_PEER), as a join of several stacks has them. */
#include "rdm.h"

#include "upper.h"

#define SPEC "rxm;tcp"

/* ---- Endpoints: a sends, b receives through the context ---- */

static struct upper upper;
static struct rdm_net net, shared;
static struct rdm a, b;
static struct fid_ep *srx;
static fi_addr_t to_b;

static void open_b(void)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    size_t len = sizeof(b.name);

    memset(&b, 0, sizeof(b));
    b.net = &shared;
    shared.info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    assert_int_equal(fi_endpoint(shared.domain, shared.info, &b.ep, NULL), 0);
    assert_int_equal(fi_av_open(shared.domain, &av_attr, &b.av, NULL), 0);
    assert_int_equal(fi_ep_bind(b.ep, &b.av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(b.ep, &srx->fid, 0), 0);
    rdm_open_cq(&b);
    assert_int_equal(fi_enable(b.ep), 0);
    assert_int_equal(fi_getname(&b.ep->fid, &b.name, &len), 0);
}

static int setup(void **state)
{
    struct fi_peer_srx_context context = {.size = sizeof(context), .srx = &upper.srx};
    struct fi_rx_attr attr = {.op_flags = FI_PEER};

    upper_init(&upper);
    rdm_net_open(&net, SPEC, 0);
    rdm_net_open(&shared, SPEC, 0);
    assert_int_equal(fi_srx_context(shared.domain, &attr, &srx, &context), 0);
    assert_non_null(upper.srx.peer_ops);
    rdm_open(&a, &net, 0);
    open_b();
    to_b = rdm_insert(&a, &b.name);
    return 0;
}

static int teardown(void **state)
{
    if (a.ep)
        rdm_close(&a);
    if (b.ep)
        rdm_close(&b);
    assert_int_equal(fi_close(&srx->fid), 0);
    rdm_net_close(&net);
    rdm_net_close(&shared);
    assert_int_equal(upper.live, 0);
    return 0;
}

static void wait_for_question(unsigned count)
{
    struct rdm *const *both = RDM_ENDS(&a, &b);
    long long limit = rdm_now_ms() + RDM_LIMIT_MS;

    while (upper.asked < count) {
        rdm_progress(both);
        assert_true(rdm_now_ms() < limit);
    }
}

static void receive_posted_goes_to_the_message(void **state)
{
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct upper_entry *entry = upper_post(&upper, FI_TAGGED, 7, UPPER_BYTES);
    struct fi_cq_tagged_entry done;
    fi_addr_t from = rdm_insert(&b, &a.name), src;

    rdm_send(&a, to_b, both, 7, NULL);
    assert_int_equal(rdm_next(&b, both, &done, &src, NULL), 0);
    assert_ptr_equal(done.op_context, entry);
    assert_int_equal(done.tag, 7);
    assert_true(src == from && upper.addr == from);
}

static void message_waits_with_the_owner(void **state)
{
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct fi_cq_tagged_entry done;
    fi_addr_t src, from;

    rdm_send(&a, to_b, both, 1, NULL);
    rdm_send(&a, to_b, both, 2, NULL);
    wait_for_question(2);
    assert_true(upper.addr == FI_ADDR_UNSPEC);
    assert_int_equal(upper_start(&upper, FI_TAGGED, 2), 0);
    assert_int_equal(rdm_next(&b, both, &done, &src, NULL), 0);
    assert_int_equal(done.tag, 2);
    assert_true(src == FI_ADDR_NOTAVAIL);
    /* The owner hears of the address that the other one has now. */
    from = rdm_insert(&b, &a.name);
    rdm_drive(both, 20);
    assert_true(upper.entries[0].waiting && upper.entries[0].rx.addr == from);
    assert_int_equal(upper_start(&upper, FI_TAGGED, 1), 0);
    assert_int_equal(rdm_next(&b, both, &done, &src, NULL), 0);
    assert_int_equal(done.tag, 1);
    assert_true(src == from);
}

static void message_outlives_its_connection(void **state)
{
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct rdm *const *rest = RDM_ENDS(&b);
    struct fi_cq_tagged_entry done;

    rdm_send(&a, to_b, both, 3, NULL);
    rdm_send(&a, to_b, both, 4, NULL);
    wait_for_question(2);
    rdm_close(&a);
    rdm_drive(rest, 50);
    assert_int_equal(upper_start(&upper, FI_TAGGED, 3), 0);
    assert_int_equal(rdm_next(&b, rest, &done, NULL, NULL), 0);
    assert_int_equal(done.tag, 3);
    upper_discard(&upper);
}

static void message_of_a_closed_endpoint_is_lost(void **state)
{
    struct rdm *const *both = RDM_ENDS(&a, &b);

    rdm_send(&a, to_b, both, 5, NULL);
    rdm_send(&a, to_b, both, 6, NULL);
    wait_for_question(2);
    rdm_close(&b);
    assert_int_equal(upper_start(&upper, FI_TAGGED, 5), -FI_ENOTCONN);
    upper_discard(&upper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(receive_posted_goes_to_the_message, setup, teardown),
        cmocka_unit_test_setup_teardown(message_waits_with_the_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(message_outlives_its_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(message_of_a_closed_endpoint_is_lost, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

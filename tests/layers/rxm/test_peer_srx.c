/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives of an upper's context (FI_PEER), as a join of several stacks has them. */
#include "rdm.h"

#include <rdma/providers/fi_peer.h>

#define SPEC "rxm;tcp"

/* The upper: a context of tagged receives that match by tag alone. */
struct entry {
    struct fi_peer_rx_entry rx;
    struct iovec iov;
    char buf[64];
    bool posted, waiting;
};

static struct upper {
    struct fid_peer_srx srx;
    struct entry entries[16];
    unsigned live, asked;
    fi_addr_t addr; /* of the last question */
} upper;

static struct entry *new_entry(uint64_t tag)
{
    struct entry *entry = upper.entries;

    while (entry->rx.srx)
        assert_true(++entry < upper.entries + 16);
    *entry = (struct entry){.rx = {.srx = &upper.srx, .tag = tag, .count = 1}};
    entry->iov = (struct iovec){entry->buf, sizeof(entry->buf)};
    entry->rx.iov = &entry->iov;
    entry->rx.context = entry;
    entry->rx.flags = FI_COMPLETION | FI_TAGGED | FI_RECV;
    upper.live++;
    return entry;
}

static int get_tag(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **ret)
{
    assert_ptr_equal(srx, &upper.srx);
    upper.asked++;
    upper.addr = attr->addr;
    for (int i = 0; i < 16; i++) {
        struct entry *entry = &upper.entries[i];

        if (!entry->rx.srx || !entry->posted || entry->rx.tag != attr->tag)
            continue;
        entry->posted = false;
        *ret = &entry->rx;
        return 0;
    }
    *ret = &new_entry(attr->tag)->rx;
    (*ret)->addr = attr->addr;
    (*ret)->msg_size = attr->msg_size;
    return -FI_ENOENT;
}

static int get_msg(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    fail();
    return -FI_ENOENT;
}

static int queue(struct fi_peer_rx_entry *rx)
{
    struct entry *entry = rx->context;

    assert_ptr_equal(rx->srx, &upper.srx);
    entry->waiting = true;
    return 0;
}

static void foreach_unspec_addr(struct fid_peer_srx *srx,
                                fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry))
{
    for (int i = 0; i < 16; i++)
        if (upper.entries[i].waiting && upper.entries[i].rx.addr == FI_ADDR_UNSPEC)
            upper.entries[i].rx.addr = get_addr(&upper.entries[i].rx);
}

static void free_entry(struct fi_peer_rx_entry *rx)
{
    assert_ptr_equal(rx->srx, &upper.srx);
    rx->srx = NULL;
    upper.live--;
}

static struct fi_ops_srx_owner owner_ops = {
    .size = sizeof(owner_ops),
    .get_msg = get_msg,
    .get_tag = get_tag,
    .queue_msg = queue,
    .queue_tag = queue,
    .foreach_unspec_addr = foreach_unspec_addr,
    .free_entry = free_entry,
};

/* ---- Endpoints: a sends, b receives through the context ---- */

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

    upper = (struct upper){.srx.owner_ops = &owner_ops};
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

/* As the owner does when a receive is posted: -1 there is none, else what start says. */
static int start(uint64_t tag)
{
    for (int i = 0; i < 16; i++) {
        struct entry *entry = &upper.entries[i];

        if (!entry->rx.srx || !entry->waiting || entry->rx.tag != tag)
            continue;
        entry->waiting = false;
        return upper.srx.peer_ops->start_tag(&entry->rx);
    }
    return 1;
}

static void wait_for_question(unsigned count)
{
    struct rdm *const *both = RDM_ENDS(&a, &b);
    long long limit = rdm_now_ms() + 10000;

    while (upper.asked < count) {
        rdm_progress(both);
        assert_true(rdm_now_ms() < limit);
    }
}

static void receive_posted_goes_to_the_message(void **state)
{
    struct rdm *const *both = RDM_ENDS(&a, &b);
    struct entry *entry = new_entry(7);
    struct fi_cq_tagged_entry done;
    fi_addr_t from = rdm_insert(&b, &a.name), src;

    entry->posted = true;
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
    assert_int_equal(start(2), 0);
    assert_int_equal(rdm_next(&b, both, &done, &src, NULL), 0);
    assert_int_equal(done.tag, 2);
    assert_true(src == FI_ADDR_NOTAVAIL);
    /* The owner hears of the address that the other one has now. */
    from = rdm_insert(&b, &a.name);
    rdm_drive(both, 20);
    assert_true(upper.entries[0].waiting && upper.entries[0].rx.addr == from);
    assert_int_equal(start(1), 0);
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
    assert_int_equal(start(3), 0);
    assert_int_equal(rdm_next(&b, rest, &done, NULL, NULL), 0);
    assert_int_equal(done.tag, 3);
    for (int i = 0; i < 16; i++)
        if (upper.entries[i].rx.srx && upper.entries[i].waiting)
            assert_int_equal(upper.srx.peer_ops->discard_tag(&upper.entries[i].rx), 0);
}

static void message_of_a_closed_endpoint_is_lost(void **state)
{
    struct rdm *const *both = RDM_ENDS(&a, &b);

    rdm_send(&a, to_b, both, 5, NULL);
    rdm_send(&a, to_b, both, 6, NULL);
    wait_for_question(2);
    rdm_close(&b);
    assert_int_equal(start(5), -FI_ENOTCONN);
    for (int i = 0; i < 16; i++)
        if (upper.entries[i].rx.srx && upper.entries[i].waiting)
            assert_int_equal(upper.srx.peer_ops->discard_tag(&upper.entries[i].rx), 0);
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

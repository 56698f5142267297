/* SPDX-License-Identifier: BSD-2-Clause */
/* The upper's context is an engine of our own; the lower is played by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/fid.h"
#include "tests/core/match_hand.h"

enum {
    ADDR = 7
};

static struct match_forward forward;

static void open_forward(fi_addr_t addr)
{
    match_forward_init(&forward, &hand.upper.srx, addr);
    forward.source.srx.peer_ops = &hand_lower_ops;
}

static int set_up(void **state)
{
    return hand_open();
}

static int arrive(struct fi_peer_rx_entry **entry)
{
    return hand_arrive(&forward.source.srx, FI_ADDR_UNSPEC, entry);
}

static struct fi_peer_rx_entry *queue_one(void)
{
    struct fi_peer_rx_entry *entry;

    assert_int_equal(arrive(&entry), -FI_ENOENT);
    assert_int_equal(match_entry_queue(entry, false, &hand.message, true, 5), 0);
    assert_int_equal(entry->cq_data, 5);
    assert_true(entry->flags & FI_REMOTE_CQ_DATA);
    return entry;
}

static void message_meets_the_receive_of_its_source(void **state)
{
    struct fi_peer_rx_entry *entry;

    open_forward(ADDR);
    assert_int_equal(hand_receive(ADDR), 0);
    assert_int_equal(arrive(&entry), 0);
    assert_ptr_equal(entry->context, &hand);
    assert_ptr_equal(entry->srx, &forward.source.srx);
    match_entry_free(entry);
}

static void error_tells_what_did_not_fit(void **state)
{
    struct fi_cq_err_entry error;
    struct fi_peer_rx_entry *entry;

    open_forward(ADDR);
    assert_int_equal(hand_receive(ADDR), 0);
    assert_int_equal(arrive(&entry), 0);
    assert_int_equal(match_entry_room(entry), sizeof(hand.data));
    error = match_entry_error(entry, FI_RECV | FI_MSG, sizeof(hand.data), 100, FI_ETRUNC);
    assert_ptr_equal(error.op_context, &hand);
    assert_ptr_equal(error.buf, hand.data);
    assert_int_equal(error.len, sizeof(hand.data));
    assert_int_equal(error.olen, 100 - sizeof(hand.data));
    assert_int_equal(error.err, FI_ETRUNC);
    assert_int_equal(error.src_addr, entry->addr);
    match_entry_free(entry);
}

static void queued_message_is_the_lowers_when_it_starts(void **state)
{
    struct fi_peer_rx_entry *entry;

    open_forward(ADDR);
    entry = queue_one();
    assert_false(list_empty(&forward.source.unexpected));
    assert_int_equal(hand_receive(ADDR), 0);
    assert_ptr_equal(hand.started, entry);
    assert_ptr_equal(entry->peer_context, &hand.message);
    assert_ptr_equal(entry->srx, &forward.source.srx);
    assert_true(list_empty(&forward.source.unexpected));
    match_entry_free(entry);
}

static void owner_is_told_the_address_later(void **state)
{
    struct fi_peer_rx_entry *entry;

    open_forward(FI_ADDR_UNSPEC);
    entry = queue_one();
    assert_int_equal(hand_receive(ADDR), 0);
    assert_null(hand.started);
    match_forward_resolve(&forward, ADDR);
    assert_int_equal(forward.source.addr, ADDR);
    if (!hand.started)
        assert_int_equal(hand_receive(ADDR), 0);
    assert_ptr_equal(hand.started, entry);
    match_entry_free(entry);
}

static void message_outlives_its_source(void **state)
{
    struct fi_peer_rx_entry *entry;
    const struct fid_peer_srx *gone = &forward.source.srx;

    open_forward(ADDR);
    entry = queue_one();
    match_forward_finish(&forward);
    assert_true(list_empty(&forward.source.unexpected));
    assert_int_equal(hand_receive(ADDR), 0);
    assert_ptr_equal(hand.started, entry);
    assert_ptr_equal(entry->peer_context, &hand.message);
    assert_ptr_not_equal(entry->srx, gone);
    assert_int_equal(entry->srx->owner_ops->queue_msg(entry), -FI_ENOTCONN);
    match_entry_free(entry);
}

static void closing_owner_discards_what_waits(void **state)
{
    struct fi_peer_rx_entry *entry;

    open_forward(ADDR);
    entry = queue_one();
    match_destroy(hand.match);
    hand.match = NULL;
    assert_ptr_equal(hand.discarded, entry);
    assert_true(list_empty(&forward.source.unexpected));
}

/* ---- Groups of sources ---- */

enum {
    GROUP = 20 /* of the sources 10 and 11, and a source itself */
};

static fi_addr_t group_of(const struct match_groups *groups, fi_addr_t source)
{
    return source == 10 || source == 11 || source == GROUP ? GROUP : FI_ADDR_UNSPEC;
}

static void a_receive_may_name_a_group_of_sources(void **state)
{
    static struct match_groups groups = {.of = group_of};
    struct fi_peer_rx_entry *entry, *other;

    hand.upper.srx.peer_ops = &hand_lower_ops;
    match_source_set_groups(&hand.upper, &groups);
    for (fi_addr_t source = 10; source < 12; source++) {
        assert_int_equal(hand_receive(GROUP), 0);
        assert_int_equal(hand_arrive(&hand.upper.srx, source, &entry), 0);
        assert_int_equal(entry->addr, source);
        match_entry_free(entry);
    }
    assert_int_equal(hand_receive(GROUP), 0);
    assert_int_equal(hand_arrive(&hand.upper.srx, GROUP, &entry), 0);
    match_entry_free(entry);
    /* Its own receive is earlier here; and one of no group takes neither. */
    assert_int_equal(hand_receive(11), 0);
    assert_int_equal(hand_receive(GROUP), 0);
    assert_int_equal(hand_arrive(&hand.upper.srx, 12, &other), -FI_ENOENT);
    assert_int_equal(match_entry_queue(other, false, &hand.message, false, 0), 0);
    assert_int_equal(hand_arrive(&hand.upper.srx, 11, &entry), 0);
    match_entry_free(entry);
    assert_int_equal(hand_arrive(&hand.upper.srx, 11, &entry), 0);
    match_entry_free(entry);
    assert_int_equal(match_posted(hand.match), 0);
    /* Messages that came before. */
    assert_int_equal(hand_arrive(&hand.upper.srx, 11, &entry), -FI_ENOENT);
    assert_int_equal(match_entry_queue(entry, false, &hand.message, false, 0), 0);
    assert_int_equal(hand_receive(GROUP), 0);
    assert_ptr_equal(hand.started, entry);
    match_entry_free(entry);
    assert_int_equal(hand_receive(GROUP), 0);
    assert_int_equal(match_posted(hand.match), 1);
    assert_int_equal(match_queued(hand.match), 1);
}

static fi_addr_t other_group_of(const struct match_groups *groups, fi_addr_t source)
{
    return source == 12 || source == GROUP ? GROUP : FI_ADDR_UNSPEC;
}

/* Each endpoint of a shared context has groups of its own. */
static void a_message_is_of_the_groups_of_its_endpoint(void **state)
{
    static struct match_groups groups = {.of = group_of}, others = {.of = other_group_of};
    struct match_source other;
    struct fi_peer_rx_entry *entry, *waits;

    hand.upper.srx.peer_ops = &hand_lower_ops;
    match_source_set_groups(&hand.upper, &groups);
    match_source_init(&other, hand.match, FI_ADDR_UNSPEC);
    other.many = true;
    other.srx.peer_ops = &hand_lower_ops;
    match_source_set_groups(&other, &others);
    assert_int_equal(hand_receive(GROUP), 0);
    assert_int_equal(hand_arrive(&other.srx, 10, &waits), -FI_ENOENT); /* of none there */
    assert_int_equal(match_entry_queue(waits, false, &hand.message, false, 0), 0);
    assert_int_equal(hand_arrive(&other.srx, 12, &entry), 0);
    match_entry_free(entry);
    assert_int_equal(hand_receive(GROUP), 0);
    assert_null(hand.started);
    assert_int_equal(hand_arrive(&hand.upper.srx, 10, &entry), 0);
    match_entry_free(entry);
    /* An endpoint goes, and its groups. */
    match_source_finish(&other);
    assert_int_equal(hand_arrive(&hand.upper.srx, 11, &entry), -FI_ENOENT);
    assert_int_equal(match_entry_queue(entry, false, &hand.message, false, 0), 0);
    assert_int_equal(hand_receive(GROUP), 0);
    assert_ptr_equal(hand.started, entry);
    match_entry_free(entry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(message_meets_the_receive_of_its_source, set_up,
                                        hand_close),
        cmocka_unit_test_setup_teardown(error_tells_what_did_not_fit, set_up, hand_close),
        cmocka_unit_test_setup_teardown(queued_message_is_the_lowers_when_it_starts, set_up,
                                        hand_close),
        cmocka_unit_test_setup_teardown(owner_is_told_the_address_later, set_up, hand_close),
        cmocka_unit_test_setup_teardown(message_outlives_its_source, set_up, hand_close),
        cmocka_unit_test_setup_teardown(a_receive_may_name_a_group_of_sources, set_up, hand_close),
        cmocka_unit_test_setup_teardown(a_message_is_of_the_groups_of_its_endpoint, set_up,
                                        hand_close),
        cmocka_unit_test_setup_teardown(closing_owner_discards_what_waits, set_up, hand_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

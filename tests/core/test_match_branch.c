/* SPDX-License-Identifier: BSD-2-Clause */
/* Two lowers, played by hand, whose peers have other numbers above than below; the owner is an
 * engine of the layer's own, or one that stands for an upper's context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/fid.h"
#include "tests/core/match_hand.h"

enum {
    BRANCHES = 2,
    ABOVE = 100, /* is 0 of the first branch */
    EACH = 10,   /* numbers of a branch */
};

#define OWN (UINT64_C(1) << 63)

static struct fixture {
    struct match_branch branch[BRANCHES];
    fi_addr_t known; /* what a lower says of messages without a source */
    unsigned told;
    uint64_t told_tag, told_data;
    fi_addr_t told_addr;
} fixture;

static fi_addr_t up(const struct match_branch *branch, fi_addr_t addr)
{
    return ABOVE + EACH * (fi_addr_t)(branch - fixture.branch) + addr;
}

static fi_addr_t down(const struct match_branch *branch, fi_addr_t addr)
{
    return addr - up(branch, 0);
}

static void own(struct match_branch *branch, const struct fi_peer_rx_entry *message)
{
    assert_ptr_equal(branch, &fixture.branch[1]);
    fixture.told++;
    fixture.told_tag = message->tag;
    fixture.told_data = message->cq_data;
    fixture.told_addr = message->addr;
}

static const struct match_branch_map map = {.up = up, .down = down, .own_tags = OWN, .own = own};

static struct fid_peer_srx *below(unsigned branch)
{
    return &fixture.branch[branch].forward.source.srx;
}

/* The owner is an engine of the layer's own, or the upper's context. */
static int set_up(bool engine)
{
    memset(&fixture, 0, sizeof(fixture));
    if (hand_open())
        return -1;
    for (unsigned i = 0; i < BRANCHES; i++) {
        match_branch_init(&fixture.branch[i], engine ? hand.match : NULL,
                          engine ? NULL : &hand.upper.srx, &map);
        below(i)->peer_ops = &hand_lower_ops;
    }
    return 0;
}

static int with_engine(void **state)
{
    return set_up(true);
}

static int with_upper(void **state)
{
    return set_up(false);
}

static int arrive(unsigned branch, fi_addr_t from, struct fi_peer_rx_entry **entry)
{
    return hand_arrive(below(branch), from, entry);
}

static struct fi_peer_rx_entry *queue_one(unsigned branch, fi_addr_t from)
{
    struct fi_peer_rx_entry *entry;

    assert_int_equal(arrive(branch, from, &entry), -FI_ENOENT);
    assert_int_equal(match_entry_queue(entry, false, &hand.message, false, 0), 0);
    return entry;
}

static void assert_started(const struct fi_peer_rx_entry *entry, unsigned branch, fi_addr_t from)
{
    assert_ptr_equal(hand.started, entry);
    assert_ptr_equal(hand.started_srx, below(branch));
    assert_int_equal(hand.started_addr, from);
    assert_ptr_equal(entry->peer_context, &hand.message);
}

static void receive_names_a_peer_by_the_upper_number(void **state)
{
    struct fi_peer_rx_entry *entry;

    assert_int_equal(hand_receive(up(&fixture.branch[1], 3)), 0);
    assert_int_equal(arrive(0, 3, &entry), -FI_ENOENT);
    match_entry_free(entry);
    assert_int_equal(arrive(1, 3, &entry), 0);
    assert_ptr_equal(entry->srx, below(1));
    assert_int_equal(entry->addr, 3);
    match_entry_free(entry);
}

static void waiting_message_starts_in_its_branch(void **state)
{
    struct fi_peer_rx_entry *first = queue_one(0, 4), *second = queue_one(1, 4);

    assert_int_equal(hand_receive(up(&fixture.branch[1], 4)), 0);
    assert_started(second, 1, 4);
    assert_int_equal(hand_receive(FI_ADDR_UNSPEC), 0);
    assert_started(first, 0, 4);
    match_entry_free(first);
    match_entry_free(second);
}

static fi_addr_t told(struct fi_peer_rx_entry *entry)
{
    assert_ptr_equal(entry->srx, below(1));
    assert_ptr_equal(entry->peer_context, &hand.message);
    return fixture.known;
}

static void branch_tells_the_source_later(void **state)
{
    struct fi_peer_rx_entry *entry = queue_one(1, FI_ADDR_UNSPEC);

    assert_int_equal(hand_receive(up(&fixture.branch[1], 5)), 0);
    assert_null(hand.started);
    fixture.known = 5;
    below(1)->owner_ops->foreach_unspec_addr(below(1), told);
    assert_started(entry, 1, 5);
    match_entry_free(entry);
}

static void engine_discards_before_a_branch_closes(void **state)
{
    struct fi_peer_rx_entry *first = queue_one(0, 1), *second = queue_one(1, 1);

    match_branch_discard(&fixture.branch[0]);
    assert_ptr_equal(hand.discarded, first);
    assert_int_equal(hand_receive(FI_ADDR_UNSPEC), 0);
    assert_started(second, 1, 1);
    match_entry_free(second);
}

static void message_of_a_closed_branch_waits_with_the_upper(void **state)
{
    struct fi_peer_rx_entry *first = queue_one(0, 1), *second = queue_one(1, 1);

    match_branch_discard(&fixture.branch[0]);
    assert_null(hand.discarded);
    match_forward_finish(&fixture.branch[0].forward);
    below(1)->owner_ops->foreach_unspec_addr(below(1), told);
    assert_int_equal(hand_receive(up(&fixture.branch[0], 1)), 0);
    assert_ptr_equal(hand.started, first);
    assert_ptr_not_equal(hand.started_srx, below(0));
    assert_int_equal(first->srx->owner_ops->queue_msg(first), -FI_ENOTCONN);
    match_entry_free(first);
    assert_int_equal(hand_receive(up(&fixture.branch[1], 1)), 0);
    assert_started(second, 1, 1);
    match_entry_free(second);
}

static void message_of_the_layers_own_is_told_and_gone(void **state)
{
    struct fi_peer_match_attr attr = {.addr = 6, .tag = OWN | 5};
    struct fi_peer_rx_entry *entry;

    assert_int_equal(hand_receive(FI_ADDR_UNSPEC), 0);
    assert_int_equal(match_entry_get(below(1), true, &attr, &entry), -FI_ENOENT);
    assert_int_equal(match_entry_queue(entry, true, &hand.message, true, 9), 0);
    assert_int_equal(fixture.told, 1);
    assert_int_equal(fixture.told_tag, OWN | 5);
    assert_int_equal(fixture.told_data, 9);
    assert_int_equal(fixture.told_addr, 6);
    assert_ptr_equal(hand.discarded, entry); /* and freed */
    assert_int_equal(match_posted(hand.match), 1);
    assert_int_equal(match_queued(hand.match), 0);
}

/* A lower may take receives by itself where what they complete goes where its own messages do. */
static void lower_finds_the_engine_where_it_may(void **state)
{
    assert_null(match_branch_direct(below(0)));
    fixture.branch[0].direct = true;
    assert_ptr_equal(match_branch_direct(below(0)), hand.match);
    assert_null(match_branch_direct(below(1)));
}

/* A lower of connections makes sources in the engine, unless messages of the layer's own come by
 * it, too. */
static void lower_makes_sources_in_the_engine_where_it_may(void **state)
{
    struct match_branch_map plain = map;

    plain.own_tags = 0;
    fixture.branch[0].direct = true;
    assert_null(match_branch_engine(below(0)));
    fixture.branch[0].map = &plain;
    assert_ptr_equal(match_branch_engine(below(0)), hand.match);
    assert_null(match_branch_engine(below(1)));
    assert_int_equal(match_branch_up(below(0), 3), ABOVE + 3);
    assert_int_equal(match_branch_up(below(1), 3), ABOVE + EACH + 3);
    assert_true(match_branch_up(below(0), FI_ADDR_UNSPEC) == FI_ADDR_UNSPEC);
}

static void lower_finds_no_engine_of_an_upper(void **state)
{
    fixture.branch[0].direct = true;
    assert_null(match_branch_direct(below(0)));
    assert_null(match_branch_engine(below(0)));
    assert_null(match_branch_direct(&hand.upper.srx));
    assert_null(match_branch_engine(&hand.upper.srx));
}

#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, with_engine, hand_close),                                \
        cmocka_unit_test_setup_teardown(test, with_upper, hand_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(receive_names_a_peer_by_the_upper_number),
        BOTH(waiting_message_starts_in_its_branch),
        BOTH(branch_tells_the_source_later),
        BOTH(message_of_the_layers_own_is_told_and_gone),
        cmocka_unit_test_setup_teardown(lower_finds_the_engine_where_it_may, with_engine,
                                        hand_close),
        cmocka_unit_test_setup_teardown(lower_makes_sources_in_the_engine_where_it_may, with_engine,
                                        hand_close),
        cmocka_unit_test_setup_teardown(lower_finds_no_engine_of_an_upper, with_upper, hand_close),
        cmocka_unit_test_setup_teardown(engine_discards_before_a_branch_closes, with_engine,
                                        hand_close),
        cmocka_unit_test_setup_teardown(message_of_a_closed_branch_waits_with_the_upper, with_upper,
                                        hand_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine with receives, an upper's context on it, and a lower's part of that played by hand:
 * what the tests of core/match/match_forward.h have in common. One for each program. */
#ifndef WEFT_TESTS_CORE_MATCH_HAND_H
#define WEFT_TESTS_CORE_MATCH_HAND_H

#include <string.h>

#include "core/match/match_entry.h"
#include "core/match/match_forward.h"
#include "core/queue/binding.h"

static struct match_hand {
    struct match *match;
    struct binding binding;    /* without a queue */
    struct match_source upper; /* its srx is the upper's context */
    /* The message that the lower was asked to start last, as it was then; to discard. */
    struct fi_peer_rx_entry *started, *discarded;
    const struct fid_peer_srx *started_srx;
    fi_addr_t started_addr;
    char data[8], message; /* of a receive; what a lower says of a message that waits */
} hand;

static int hand_start(struct fi_peer_rx_entry *entry)
{
    hand.started = entry;
    hand.started_srx = entry->srx;
    hand.started_addr = entry->addr;
    return 0;
}

static int hand_discard(struct fi_peer_rx_entry *entry)
{
    hand.discarded = entry;
    match_entry_free(entry);
    return 0;
}

/* Of the lower. */
static struct fi_ops_srx_peer hand_lower_ops = {
    .size = sizeof(hand_lower_ops),
    .start_msg = hand_start,
    .start_tag = hand_start,
    .discard_msg = hand_discard,
    .discard_tag = hand_discard,
};

static int hand_open(void)
{
    struct match_attr attr = {.size = 16, .iov_limit = 1, .directed = true};

    memset(&hand, 0, sizeof(hand));
    if (match_create(&attr, &hand.match))
        return -1;
    match_set_binding(hand.match, &hand.binding);
    match_source_init(&hand.upper, hand.match, FI_ADDR_UNSPEC);
    hand.upper.many = true;
    hand.upper.srx.peer_ops = &match_forward_peer_ops;
    return 0;
}

static int hand_close(void **state)
{
    match_destroy(hand.match);
    return 0;
}

/* Posts a receive into hand.data. */
static int hand_receive(fi_addr_t from)
{
    struct iovec iov = {hand.data, sizeof(hand.data)};
    struct op op = {
        .kind = FI_MSG | FI_RECV,
        .group = OP_GROUP_RECV,
        .iov = &iov,
        .count = 1,
        .peer = from,
        .context = &hand,
    };

    return (int)match_receive(hand.match, &op);
}

/* A message comes: 0 where it met its receive, -FI_ENOENT. */
static int hand_arrive(struct fid_peer_srx *srx, fi_addr_t from, struct fi_peer_rx_entry **entry)
{
    struct fi_peer_match_attr attr = {.addr = from, .msg_size = 4};

    return match_entry_get(srx, false, &attr, entry);
}

#endif

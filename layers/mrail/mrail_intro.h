/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Introductions: the states that two endpoints have of each other, and the heads that name them.
 * Pure.
 *
 * A state has a number, which its peer writes into what it sends, and an epoch, later than all that
 * its endpoint has had. Both are told in introductions (MRAIL_INTRO), until both sides know that
 * the other knows, and in each probe. A state ends on either side; the other learns of it from the
 * next introduction, whose epoch is larger, and ends its own.
 *
 * An introduction is bytes, and any endpoint can send them. Where a rail tells the source of a
 * packet, the source's word counts for more than that of others: nothing ends by theirs, and what
 * they said before it was first heard is taken back.
 */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_INTRO_H
#define WEFT_LAYERS_MRAIL_MRAIL_INTRO_H

#include "layers/mrail/mrail_wire.h"

struct mrail_intro {
    uint64_t epoch, their_epoch; /* their_epoch 0: the peer has not said it yet */
    uint64_t forgotten;          /* the peer's epochs to here are over */
    uint32_t number;             /* that the peer is to use */
    uint32_t theirs;             /* that we use; 0: not known yet */
    bool introduced;             /* the peer uses our number */
    bool sure, forgot_surely; /* a rail told that their_epoch, forgotten is the peer's own word */
    uint8_t vouched;          /* the caller's: a bit for each rail that has told of the peer */
};

/* Who says so? */
enum mrail_word {
    WORD_UNTOLD,  /* no rail has ever told of the peer */
    WORD_HEARSAY, /* one has, but not of this packet */
    WORD_OWN,     /* the peer, as the rail tells */
};

enum mrail_intro_fate {
    INTRO_LATE,   /* of a state that is over: the packet is dropped */
    INTRO_TAKEN,  /* the packet counts */
    INTRO_WANTED, /* the packet counts, and the peer does not know us yet: it is owed an answer */
    INTRO_TELL,   /* the packet is dropped, and the peer is owed an answer: it has not heard that a
                   * state is over */
    INTRO_BEGUN, /* the peer has begun anew: our state is to be renewed, and the head taken again */
    INTRO_UNHEARD /* the peer takes our state for our first one, and goes on with its own, which we
                   * have left: our state is to be renewed, and the peer is owed an answer */
};

/* The state has ended; another begins. */
void mrail_intro_renew(struct mrail_intro *intro, uint32_t number, uint64_t epoch);
/* Reads an introduction of the peer's. */
enum mrail_intro_fate mrail_intro_take(struct mrail_intro *intro, const struct mrail_head *head,
                                       enum mrail_word word);
/* Names the states in a head, which may be an introduction after that, with this address. */
void mrail_intro_put(const struct mrail_intro *intro, struct mrail_head *head, const uint8_t *addr,
                     size_t addr_len);

#endif

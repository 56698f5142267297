/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads of node 2 of the memory of node 1, which is taken back meanwhile: what the tests of it
 * share. */
#ifndef WEFT_TESTS_UET_LENT_H
#define WEFT_TESTS_UET_LENT_H

#include "ses_world.h"

enum {
    READS = 8,
};

static struct post *posts[READS];

static inline uint8_t byte_at(size_t at)
{
    return (uint8_t)(at * 31 + (at >> 8));
}

static inline void start_reads(void)
{
    for (size_t i = 0; i < MEMORY; i++)
        nodes[1].memory[i] = byte_at(i);
    for (unsigned i = 0; i < READS; i++) {
        posts[i] = new_post(2, 1, SES_READ, i % 2 ? MAX : 900);
        posts[i]->op.target.brief = i % 4 == 2;
        posts[i]->op.offset = i * 4000;
        assert_true(ses_start_op(nodes[2].ses, &posts[i]->op));
    }
}

/* How many replies named it. */
static inline unsigned take_back(void)
{
    unsigned lent = nodes[1].lent;

    ses_take_back(nodes[1].ses, &nodes[1]);
    assert_int_equal(nodes[1].lent, 0);
    memset(nodes[1].memory, 0xee, MEMORY);
    nodes[1].forbids = true;
    return lent;
}

/* How many of the reads ended with that code, or, RC_OK, with their bytes. */
static inline unsigned ended_with(enum ses_code code)
{
    unsigned count = 0;

    for (unsigned i = 0; i < READS; i++) {
        const struct post *post = posts[i];

        count += post->ended && post->code == code;
        for (size_t at = 0; post->code == RC_OK && post->ended && at < post->op.length; at++)
            assert_int_equal(post->bytes[at], byte_at(post->op.offset + at));
    }
    return count;
}

static inline void finish_reads(void)
{
    for (unsigned i = 0; i < READS; i++) {
        assert_int_equal(posts[i]->ended, 1);
        free(posts[i]);
    }
}

#endif

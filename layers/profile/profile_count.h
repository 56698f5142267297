/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counts of one layer. Each thread counts in a block of its own (core/base/per_thread.h); a
 * report adds the blocks up while they go on.
 *
 * Times are those of core/hook/op_timer.h, by class and size; the times of operations that may have
 * waited for a connection are kept apart.
 */
#ifndef WEFT_PROFILE_COUNT_H
#define WEFT_PROFILE_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/per_thread.h"
#include "core/hook/op_timer.h"
#include "core/op/op.h"
#include "layers/profile/profile_depth.h"
#include "layers/profile/profile_peers.h"
#include "layers/profile/profile_vars.h"

enum {
    PROFILE_SIZES = 64, /* 0: no byte; n: 2^(n-1) to 2^n - 1 */
    PROFILE_SUB = 32,   /* buckets for each power of two: an error of 1/32 at most */
    PROFILE_BUCKETS = 60 * PROFILE_SUB,
    PROFILE_BANDS = 10, /* of sizes, for times; the last: the size is not known */
    /* The timer's word of an operation: its band, or this where it only looks at a message. */
    PROFILE_PEEK = 1 << 7,
};

struct profile_counts {
    uint64_t again[OP_CALLS], failed[OP_CALLS];
    uint64_t retried[OP_CALLS]; /* accepted, after the thread's call before was refused */
    /* Of those that were accepted; receives have no bytes, and one size: their completions know. */
    uint64_t bytes[OP_CALLS], sizes[OP_CALLS][PROFILE_SIZES];
    uint64_t received_bytes, received_sizes[PROFILE_SIZES]; /* of completed receives */
    uint64_t completions, errors, reads, empty_reads, unexpected;
    uint64_t connects, accepts, rejects;
};

struct profile_block {
    struct block block;
    struct op_timer_turns turns;
    uint64_t refused; /* a bit for each kind: the last call of that was */
    struct profile_counts counts;
    struct profile_cell peers[PROFILE_CELLS];
};

/* ns, in buckets of equal relative width. */
struct profile_times {
    atomic_uint_fast64_t buckets[PROFILE_BUCKETS];
    atomic_uint_fast64_t count, sum;
};

/* Operations that may have waited for a connection. */
struct profile_first {
    atomic_uint_fast64_t count, most;
};

struct profile {
    struct per_thread per_thread;
    unsigned number;    /* of the layers of this process, from 1 */
    uint64_t opened_ns; /* clock_ns */
    uint64_t wall_ns;   /* the same as time of day */
    struct profile_depth depth;
    struct profile_peers peers;
    struct profile_handles handles;
    struct profile_first first[OP_CLASSES];
    struct op_timer timer;
    struct profile_times times[OP_CLASSES][PROFILE_BANDS];
};

/* NULL without memory. */
struct profile *profile_create(uint32_t sample);
void profile_destroy(struct profile *profile);

/* NULL without memory. */
static inline struct profile_block *profile_block_of(struct profile *profile)
{
    return (struct profile_block *)per_thread_of(&profile->per_thread);
}

static inline unsigned profile_size_class(uint64_t len)
{
    return 63 - (unsigned)__builtin_clzll(len << 1 | 1);
}

/* Bucket of a time, and the largest time in a bucket. */
unsigned profile_bucket(uint64_t ns);
uint64_t profile_bucket_end(unsigned bucket);

/* Bands of sizes with separate times: band of a size, and its least size. */
unsigned profile_band(uint64_t len);
uint64_t profile_band_start(unsigned band);

/* A completion with a context of which the timer keeps something. False: it is that of a peek, and
 * no message was received. */
bool profile_time_end(struct profile *profile, const void *context, uint64_t flags, uint64_t len);

/* Adds up all blocks. Any thread. */
void profile_sum(struct profile *profile, struct profile_counts *sum);
/* Of such a sum: calls of a function that were accepted; messages that were received. */
uint64_t profile_accepted(const struct profile_counts *counts, enum op_call kind);
uint64_t profile_received(const struct profile_counts *counts);
/* Adds up the bands of a class. */
void profile_times_sum(const struct profile_times times[PROFILE_BANDS], struct profile_times *sum);
/* ns that `part` (0 to 1) of the operations took at most; 0 when none was timed. */
uint64_t profile_quantile(const struct profile_times *times, double part);

#endif

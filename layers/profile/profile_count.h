/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one layer counts. Each thread counts in a block of its own (core/blocks.h); a report adds
 * the blocks up while they go on.
 *
 * Times are taken of one operation of `sample`, from its call to its completion, which is found by
 * the operation's context in a small table: without a context there is no time.
 */
#ifndef WEFT_PROFILE_COUNT_H
#define WEFT_PROFILE_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/blocks.h"
#include "core/call.h"
#include "layers/profile/profile_depth.h"
#include "layers/profile/profile_vars.h"

enum {
    PROFILE_SIZES = 65, /* 0: no byte; n: 2^(n-1) to 2^n - 1 */
    PROFILE_SUB = 32,   /* buckets for each power of two: an error of 1/32 at most */
    PROFILE_BUCKETS = 60 * PROFILE_SUB,
    PROFILE_OPEN = 256, /* operations that can be timed at once */
};

struct profile_counts {
    uint64_t calls[CALL_KINDS], again[CALL_KINDS], failed[CALL_KINDS], bytes[CALL_KINDS];
    uint64_t retried[CALL_KINDS]; /* accepted, after the thread's call before was refused */
    uint64_t sizes[CALL_KINDS][PROFILE_SIZES]; /* of those that were accepted */
    uint64_t completions, errors, reads, empty_reads, unexpected;
    uint64_t connects, accepts, rejects;
};

_Static_assert(CALL_KINDS <= 64, "a bit for each kind");

struct profile_block {
    struct block block;
    uint32_t until_sample, until_asked;
    uint64_t refused; /* a bit for each kind: the last call of that was */
    struct profile_counts counts;
};

/* ns, in buckets of equal relative width. */
struct profile_times {
    atomic_uint_fast64_t buckets[PROFILE_BUCKETS];
    atomic_uint_fast64_t count, sum;
};

struct profile_open_op {
    _Atomic(const void *) context;
    atomic_uint_fast64_t start;
    atomic_int class;
};

struct profile {
    struct blocks blocks;
    uint32_t sample; /* 0: no times */
    struct profile_depth depth;
    struct profile_handles handles;
    struct profile_times times[CALL_CLASSES];
    struct profile_open_op open[PROFILE_OPEN];
};

/* NULL without memory. */
struct profile *profile_create(uint32_t sample);
void profile_destroy(struct profile *profile);

/* NULL without memory. */
static inline struct profile_block *profile_block_of(struct profile *profile)
{
    return (struct profile_block *)block_of(&profile->blocks);
}

static inline unsigned profile_size_class(uint64_t len)
{
    return len ? 64 - (unsigned)__builtin_clzll(len) : 0;
}

static inline uint64_t profile_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline struct profile_open_op *profile_slot(struct profile *profile, const void *context)
{
    uintptr_t mixed = (uintptr_t)context * 0x9e3779b97f4a7c15u;

    return &profile->open[(mixed >> 40) % PROFILE_OPEN];
}

/* Bucket of a time, and the largest time in a bucket. */
unsigned profile_bucket(uint64_t ns);
uint64_t profile_bucket_end(unsigned bucket);

/* An operation that is timed has ended. */
void profile_time(struct profile *profile, struct profile_open_op *op);

/* Adds up all blocks. Any thread. */
void profile_sum(struct profile *profile, struct profile_counts *sum);
/* ns that `part` (0 to 1) of the operations took at most; 0 when none was timed. */
uint64_t profile_quantile(const struct profile_times *times, double part);

#endif

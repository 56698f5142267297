/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one layer counts. Each thread counts in a block of its own: no lock and no atomic
 * instruction; a report adds the blocks up while they go on. Blocks of threads that have ended are
 * used by those that come later.
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

#include "core/call.h"
#include "core/list.h"

enum {
    PROFILE_SIZES = 65, /* 0: no byte; n: 2^(n-1) to 2^n - 1 */
    PROFILE_SUB = 32,   /* buckets for each power of two: an error of 1/32 at most */
    PROFILE_BUCKETS = 60 * PROFILE_SUB,
    PROFILE_OPEN = 256, /* operations that can be timed at once */
};

struct profile_counts {
    uint64_t calls[CALL_KINDS], again[CALL_KINDS], failed[CALL_KINDS], bytes[CALL_KINDS];
    uint64_t sizes[CALL_CLASSES][PROFILE_SIZES];
    uint64_t completions, errors, reads, empty_reads, unexpected;
};

struct profile_block {
    struct profile_counts counts;
    uint32_t until_sample;
    struct profile_block *next;
    uint64_t thread; /* 0: free */
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
    uint64_t number; /* never that of another one */
    uint32_t sample; /* 0: no times */
    unsigned generation;
    struct list link;
    struct profile_block *blocks;
    struct profile_times times[CALL_CLASSES];
    struct profile_open_op open[PROFILE_OPEN];
};

/* The block that this thread counted in last, and whose it is. */
struct profile_last {
    uint64_t number;
    struct profile_block *block;
};
extern _Thread_local struct profile_last profile_last __attribute__((tls_model("initial-exec")));

/* NULL without memory. */
struct profile *profile_create(uint32_t sample);
void profile_destroy(struct profile *profile);

/* The slow way; NULL without memory. */
struct profile_block *profile_block_find(struct profile *profile);

static inline struct profile_block *profile_block_of(struct profile *profile)
{
    if (__builtin_expect(profile_last.number == profile->number, 1))
        return profile_last.block;
    return profile_block_find(profile);
}

/* Of a thread's own counts: reports may read them meanwhile. */
static inline void profile_add(uint64_t *count, uint64_t more)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
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

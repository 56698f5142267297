/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile_count.h"

#include <stdlib.h>

static void sample_first(struct blocks *blocks, struct block *block)
{
    ((struct profile_block *)block)->until_sample = 1;
}

struct profile *profile_create(uint32_t sample)
{
    struct profile *profile = calloc(1, sizeof(*profile));

    if (!profile)
        return NULL;
    profile->sample = sample;
    profile_depth_init(&profile->depth);
    profile_handles_init(&profile->handles);
    blocks_init(&profile->blocks, sizeof(struct profile_block), sample_first, NULL);
    return profile;
}

void profile_destroy(struct profile *profile)
{
    if (!profile)
        return;
    blocks_finish(&profile->blocks);
    profile_handles_finish(&profile->handles);
    profile_depth_finish(&profile->depth);
    free(profile);
}

/* struct profile_counts is nothing but counts. */
void profile_sum(struct profile *profile, struct profile_counts *sum)
{
    uint64_t *total = (uint64_t *)sum;

    for (size_t i = 0; i < sizeof(*sum) / sizeof(*total); i++)
        total[i] = 0;
    blocks_lock();
    for (struct block *block = profile->blocks.first; block; block = block->next) {
        uint64_t *counts = (uint64_t *)&((struct profile_block *)block)->counts;

        for (size_t i = 0; i < sizeof(*sum) / sizeof(*total); i++)
            total[i] += __atomic_load_n(counts + i, __ATOMIC_RELAXED);
    }
    blocks_unlock();
}

/* ---- Times ---- */

/* Below PROFILE_SUB each ns has a bucket; above, each power of two has PROFILE_SUB of them. */
unsigned profile_bucket(uint64_t ns)
{
    unsigned power, bucket;

    if (ns < PROFILE_SUB)
        return (unsigned)ns;
    power = 63 - (unsigned)__builtin_clzll(ns);
    bucket = (power - 4) * PROFILE_SUB + (unsigned)((ns >> (power - 5)) % PROFILE_SUB);
    return bucket < PROFILE_BUCKETS ? bucket : PROFILE_BUCKETS - 1;
}

uint64_t profile_bucket_end(unsigned bucket)
{
    unsigned power = bucket / PROFILE_SUB + 4;

    if (bucket < PROFILE_SUB)
        return bucket;
    return (((uint64_t)PROFILE_SUB + bucket % PROFILE_SUB + 1) << (power - 5)) - 1;
}

void profile_time(struct profile *profile, struct profile_open_op *op)
{
    uint64_t now = profile_now();
    uint64_t begin = atomic_load_explicit(&op->start, memory_order_relaxed);
    int class = atomic_load_explicit(&op->class, memory_order_relaxed);
    uint64_t ns = now > begin ? now - begin : 0;
    struct profile_times *times = &profile->times[class];

    atomic_store_explicit(&op->context, NULL, memory_order_relaxed);
    atomic_fetch_add_explicit(&times->buckets[profile_bucket(ns)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&times->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&times->sum, ns, memory_order_relaxed);
}

uint64_t profile_quantile(const struct profile_times *times, double part)
{
    uint64_t count = atomic_load_explicit(&times->count, memory_order_relaxed);
    uint64_t wanted = (uint64_t)((double)count * part), seen = 0;
    uint64_t end = 0;

    wanted = wanted ? wanted : 1;
    for (unsigned i = 0; count && i < PROFILE_BUCKETS && seen < wanted; i++) {
        uint64_t here = atomic_load_explicit(&times->buckets[i], memory_order_relaxed);

        seen += here;
        if (here)
            end = profile_bucket_end(i);
    }
    return end;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile_count.h"

#include <stdlib.h>
#include <string.h>

/* Sizes from which each band goes. */
static const uint64_t bands[PROFILE_BANDS - 1] = {0,     64,     512,     1024,   4096,
                                                  65536, 262144, 1048576, 4194304};

static void sample_first(struct per_thread *per_thread, struct block *first)
{
    op_timer_turns_start(&((struct profile_block *)first)->turns);
}

struct profile *profile_create(uint32_t sample)
{
    static atomic_uint layers;
    struct profile *profile = calloc(1, sizeof(*profile));
    struct timespec wall;

    if (!profile)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &wall);
    profile->wall_ns = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
    profile->opened_ns = clock_ns();
    profile->number = atomic_fetch_add(&layers, 1) + 1;
    profile->timer.sample = sample;
    profile_peers_init(&profile->peers, profile);
    profile_depth_init(&profile->depth);
    profile_handles_init(&profile->handles);
    per_thread_init(&profile->per_thread, sizeof(struct profile_block), sample_first, NULL);
    return profile;
}

void profile_destroy(struct profile *profile)
{
    if (!profile)
        return;
    per_thread_finish(&profile->per_thread);
    profile_handles_finish(&profile->handles);
    profile_peers_finish(&profile->peers);
    profile_depth_finish(&profile->depth);
    free(profile);
}

/* struct profile_counts is nothing but counts. */
void profile_sum(struct profile *profile, struct profile_counts *sum)
{
    uint64_t *total = (uint64_t *)sum;

    for (size_t i = 0; i < sizeof(*sum) / sizeof(*total); i++)
        total[i] = 0;
    per_thread_lock();
    for (struct block *block = profile->per_thread.first; block; block = block->next) {
        uint64_t *counts = (uint64_t *)&((struct profile_block *)block)->counts;

        for (size_t i = 0; i < sizeof(*sum) / sizeof(*total); i++)
            total[i] += __atomic_load_n(counts + i, __ATOMIC_RELAXED);
    }
    per_thread_unlock();
}

uint64_t profile_accepted(const struct profile_counts *counts, enum op_call kind)
{
    uint64_t accepted = 0;

    for (int i = 0; i < PROFILE_SIZES; i++)
        accepted += counts->sizes[kind][i];
    return accepted;
}

uint64_t profile_received(const struct profile_counts *counts)
{
    uint64_t messages = 0;

    for (int i = 0; i < PROFILE_SIZES; i++)
        messages += counts->received_sizes[i];
    return messages;
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

unsigned profile_band(uint64_t len)
{
    unsigned band = PROFILE_BANDS - 2;

    while (len < bands[band])
        band--;
    return band;
}

uint64_t profile_band_start(unsigned band)
{
    return band < PROFILE_BANDS - 1 ? bands[band] : UINT64_MAX;
}

static void raise(atomic_uint_fast64_t *most, uint64_t value)
{
    uint_fast64_t now = atomic_load_explicit(most, memory_order_relaxed);

    while (value > now && !atomic_compare_exchange_weak(most, &now, value))
        ;
}

bool profile_time_end(struct profile *profile, const void *context, uint64_t flags, uint64_t len)
{
    struct profile_times *times;
    struct profile_first *first;
    struct op_timed timed;
    unsigned band;

    if (!op_timer_end(&profile->timer, context, flags, &timed))
        return true;
    if (timed.user & PROFILE_PEEK)
        return false;
    first = &profile->first[timed.class];
    if (timed.first) {
        atomic_fetch_add(&first->count, 1);
        raise(&first->most, timed.ns);
        return true;
    }
    band = timed.user;
    if (timed.class == OP_CLASS_RECV)
        band = flags & FI_RECV ? profile_band(len) : PROFILE_BANDS - 1;
    times = &profile->times[timed.class][band];
    atomic_fetch_add_explicit(&times->buckets[profile_bucket(timed.ns)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&times->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&times->sum, timed.ns, memory_order_relaxed);
    return true;
}

void profile_times_sum(const struct profile_times times[PROFILE_BANDS], struct profile_times *sum)
{
    memset(sum, 0, sizeof(*sum));
    for (int band = 0; band < PROFILE_BANDS; band++) {
        const struct profile_times *one = &times[band];

        if (!atomic_load_explicit(&one->count, memory_order_relaxed))
            continue;
        sum->count += atomic_load_explicit(&one->count, memory_order_relaxed);
        sum->sum += atomic_load_explicit(&one->sum, memory_order_relaxed);
        for (int i = 0; i < PROFILE_BUCKETS; i++)
            sum->buckets[i] += atomic_load_explicit(&one->buckets[i], memory_order_relaxed);
    }
}

uint64_t profile_quantile(const struct profile_times *times, double part)
{
    uint64_t count = atomic_load_explicit(&times->count, memory_order_relaxed);
    uint64_t wanted = (uint64_t)((double)count * part), seen = 0;
    uint64_t end = 0;

    wanted += (double)wanted < (double)count * part || !wanted; /* of two, p99 is the larger */
    for (unsigned i = 0; count && i < PROFILE_BUCKETS && seen < wanted; i++) {
        uint64_t here = atomic_load_explicit(&times->buckets[i], memory_order_relaxed);

        seen += here;
        if (here)
            end = profile_bucket_end(i);
    }
    return end;
}

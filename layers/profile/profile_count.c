/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile_count.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fork.h"

_Thread_local struct profile_last profile_last;
static _Thread_local uint64_t own_thread; /* 0: not named yet */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of lists of blocks */
static struct list profiles = {&profiles, &profiles};
static uint64_t numbers, threads;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

/* ---- Threads ---- */

static void thread_ends(void *unused)
{
    pthread_mutex_lock(&mutex);
    list_for_each (item, &profiles) {
        struct profile *profile = list_item(item, struct profile, link);

        for (struct profile_block *block = profile->blocks; block; block = block->next)
            if (block->thread == own_thread)
                block->thread = 0;
    }
    pthread_mutex_unlock(&mutex);
    profile_last = (struct profile_last){0, NULL};
    own_thread = 0;
}

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void start(void)
{
    fork_watch();
    pthread_atfork(lock, unlock, unlock);
    key_made = !pthread_key_create(&key, thread_ends);
}

static struct profile_block *block_take(struct profile *profile)
{
    struct profile_block *block;

    for (block = profile->blocks; block; block = block->next)
        if (block->thread == own_thread)
            return block;
    for (block = profile->blocks; block && block->thread; block = block->next)
        ;
    if (!block) {
        block = calloc(1, sizeof(*block));
        if (!block)
            return NULL;
        block->until_sample = 1;
        block->next = profile->blocks;
        profile->blocks = block;
    }
    block->thread = own_thread;
    return block;
}

struct profile_block *profile_block_find(struct profile *profile)
{
    struct profile_block *block;

    pthread_mutex_lock(&mutex);
    if (!own_thread)
        own_thread = ++threads;
    block = block_take(profile);
    pthread_mutex_unlock(&mutex);
    if (!block)
        return NULL;
    if (key_made)
        pthread_setspecific(key, &profiles);
    profile_last = (struct profile_last){profile->number, block};
    return block;
}

__attribute__((destructor)) static void unload(void)
{
    if (key_made)
        pthread_key_delete(key);
}

/* ---- Profiles ---- */

struct profile *profile_create(uint32_t sample)
{
    struct profile *profile = calloc(1, sizeof(*profile));

    if (!profile)
        return NULL;
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    profile->number = ++numbers;
    profile->generation = fork_generation;
    profile->sample = sample;
    list_attach(&profile->link, &profiles);
    pthread_mutex_unlock(&mutex);
    return profile;
}

void profile_destroy(struct profile *profile)
{
    if (!profile)
        return;
    pthread_mutex_lock(&mutex);
    list_detach(&profile->link);
    pthread_mutex_unlock(&mutex);
    while (profile->blocks) {
        struct profile_block *block = profile->blocks;

        profile->blocks = block->next;
        free(block);
    }
    free(profile);
}

/* struct profile_counts is nothing but counts. */
void profile_sum(struct profile *profile, struct profile_counts *sum)
{
    uint64_t *total = (uint64_t *)sum;

    for (size_t i = 0; i < sizeof(*sum) / sizeof(*total); i++)
        total[i] = 0;
    pthread_mutex_lock(&mutex);
    for (struct profile_block *block = profile->blocks; block; block = block->next)
        for (size_t i = 0; i < sizeof(*sum) / sizeof(*total); i++)
            total[i] += __atomic_load_n((uint64_t *)&block->counts + i, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&mutex);
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

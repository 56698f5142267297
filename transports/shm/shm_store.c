/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_store.h"

#include <stdatomic.h>
#include <string.h>

#include "transports/shm/shm_ring.h"
#include "transports/shm/shm_ticks.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static struct shm_store_class *class_of(struct shm_stores *stores, size_t len)
{
    int class = 0;

    while (class < SHM_STORE_CLASSES - 1 && len >= (size_t)SHM_STORE_LEAST << (class + 1))
        class ++;
    return &stores->classes[class];
}

/* ---- The choice ---- */

struct shm_store shm_store_next(struct shm_stores *stores, size_t len)
{
    struct shm_store_class *class = class_of(stores, len);

    if (class->pairs < SHM_STORE_PAIRS)
        return (struct shm_store){.streams = class->len != 0, .timed = true, .len = len};
    if (++class->kept == SHM_STORE_KEEP)
        class->kept = class->pairs = class->wins = 0;
    return (struct shm_store){.streams = class->streams, .len = len};
}

/* By a quarter, since memory's bandwidth is everybody's. */
static bool is_clearly_faster(const struct shm_store_class *plain, size_t len, uint64_t ticks)
{
    return ticks * plain->len * 5 < (uint64_t)plain->ticks * len * 4;
}

void shm_store_took(struct shm_stores *stores, const struct shm_store *store, uint64_t ticks)
{
    struct shm_store_class *class = class_of(stores, store->len);

    if (ticks > UINT32_MAX) /* the process did not run */
        ticks = UINT32_MAX;
    if (!store->streams) {
        class->len = (uint32_t)store->len;
        class->ticks = (uint32_t)ticks;
        return;
    }
    class->wins += is_clearly_faster(class, store->len, ticks);
    class->len = 0;
    if (++class->pairs == SHM_STORE_PAIRS)
        class->streams = class->wins > SHM_STORE_PAIRS / 2;
}

/* ---- The copy ---- */

#ifdef __SSE2__

enum {
    CAN_STREAM = 1,
    VECTOR = sizeof(__m128i)
};

_Static_assert(SHM_LINE == 4 * VECTOR, "a line is written whole");

static void stream_lines(char *to, const char *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++, to += SHM_LINE, from += SHM_LINE) {
        for (int at = 0; at < SHM_LINE; at += VECTOR)
            _mm_stream_si128((__m128i *)(void *)(to + at),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + at)));
    }
}

/* The receiver's first word is a plain store, which would not wait for these. */
static void drain_stores(void)
{
    _mm_sfence();
}

#else

enum {
    CAN_STREAM = 0
};

static void stream_lines(char *to, const char *from, size_t lines)
{
    memcpy(to, from, lines * SHM_LINE);
}

static void drain_stores(void)
{
}

#endif

struct shm_store shm_store_begin(struct shm_stores *stores, size_t len)
{
    struct shm_store store = {.len = len};

    if (!CAN_STREAM || len < SHM_STORE_LEAST)
        return store;
    store = shm_store_next(stores, len);
    if (store.timed)
        store.began = shm_ticks();
    return store;
}

void shm_store_piece(const struct shm_store *store, void *to, const void *from, size_t len)
{
    size_t begin = -(uintptr_t)to % SHM_LINE, lines;

    if (!store->streams || len < begin + SHM_LINE) {
        memcpy(to, from, len);
        return;
    }
    lines = (len - begin) / SHM_LINE;
    memcpy(to, from, begin);
    stream_lines((char *)to + begin, (const char *)from + begin, lines);
    begin += lines * SHM_LINE;
    memcpy((char *)to + begin, (const char *)from + begin, len - begin);
}

void shm_store_end(struct shm_stores *stores, const struct shm_store *store)
{
    if (store->streams)
        drain_stores();
    else if (store->timed)
        atomic_thread_fence(memory_order_seq_cst); /* plain ones are not done yet, either */
    if (store->timed)
        shm_store_took(stores, store, shm_ticks() - store->began);
}

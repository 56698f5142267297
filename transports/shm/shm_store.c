/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_store.h"

#include <stdatomic.h>
#include <string.h>

#include "transports/shm/shm_ring.h"
#include "transports/shm/shm_ticks.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

_Static_assert((int)SHM_STORE_WARM == (int)SHM_BULK, "a lap");

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
    struct shm_store store = {.streams = class->streams, .len = len};

    if (class->tried == 2 * SHM_STORE_TRIES) {
        if (++class->kept == SHM_STORE_KEEP) {
            class->kept = class->tried = class->wins = 0;
            class->warmed = 0;
        }
        return store;
    }
    store.streams = class->tried >= SHM_STORE_TRIES;
    store.timed = class->warmed >= SHM_STORE_WARM;
    class->warmed += store.timed ? 0 : (uint32_t)len;
    return store;
}

/* In order, so that some that were interrupted change nothing. */
static void insert(uint16_t *sorted, unsigned count, uint16_t value)
{
    for (; count && sorted[count - 1] > value; count--)
        sorted[count] = sorted[count - 1];
    sorted[count] = value;
}

/* The receiver reads from memory then, and what it takes for that is in no time of the sender's;
 * and memory's bandwidth is everybody's. */
static bool is_clearly_faster(uint16_t streamed, const uint16_t *plain)
{
    return SHM_STORE_FASTER * (unsigned)streamed < plain[SHM_STORE_TRIES / 2];
}

void shm_store_took(struct shm_stores *stores, const struct shm_store *store, uint64_t ticks)
{
    struct shm_store_class *class = class_of(stores, store->len);
    uint64_t of_kib = (ticks << 10) / store->len;
    uint16_t took = of_kib < UINT16_MAX ? (uint16_t)of_kib : UINT16_MAX;

    if (store->streams)
        class->wins += is_clearly_faster(took, class->plain);
    else
        insert(class->plain, class->tried, took);
    if (++class->tried == SHM_STORE_TRIES)
        class->warmed = 0;
    if (class->tried == 2 * SHM_STORE_TRIES)
        class->streams = class->wins > SHM_STORE_TRIES / 2;
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

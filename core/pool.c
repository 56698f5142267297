/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/pool.h"

#include <stdint.h>
#include <stdlib.h>

#define CACHE_LINE 64
#define FIRST_ITEMS 16
#define MOST_ITEMS 4096 /* of one chunk: growth stays proportional, but bounded */

struct pool_chunk {
    struct pool_chunk *next;
    size_t bytes; /* of the items, which follow at the next cache line */
};

void pool_init(struct pool *pool, size_t item_size, size_t limit)
{
    size_t unit = item_size >= CACHE_LINE ? CACHE_LINE : 16;

    if (item_size < sizeof(void *))
        item_size = sizeof(void *);
    *pool = (struct pool){
        .item_size = (item_size + unit - 1) / unit * unit,
        .limit = limit,
    };
}

void pool_finish(struct pool *pool)
{
    struct pool_chunk *chunk = pool->chunks;

    while (chunk) {
        struct pool_chunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    pool->chunks = NULL;
    pool->free = NULL;
    pool->count = 0;
    pool->used = 0;
}

static size_t next_items(const struct pool *pool)
{
    size_t items = pool->count ? pool->count : FIRST_ITEMS;

    if (items > MOST_ITEMS)
        items = MOST_ITEMS;
    if (pool->limit && items > pool->limit - pool->count)
        items = pool->limit - pool->count;
    return items;
}

void *pool_grow(struct pool *pool)
{
    size_t items = next_items(pool);
    struct pool_chunk *chunk;
    char *first;

    if (!items || items > (SIZE_MAX - 2 * CACHE_LINE) / pool->item_size)
        return NULL;
    chunk = aligned_alloc(CACHE_LINE, CACHE_LINE + (items * pool->item_size + CACHE_LINE - 1) /
                                                       CACHE_LINE * CACHE_LINE);
    if (!chunk)
        return NULL;
    chunk->next = pool->chunks;
    chunk->bytes = items * pool->item_size;
    pool->chunks = chunk;
    first = (char *)chunk + CACHE_LINE;
    for (size_t i = items; i > 0; i--) {
        void *item = first + (i - 1) * pool->item_size;

        *(void **)item = pool->free;
        pool->free = item;
    }
    pool->count += items;
    return pool_get(pool);
}

bool pool_owns(const struct pool *pool, const void *item)
{
    uintptr_t at = (uintptr_t)item;

    for (const struct pool_chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
        uintptr_t first = (uintptr_t)chunk + CACHE_LINE;

        if (at >= first && at - first < chunk->bytes)
            return (at - first) % pool->item_size == 0;
    }
    return false;
}

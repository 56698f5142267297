/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/pool.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/base/pages.h"

#define CACHE_LINE 64
#define FIRST_ITEMS 16
#define MOST_ITEMS 4096   /* of one chunk: growth stays proportional, but bounded */
#define FRESH_BYTES 65536 /* that are made items at a time */
#define FRESH_ASKED 16384 /* from which on their pages are asked for */

struct pool_chunk {
    struct pool_chunk *next;
    size_t bytes; /* of the items, which follow at the next cache line */
};

void pool_init(struct pool *pool, size_t item_size, size_t limit)
{
    size_t progress = item_size >= CACHE_LINE ? CACHE_LINE : 16;

    if (item_size < sizeof(void *))
        item_size = sizeof(void *);
    *pool = (struct pool){
        .item_size = (item_size + progress - 1) / progress * progress,
        .limit = limit,
    };
}

void pool_init_dense(struct pool *pool, size_t item_size, size_t limit)
{
    pool_init(pool, item_size, limit);
    pool->item_size = item_size < sizeof(void *)
                          ? sizeof(void *)
                          : (item_size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
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
    pool->fresh = NULL;
    pool->fresh_left = 0;
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

static bool add_chunk(struct pool *pool)
{
    size_t items = next_items(pool);
    struct pool_chunk *chunk;

    if (!items || items > (SIZE_MAX - 2 * CACHE_LINE) / pool->item_size)
        return false;
    chunk = aligned_alloc(CACHE_LINE, CACHE_LINE + (items * pool->item_size + CACHE_LINE - 1) /
                                                       CACHE_LINE * CACHE_LINE);
    if (!chunk)
        return false;
    chunk->next = pool->chunks;
    chunk->bytes = items * pool->item_size;
    pool->chunks = chunk;
    pool->fresh = (char *)chunk + CACHE_LINE;
    pool->fresh_left = items;
    pool->count += items;
    return true;
}

/* Memory that no item needs yet is not touched. */
void *pool_grow(struct pool *pool)
{
    size_t items = FRESH_BYTES / pool->item_size;
    char *first;

    if (!pool->fresh_left && !add_chunk(pool))
        return NULL;
    if (items > pool->fresh_left)
        items = pool->fresh_left;
    if (!items)
        items = 1;
    first = pool->fresh;
    if (items * pool->item_size >= FRESH_ASKED)
        pages_ask(first, items * pool->item_size);
    for (size_t i = items; i > 0; i--) {
        void *item = first + (i - 1) * pool->item_size;

        *(void **)item = pool->free;
        pool->free = item;
    }
    pool->fresh += items * pool->item_size;
    pool->fresh_left -= items;
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

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fixed-size objects, cache-line aligned, in chunks that double up to a bound; freed objects are
 * reused last in, first out. Not locked: the owner's progress domain lock covers it.
 */
#ifndef WEFT_CORE_BASE_POOL_H
#define WEFT_CORE_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool_chunk;

struct pool {
    size_t item_size; /* rounded up to a multiple of 64 when >= 64, of 16 below; of 8: dense */
    size_t limit;     /* most items ever, 0: no bound */
    size_t count;     /* items that exist */
    size_t used;      /* items handed out */
    void *free;       /* chain through the first word of free items */
    char *fresh;      /* in the newest chunk: memory that was never an item of the chain */
    size_t fresh_left;
    struct pool_chunk *chunks;
};

/* Allocates nothing yet. */
void pool_init(struct pool *pool, size_t item_size, size_t limit);
/* The same, for objects that are many and mostly rest: aligned to 8 bytes, and no larger than that
 * needs. */
void pool_init_dense(struct pool *pool, size_t item_size, size_t limit);
/* Frees all chunks; items still out are gone too. Takes a zeroed pool. */
void pool_finish(struct pool *pool);

/* Is item, any pointer, one of the pool's, handed out or not? Costs a step for each chunk. */
bool pool_owns(const struct pool *pool, const void *item);

/* Out of line: grows by a chunk. NULL at the limit or without memory. */
void *pool_grow(struct pool *pool);

/* An item with undefined content, or NULL at the limit or without memory. */
static inline void *pool_get(struct pool *pool)
{
    void *item = pool->free;

    if (!item)
        return pool_grow(pool);
    pool->free = *(void **)item;
    pool->used++;
    return item;
}

static inline void pool_put(struct pool *pool, void *item)
{
    *(void **)item = pool->free;
    pool->free = item;
    pool->used--;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/domain/mr_pool.h"

#include <stdlib.h>

#include "core/base/log.h"

enum {
    ALIGNMENT = 64,
    SKIPS_MOST = 1024,
};

struct mr_pool_chunk {
    _Alignas(ALIGNMENT) struct mr_pool_chunk *next;
    struct fid_mr *mr;
};

void mr_pool_init(struct mr_pool *pool, const char *part, struct fid_domain *domain,
                  size_t item_size, unsigned first, unsigned most)
{
    *pool = (struct mr_pool){
        .part = part,
        .domain = domain,
        .item_size = (item_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
        .first = first,
        .most = most,
    };
}

void mr_pool_finish(struct mr_pool *pool)
{
    while (pool->chunks) {
        struct mr_pool_chunk *chunk = pool->chunks;

        pool->chunks = chunk->next;
        if (chunk->mr)
            fi_close(&chunk->mr->fid);
        free(chunk);
    }
    pool->free = NULL;
    pool->count = 0;
    pool->used = 0;
}

/* The next calls, twice as many each time, are refused without asking the lower again. */
static void refuse(struct mr_pool *pool, int rc)
{
    if (!pool->skips)
        LOG_WARN(pool->part, FI_LOG_EP_DATA, ": cannot register pool: %s", fi_strerror(-rc));
    pool->skip = pool->skips;
    pool->skips = pool->skips ? 2 * pool->skips : 1;
    if (pool->skips > SKIPS_MOST)
        pool->skips = SKIPS_MOST;
}

static int register_chunk(struct mr_pool *pool, struct mr_pool_chunk *chunk, size_t size)
{
    chunk->mr = NULL;
    if (!pool->domain)
        return 0;
    return fi_mr_reg(pool->domain, chunk + 1, size, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0, 0,
                     &chunk->mr, NULL);
}

void *mr_pool_grow(struct mr_pool *pool)
{
    size_t items = pool->count ? pool->count : pool->first;
    struct mr_pool_chunk *chunk;
    void *desc;
    int rc;

    if (pool->skip) {
        pool->skip--;
        return NULL;
    }
    if (items > pool->most)
        items = pool->most;
    chunk = aligned_alloc(ALIGNMENT, sizeof(*chunk) + items * pool->item_size);
    if (!chunk)
        return NULL;
    rc = register_chunk(pool, chunk, items * pool->item_size);
    if (rc) {
        refuse(pool, rc);
        free(chunk);
        return NULL;
    }
    pool->skips = 0;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->count += items;
    desc = chunk->mr ? fi_mr_desc(chunk->mr) : NULL;
    for (size_t i = items; i > 0; i--) {
        struct mr_buffer *item = (void *)((char *)(chunk + 1) + (i - 1) * pool->item_size);

        item->desc = desc;
        item->next = pool->free;
        pool->free = item;
    }
    return mr_pool_get(pool);
}

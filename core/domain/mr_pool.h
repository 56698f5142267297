/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that a layer sends from and receives into: items of one size, in chunks that double up to
 * a bound, each chunk registered with the lower where that wants it (FI_MR_LOCAL, fi_mr(3)). Freed
 * items are reused last in, first out. Not locked: the owner's progress domain lock covers it.
 * Growing allocates, and registers with the lower, which may be a system call.
 */
#ifndef WEFT_CORE_DOMAIN_MR_POOL_H
#define WEFT_CORE_DOMAIN_MR_POOL_H

#include <stddef.h>

#include <rdma/fi_domain.h>

struct mr_pool_chunk;

/* At the start of every item. */
struct mr_buffer {
    struct mr_buffer *next; /* of those that are free */
    void *desc;             /* for the lower's calls (fi_mr_desc); NULL: it needs none */
};

struct mr_pool {
    const char *part;          /* for the log */
    struct fid_domain *domain; /* to register with, or NULL */
    size_t item_size;          /* with struct mr_buffer; a multiple of 64 */
    unsigned first, most;      /* items of the first chunk, and of any */
    size_t count, used;        /* items that exist, that are handed out */
    unsigned skip, skips;      /* calls to grow that are refused: now, after the next refusal */
    struct mr_buffer *free;
    struct mr_pool_chunk *chunks;
};

/* Items of item_size bytes, struct mr_buffer counted. domain: of the lower, which outlives the
 * pool, or NULL where it needs no registration. Allocates nothing yet. */
void mr_pool_init(struct mr_pool *pool, const char *part, struct fid_domain *domain,
                  size_t item_size, unsigned first, unsigned most);
/* Unregisters and frees all chunks; items still out are gone too. Takes a zeroed one. */
void mr_pool_finish(struct mr_pool *pool);

/* Out of line: one more chunk. NULL without memory. The first registration of a row that fails is
 * logged; behind further ones some calls are refused without one. */
void *mr_pool_grow(struct mr_pool *pool);

/* An item, aligned to 64 bytes, undefined but for its struct mr_buffer; NULL without memory. */
static inline void *mr_pool_get(struct mr_pool *pool)
{
    struct mr_buffer *item = pool->free;

    if (__builtin_expect(!item, 0))
        return mr_pool_grow(pool);
    pool->free = item->next;
    pool->used++;
    return item;
}

static inline void mr_pool_put(struct mr_pool *pool, void *ptr)
{
    struct mr_buffer *item = ptr;

    item->next = pool->free;
    pool->free = item;
    pool->used--;
}

#endif

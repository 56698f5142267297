/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block of memory for each thread that comes by: what it alone writes, without a lock or an
 * atomic instruction, and others read with relaxed loads. The block of a thread that has ended goes
 * to one that comes later, with what is in it. Embedded: `blocks` first in the owner's struct or
 * not, `block` first in what each thread gets.
 */
#ifndef WEFT_CORE_BLOCKS_H
#define WEFT_CORE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "core/list.h"

struct block {
    struct block *next;
    uint64_t thread; /* 0: of none that lives */
};

struct blocks {
    uint64_t number;     /* never that of another */
    unsigned generation; /* fork_generation that it was made in */
    size_t size;
    struct list link;
    struct block *first;
    void (*taken)(struct blocks *blocks, struct block *block); /* by a thread, which calls it */
    void (*left)(struct block *block);                         /* that thread ends; or NULL */
};

/* What this thread found last. */
struct block_last {
    uint64_t number;
    struct block *block;
};
extern _Thread_local struct block_last block_last __attribute__((tls_model("initial-exec")));

/* size: of a block, zeroed when it is new. taken and left may be NULL, and may not come back here.
 */
void blocks_init(struct blocks *blocks, size_t size,
                 void (*taken)(struct blocks *blocks, struct block *block),
                 void (*left)(struct block *block));
/* No thread may be in one; left is called for those that have one. Takes what was never inited. */
void blocks_finish(struct blocks *blocks);

/* The slow way: locks, and allocates. NULL without memory. */
struct block *block_find(struct blocks *blocks);

static inline struct block *block_of(struct blocks *blocks)
{
    if (__builtin_expect(block_last.number == blocks->number, 1))
        return block_last.block;
    return block_find(blocks);
}

/* While the list of blocks is walked. */
void blocks_lock(void);
void blocks_unlock(void);

/* Of a thread's own counts: others may read them meanwhile. */
static inline void block_add(uint64_t *count, uint64_t more)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

#endif

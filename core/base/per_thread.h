/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block of memory for each calling thread: only that thread writes it, without a lock or an
 * atomic instruction, and others read it with relaxed loads. A later thread gets the block of one
 * that has ended, with its contents. Embedded: `blocks` first in the owner's struct or not, `block`
 * first in what each thread gets.
 */
#ifndef WEFT_CORE_BASE_PER_THREAD_H
#define WEFT_CORE_BASE_PER_THREAD_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/list.h"

struct block {
    struct block *next;
    uint64_t thread; /* 0: of none that lives */
};

struct per_thread {
    uint64_t number;     /* never that of another */
    unsigned generation; /* fork_generation that it was made in */
    size_t size;
    struct list link;
    struct block *first;
    void (*taken)(struct per_thread *per_thread,
                  struct block *block); /* by a thread, which calls it */
    void (*left)(struct block *block);  /* that thread ends; or NULL */
};

/* The block that this thread found last. */
struct per_thread_last {
    uint64_t number;
    struct block *block;
};
extern _Thread_local struct per_thread_last per_thread_last
    __attribute__((tls_model("initial-exec")));

/* size: of a block, zeroed when it is new. taken and left may be NULL, and may not come back here.
 */
void per_thread_init(struct per_thread *per_thread, size_t size,
                     void (*taken)(struct per_thread *per_thread, struct block *block),
                     void (*left)(struct block *block));
/* No thread may be in one; left is called for those that have one. Takes a zeroed one. */
void per_thread_finish(struct per_thread *per_thread);

/* The slow way: locks, and allocates. NULL without memory. */
struct block *per_thread_find(struct per_thread *per_thread);

static inline struct block *per_thread_of(struct per_thread *per_thread)
{
    if (__builtin_expect(per_thread_last.number == per_thread->number, 1))
        return per_thread_last.block;
    return per_thread_find(per_thread);
}

/* While the list of blocks is walked. */
void per_thread_lock(void);
void per_thread_unlock(void);

/* Of a thread's own counts: others may read them meanwhile. */
static inline void per_thread_add(uint64_t *count, uint64_t more)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

#endif

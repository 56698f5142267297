/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bell: a page of a receiver's that its senders ring when it does not poll their rings. Links
 * share the bits of 4096 numbers. Also the fence that lets senders do without one
 * (docs/design/shm.md, "No message is missed").
 */
#ifndef WEFT_SHM_DOORBELL_H
#define WEFT_SHM_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SHM_DOORBELL_WORDS = 64,
    SHM_DOORBELL_BITS = SHM_DOORBELL_WORDS * 64,
    SHM_PAGE = 4096,
};

struct shm_doorbell {
    _Atomic uint64_t summary; /* words that have bits */
    char pad[56];
    _Atomic uint64_t words[SHM_DOORBELL_WORDS];
};

/* Rings it for a link number. A full fence. */
static inline void shm_doorbell_set(struct shm_doorbell *doorbell, uint32_t number)
{
    uint32_t bit = number % SHM_DOORBELL_BITS;

    atomic_fetch_or(&doorbell->words[bit / 64], 1ull << bit % 64);
    atomic_fetch_or(&doorbell->summary, 1ull << bit / 64);
    atomic_thread_fence(memory_order_seq_cst);
}

/* This process lets others fence it, and may fence others. Any thread, any number of times. */
bool shm_fence_available(void);
/* Every running thread of processes that did the above executes a full fence. */
void shm_fence_all(void);

#endif

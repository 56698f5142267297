/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that owe something and do nothing, as stopped processes do: the log names each once. A peer
 * owes room in its ring, and the answers to remote memory access, which its library gives without
 * its program. A message without a receive is no debt.
 */
#ifndef WEFT_SHM_SILENCE_H
#define WEFT_SHM_SILENCE_H

#include <stdint.h>

#include "core/progress/silence.h"

struct shm_ep;

/* Of a link, zeroed. */
struct shm_silence {
    struct silence wait; /* start_ms 0: the peer owes nothing */
    uint64_t moved;      /* its progress when the wait began */
};

/* Looks at all links, at most once in so many milliseconds as half of silence_after_ms. Progress
 * domain of the endpoint locked. */
void shm_silence_look(struct shm_ep *ep);

#endif

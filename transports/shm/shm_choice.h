/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chooses the method of large transfers of one direction of a link, by the times of the transfers
 * themselves. A sample is a batch of transfers by one method; a whole window of large transfers
 * should not use a slow one, so transfers beyond the batch wait for its end, where they can.
 * Progress domain of the endpoint locked.
 */
#ifndef WEFT_SHM_CHOICE_H
#define WEFT_SHM_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum shm_way {
    SHM_STREAM, /* both sides copy, through bulk */
    SHM_MAPPED, /* one side copies, from the other's memory, which it has mapped */
    SHM_CMA,    /* the kernel copies */
    SHM_WAYS,
};

enum {
    SHM_SAMPLE = 1 << 20, /* bytes of a measurement, at least */
    SHM_SAMPLES = 3,      /* of each way; the best counts */
    SHM_KEEP = 1 << 30,   /* bytes that go the chosen way until it is measured again */
};

struct shm_choice {
    unsigned ways;              /* those that there were at the last look */
    uint32_t running[SHM_WAYS]; /* transfers that have begun */
    uint32_t samples[SHM_WAYS];
    uint64_t flying;          /* bytes of transfers that have begun */
    uint64_t since;           /* ns: the last end, or the begin after a pause */
    uint64_t bytes[SHM_WAYS]; /* of the sample that is being taken */
    uint64_t ns[SHM_WAYS];    /* that it took */
    uint64_t best[SHM_WAYS];  /* bytes in 2^20 ns */
    uint64_t kept;            /* bytes since the choice */
    bool mixed;               /* several ways have been in use since then */
};

/* The way of the next transfer, one of `ways` (1 << way). */
enum shm_way shm_choice_next(struct shm_choice *choice, unsigned ways);
/*
 * The next transfer should not begin before one ends or is dropped: it would enlarge a sample that
 * is large enough, or run beside a sample of another way.
 */
bool shm_choice_is_full(const struct shm_choice *choice, unsigned ways);
/* A transfer of that many bytes begins, and ends, all moved. Times from any one clock, in ns. */
void shm_choice_begin(struct shm_choice *choice, enum shm_way way, uint64_t bytes, uint64_t now);
void shm_choice_end(struct shm_choice *choice, enum shm_way way, uint64_t bytes, uint64_t now);
/* One has changed to another way, or was given up: it tells nothing. */
void shm_choice_drop(struct shm_choice *choice, enum shm_way way, uint64_t bytes);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a sender writes payload into bulk: with plain stores, or with stores that go past its caches.
 *
 * The lines of a ring that the receiver has read are in the receiver's cache. A plain store first
 * fetches each of them back, and where a line is slow between the two cores that is what a message
 * of some KiB costs. Streaming stores overwrite lines without fetching them, but take bandwidth of
 * the memory, and the receiver then reads from there; where two cores share a cache they lose. The
 * sender decides by the times of its own copies, for each direction of a link and class of lengths.
 * The lines of a copy lie where those of the lap before it left them, so it tries each manner for a
 * lap of the ring. The choice alone is pure. Progress domain of the endpoint locked.
 */
#ifndef WEFT_SHM_STORE_H
#define WEFT_SHM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHM_STORE_LEAST = 2048,     /* bytes; shorter copies use plain stores */
    SHM_STORE_CLASSES = 5,      /* of lengths: from 2 KiB, 4, 8, 16, and 32 KiB on */
    SHM_STORE_TRIES = 15,       /* copies in each manner that are compared, */
    SHM_STORE_WARM = 256 << 10, /* when so many bytes went in that manner: all of a bulk ring */
    SHM_STORE_FASTER = 2,       /* times: streaming stores must be so much faster */
    SHM_STORE_KEEP = 65535,     /* copies in the chosen manner until they are compared again */
};

struct shm_stores {
    struct shm_store_class {
        uint32_t warmed;                 /* bytes in the manner that is tried */
        uint16_t kept;                   /* copies since the choice */
        uint16_t plain[SHM_STORE_TRIES]; /* ticks that a KiB took, in order */
        uint8_t tried;                   /* first plain ones */
        uint8_t wins;                    /* streaming stores were clearly faster */
        bool streams;                    /* as chosen */
    } classes[SHM_STORE_CLASSES];
};

/* One copy that is being made. */
struct shm_store {
    bool streams, timed;
    size_t len; /* bytes in all */
    uint64_t began;
};

/* Manner of the next copy of that many bytes, and whether its time is wanted. */
struct shm_store shm_store_next(struct shm_stores *stores, size_t len);
/* A copy whose time was wanted took so long, in ticks. */
void shm_store_took(struct shm_stores *stores, const struct shm_store *store, uint64_t ticks);

/* A copy of len bytes: begun, made piece by piece, ended before the receiver is told. */
struct shm_store shm_store_begin(struct shm_stores *stores, size_t len);
void shm_store_piece(const struct shm_store *store, void *to, const void *from, size_t len);
void shm_store_end(struct shm_stores *stores, const struct shm_store *store);

#endif

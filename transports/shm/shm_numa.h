/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the memory of a link lives: the half that a process reads is to be at its node, since the
 * reader waits for what it reads, and a store does not wait. The policy belongs to the memory,
 * so the one that makes it says it for both, before a page is touched.
 */
#ifndef WEFT_SHM_NUMA_H
#define WEFT_SHM_NUMA_H

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

/* Questions to the system. */
struct shm_numa {
    int (*node_here)(void);    /* negative: unknown */
    int (*node_of)(pid_t pid); /* where its main thread ran last */
    /* Pages to come are to be of the node if it has some. */
    int (*prefer)(void *memory, size_t size, int node);
};

/* NULL: one node, or built without libnuma. */
const struct shm_numa *shm_numa(void);
/* libnuma's, however many nodes there are; NULL without libnuma. */
const struct shm_numa *shm_numa_real(void);

/* A new region of SHM_REGION bytes, of which this process reads `half` and pid the other. numa may
 * be NULL. */
void shm_numa_place(const struct shm_numa *numa, void *region, int half, pid_t pid);

#endif

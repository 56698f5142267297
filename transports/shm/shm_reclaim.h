/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The writer of bulk gives pages that are out of use back to the kernel: it alone knows when
 * nothing of its own is in them. Progress domain of the endpoint locked.
 */
#ifndef WEFT_SHM_RECLAIM_H
#define WEFT_SHM_RECLAIM_H

#include <stdint.h>

#include "transports/shm/shm_ring.h"

struct shm_ep;

enum {
    SHM_RECLAIM_TICKS = 2000000000, /* without bulk: about a second of a clock of 2 GHz */
    SHM_RECLAIM_LINKS = 4,          /* that are looked at together */
};

/* Of a link. Zeroed: nothing was sent yet. */
struct shm_reclaim {
    uint64_t sent, taken; /* how far bulk was, both ways, at the last visit */
    uint64_t since;       /* and at which one it had come there */
    uint64_t clean;       /* how far it was when its pages were given back */
};

/* A look at a link, from time to time: gives back, or tells the peer that he may. */
void shm_reclaim_visit(struct shm_reclaim *rest, struct shm_tx *tx, struct shm_rx *rx,
                       uint64_t now);
/* The next few links of an endpoint. */
void shm_reclaim_some(struct shm_ep *ep, uint64_t now);

#endif

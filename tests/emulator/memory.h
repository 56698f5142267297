/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and memory regions. lkey and rkey of a region differ, and neither is valid as
 * the other, so a program that mixes them up is found out.
 */
#ifndef WEFT_EMULATOR_MEMORY_H
#define WEFT_EMULATOR_MEMORY_H

#include <infiniband/verbs.h>

#include "object.h"

struct pd {
    struct ibv_pd pd;
    struct pd *base;   /* of a parent domain: what it stands on; else itself */
    struct ibv_td *td; /* of a parent domain */
    unsigned users;    /* regions, queue pairs, address handles, shared queues, parent domains */
    struct object object;
};

static inline struct pd *pd_of(struct ibv_pd *pd)
{
    return (struct pd *)(void *)pd;
}

/* One more or one fewer user. The lock is held. */
void pd_use(struct ibv_pd *pd, int change);

/* The address of [address, address + length), if the key allows it, or NULL. `access` is a set of
 * IBV_ACCESS_ flags that all must have been given. The lock is held. */
void *memory_local(struct ibv_pd *pd, uint32_t lkey, uint64_t address, uint64_t length,
                   unsigned access);
void *memory_remote(struct ibv_pd *pd, uint32_t rkey, uint64_t address, uint64_t length,
                    unsigned access);

#endif

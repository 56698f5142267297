/* SPDX-License-Identifier: BSD-2-Clause */
/* Hints down a stack, offers up it (architecture, section 3). */
#ifndef WEFT_COMPOSE_PLAN_H
#define WEFT_COMPOSE_PLAN_H

#include <stdint.h>

#include <rdma/fabric.h>

#include "compose/stack.h"
#include "core/base/reason.h"

/* The arguments of fi_getinfo that every level gets unchanged. */
struct query {
    uint32_t version;
    const char *node, *service;
    uint64_t flags;
    unsigned upper; /* of whom the stack is the lower: as struct request has it */
};

/*
 * The infos of stack that satisfy hints (complete: every nested attr present), each info
 * describing all that it can do: not settled, prov_name not set. *infos is NULL when nothing fits;
 * the reasons are recorded. 0 or -FI_ENOMEM. May block in the resolver.
 */
int plan_offers(const struct stack *stack, const struct query *query, const struct fi_info *hints,
                struct reasons *reasons, struct fi_info **infos);

/* plan_offers, settled for the hints, and named. -FI_ENODATA when nothing fits. */
int plan_getinfo(const struct stack *stack, const char *name, const struct query *query,
                 const struct fi_info *hints, struct reasons *reasons, struct fi_info **infos);

#endif

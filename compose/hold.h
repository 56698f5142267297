/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening a stack, bottom up, and the holds (core/part/part.h: struct lower) of its parts on their
 * lowers. A fabric may have several holds: the one that a bare transport opens is used as it is and
 * by the layer that completes it; the last close closes it.
 */
#ifndef WEFT_COMPOSE_HOLD_H
#define WEFT_COMPOSE_HOLD_H

#include "compose/stack.h"

/* Common to all parts of a stack that is being opened. */
struct opening {
    const char *name;     /* the fabric's name */
    uint32_t api_version; /* that the application named */
    const char *whole;    /* as open_args.whole; may be NULL */
    unsigned upper;       /* requires_ep of the layer above, as struct request has it */
};

/* Opens a fabric of stack for an upper whose structs are laid out as `abi` says. */
int stack_open(struct stack *stack, const struct opening *opening, unsigned abi,
               struct fid_fabric **fabric, void *context);

/* stack_open of stack's own part over lowers that are open; they are the fabric's on success. */
int stack_open_over(struct stack *stack, const struct opening *opening, unsigned abi,
                    struct lower **lowers, struct fid_fabric **fabric, void *context);

/* The same behind a hold. */
int hold_open(struct stack *stack, const struct opening *opening, unsigned abi,
              struct lower **lower);
/* Another hold on the same open fabric, for a layer with that requires_ep. NULL without memory. */
struct lower *hold_share(struct lower *lower, unsigned upper);

/* A bare transport with the unnamed layer that completes it: see automatic.c. */
int automatic_open(struct stack *stack, const struct opening *opening, unsigned abi,
                   struct fid_fabric **fabric, void *context);

#endif

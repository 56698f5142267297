/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stacks that one fi_getinfo or fi_fabric looks at: what FI_PROVIDER lists or leaves, with
 * FI_HOOK on top, narrowed by the provider name of the hints; each with the provider name that
 * leads back to it.
 */
#ifndef WEFT_COMPOSE_CANDIDATE_H
#define WEFT_COMPOSE_CANDIDATE_H

#include "compose/stack.h"
#include "core/reason.h"

/* The variables that choose stacks; NULL or "" is unset. */
struct environment {
    const char *provider; /* FI_PROVIDER */
    const char *hook;     /* FI_HOOK */
};

struct candidate {
    struct stack *stack;
    char *full, *brief; /* stack_print, stack_print_short */
    const char *name;   /* one of the two: what prov_name says */
    uint64_t asked;     /* capabilities for which the planner has put layers on it */
    size_t choice;      /* index of the user's choice that it came from; 0 without choices */
};

struct candidates {
    struct candidate *list; /* best first */
    size_t count;
};

/*
 * caps: what the hints ask for, PART_ADDS_STRICT too; layers that add some of it are put on every
 * stack (part.adds).
 * wanted: hints->fabric_attr->prov_name, a plain name or a spec; NULL for none. Errors in the texts
 * are shown to the user, and leave out the choice that they are in; a name in the hints of a part
 * that there is not is only shown when it looks like a slip, since programs probe. What is left out
 * is also recorded in reasons. 0 with possibly no candidate, or -FI_ENOMEM.
 */
int candidates_make(const struct parts *parts, const struct environment *environment, uint64_t caps,
                    const char *wanted, struct reasons *reasons, struct candidates *candidates);
void candidates_finish(struct candidates *candidates);

/* Among those made for this very `wanted`: the one that the name means. NULL when there is none. */
const struct candidate *candidates_find(const struct candidates *candidates, const char *wanted);

#endif

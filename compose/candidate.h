/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stacks that one fi_getinfo or fi_fabric looks at: what FI_PROVIDER lists or leaves, with
 * FI_HOOK on top, narrowed by the provider name of the hints; each with the provider name that
 * leads back to it.
 */
#ifndef WEFT_COMPOSE_CANDIDATE_H
#define WEFT_COMPOSE_CANDIDATE_H

#include "compose/stack.h"
#include "core/base/reason.h"

/* The variables that choose stacks; NULL or "" is unset. */
struct environment {
    const char *provider; /* FI_PROVIDER */
    const char *hook;     /* FI_HOOK */
    /* Where they are set, as shown: "/etc/libfabric.conf:3: FI_PROVIDER"; "": the variable. */
    char provider_origin[512], hook_origin[512];
    const char *links;       /* FI_LNX_PROV_LINKS: joins, beside what there is, or for 'lnx' */
    const char *links_shm;   /* FI_LNX_DISABLE_SHM */
    const char *links_rails; /* FI_LNX_MULTI_RAIL_SELECTION */
    char links_origin[512];
    const char *rails, *rails_config; /* FI_OFI_MRAIL_ADDR, FI_OFI_MRAIL_CONFIG: the same */
    char rails_origin[512];
    bool curious; /* the caller wants to know what is wrong with the name in the hints, too */
};

static inline bool text_is_set(const char *text)
{
    return text && *text;
}

/* As they are now; the texts live as param_variable's. */
void environment_read(struct environment *environment);

/* The text that a candidate is written in, for which the spans of its stack hold. */
enum text_origin {
    TEXT_NONE,     /* none: it is one of all that there are */
    TEXT_PROVIDER, /* FI_PROVIDER */
    TEXT_HOOK,     /* FI_HOOK: layers that it has put on top (stack.hooked) */
    TEXT_WANTED,   /* the name in the hints */
    TEXT_LINKS,    /* FI_LNX_PROV_LINKS, as candidates.links has it */
    TEXT_RAILS,    /* FI_OFI_MRAIL_ADDR, as candidates.rails has it */
    TEXT_CONFIG,   /* FI_OFI_MRAIL_CONFIG */
};
/* "FI_PROVIDER", ...: the place that a message about a mistake names. */
const char *text_origin_name(const struct environment *environment, enum text_origin origin);

struct candidate {
    struct stack *stack;
    char *full, *brief, *bare; /* stack_print, stack_print_short, stack_print_bare */
    const char *name;          /* one of the three, or linked: what prov_name says */
    const char *linked;        /* the name of what upstream's variables made, or NULL */
    uint64_t asked;            /* capabilities for which the planner has put layers on it */
    size_t choice;             /* index of the user's choice that it came from; 0 without choices */
    enum text_origin origin;
    size_t infos; /* that it gave, for callers that count them */
};

struct candidates {
    struct candidate *list; /* best first */
    size_t count;
    char *links;     /* FI_LNX_PROV_LINKS as a spec, or NULL */
    char *rails;     /* FI_OFI_MRAIL_ADDR */
    size_t mistakes; /* in the texts: so many were shown, now or before */
};

/*
 * caps: the capabilities that the hints ask for, PART_ADDS_STRICT too; layers that add some of them
 * are put on every stack (part.adds). wanted: hints->fabric_attr->prov_name, a plain name or a
 * spec; NULL for none. Errors in the texts are shown to the user, and exclude the choice that they
 * are in; an unknown part in the hints is shown only when its name looks like a slip, since
 * programs probe, or when FI_EXPLAIN is set. Choices left out are also recorded in reasons. 0 with
 * possibly no candidate, or -FI_ENOMEM.
 */
int candidates_make(const struct parts *parts, const struct environment *environment, uint64_t caps,
                    const char *wanted, struct reasons *reasons, struct candidates *candidates);
void candidates_finish(struct candidates *candidates);

/* Among those made for this very `wanted`: the one that the name means. NULL when there is none. */
const struct candidate *candidates_find(const struct candidates *candidates, const char *wanted);

#endif

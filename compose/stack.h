/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stack that a text stands for, not opened: a tree of parts with their parameters. Nodes are
 * immutable once bound, and shared by reference count, across threads.
 */
#ifndef WEFT_COMPOSE_STACK_H
#define WEFT_COMPOSE_STACK_H

#include <stdbool.h>
#include <stddef.h>

#include <rdma/fi_endpoint.h>

#include "compose/registry.h"
#include "compose/spec.h"

/*
 * A part over its lowers; or, when `automatic`, the place of a transport that was named bare and
 * that an unnamed layer completes: lowers[0] is the transport, lowers[1] the layer over that same
 * node, and part is the transport's.
 */
struct stack {
    int refs;
    const struct part *part;
    bool automatic;
    bool hooked;              /* put on top by FI_HOOK: never printed */
    bool unseen;              /* makes reliable packets of datagrams, or messages of the packets
                                 of a join, and not in the text */
    bool usual;               /* a join whose bracket is not in the text */
    struct params *params;    /* resolved; NULL when automatic */
    struct spec_param *given; /* as in the text */
    size_t given_count;
    struct stack **lowers;
    size_t lower_count;
    struct span span; /* of the name, in the text that it came from */
};

/* A node with one reference, without parameters or lowers. NULL without memory. */
struct stack *stack_create(const struct part *part, struct span span);
struct stack *stack_hold(struct stack *stack);
void stack_release(struct stack *stack); /* takes NULL */

/* Adds lower, whose reference passes to stack also on failure. -FI_ENOMEM. */
int stack_add_lower(struct stack *stack, struct stack *lower);
/* Sets the parameters from texts. On -FI_EINVAL *error is filled with the span of the bad one. */
int stack_set_params(struct stack *stack, const struct spec_param *params, size_t count,
                     struct spec_error *error);
/* The transport's parameter `domain`: a list, or NULL for any. */
const char *stack_domains(const struct stack *stack);
/* stack's part and parameters over another lower (lower's reference passes). NULL without
 * memory. */
struct stack *stack_over(const struct stack *stack, struct stack *lower);

/* The index of a join's lower whose names are the join's, or SIZE_MAX. */
size_t stack_face(const struct stack *join);
/* A name of a fabric or a domain of a join, for each of its lowers, on the heap: NULL for one that
 * it leaves out; of a join with a face, for each other lower. -FI_EINVAL, -FI_ENOMEM. */
int stack_split_name(const struct stack *join, const char *text, char **names);

/* Says nothing about parameters or transparent layers: a name in upstream's sense. */
bool stack_is_plain(const struct stack *stack);
/* Is part one of the stack's, put there by name? */
bool stack_has(const struct stack *stack, const struct part *part);
/* The stack with layer on it. The user's top stays on top: hooks, and under them the layers that
 * only hooks may stand on. NULL without memory. */
struct stack *stack_put(const struct stack *stack, const struct part *layer);

/* bind: one stack of a parsed text to parts, each base at its end. -FI_EINVAL with *error. */
int bind_stack(const struct parts *parts, const struct spec_stack *text, struct stack **stack,
               struct spec_error *error);
/* The same, and check. */
int bind_checked(const struct parts *parts, const struct spec_stack *text, struct stack **stack,
                 struct spec_error *error);
/* bind, of a join that makes packets and stands alone: a lower for each domain of the networks of
 * the highest rank that there are, loopback ones only where there are no others. */
int bind_rails(const struct parts *parts, struct stack *join, struct spec_error *error);
/* bind, of FI_HOOK: puts its transparent layers on top of *stack, whose reference is replaced. */
int bind_hooks(const struct parts *parts, const struct spec_stack *text, struct stack **stack,
               struct spec_error *error);

/* check: every layer stands on a lower that it can use. -FI_EINVAL with *error. */
int check_stack(const struct parts *parts, const struct stack *stack, struct spec_error *error);
/* Endpoint types that a stack gives: the named parts only, or with what a bare transport admits. */
unsigned check_gives(const struct parts *parts, const struct stack *stack, bool admits);
/* May `layer` be put, by the planner, on a transport that was named bare? */
bool check_admits(const struct parts *parts, const struct part *layer, const struct part *base);
/* The layer that makes reliable packets of datagrams. NULL: there is none. */
const struct part *check_packets(const struct parts *parts);
/* The layer that makes messages of reliable packets. NULL: there is none. */
const struct part *check_messages(const struct parts *parts);
/* A set of what something gives, with the packets that this layer makes of its datagrams. */
unsigned check_with_packets(const struct parts *parts, unsigned given);
/* Has the part endpoints of that type, for an application? */
bool check_has_type(const struct part *part, enum fi_ep_type type);

/*
 * admit: the stacks that a checked one stands for, best first: the one with its bare transports
 * completed by unnamed layers, then those with a named layer on a bare transport. Appends to the
 * array *list of *count, each with a reference. -FI_ENOMEM.
 */
int admit_stack(const struct parts *parts, struct stack *stack, struct stack ***list,
                size_t *count);

/* Text of a stack, transport first, in upstream's spelling, without the layers of FI_HOOK. Full:
 * parses, binds and admits back to this stack. Short: without transparent layers and parameters.
 * Bare: short, and without layers that the transport's bare name brings along. Heap; NULL without
 * memory. */
char *stack_print(const struct stack *stack);
char *stack_print_short(const struct stack *stack);
char *stack_print_bare(const struct stack *stack);

/* Is part one of the parts of such a text, or several that follow each other; is name the first? */
bool name_contains(const char *text, const char *part);
bool name_begins_with(const char *text, const char *name);

/* enum peer_trait of the part that gives the stack's infos, under what is transparent, to a layer
 * above with this requires_ep. */
unsigned stack_peer_traits(const struct stack *stack, unsigned upper);

#endif

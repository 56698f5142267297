/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Joins that a text names without a bracket, wherever it does: under hooks, in brackets of other
 * joins. Upstream's variable for a join, where it is set, says which bracket it stands for.
 */
#ifndef WEFT_COMPOSE_PLACE_H
#define WEFT_COMPOSE_PLACE_H

#include "compose/stack.h"

/* A layer or join alone, which in a name is a filter. NULL when it is something else. */
const struct part *place_lone_layer(const struct parts *parts, const struct spec_stack *text);
/* Does text, or a bracket in it, name the join without a bracket? */
bool place_has(const struct parts *parts, const struct spec_stack *text, const char *join);
/* Stacks in `by`; 1 when it is too long to be a spec. */
size_t place_count(const char *by);
/* Puts the bracket of stack number index of `by`, which is "join;[...]", and the parameters that
 * are not given, there each time. Spans of what is put are those of the join's name. -FI_EINVAL
 * with *error (it is too long), -FI_ENOMEM: text may have some. */
int place_put(const struct parts *parts, struct spec_stack *text, const char *join, const char *by,
              size_t index, struct spec_error *error);

#endif

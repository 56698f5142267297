/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FI_EXPLAIN: why fi_getinfo answered as it did. Each call ends with text on stderr:
 *   1     the tree of candidate stacks, with the reason at each dead branch
 *   tree  each returned stack, drawn top first, with what each of its parts adds
 * Unset, empty and 0 are off. `fi_info --explain` and `--tree` set it.
 */
#ifndef WEFT_COMPOSE_EXPLAIN_H
#define WEFT_COMPOSE_EXPLAIN_H

#include <stdio.h>

#include "compose/candidate.h"
#include "compose/plan.h"

enum explain {
    EXPLAIN_OFF,
    EXPLAIN_REASONS,
    EXPLAIN_TREE,
};

/* From the text of FI_EXPLAIN; NULL is off. */
enum explain explain_mode(const char *text);

void explain_reasons(FILE *out, const struct query *query, const struct fi_info *hints,
                     const struct reasons *reasons, const struct fi_info *infos);

/* infos: of the candidates, by their names. */
void explain_tree(FILE *out, const struct query *query, const struct candidates *candidates,
                  const struct fi_info *infos);

#endif

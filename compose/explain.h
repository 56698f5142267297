/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FI_EXPLAIN: why fi_getinfo answered as it did. Each call ends with text on stderr:
 *   1     the tree of candidate stacks, with the reason at each dead branch
 *   tree  each returned stack, drawn top first, with what each of its parts adds
 *   brief when nothing fits, the most telling reason
 *   parts the parts there are, a line for each, when FI_PROV_ATTR_ONLY asks for them
 * Unset, empty, 0 and no are off. `fi_info` and `fi_pingpong` set it. Whole lines are written, each
 * with the process that it is of in front, since processes of a job share a standard error.
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
    EXPLAIN_BRIEF,
    EXPLAIN_PARTS,
};

/* From the text of FI_EXPLAIN; NULL is off, any other text is EXPLAIN_REASONS. */
enum explain explain_mode(const char *text);

void explain_reasons(FILE *out, const struct query *query, const struct fi_info *hints,
                     const struct reasons *reasons, const struct fi_info *infos);

/* Name, kind and summary of each part, and why others are not built. */
void explain_parts(FILE *out, const struct parts *parts);

/* Writes `text`, each line of it behind "libfabric:PID: ", in one go to standard error. */
void explain_write(const char *text);

/* infos: of the candidates, by their names. */
void explain_tree(FILE *out, const struct query *query, const struct candidates *candidates,
                  const struct fi_info *infos);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ledger of refusals: why a candidate stack gives nothing. fi_getinfo fills one for each call;
 * `fi_info --explain`, FI_EXPLAIN=1 and the log print it. All functions take a NULL ledger.
 */
#ifndef WEFT_CORE_BASE_REASON_H
#define WEFT_CORE_BASE_REASON_H

#include <stdio.h>

struct reasons;

/* An empty ledger, NULL without memory. */
struct reasons *reasons_create(void);
void reasons_destroy(struct reasons *reasons);

/* Opens a branch of the tree under the open one, named as the user would write it ("rxm;tcp",
 * "rxm", "tcp on eth0"). Every reason recorded until reasons_leave belongs to it. */
void reasons_enter(struct reasons *reasons, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Closes the open branch; `infos` is how many infos it gave (0: a dead branch). */
void reasons_leave(struct reasons *reasons, size_t infos);

/* Records one refusal in the open branch: one sentence, no full stop. */
void reasons_add(struct reasons *reasons, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* How far a candidate came before it was refused: decides which sentence reasons_summary gives.
 * reasons_add records REASON_PART. */
enum reason_progress {
    REASON_TYPE,  /* wrong endpoint type, wrong name: another kind than the hints ask for */
    REASON_CAPS,  /* lacks capabilities */
    REASON_MODE,  /* needs mode or mr_mode bits that the application does not have */
    REASON_PART,  /* what only the part itself knows: addresses, parameters */
    REASON_ATTR,  /* a domain or endpoint attribute */
    REASON_LIMIT, /* a size or count: all but enough */
};
void reasons_add_at(struct reasons *reasons, enum reason_progress progress, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints the tree, indented: "rxm;tcp: 0 infos" and its reasons below, "x" at a dead branch, "-" at
 * one that gave something. Reasons that repeat in a branch are printed once with a count. */
void reasons_print(const struct reasons *reasons, FILE *out);

/* The most useful single sentence (the reason of the branch that came furthest, of those that gave
 * nothing if they have any), or NULL. Valid as long as the ledger. */
const char *reasons_summary(const struct reasons *reasons);
/* The same, with the name of its branch in *where (NULL: outside of all). */
const char *reasons_culprit(const struct reasons *reasons, const char **where);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of fabrics and domains of a join: those of its branches, joined by '+' ("shm+eth0"). A
 * branch that has nothing here is '-'. A name that would be taken for several, or for none, stands
 * in brackets ("[shm+eth0]+ib0" of a join on a join).
 */
#ifndef WEFT_CORE_PART_JOIN_NAME_H
#define WEFT_CORE_PART_JOIN_NAME_H

#include <stddef.h>

/* NULL in names: the branch has nothing. Heap; NULL without memory. */
char *join_name(const char *const *names, size_t count);

/* Takes a name apart: the pieces of count branches, on the heap, NULL for one that has nothing.
 * -FI_EINVAL: it is no name of so many branches; -FI_ENOMEM. Then names is all NULL. */
int join_name_split(const char *text, size_t count, char **names);
/* Frees the pieces. */
void join_names_free(char **names, size_t count);

#endif

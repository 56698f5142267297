/* SPDX-License-Identifier: BSD-2-Clause */
/* Libraries that are loaded at run time, where a machine has them: nothing is linked with them. */
#ifndef WEFT_CORE_BASE_LIBRARY_H
#define WEFT_CORE_BASE_LIBRARY_H

#include <stddef.h>

/* A symbol of a library, and where its address goes. */
struct library_symbol {
    const char *name;
    void **function;
};

enum {
    LIBRARY_WHY = 200
};

/*
 * The library must have `count` of the symbols; of `newer`, one that it lacks becomes NULL. It
 * stays loaded, since its threads and exit handlers outlive any of our objects. -FI_ENODATA, with a
 * sentence in why[LIBRARY_WHY].
 */
int library_load(const char *file, const struct library_symbol *symbols, size_t count,
                 const struct library_symbol *newer, size_t newer_count, char *why);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The names in `variable` of struct param_def: A, or A|B. */
#ifndef WEFT_CORE_PARAM_PARAM_ALIAS_H
#define WEFT_CORE_PARAM_PARAM_ALIAS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The next name, and *names moves behind it. False: there is none; *names may be NULL. */
static inline bool param_alias(const char **names, char *name, size_t size)
{
    const char *from = *names;
    size_t len = from ? strcspn(from, "|") : 0;

    if (!len || len >= size)
        return false;
    memcpy(name, from, len);
    name[len] = '\0';
    *names = from[len] ? from + len + 1 : NULL;
    return true;
}

#endif

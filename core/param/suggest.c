/* SPDX-License-Identifier: BSD-2-Clause */
/* suggest_name: optimal string alignment, the Damerau-Levenshtein distance without edits inside a
 * swap. */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/param/param.h"

enum {
    NAME_LIMIT = 63
};

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* `limit` + 1 for all that is further than `limit`. Case does not count. */
static unsigned distance(const char *a, const char *b, unsigned limit)
{
    unsigned rows[3][NAME_LIMIT + 1];
    size_t a_len = strlen(a), b_len = strlen(b);
    size_t gap = a_len > b_len ? a_len - b_len : b_len - a_len;

    if (a_len > NAME_LIMIT || b_len > NAME_LIMIT || gap > limit)
        return limit + 1;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);

            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]))
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

const char *suggest_name(const char *text, const char *const *names)
{
    size_t len = strlen(text);
    unsigned best = len <= 3 ? 1 : len <= 5 ? 2 : 3;
    const char *near = NULL;

    for (; *names; names++) {
        unsigned d = distance(text, *names, best);

        /* As many edits as there are letters would make anything near. */
        if (d < strlen(*names) && (d < best || (d == best && !near))) {
            best = d;
            near = *names;
        }
    }
    return near;
}

char *suggest_explain(const char *what, const char *text, const char *const *names, char *why,
                      size_t why_size)
{
    const char *near = suggest_name(text, names);
    size_t used = (size_t)snprintf(why, why_size, "there is no %s '%.60s'; ", what, text);

    if (used < why_size)
        used += (size_t)snprintf(why + used, why_size - used, near ? "did you mean '%s'?" : "%s",
                                 near ? near : "there are ");
    for (size_t i = 0; !near && names[i] && used < why_size; i++)
        used += (size_t)snprintf(why + used, why_size - used, "%s%s", i ? ", " : "", names[i]);
    return why;
}

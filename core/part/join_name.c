/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/part/join_name.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

static const char nothing[] = "-";

/* Would it be read as something else where it stands as it is? */
static bool needs_brackets(const char *name)
{
    return !*name || !strcmp(name, nothing) || strpbrk(name, "+[]");
}

char *join_name(const char *const *names, size_t count)
{
    size_t size = 1;
    char *text, *at;

    for (size_t i = 0; i < count; i++)
        size += (names[i] ? strlen(names[i]) : 1) + 3;
    text = at = malloc(size);
    if (!text)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        bool brackets = names[i] && needs_brackets(names[i]);

        if (i)
            *at++ = '+';
        if (brackets)
            *at++ = '[';
        at = stpcpy(at, names[i] ? names[i] : nothing);
        if (brackets)
            *at++ = ']';
    }
    *at = 0;
    return text;
}

/* The end of the piece that begins at text: a '+' outside of brackets, or the end. NULL: brackets
 * that do not close. */
static const char *end_of(const char *text)
{
    size_t depth = 0;

    for (; *text && (depth || *text != '+'); text++) {
        depth += *text == '[';
        if (*text == ']' && !depth--)
            return NULL;
    }
    return depth ? NULL : text;
}

static int take_piece(const char *from, const char *end, char **name)
{
    size_t len = (size_t)(end - from);

    *name = NULL;
    if (!len)
        return -FI_EINVAL;
    if (len == 1 && *from == *nothing)
        return 0;
    if (*from == '[' && end[-1] == ']') {
        from++;
        len -= 2;
    }
    *name = strndup(from, len);
    return *name ? 0 : -FI_ENOMEM;
}

int join_name_split(const char *text, size_t count, char **names)
{
    size_t taken = 0;
    int rc = 0;

    memset(names, 0, count * sizeof(*names));
    for (const char *end; !rc && text; text = *end ? end + 1 : NULL) {
        end = end_of(text);
        rc = end && taken < count ? take_piece(text, end, &names[taken]) : -FI_EINVAL;
        taken += !rc;
        if (rc)
            break;
    }
    if (!rc && taken == count)
        return 0;
    join_names_free(names, taken);
    return rc ? rc : -FI_EINVAL;
}

void join_names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
        names[i] = NULL;
    }
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/path.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Puts the expansion of a %-sequence at *out; the length, or -1 for an unknown one. */
static int expand_one(char what, char *out, size_t size)
{
    char host[64] = "";

    switch (what) {
    case 'p': return snprintf(out, size, "%d", (int)getpid());
    case 'h': gethostname(host, sizeof(host) - 1); return snprintf(out, size, "%s", host);
    case '%': return snprintf(out, size, "%%");
    default: return -1;
    }
}

int path_expand(const char *path, char *out, size_t size, char *why, size_t why_size)
{
    size_t used = 0;

    for (const char *c = path; *c; c++) {
        int len = 1;

        if (used + 1 >= size) {
            snprintf(why, why_size, "the name is too long");
            return -ENAMETOOLONG;
        }
        if (*c == '%')
            len = expand_one(*++c, out + used, size - used);
        else
            out[used] = *c;
        if (len < 0) {
            snprintf(why, why_size, "'%s' has a %% that is not %%p, %%h or %%%%", path);
            return -EINVAL;
        }
        used += (size_t)len;
        used = used < size ? used : size - 1;
    }
    out[used] = 0;
    return 0;
}

int path_check(const char *path, char *why, size_t why_size)
{
    char out[4096];

    return path_expand(path, out, sizeof(out), why, why_size);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

/* ---- Output ---- */

static void check_output(void)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return;
    fprintf(stderr, "%s: cannot write: %s\n", program_invocation_short_name,
            errno ? strerror(errno) : "some of the output is lost");
    _exit(1);
}

__attribute__((constructor)) static void watch_output(void)
{
    atexit(check_output);
}

/* ---- Names ---- */

enum {
    NAMES_MAX = 128,
    NAME_MAX_LEN = 64
};

/* All names of a type, asked from the library one value at a time. */
struct names {
    char texts[NAMES_MAX][NAME_MAX_LEN];
    const char *list[NAMES_MAX + 1];
    uint64_t values[NAMES_MAX];
    size_t count;
};

static void add_name(struct names *names, enum fi_type type, uint64_t value)
{
    char *text = names->texts[names->count];

    fi_tostr_r(text, NAME_MAX_LEN, &value, type);
    if (!*text || !strcmp(text, "Unknown"))
        return;
    names->values[names->count] = value;
    names->list[names->count++] = text;
    names->list[names->count] = NULL;
}

static void read_names(struct names *names, enum fi_type type, bool flags)
{
    names->count = 0;
    names->list[0] = NULL;
    for (unsigned i = 0; i < 64; i++)
        add_name(names, type, flags ? UINT64_C(1) << i : i);
}

/* The whole name, or what stands behind FI_ or FI_EP_, without regard to case. */
static bool matches(const char *name, const char *text)
{
    if (!strcasecmp(name, text))
        return true;
    if (!strncmp(name, "FI_EP_", 6) && !strcasecmp(name + 6, text))
        return true;
    return !strncmp(name, "FI_", 3) && !strcasecmp(name + 3, text);
}

static unsigned distance(const char *a, const char *b)
{
    unsigned row[NAME_MAX_LEN + 1];
    size_t b_len = strlen(b);

    for (size_t j = 0; j <= b_len; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; a[i]; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i + 1;
        for (size_t j = 1; j <= b_len; j++) {
            bool same = tolower((unsigned char)a[i]) == tolower((unsigned char)b[j - 1]);
            unsigned best = diagonal + !same;

            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_len];
}

static unsigned nearness(const char *text, const char *name)
{
    unsigned whole = distance(text, name);
    unsigned tail = strncmp(name, "FI_", 3) ? whole : distance(text, name + 3);
    unsigned end = strncmp(name, "FI_EP_", 6) ? whole : distance(text, name + 6);

    if (tail < whole)
        whole = tail;
    return end < whole ? end : whole;
}

const char *cli_hint(const char *text, const char *const *names)
{
    static char hint[NAME_MAX_LEN + 32];
    size_t len = strlen(text);
    unsigned best = len < 8 ? 3 : 4;
    const char *near = NULL;

    for (; len < NAME_MAX_LEN && *names; names++) {
        unsigned d = strlen(*names) < NAME_MAX_LEN ? nearness(text, *names) : best;

        if (d < best && d < len) {
            best = d;
            near = *names;
        }
    }
    snprintf(hint, sizeof(hint), near ? "; did you mean '%s'?" : "%s", near ? near : "");
    return hint;
}

static uint64_t lookup(const struct names *names, const char *what, const char *text)
{
    for (size_t i = 0; i < names->count; i++) {
        if (matches(names->list[i], text))
            return names->values[i];
    }
    fprintf(stderr, "error: Unrecognized %s: %s%s\n", what, text, cli_hint(text, names->list));
    exit(FI_EINVAL);
}

uint64_t cli_flags(enum fi_type type, const char *what, const char *text)
{
    static struct names names;
    char copy[1024], *rest = copy, *word;
    uint64_t flags = 0;

    read_names(&names, type, true);
    snprintf(copy, sizeof(copy), "%s", text);
    while ((word = strsep(&rest, "|")))
        flags |= lookup(&names, what, word);
    return flags;
}

uint64_t cli_value(enum fi_type type, const char *what, const char *text)
{
    static struct names names;

    read_names(&names, type, false);
    return lookup(&names, what, text);
}

unsigned long cli_number(const char *what, const char *text, unsigned long min, unsigned long max)
{
    unsigned long number;
    char *end;

    errno = 0;
    number = strtoul(text, &end, 0);
    if (!errno && isdigit((unsigned char)*text) && !*end && number >= min && number <= max)
        return number;
    fprintf(stderr, "error: %s: '%s' is not a number from %lu to %lu\n", what, text, min, max);
    exit(FI_EINVAL);
}

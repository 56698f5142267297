/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests that run our tools: what one has said. Included behind cmocka.h. */
#ifndef WEFT_TEST_SAID_H
#define WEFT_TEST_SAID_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char said[1 << 16];

/* In that folder; its status, as wait(2) has it. */
static inline int run(const char *dir, const char *tool, const char *arguments)
{
    char command[1024];
    size_t len;
    FILE *out;
    int status;

    snprintf(command, sizeof(command), "cd %s && '%s/tools/%s' %s 2>&1", dir, getenv("WEFT_BUILD"),
             tool, arguments);
    out = popen(command, "r");
    assert_non_null(out);
    len = fread(said, 1, sizeof(said) - 1, out);
    said[len] = 0;
    status = pclose(out);
    printf("%s", said);
    return status;
}

static inline void must_say(const char *text)
{
    if (!strstr(said, text))
        fail_msg("'%s' is not in:\n%s", text, said);
}

static inline void must_not_say(const char *text)
{
    if (strstr(said, text))
        fail_msg("'%s' is in:\n%s", text, said);
}

/* Otherwise a test is skipped, and says so. */
static inline bool tools_are_built(void)
{
    const char *build = getenv("WEFT_BUILD");
    char tool[4096];

    snprintf(tool, sizeof(tool), "%s/tools/fi_replay", build ? build : ".");
    if (!access(tool, X_OK))
        return true;
    printf("%s is not built\n", tool);
    return false;
}

#endif

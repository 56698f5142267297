/* SPDX-License-Identifier: BSD-2-Clause */
/* This program once more: under WEFT_EXE_WRAPPER (words with blanks between them) where the machine
 * cannot run it by itself. */
#ifndef WEFT_TESTS_SUPPORT_AGAIN_H
#define WEFT_TESTS_SUPPORT_AGAIN_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    AGAIN_WORDS = 32
};

static inline bool again_is_emulated(void)
{
    const char *wrapper = getenv("WEFT_EXE_WRAPPER");

    return wrapper && *wrapper;
}

/* argv as of execv, with a NULL at its end. Returns only when it failed. */
static inline void exec_again(char *const argv[])
{
    const char *wrapper = getenv("WEFT_EXE_WRAPPER");
    char words[1024], path[1024], *all[AGAIN_WORDS] = {NULL}, *rest;
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    int count = 0;

    if (!again_is_emulated()) {
        execv("/proc/self/exe", argv);
        return;
    }
    if (len < 0 || strlen(wrapper) >= sizeof(words))
        return;
    path[len] = '\0';
    strcpy(words, wrapper);
    for (char *word = strtok_r(words, " ", &rest); word && count < AGAIN_WORDS / 2;
         word = strtok_r(NULL, " ", &rest))
        all[count++] = word;
    all[count++] = path;
    for (int i = 1; argv[i] && count < AGAIN_WORDS - 1; i++)
        all[count++] = argv[i];
    execvp(all[0], all);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the profile of a rail has counted. */
#ifndef WEFT_TESTS_MRAIL_LIVE_COUNTED_H
#define WEFT_TESTS_MRAIL_LIVE_COUNTED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Calls of fi_readmsg in the file that the profile wrote, which is removed. */
static inline unsigned long reads_of(const char *file_name)
{
    static char text[65536];
    FILE *file = fopen(file_name, "r");
    const char *row;

    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    unlink(file_name);
    row = strstr(text, "\"fi_readmsg\"");
    if (!row)
        return 0;
    row = strstr(row, "\"calls\":");
    assert_non_null(row);
    return strtoul(row + strlen("\"calls\":"), NULL, 10);
}

#endif

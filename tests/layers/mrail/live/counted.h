/* SPDX-License-Identifier: BSD-2-Clause */
/* The counts in the profile of a rail. */
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

/* The file that the profile wrote, which is removed. */
static inline const char *report_of(const char *file_name)
{
    static char text[65536];
    FILE *file = fopen(file_name, "r");

    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    unlink(file_name);
    return text;
}

/* Calls in the row that begins there. */
static inline unsigned long calls_at(const char *row)
{
    row = strstr(row, "\"calls\":");
    assert_non_null(row);
    return strtoul(row + strlen("\"calls\":"), NULL, 10);
}

/* Of fi_readmsg. */
static inline unsigned long reads_of(const char *file_name)
{
    const char *row = strstr(report_of(file_name), "\"fi_readmsg\"");

    return row ? calls_at(row) : 0;
}

/* Of fi_send and its kin, fi_inject too. */
static inline unsigned long sends_of(const char *file_name)
{
    static const char *const names[] = {"\"fi_send", "\"fi_inject"};
    const char *text = report_of(file_name);
    unsigned long count = 0;

    for (int i = 0; i < 2; i++) {
        for (const char *row = text; (row = strstr(row, names[i])); row++)
            count += calls_at(row);
    }
    return count;
}

/* Of fi_send and its kin that were accepted, fi_inject too, of a row of sizes: "\"2048\":" for 2048
 * to 4095 bytes. */
static inline unsigned long sends_of_size(const char *file_name, const char *size)
{
    static const char *const names[] = {"\"fi_send", "\"fi_inject"};
    const char *text = report_of(file_name);
    unsigned long count = 0;

    for (int i = 0; i < 2; i++) {
        for (const char *row = text; (row = strstr(row, names[i])); row++) {
            const char *at = strstr(row, size), *end = strstr(row, "}}");

            if (at && end && at < end)
                count += strtoul(at + strlen(size), NULL, 10);
        }
    }
    return count;
}

#endif

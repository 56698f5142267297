/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands, of tests that make networks. */
#ifndef WEFT_TESTS_SUPPORT_SHELL_H
#define WEFT_TESTS_SUPPORT_SHELL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs a command of up to 511 bytes. False: it failed. */
__attribute__((format(printf, 1, 2))) static inline bool run(const char *fmt, ...)
{
    char command[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(command, sizeof(command), fmt, args);
    va_end(args);
    return !system(command);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "report.h"
#include "settings.h"

static void write_line(const char *format, va_list args)
{
    char text[400];
    char line[480];

    vsnprintf(text, sizeof(text), format, args);
    int length = snprintf(line, sizeof(line), "weft-emulator[%d]: %s\n", (int)getpid(), text);
    /* One write, so that the lines of several processes do not mix. */
    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        return;
}

void report_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void report_why(const char *format, ...)
{
    va_list args;

    if (!settings()->verbose)
        return;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_strerror(1): the text of an error code. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

static void usage(const char *program, FILE *out)
{
    fprintf(out,
            "Usage: %s FI_ERROR_CODE\n"
            "\n"
            "Displays the error string for the given numeric FI_ERROR_CODE.\n"
            "FI_ERROR_CODE may be a hexadecimal, octal, or decimal constant.\n"
            "For convenience, the absolute value of FI_ERROR_CODE will be used.\n",
            program);
}

int main(int argc, char **argv)
{
    char *end;
    long code;

    if (argc != 2) {
        usage(argv[0], stderr);
        return 1;
    }
    if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help")) {
        usage(argv[0], stdout);
        return 0;
    }
    errno = 0;
    code = strtol(argv[1], &end, 0);
    if (errno || end == argv[1] || *end || code > INT_MAX || code < -INT_MAX) {
        fprintf(stderr, "ERROR: unable to parse '%s'\n\n", argv[1]);
        usage(argv[0], stderr);
        return 1;
    }
    puts(fi_strerror((int)labs(code)));
    return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the command lines of the tools: names of the API's constants, and help on near misses.
 * A program that has this room ends with 1, and says why, when its output could not be written.
 */
#ifndef WEFT_TOOLS_CLI_H
#define WEFT_TOOLS_CLI_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

/*
 * "FI_MSG|FI_RMA" or "msg|rma" -> bits; "FI_EP_RDM" or "rdm" -> value. The names are those that the
 * library prints. An unknown one is shown on stderr, called `what`, with the nearest name, and ends
 * the program with FI_EINVAL.
 */
uint64_t cli_flags(enum fi_type type, const char *what, const char *text);
uint64_t cli_value(enum fi_type type, const char *what, const char *text);

/* A number from min to max; else shown, and the end of the program, as above. */
unsigned long cli_number(const char *what, const char *text, unsigned long min, unsigned long max);

/* "; did you mean 'rdm'?", or "" when no name of the NULL-terminated list is near. Static buffer.
 */
const char *cli_hint(const char *text, const char *const *names);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The API's values and structs as text: fi_tostr and fi_tostr_r, fi_fabric(3). Structs print as
 * `fi_info -v` shows them, four spaces for each level. fi_tostr's buffer is the calling thread's.
 * Text that does not fit is cut, and always ends with a 0.
 */
#ifndef WEFT_CORE_INFO_TOSTR_H
#define WEFT_CORE_INFO_TOSTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

enum {
    TOSTR_MAX = 1024
}; /* enough for the text of any set of flags */

/* The text of a value or set of flags: "FI_MSG, FI_RMA"; "none" for no flags; bits and values
 * without a name in hex. Returns text. */
char *tostr_value(char *text, size_t size, enum fi_type type, uint64_t value);

/* The text of an address that is no socket address (FI_ADDR_EFA, ...), as fi_info shows it. False:
 * the format has none, and text is empty. */
bool tostr_addr(uint32_t format, const void *addr, size_t len, char *text, size_t size);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of the API's constants, by fi_type: for printing (core/info/tostr) and for sentences
 * about them. Flags and enum values alike; order is upstream's print order.
 */
#ifndef WEFT_CORE_INFO_NAMES_H
#define WEFT_CORE_INFO_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

struct name {
    uint64_t value;
    const char *text; /* NULL ends a table */
};

struct name_table {
    const struct name *names;
    bool flags;     /* a set of bits, else one value */
    size_t size;    /* bytes of the field that fi_tostr's data points to */
    bool prov_bits; /* values with bit 31 belong to a provider */
};

/* NULL for types that are structs, text or unknown. */
const struct name_table *names_of(enum fi_type type);

/* The name of one value or single bit; NULL when it has none. */
const char *names_text(enum fi_type type, uint64_t value);

#endif

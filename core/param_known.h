/* SPDX-License-Identifier: BSD-2-Clause */
/* Variables that are nobody's mistake: our core's own, with their help, and upstream's. */
#ifndef WEFT_CORE_PARAM_KNOWN_H
#define WEFT_CORE_PARAM_KNOWN_H

#include <stdbool.h>

#include <rdma/fabric.h>

struct core_variable {
    const char *name; /* NULL ends the table */
    enum fi_param_type type;
    const char *help;
};

extern const struct core_variable core_variables[];

/* A variable of upstream's library or of a provider of it: set for another libfabric on the same
 * machine, so it is passed over without a word. */
bool param_known_upstream(const char *name);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Names that are no mistake: variables of our core, with their help, and upstream's variables
 * and providers. */
#ifndef WEFT_CORE_PARAM_PARAM_KNOWN_H
#define WEFT_CORE_PARAM_PARAM_KNOWN_H

#include <stdbool.h>

#include <rdma/fabric.h>

#include "core/param/param.h"

/* The type that a core variable's value must have. */
enum core_form {
    CORE_ANY,   /* nothing here: its reader says what is wrong */
    CORE_TYPED, /* its type */
    CORE_OCTAL, /* the mode of a file */
    CORE_WORD,  /* one of `words` */
    CORE_WORDS, /* a list of `words`, separated by commas, with ^ in front or not */
    CORE_PARTS, /* such a list of names of parts */
};

struct core_variable {
    const char *name; /* NULL ends the table */
    enum fi_param_type type;
    const char *help;
    enum core_form form;
    const char *const *words; /* NULL-terminated */
    const char *words_are;    /* what each of them is: "subsystem" */
    const char *used;         /* what happens with a bad value: "2000 is used" */
    bool environment_only;    /* read before the configuration file can be */
};

extern const struct core_variable core_variables[];

/* A variable of a provider of upstream's that is a part here, and that this part does not read. */
struct upstream_variable {
    const char *name; /* NULL ends the table */
    enum fi_param_type type;
    const char *instead; /* what to set, or why there is nothing: a sentence; or NULL */
};

extern const struct upstream_variable upstream_variables[];

/* A variable of upstream's library or of a provider of it: set for another libfabric on the same
 * machine, so its name is no mistake. claimed: a part here has the prefix of its name. */
bool param_known_upstream(const char *name, bool claimed);

/* Is it the name of a provider of upstream's ("verbs"), or of a layer ("rxd", "ofi_rxd")? */
enum upstream_kind {
    UPSTREAM_NONE,
    UPSTREAM_TRANSPORT,
    UPSTREAM_LAYER,
};
enum upstream_kind param_upstream_provider(const char *name);

/* Calls visit for each table that was published (params_publish), under the lock of the tables. */
void params_each(void (*visit)(const char *name, const char *prov_name,
                               const struct param_def *defs, void *arg),
                 void *arg);
/* Calls visit for each variable that an external provider defined, likewise. */
void params_each_defined(void (*visit)(const char *variable, void *arg), void *arg);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parameters. A part declares a table; values come from, best first: the spec text, the environment
 * (FI_<NAME>_<KEY>, also FI_<PROV_NAME>_<KEY>, upper case), the configuration file, a variable of
 * others that the table names, the table's default. The same table makes `fi_info -e`, the man
 * page, and the checks. fi_setopt on an object beats them all, in the part.
 *
 * This room also implements the public fi_param_define, fi_param_get, fi_getparams, fi_freeparams.
 * Configuration file: `<sysconfdir>/libfabric.conf`, or the path in FI_CONF_FILE: lines
 * `FI_TCP_IFACE = eth0` (or `tcp.iface = eth0`), `#` comments. See core/param/param_env.h, which
 * also reads the core's own variables (FI_PROVIDER, ...) from both.
 */
#ifndef WEFT_CORE_PARAM_PARAM_H
#define WEFT_CORE_PARAM_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum param_type {
    PARAM_STRING,
    PARAM_INT,     /* decimal or 0x, within min..max when they differ */
    PARAM_BOOL,    /* 1/0, yes/no, true/false, on/off; a bare key in a spec is true */
    PARAM_SIZE,    /* bytes: digits with optional k, m, g (1024s); "inf" and -1 are SIZE_MAX */
    PARAM_TIME,    /* milliseconds inside; text 500ms, 10s, 2m; a bare number is milliseconds */
    PARAM_PERCENT, /* millionths inside; text 5%, 0.25%; a bare number is percent; to 100 */
    PARAM_LIST,    /* '|'- or ','-separated texts (a spec has '|'); kept as one text */
    PARAM_CHOICE,  /* one of `choices` */
};

struct param_def {
    const char *key; /* lower case, as in a spec: "iface"; NULL ends the table */
    enum param_type type;
    bool selects;               /* narrows what is offered (interface, domain, protocol) */
    const char *default_text;   /* NULL: unset */
    const char *help;           /* one or two sentences with progress domains */
    const char *const *choices; /* PARAM_CHOICE: NULL-terminated */
    int64_t min, max;           /* PARAM_INT, PARAM_SIZE, PARAM_TIME; both 0: any */
    const char *variable;       /* of others, A or A|B, read where none before is set; NULL */
    const char *automatic;      /* the meaning of a default of 0: "4096, or 65536 with ..." */
    /* PARAM_STRING, PARAM_LIST: is the text a value? -FI_EINVAL with a sentence in why that need
     * not name the key ("'sned' is no call; there are ..."). NULL: any text is. */
    int (*check)(const char *text, char *why, size_t why_size);
};

/* Rows of a table: on or off; a number (or size, time, percentage) between min and max; one of
 * `options`; a text, or list of texts, that `valid` takes. */
#define PARAM_SWITCH(name, preset, text)                                                           \
    {                                                                                              \
        .key = (name), .type = PARAM_BOOL, .default_text = (preset), .help = (text)                \
    }
#define PARAM_NUMBER(name, kind, preset, low, high, text)                                          \
    {                                                                                              \
        .key = (name), .type = (kind), .default_text = (preset), .min = (low), .max = (high),      \
        .help = (text)                                                                             \
    }
#define PARAM_PICK(name, preset, options, text)                                                    \
    {                                                                                              \
        .key = (name), .type = PARAM_CHOICE, .default_text = (preset), .choices = (options),       \
        .help = (text)                                                                             \
    }
#define PARAM_CHECKED(name, kind, preset, valid, text)                                             \
    {                                                                                              \
        .key = (name), .type = (kind), .default_text = (preset), .check = (valid), .help = (text)  \
    }

/* Why the values of several parameters do not go together. */
struct param_conflict {
    const char *key; /* at fault */
    char why[160];   /* one sentence, no full stop, that need not name the key */
    char used[80];   /* the effect of the conflicting values: "port 5000 alone is used" */
};

/* The values of one instance of a part. Opaque, immutable once resolved. */
struct params;

/* One key=value of the spec, for params_resolve. value NULL: a bare key. */
struct param_text {
    const char *key;
    const char *value;
};

/*
 * Resolves all of `defs` for the part called name/prov_name. On a bad value or unknown key from the
 * spec returns -FI_EINVAL with a sentence in why (naming the key, what is wrong, what would be
 * right, with a near name) and the index in *bad. A bad value in the environment or file is passed
 * over; params_warn_unknown shows it. -FI_ENOMEM.
 */
int params_resolve(const char *name, const char *prov_name, const struct param_def *defs,
                   const struct param_text *texts, size_t count, struct params **params,
                   size_t *bad, char *why, size_t why_size);
struct params *params_dup(const struct params *params);
void params_destroy(struct params *params);

/* Typed reads; the key must be in the table and of that type (asserted). */
const char *params_string(const struct params *params, const char *key); /* NULL when unset */
int64_t params_int(const struct params *params, const char *key);
bool params_bool(const struct params *params, const char *key);
size_t params_size(const struct params *params, const char *key);
int64_t params_time_ms(const struct params *params, const char *key);
uint32_t params_millionths(const struct params *params, const char *key);
/* True when the user set it (spec, environment or file), false for the table's default. */
bool params_given(const struct params *params, const char *key);

/* Where the user set key of the part name/prov_name when no spec did: "FI_TCP_IFACE", or
 * "/etc/libfabric.conf:3: FI_TCP_IFACE". Returns text, or NULL when no variable has a value. */
const char *params_origin(const char *name, const char *prov_name, const char *key, char *text,
                          size_t size);

/* Makes a part's table (NULL: it has none) visible to fi_getparams and `fi_info -e`, and its names
 * known to params_warn_unknown. Idempotent; the strings must live as long as the process. */
void params_publish(const char *name, const char *prov_name, const struct param_def *defs);

/* `load` publishes all tables: fi_getparams calls it first, so that a program need not have called
 * fi_getinfo. Set once, from a constructor. */
void params_set_loader(void (*load)(void));

/* Warns once a process (log_user) for each FI_* variable in the environment that looks like ours
 * (its FI_<PART>_ prefix is a known part's, or it is within a small edit distance of a known name)
 * and is none, with the near name; for every such line of the configuration file. Then for each
 * variable of a table and of the core, and each of upstream's that a part of ours does not read,
 * whose value is none of its type, with what is used instead. Call when all tables are published.
 */
void params_warn_unknown(void);

/* Shows the variables of one table whose value is none (log_user). 0 or -FI_ENOMEM. */
int params_check_variables(const char *name, const char *prov_name, const struct param_def *defs);

/* Nearest of `names` (NULL-terminated) to text within a sensible edit distance, or NULL. */
const char *suggest_name(const char *text, const char *const *names);
/* "there is no event 'cycels'; did you mean 'cycles'?", or "...; there are a, b, c". Returns why.
 */
char *suggest_explain(const char *what, const char *text, const char *const *names, char *why,
                      size_t why_size);

#endif

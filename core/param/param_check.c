/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Warnings about settings that are no variable of ours, and about values that no part's table
 * checks: the core's own variables, and those of upstream's that have no effect here. Shown once a
 * process, at the first fi_getinfo.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/log.h"
#include "core/param/param.h"
#include "core/param/param_alias.h"
#include "core/param/param_env.h"
#include "core/param/param_known.h"
#include "core/param/param_value.h"

enum {
    NAME_LIMIT = 128,
    WHY_LIMIT = 1024
};

extern char **environ;

struct names {
    const char **names; /* ends with NULL; all are malloc'd */
    size_t count, room;
};

static void add_text(struct names *names, const char *text)
{
    if (names->count + 1 >= names->room) {
        size_t room = names->room ? names->room * 2 : 64;
        const char **grown = realloc(names->names, room * sizeof(*grown));

        if (!grown)
            return;
        names->names = grown;
        names->room = room;
    }
    names->names[names->count] = strdup(text);
    if (names->names[names->count])
        names->names[++names->count] = NULL;
}

static void add_name(struct names *names, const char *part, const char *key)
{
    char text[NAME_LIMIT];

    add_text(names, param_variable_name(part, key, text, sizeof(text)));
}

static void free_names(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free((char *)names->names[i]);
    free(names->names);
}

static bool has_name(const struct names *names, const char *name)
{
    for (size_t i = 0; names->names && i < names->count; i++) {
        if (!strcasecmp(names->names[i], name))
            return true;
    }
    return false;
}

static const char *near(const struct names *names, const char *name)
{
    return names->names ? suggest_name(name, names->names) : NULL;
}

/* ---- Variables that are none ---- */

struct search {
    struct names all;     /* every variable that is ours */
    const char *variable; /* the one looked at */
    const char *part;     /* whose prefix it has */
    struct names own;     /* those of that part */
};

static void add_part(const char *name, const char *prov_name, const struct param_def *defs,
                     struct names *names)
{
    char other[NAME_LIMIT];

    for (const struct param_def *def = defs; def && def->key; def++) {
        add_name(names, name, def->key);
        if (prov_name && strcasecmp(prov_name, name))
            add_name(names, prov_name, def->key);
        for (const char *others = def->variable; param_alias(&others, other, sizeof(other));)
            add_text(names, other);
    }
}

static void add_to_all(const char *name, const char *prov_name, const struct param_def *defs,
                       void *arg)
{
    add_part(name, prov_name, defs, arg);
}

static void add_defined(const char *variable, void *arg)
{
    add_text(arg, variable);
}

static bool has_prefix(const char *variable, const char *part)
{
    char prefix[NAME_LIMIT];

    if (!part)
        return false;
    param_variable_name(part, "", prefix, sizeof(prefix));
    return !strncmp(variable, prefix, strlen(prefix));
}

/* The part with the longest name whose prefix the variable has. */
static void find_part(const char *name, const char *prov_name, const struct param_def *defs,
                      void *arg)
{
    struct search *search = arg;

    if (!has_prefix(search->variable, name) && !has_prefix(search->variable, prov_name))
        return;
    if (search->part && strlen(search->part) >= strlen(name))
        return;
    search->part = name;
    free_names(&search->own);
    search->own = (struct names){0};
    add_part(name, prov_name, defs, &search->own);
}

/* where: the place of a line of the configuration file, in which every variable must be one of
 * Weft's; NULL: the environment. */
static void warn_if_unknown(struct search *search, const char *variable, const char *where)
{
    const char *from = where ? where : "environment", *guess = NULL;

    search->variable = variable;
    search->part = NULL;
    search->own = (struct names){0};
    if (has_name(&search->all, variable))
        return;
    params_each(find_part, search);
    if (param_known_upstream(variable, search->part)) {
        free_names(&search->own);
        return;
    }
    if (search->part)
        guess = near(&search->own, variable);
    if (!guess)
        guess = near(&search->all, variable);
    if (guess)
        log_user("%s: unknown variable %s; did you mean %s?", from, variable, guess);
    else if (search->part)
        log_user("%s: unknown variable %s: %s has no such parameter; `fi_info -g %s` lists them",
                 from, variable, search->part, search->part);
    else if (strncmp(variable, "FI_", 3) != 0)
        log_user("%s: unknown variable %s: no part reads it", from, variable);
    else if (where)
        log_user("%s: unknown variable %s: there is no part of that name; `fi_info -e` lists all",
                 from, variable);
    free_names(&search->own);
}

static void warn_of_setting(const char *name, const char *where, void *arg)
{
    for (const struct core_variable *core = core_variables; core->name; core++) {
        if (core->environment_only && !strcmp(core->name, name)) {
            log_user("%s: %s has no effect here: it is read from the environment only", where,
                     name);
            return;
        }
    }
    warn_if_unknown(arg, name, where);
}

/* It begins as ours do, or as another library's that a part reads: UET_PROVIDER_. */
static bool may_be_ours(const struct names *all, const char *variable)
{
    if (!strncmp(variable, "FI_", 3))
        return true;
    for (size_t i = 0; all->names && i < all->count; i++) {
        const char *name = all->names[i], *end = strchr(name, '_');

        end = end && strncmp(name, "FI_", 3) ? strchr(end + 1, '_') : NULL;
        if (end && !strncmp(variable, name, (size_t)(end + 1 - name)))
            return true;
    }
    return false;
}

static void warn_of_names(void)
{
    struct search search = {0};

    for (const struct core_variable *core = core_variables; core->name; core++)
        add_text(&search.all, core->name);
    params_each(add_to_all, &search.all);
    params_each_defined(add_defined, &search.all);
    for (char **entry = environ; entry && *entry; entry++) {
        char variable[NAME_LIMIT];
        size_t len = strcspn(*entry, "=");

        if (len >= sizeof(variable))
            continue;
        memcpy(variable, *entry, len);
        variable[len] = 0;
        if (may_be_ours(&search.all, variable))
            warn_if_unknown(&search, variable, NULL);
    }
    param_file_each(warn_of_setting, &search);
    free_names(&search.all);
}

/* ---- Values ---- */

static void add_part_name(const char *name, const char *prov_name, const struct param_def *defs,
                          void *arg)
{
    add_text(arg, name);
    if (prov_name && strcasecmp(prov_name, name))
        add_text(arg, prov_name);
}

static struct names word_names(const struct core_variable *core)
{
    struct names names = {0};

    for (size_t i = 0; core->words && core->words[i]; i++)
        add_text(&names, core->words[i]);
    if (core->form == CORE_PARTS) {
        params_each(add_part_name, &names);
        add_text(&names, "core");
    }
    return names;
}

static bool check_word(const struct core_variable *core, const struct names *names,
                       const char *word, char *why, size_t size)
{
    if (!*word || has_name(names, word) ||
        (core->form == CORE_PARTS && param_upstream_provider(word)))
        return true;
    if (core->form == CORE_PARTS && !strncasecmp(word, "ofi_", 4) && has_name(names, word + 4))
        return true;
    if (names->names)
        suggest_explain(core->form == CORE_PARTS ? "part" : core->words_are, word, names->names,
                        why, size);
    return !names->names;
}

static bool check_words(const struct core_variable *core, const char *text, char *why, size_t size)
{
    struct names names = word_names(core);
    char copy[WHY_LIMIT], *rest = copy, *word;
    bool right = true;

    snprintf(copy, sizeof(copy), "%s", text + (core->form != CORE_WORD && *text == '^'));
    if (core->form == CORE_WORD)
        right = check_word(core, &names, text, why, size);
    while (core->form != CORE_WORD && right && (word = strsep(&rest, ", ")))
        right = check_word(core, &names, word, why, size);
    free_names(&names);
    return right;
}

static bool check_octal(const char *text, char *why, size_t size)
{
    char *end;
    unsigned long mode = strtoul(text, &end, 8);

    if (end != text && !*end && *text != '-' && mode <= 07777)
        return true;
    snprintf(why, size, "'%s' is no mode of a file (octal: 0600)", text);
    return false;
}

/* Of a variable, against its type; a text is always right. */
static bool check_type(enum fi_param_type type, const char *text, char *why, size_t size)
{
    static const enum param_type types[] = {
        [FI_PARAM_STRING] = PARAM_STRING,
        [FI_PARAM_INT] = PARAM_INT,
        [FI_PARAM_BOOL] = PARAM_BOOL,
        [FI_PARAM_SIZE_T] = PARAM_SIZE,
    };
    const struct param_def def = {.key = "", .type = types[type]};
    char sentence[WHY_LIMIT];
    int64_t number;

    if (!param_value_parse(&def, text, &number, sentence, sizeof(sentence)))
        return true;
    snprintf(why, size, "%s", sentence + (strncmp(sentence, ": ", 2) ? 0 : 2));
    return false;
}

static bool check_core(const struct core_variable *core, const char *text, char *why, size_t size)
{
    switch (core->form) {
    case CORE_TYPED: return check_type(core->type, text, why, size);
    case CORE_OCTAL: return check_octal(text, why, size);
    case CORE_WORD:
    case CORE_WORDS:
    case CORE_PARTS: return check_words(core, text, why, size);
    case CORE_ANY: break;
    }
    return true;
}

struct table {
    const char *name, *prov_name;
    const struct param_def *defs;
};

struct tables {
    struct table list[64];
    size_t count;
};

static void add_table(const char *name, const char *prov_name, const struct param_def *defs,
                      void *arg)
{
    struct tables *tables = arg;

    if (tables->count < sizeof(tables->list) / sizeof(tables->list[0]))
        tables->list[tables->count++] = (struct table){name, prov_name, defs};
}

/* An imported logger is called without a lock of ours. */
static void warn_of_tables(void)
{
    struct tables tables = {.count = 0};

    params_each(add_table, &tables);
    for (size_t i = 0; i < tables.count; i++)
        params_check_variables(tables.list[i].name, tables.list[i].prov_name, tables.list[i].defs);
}

static void warn_of_values(void)
{
    char why[WHY_LIMIT], origin[WHY_LIMIT];

    warn_of_tables();
    for (const struct core_variable *core = core_variables; core->name; core++) {
        const char *text = core->environment_only ? getenv(core->name) : param_variable(core->name);

        if (text && *text && !check_core(core, text, why, sizeof(why)))
            log_user("%s: %s (%s)",
                     core->environment_only
                         ? core->name
                         : param_variable_origin(core->name, origin, sizeof(origin)),
                     why, core->used);
    }
    for (const struct upstream_variable *upstream = upstream_variables; upstream->name;
         upstream++) {
        const char *text = param_variable(upstream->name);

        if (!text || !*text)
            continue;
        param_variable_origin(upstream->name, origin, sizeof(origin));
        if (!check_type(upstream->type, text, why, sizeof(why)))
            log_user("%s: %s (it has no effect here)", origin, why);
        else if (upstream->instead)
            LOG_WARN("core", FI_LOG_CORE, "%s: this is libfabric's; it has no effect here: %s",
                     origin, upstream->instead);
        else
            LOG_INFO("core", FI_LOG_CORE, "%s: this is libfabric's; it has no effect here", origin);
    }
}

static void warn_all(void)
{
    warn_of_names();
    warn_of_values();
}

void params_warn_unknown(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, warn_all);
}

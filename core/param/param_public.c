/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All variables that there are: the core's, those of the tables that parts published, and those
 * that external providers defined. fi_getparams lists them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "core/base/log.h"
#include "core/param/param.h"
#include "core/param/param_env.h"
#include "core/param/param_known.h"
#include "core/param/param_value.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    NAME_LIMIT = 128,
    HELP_LIMIT = 2048
};

struct published {
    struct published *next;
    const char *name, *prov_name;
    const struct param_def *defs;
};

/* By fi_param_define: provider's name or NULL, key as given, variable's name. */
struct defined {
    struct defined *next;
    char *provider, *key, *variable, *help;
    enum fi_param_type type;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct published *published, **published_end = &published;
static struct defined *defined, **defined_end = &defined;
static void (*loader)(void);

void params_set_loader(void (*load)(void))
{
    loader = load;
}

void params_publish(const char *name, const char *prov_name, const struct param_def *defs)
{
    struct published *entry;

    pthread_mutex_lock(&lock);
    for (entry = published; entry; entry = entry->next) {
        if (!strcmp(entry->name, name) && entry->defs == defs)
            break;
    }
    if (!entry && (entry = calloc(1, sizeof(*entry)))) {
        *entry = (struct published){.name = name, .prov_name = prov_name, .defs = defs};
        *published_end = entry;
        published_end = &entry->next;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- fi_param_define, fi_param_get ---- */

static void free_defined(struct defined *entry)
{
    if (!entry)
        return;
    free(entry->provider);
    free(entry->key);
    free(entry->variable);
    free(entry->help);
    free(entry);
}

static struct defined *create_defined(const char *provider, const char *key,
                                      enum fi_param_type type, const char *help)
{
    struct defined *entry = calloc(1, sizeof(*entry));
    char variable[NAME_LIMIT];

    if (!entry)
        return NULL;
    entry->type = type;
    entry->provider = provider ? strdup(provider) : NULL;
    entry->key = strdup(key);
    entry->variable = strdup(param_variable_name(provider, key, variable, sizeof(variable)));
    entry->help = strdup(help);
    if (entry->key && entry->variable && entry->help && (entry->provider || !provider))
        return entry;
    free_defined(entry);
    return NULL;
}

/* Locked. */
static struct defined *find_defined(const char *provider, const char *key)
{
    struct defined *entry;

    for (entry = defined; entry; entry = entry->next) {
        bool same = provider && entry->provider ? !strcasecmp(provider, entry->provider)
                                                : !provider && !entry->provider;

        if (same && !strcasecmp(entry->key, key))
            break;
    }
    return entry;
}

EXPORT int fi_param_define(const struct fi_provider *provider, const char *param_name,
                           enum fi_param_type type, const char *help_string_fmt, ...)
{
    const char *name = provider ? provider->name : NULL;
    struct defined *entry;
    char help[HELP_LIMIT];
    va_list args;
    int ret = 0;

    if (!param_name || !*param_name || !help_string_fmt || !*help_string_fmt ||
        (unsigned)type > FI_PARAM_SIZE_T)
        return -FI_EINVAL;
    va_start(args, help_string_fmt);
    vsnprintf(help, sizeof(help), help_string_fmt, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (!find_defined(name, param_name)) {
        entry = create_defined(name, param_name, type, help);
        if (entry) {
            *defined_end = entry;
            defined_end = &entry->next;
        } else {
            ret = -FI_ENOMEM;
        }
    }
    pthread_mutex_unlock(&lock);
    return ret;
}

static bool get_int(const char *text, int *value)
{
    char *end;
    long number;

    errno = 0;
    number = strtol(text, &end, 0);
    if (errno || end == text || *end || number != (int)number)
        return false;
    *value = (int)number;
    return true;
}

static bool get_typed(enum fi_param_type type, const char *text, void *value)
{
    struct param_def def = {.key = "value", .type = PARAM_BOOL};
    int64_t number;
    char why[256];

    if (type == FI_PARAM_INT)
        return get_int(text, value);
    if (type == FI_PARAM_STRING) {
        *(const char **)value = text;
        return true;
    }
    if (type == FI_PARAM_SIZE_T)
        def.type = PARAM_SIZE;
    if (param_value_parse(&def, text, &number, why, sizeof(why)))
        return false;
    if (type == FI_PARAM_BOOL)
        *(int *)value = (int)number;
    else
        *(size_t *)value = (size_t)number;
    return true;
}

static const char *type_text(enum fi_param_type type)
{
    switch (type) {
    case FI_PARAM_INT: return "a number";
    case FI_PARAM_BOOL: return "yes or no (1/0, true/false, on/off)";
    case FI_PARAM_SIZE_T: return "a size (digits with k, m or g)";
    default: return "a text";
    }
}

EXPORT int fi_param_get(struct fi_provider *provider, const char *param_name, void *value)
{
    char origin[1024];
    const char *text;
    struct defined *entry;

    if (!param_name || !value)
        return -FI_EINVAL;
    pthread_mutex_lock(&lock);
    entry = find_defined(provider ? provider->name : NULL, param_name);
    pthread_mutex_unlock(&lock);
    if (!entry)
        return -FI_ENOENT;
    text = param_variable(entry->variable);
    if (!text || !*text)
        return -FI_ENODATA;
    if (get_typed(entry->type, text, value))
        return 0;
    log_user("%s: '%s' is not %s (it is not used)",
             param_variable_origin(entry->variable, origin, sizeof(origin)), text,
             type_text(entry->type));
    return -FI_EINVAL;
}

/* ---- fi_getparams ---- */

struct list {
    struct fi_param *params; /* one more than count: ends with an empty one */
    size_t count, room;
    bool failed;
};

static void add(struct list *list, const char *name, enum fi_param_type type, const char *help)
{
    const char *value = param_variable(name);
    struct fi_param *param, *grown;

    if (list->failed)
        return;
    if (list->count + 1 >= list->room) {
        list->room = list->room ? list->room * 2 : 64;
        grown = realloc(list->params, list->room * sizeof(*grown));
        if (!grown) {
            list->failed = true;
            return;
        }
        list->params = grown;
        memset(&grown[list->count], 0, (list->room - list->count) * sizeof(*grown));
    }
    param = &list->params[list->count++];
    param->type = type;
    param->name = strdup(name);
    param->help_string = strdup(help);
    param->value = value ? strdup(value) : NULL;
    if (!param->name || !param->help_string || (value && !param->value))
        list->failed = true;
}

/* Upstream's variables carry the provider's name where it is ofi_<name>. */
static const char *variable_part(const struct published *entry)
{
    if (entry->prov_name && !strncasecmp(entry->prov_name, "ofi_", 4) &&
        !strcasecmp(entry->prov_name + 4, entry->name))
        return entry->prov_name;
    return entry->name;
}

static enum fi_param_type public_type(enum param_type type)
{
    switch (type) {
    case PARAM_INT: return FI_PARAM_INT;
    case PARAM_BOOL: return FI_PARAM_BOOL;
    case PARAM_SIZE: return FI_PARAM_SIZE_T;
    default: return FI_PARAM_STRING;
    }
}

static void add_def(struct list *list, const struct published *entry, const struct param_def *def)
{
    char name[NAME_LIMIT], help[HELP_LIMIT], expected[256];
    bool has_default = def->default_text && *def->default_text;
    size_t used;

    param_variable_name(variable_part(entry), def->key, name, sizeof(name));
    used = (size_t)snprintf(help, sizeof(help), "%s: %s", entry->name, def->help);
    if (used < sizeof(help) && (def->type == PARAM_CHOICE || def->type == PARAM_TIME))
        used += (size_t)snprintf(help + used, sizeof(help) - used, " Value: %s.",
                                 param_value_expected(def, expected, sizeof(expected)));
    if (used < sizeof(help) && has_default)
        snprintf(help + used, sizeof(help) - used, " (default: %s)",
                 def->automatic ? def->automatic : def->default_text);
    add(list, name, public_type(def->type), help);
}

static void add_defined(struct list *list, const struct defined *entry)
{
    char help[HELP_LIMIT + NAME_LIMIT];

    snprintf(help, sizeof(help), "%s%s%s", entry->provider ? entry->provider : "",
             entry->provider ? ": " : "", entry->help);
    add(list, entry->variable, entry->type, help);
}

static void add_all(struct list *list)
{
    for (const struct core_variable *core = core_variables; core->name; core++)
        add(list, core->name, core->type, core->help);
    pthread_mutex_lock(&lock);
    for (const struct published *entry = published; entry; entry = entry->next) {
        for (const struct param_def *def = entry->defs; def && def->key; def++)
            add_def(list, entry, def);
    }
    for (const struct defined *entry = defined; entry; entry = entry->next)
        add_defined(list, entry);
    pthread_mutex_unlock(&lock);
}

/* Any text of them may be missing. */
static void free_params(struct fi_param *params, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)params[i].name);
        free((char *)params[i].help_string);
        free((char *)params[i].value);
    }
    free(params);
}

EXPORT int fi_getparams(struct fi_param **params, int *count)
{
    struct list list = {0};

    if (!params || !count)
        return -FI_EINVAL;
    if (loader)
        loader();
    add_all(&list);
    if (list.failed) {
        free_params(list.params, list.count);
        return -FI_ENOMEM;
    }
    *params = list.params;
    *count = (int)list.count;
    return 0;
}

EXPORT void fi_freeparams(struct fi_param *params)
{
    size_t count = 0;

    while (params && params[count].name)
        count++;
    free_params(params, count);
}

void params_each(void (*visit)(const char *name, const char *prov_name,
                               const struct param_def *defs, void *arg),
                 void *arg)
{
    pthread_mutex_lock(&lock);
    for (const struct published *entry = published; entry; entry = entry->next)
        visit(entry->name, entry->prov_name, entry->defs, arg);
    pthread_mutex_unlock(&lock);
}

void params_each_defined(void (*visit)(const char *variable, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    for (const struct defined *entry = defined; entry; entry = entry->next)
        visit(entry->variable, arg);
    pthread_mutex_unlock(&lock);
}

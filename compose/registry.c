/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/registry.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compose/external.h"
#include "core/param/param_known.h"

static const struct param_def domain_def = {
    .key = PART_DOMAIN,
    .type = PARAM_LIST,
    .selects = true,
    .help = "Domains to use, by their names as fi_info shows them.",
};

/* Tables of transports with domain_def. Not on the heap, where dlclose would lose them, and never
 * given back: threads read parameters to the end. */
static struct {
    pthread_mutex_t mutex;
    struct param_def room[768];
    size_t used;
    struct {
        const struct part *part;
        const struct param_def *defs;
    } list[32];
    size_t count;
} tables = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct parts all_parts;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_named(const struct parts *parts, const char *name)
{
    for (size_t i = 0; i < parts->count; i++) {
        if (!strcasecmp(parts->list[i]->name, name))
            return true;
    }
    return false;
}

/* Built-in parts first; of two with one name only the one that external.h gives the place. */
static struct parts merge(struct parts builtin, struct parts external)
{
    const struct part **list = calloc(builtin.count + external.count, sizeof(*list));
    size_t count = 0;

    if (!list)
        return builtin;
    for (size_t i = 0; i < builtin.count; i++) {
        if (!external_replaces(builtin.list[i]))
            list[count++] = builtin.list[i];
    }
    for (size_t i = 0; i < external.count; i++) {
        if (!is_named(&builtin, external.list[i]->name) || external_replaces(external.list[i]))
            list[count++] = external.list[i];
    }
    return (struct parts){list, count};
}

/* Without external providers, which keep the library loaded, nothing is allocated that dlclose
 * would lose. */
static void make(void)
{
    struct parts external = external_load();

    all_parts = (struct parts){part_registry, part_registry_count};
    if (external.count)
        all_parts = merge(all_parts, external);
    free((void *)external.list);
    for (size_t i = 0; i < all_parts.count; i++) {
        const struct part *part = all_parts.list[i];

        params_publish(part->name, part->prov_name, part_params(part));
    }
}

static size_t count_defs(const struct param_def *defs, bool *has_domain)
{
    size_t count = 0;

    for (*has_domain = false; defs && defs[count].key; count++)
        *has_domain = *has_domain || !strcmp(defs[count].key, PART_DOMAIN);
    return count;
}

/* The table that is there, or a new one; the part's own where there is no room. */
static const struct param_def *extended(const struct part *part, size_t count)
{
    struct param_def *made = tables.room + tables.used;

    for (size_t i = 0; i < tables.count; i++) {
        if (tables.list[i].part == part)
            return tables.list[i].defs;
    }
    if (tables.count == sizeof(tables.list) / sizeof(tables.list[0]) ||
        tables.used + count + 2 > sizeof(tables.room) / sizeof(tables.room[0]))
        return part->params;
    if (count)
        memcpy(made, part->params, count * sizeof(*made));
    made[count] = domain_def;
    made[count + 1] = (struct param_def){.key = NULL};
    tables.used += count + 2;
    tables.list[tables.count].part = part;
    tables.list[tables.count++].defs = made;
    return made;
}

const struct param_def *part_params(const struct part *part)
{
    static const struct param_def none[] = {{.key = NULL}};
    const struct param_def *defs = part->params;
    bool has_domain;
    size_t count = count_defs(part->params, &has_domain);

    if (part->kind == PART_TRANSPORT && !has_domain) {
        pthread_mutex_lock(&tables.mutex);
        defs = extended(part, count);
        pthread_mutex_unlock(&tables.mutex);
    }
    return defs ? defs : none;
}

const struct parts *registry_parts(void)
{
    pthread_once(&once, make);
    return &all_parts;
}

static void load(void)
{
    registry_parts();
}

/* fi_getparams may be the first call of a program. */
__attribute__((constructor)) static void set_loader(void)
{
    params_set_loader(load);
}

const char *part_shown(const struct part *part)
{
    return part->prov_name ? part->prov_name : part->name;
}

uint32_t part_version(const struct part *part)
{
    return external_is(part) ? external_version(part) : PROV_VERSION;
}

static const char *without_prefix(const char *name)
{
    if (!strncasecmp(name, "ofi_hook_", 9))
        return name + 9;
    return strncasecmp(name, "ofi_", 4) ? name : name + 4;
}

static bool part_is(const struct part *part, const char *name)
{
    if (!strcasecmp(part->name, name) || !strcasecmp(part_shown(part), name))
        return true;
    for (const char *const *alias = part->aliases; alias && *alias; alias++) {
        if (!strcasecmp(*alias, name))
            return true;
    }
    return false;
}

const struct part *parts_find(const struct parts *parts, const char *name)
{
    const char *bare = without_prefix(name);

    for (size_t i = 0; i < parts->count; i++) {
        if (part_is(parts->list[i], name))
            return parts->list[i];
    }
    for (size_t i = 0; bare != name && i < parts->count; i++) {
        /* The prefix belongs to layers: `ofi_tcp` is no name of tcp. */
        if (parts->list[i]->kind != PART_TRANSPORT && part_is(parts->list[i], bare))
            return parts->list[i];
    }
    return NULL;
}

/* The short name of the part whose name is nearest, or NULL. */
static const char *nearest(const struct parts *parts, const char *name)
{
    const char **names = calloc(parts->count + 1, sizeof(*names));
    const char *near;

    if (!names)
        return NULL;
    for (size_t i = 0; i < parts->count; i++)
        names[i] = parts->list[i]->name;
    near = suggest_name(without_prefix(name), names);
    free(names);
    return near;
}

static const struct part_absent *find_absent(const char *name)
{
    for (const struct part_absent *absent = part_absent; absent->name; absent++) {
        if (!strcasecmp(absent->name, name) || !strcasecmp(absent->name, without_prefix(name)))
            return absent;
    }
    return NULL;
}

/* Is the name made of names of parts with that character between? Then *fixed has ';' there. */
static bool is_joined_by(const struct parts *parts, const char *name, char between, char *fixed,
                         size_t size)
{
    char *rest = fixed, *piece;
    bool joined = strchr(name, between) && strlen(name) < size;

    if (!joined)
        return false;
    snprintf(fixed, size, "%s", name);
    while (joined && (piece = strsep(&rest, (char[]){between, 0})))
        joined = parts_find(parts, piece);
    for (size_t i = 0; name[i]; i++)
        fixed[i] = name[i] == between ? ';' : name[i];
    return joined;
}

static bool is_joined(const struct parts *parts, const char *name, char *fixed, size_t size)
{
    for (const char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && is_joined_by(parts, name, *c, fixed, size))
            return true;
    }
    return false;
}

static size_t list_kind(const struct parts *parts, bool layers, char *text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < parts->count && used < size; i++) {
        const struct part *part = parts->list[i];

        if ((part->kind != PART_TRANSPORT) != layers)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", part->name);
    }
    return used < size ? used : size - 1;
}

static void list_parts(const struct parts *parts, char *text, size_t size)
{
    char transports[512] = "", layers[512] = "";

    list_kind(parts, false, transports, sizeof(transports));
    list_kind(parts, true, layers, sizeof(layers));
    snprintf(text, size, "there are the transports %s and the layers %s", transports, layers);
}

char *parts_explain(const struct parts *parts, const char *name, char *why, size_t size,
                    bool *probe)
{
    const struct part_absent *absent = find_absent(name);
    const char *near = nearest(parts, name);
    enum upstream_kind upstream = param_upstream_provider(name);
    char text[1024];

    *probe = false;
    if (absent) {
        snprintf(why, size, "%s: %s", absent->name, absent->why);
        *probe = true;
    } else if (upstream != UPSTREAM_NONE) {
        list_parts(parts, text, sizeof(text));
        snprintf(why, size, "%.60s: not in this build%s; %s", name,
                 upstream == UPSTREAM_TRANSPORT
                     ? ", and no external provider (FI_PROVIDER_PATH) has this name"
                     : "",
                 text);
        *probe = true;
    } else if (near) {
        snprintf(why, size, "unknown part '%.60s'; did you mean '%s'?", name, near);
    } else if (is_joined(parts, name, text, sizeof(text))) {
        snprintf(why, size, "unknown part '%.60s'; parts are joined by ';', as in '%.120s'", name,
                 text);
    } else {
        list_parts(parts, text, sizeof(text));
        snprintf(why, size, "unknown part '%.60s'; %s", name, text);
        *probe = true;
    }
    return why;
}

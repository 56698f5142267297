/* SPDX-License-Identifier: BSD-2-Clause */
#include "compose/registry.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compose/external.h"

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

        if (part->params)
            params_publish(part->name, part->prov_name, part->params);
    }
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

const char *parts_near(const struct parts *parts, const char *name)
{
    const char **names = calloc(parts->count + 1, sizeof(*names));
    const char *near;

    if (!names)
        return NULL;
    for (size_t i = 0; i < parts->count; i++)
        names[i] = parts->list[i]->name;
    near = near_name(without_prefix(name), names);
    free(names);
    return near;
}

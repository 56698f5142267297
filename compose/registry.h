/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts there are: those built in, from a table that meson generates, and those loaded. */
#ifndef WEFT_COMPOSE_REGISTRY_H
#define WEFT_COMPOSE_REGISTRY_H

#include <stddef.h>

#include "core/part.h"

extern const struct part *const part_registry[];
extern const size_t part_registry_count;

/* A set of parts, immutable. Every pass takes one, so that tests bring their own. */
struct parts {
    const struct part *const *list;
    size_t count;
};

/* All parts of this process: made at the first call, with external providers loaded and every
 * parameter table published. May block in dlopen then. */
const struct parts *registry_parts(void);

/* By name, upstream's name or alias, without case, with or without `ofi_` and `ofi_hook_`. NULL. */
const struct part *parts_find(const struct parts *parts, const char *name);

/* The short name of the part whose name is nearest, or NULL. */
const char *parts_near(const struct parts *parts, const char *name);

/* part->prov_name, or its name when it has none of its own. */
const char *part_shown(const struct part *part);

/* Of every part that is built in. */
#define PROV_VERSION FI_VERSION(0, 1)

/* Of a loaded provider its own, else ours. */
uint32_t part_version(const struct part *part);

#endif

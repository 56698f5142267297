/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts there are: those built in, from a table that meson generates, and those loaded. */
#ifndef WEFT_COMPOSE_REGISTRY_H
#define WEFT_COMPOSE_REGISTRY_H

#include <stddef.h>

#include "core/part/part.h"

extern const struct part *const part_registry[];
extern const size_t part_registry_count;

/* Parts whose folder is there, and which were not built: their names, and why ("built with
 * -Dtrace=disabled"). Ends with name NULL. */
struct part_absent {
    const char *name, *why;
};
extern const struct part_absent part_absent[];

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

/*
 * Explains a name that parts_find does not find: why the part of that name is not built;
 * that it is a provider of libfabric's; the near name; that names are joined by ';'; or what there
 * is. *probe: it is no slip, so a program may ask for it to find out. Returns why.
 */
char *parts_explain(const struct parts *parts, const char *name, char *why, size_t size,
                    bool *probe);

/* part->prov_name, or its name when it has none of its own. */
const char *part_shown(const struct part *part);

/* The parameter that each transport has, beside those of its table, unless that has one of the
 * name: the domains to use. */
#define PART_DOMAIN "domain"

/* The parameters of a part, ending with key NULL: its table, or, of a transport, that with
 * PART_DOMAIN. For as long as the process. */
const struct param_def *part_params(const struct part *part);

/* Of every part that is built in: as libfabric's providers of the release count theirs, 100 * major
 * + minor, with which programs compare it (Open MPI takes no efa before 112). */
#define PROV_VERSION FI_VERSION(206, 0)

/* Of a loaded provider its own, else ours. */
uint32_t part_version(const struct part *part);

#endif

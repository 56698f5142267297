/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * External providers: upstream's lib*-fi.so with fi_prov_ini (fi_provider(3), fabric(7)), each as a
 * transport that may be the base of any stack. FI_PROVIDER_PATH says where they are: `dir:dir`,
 * `+/path/lib-fi.so` for one that is preferred, and `@` before all.
 *
 * Upstream lets the highest version win among providers of one name. Ours and theirs do not count
 * alike, so a part that is built in wins here, unless `@` stands first or the provider is
 * preferred.
 */
#ifndef WEFT_COMPOSE_EXTERNAL_H
#define WEFT_COMPOSE_EXTERNAL_H

#include <stdbool.h>

#include "compose/registry.h"

/* Loads all that FI_PROVIDER_PATH, or the default folder, has. Once a process. A file that
 * cannot be used is left out and logged. The caller frees the list; the parts live as long as the
 * process. */
struct parts external_load(void);

/* After external_load: does a loaded provider stand in the place of this part? */
bool external_replaces(const struct part *part);

bool external_is(const struct part *part);
uint32_t external_version(const struct part *part);
/* It speaks our fi_peer.h: same fi_version, and its infos have had FI_PEER. */
bool external_peer(const struct part *part);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Upstream's variables for joins (fi_lnx(7)), in the language of specs:
 *
 *   links  = link { "|" link }                      shm+tcp;ofi_rxm:eth0,eth1|shm
 *   link   = member { "+" member }
 *   member = NAME { ";" NAME } [ ":" DOMAIN { "," DOMAIN } ]
 *
 * A link is a stack on a bracket; a member with domains is a branch for each of them.
 */
#ifndef WEFT_COMPOSE_LINKS_H
#define WEFT_COMPOSE_LINKS_H

#include <stdbool.h>

#include "compose/registry.h"
#include "compose/spec.h"

/* no_shm: FI_LNX_DISABLE_SHM; per_msg: of FI_LNX_MULTI_RAIL_SELECTION. *spec: on the heap.
 * -FI_EINVAL with *error, whose span is one of links; -FI_ENOMEM. */
int links_translate(const struct parts *parts, const char *links, bool no_shm, bool per_msg,
                    char **spec, struct spec_error *error);

/* The text of FI_LNX_DISABLE_SHM, or NULL. -FI_EINVAL with *error: it is no switch, and no. */
int links_no_shm(const char *text, bool *no_shm, struct spec_error *error);
/* The text of FI_LNX_MULTI_RAIL_SELECTION, or NULL: does it take a network for each message?
 * -FI_EINVAL with *error: it is no way of upstream's, and no. */
int links_per_msg(const char *text, bool *per_msg, struct spec_error *error);
/* The answer of one of these two for the variable; a mistake is shown to the user. */
bool links_option(const char *variable, const char *text,
                  int (*read)(const char *text, bool *on, struct spec_error *error));

#endif

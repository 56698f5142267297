/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Upstream's variables for rails (fi_mrail(7)), in the language of specs:
 *
 *   FI_OFI_MRAIL_ADDR    ADDRESS { "," ADDRESS }: a rail on each; an address in FI_ADDR_STR form,
 *                        an IP address, or the name of an interface
 *   FI_OFI_MRAIL_CONFIG  SIZE ":" POLICY { "," SIZE ":" POLICY }: mrail's parameter `policy`
 */
#ifndef WEFT_COMPOSE_RAIL_LINKS_H
#define WEFT_COMPOSE_RAIL_LINKS_H

#include "compose/spec.h"
#include "core/param/param.h"

/* Is config, which may be NULL, what the `policy` of these parameters may be? -FI_EINVAL with
 * *error, whose span is the first pair that is wrong; also without memory. */
int rail_links_check(const struct param_def *defs, const char *config, struct spec_error *error);
/* config: may be NULL. *spec: on the heap. -FI_EINVAL with *error, whose span is one of addresses;
 * -FI_ENOMEM. */
int rail_links_translate(const char *addresses, const char *config, char **spec,
                         struct spec_error *error);

#endif

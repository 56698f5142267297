/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getinfo, with everything in the current layout. Source: fi_getinfo(3). */
#ifndef WEFT_COMPOSE_GETINFO_H
#define WEFT_COMPOSE_GETINFO_H

#include <rdma/fabric.h>

/*
 * hints may be NULL, and so may any of its attrs; abi_level (enum abi_level) is the layout of the
 * caller, for parts that must know which fields it reads. *info is a list in the current layout,
 * freed with info_free, written on success only. Errors as fi_getinfo. May block in the resolver.
 */
int getinfo_run(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, unsigned abi_level, struct fi_info **info);

#endif

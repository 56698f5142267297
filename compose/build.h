/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening the stack that an fi_fabric_attr names. Source: fi_fabric(3). */
#ifndef WEFT_COMPOSE_BUILD_H
#define WEFT_COMPOSE_BUILD_H

#include <rdma/fabric.h>

/*
 * attr and info are in the current layout and valid during the call only. info is what fi_fabric2
 * was given, with attr its fabric_attr; NULL for fi_fabric. abi_level (enum abi_level) is how the
 * structs are laid out that the application will pass to the fabric's objects. Errors as fi_fabric.
 */
int fabric_open(const struct fi_fabric_attr *attr, const struct fi_info *info, unsigned abi_level,
                struct fid_fabric **fabric, void *context);

#endif

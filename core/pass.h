/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Defaults for fi_ops tables. `no_*` answer -FI_ENOSYS (core/no.h). `pass_*` call the lower:
 * objects of a layer that passes through start with one of the structs below, and its tables are
 * copies of pass_* with what it changes replaced. pass_* is everything that `noop` is, and what
 * every hook starts from.
 *
 * The pass_* operations translate every fid that crosses (fi_ep_bind, trywait, domain and fabric
 * pointers in infos, info->handle, EQ entries, peer objects and their entries) and count children.
 */
#ifndef WEFT_CORE_PASS_H
#define WEFT_CORE_PASS_H

#include <rdma/providers/fi_peer.h>

#include "core/fid.h"
#include "core/no.h"

#endif

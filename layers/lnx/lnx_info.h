/* SPDX-License-Identifier: BSD-2-Clause */
/* Infos: the join's hints for its branches, and its own infos made of theirs. */
#ifndef WEFT_LAYERS_LNX_LNX_INFO_H
#define WEFT_LAYERS_LNX_LNX_INFO_H

#include "core/layer/join_fabric.h"
#include "core/part/part.h"

extern struct join_words lnx_words;

/* Of the part table. */
int lnx_needs(const struct request *req, struct fi_info **lower_hints);
int lnx_join(const struct request *req, const struct fi_info *const *branches, size_t count,
             struct fi_info **info);
/* The branch whose address and names the join has (parameter `face`), by slot; SIZE_MAX: it has its
 * own. */
size_t lnx_face(const struct params *params);

/*
 * The info that the branch at `slot` of a bracket is opened with, for one of ours in the current
 * layout with all attrs. shared: it takes its receives from a context of ours. -FI_ENODATA: it is
 * not in that info, or has nothing like it any more.
 */
int lnx_branch_info(const struct join_fabric *fabric, size_t slot, const struct fi_info *info,
                    bool shared, struct fi_info **branch);

/* Does an info's branch reach peers of other nodes? */
bool lnx_is_local(const struct fi_info *branch);

/* rails=per_msg. */
bool lnx_is_per_msg(const struct params *params);

#endif

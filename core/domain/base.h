/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing struct fabric and struct domain, the bases of every part's objects. */
#ifndef WEFT_CORE_DOMAIN_BASE_H
#define WEFT_CORE_DOMAIN_BASE_H

#include "core/base/fid.h"

struct open_args;

/* Fills base fields from args; ops tables are the caller's. */
void fabric_init(struct fabric *fabric, const struct open_args *args, struct fi_ops *fid_ops,
                 struct fi_ops_fabric *ops, void *context);

/* Imports info by the fabric's abi level, and holds the fabric. -FI_ENOMEM. */
int domain_init(struct domain *domain, struct fabric *fabric, const struct fi_info *info,
                struct fi_ops *fid_ops, struct fi_ops_domain *ops, struct fi_ops_mr *mr_ops,
                void *context);
/* Frees the info and the map of regions, releases the progress domains and the fabric. */
void domain_finish(struct domain *domain);

/* `info` as given to fi_endpoint, fi_passive_ep, ... in the current layout with all attrs: a copy
 * that the caller frees with info_free. NULL without memory. */
struct fi_info *fabric_info(const struct fabric *fabric, const struct fi_info *info);

#endif

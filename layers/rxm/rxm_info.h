/* SPDX-License-Identifier: BSD-2-Clause */
/* The hints that rxm puts to its lower, and the infos that it makes of the lower's. */
#ifndef WEFT_LAYERS_RXM_RXM_INFO_H
#define WEFT_LAYERS_RXM_RXM_INFO_H

#include "core/layer/lower_domain.h"
#include "core/part/part.h"

/* Of the part table. */
int rxm_needs(const struct request *req, struct fi_info **lower_hints);
int rxm_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/* The lower's info under an info of ours with all attrs, as fi_domain or fi_endpoint got it. Freed
 * with info_free. -FI_ENODATA, -FI_ENOMEM. */
int rxm_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **ret_lower_info);
/* Does the lower, of which lower_info is, offer FI_DELIVERY_COMPLETE? */
bool rxm_lower_delivers(const struct lower_fabric *fabric, const struct fi_info *lower_info);

/* Does an endpoint of that info speak in packets of ours (tags=emulate)? Its protocol says so, else
 * the parameters do. */
bool rxm_emulates(const struct params *params, const struct fi_info *info);

#endif

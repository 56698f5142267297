/* SPDX-License-Identifier: BSD-2-Clause */
/* The infos that verbs offers: one for each address on a port of a device. */
#ifndef WEFT_VERBS_INFO_H
#define WEFT_VERBS_INFO_H

#include <stdbool.h>

#include <rdma/fi_errno.h>

#include "core/net/addr.h"
#include "core/part/part.h"

struct verbs_place;

int verbs_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/* Sets caps, sizes and limits of an info by the device and the parameters; no names or addresses.
 */
void verbs_info_fill(struct fi_info *info, const struct verbs_place *place,
                     const struct params *params);

/* FI_OPT_SHARED_MEMORY_PERMITTED: there is none to use, so both values are kept. */
static inline int verbs_shared_memory(size_t optlen)
{
    return optlen == sizeof(bool) ? 0 : -FI_EINVAL;
}

/* libfabric's names for a listener on all devices at once; a request's info names the device. */
#define VERBS_ANY_DOMAIN "verbs_any_domain"
#define VERBS_ANY_FABRIC "verbs_any_fabric"

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/part/part.h"

#include <rdma/fi_errno.h>

#include "core/info/info.h"

static int copy(const struct fi_info *info, struct fi_info **ret_info)
{
    struct fi_info *same = info_dup(info);

    if (!same)
        return -FI_ENOMEM;
    *ret_info = same;
    return 0;
}

int part_needs_same(const struct request *req, struct fi_info **lower_hints)
{
    return copy(req->hints, lower_hints);
}

int part_offer_same(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    return copy(lower, info);
}

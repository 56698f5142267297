/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/part.h"

#include <rdma/fi_errno.h>

#include "core/info.h"

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
    int rc = copy(lower, info);

    if (rc)
        return rc;
    /* Triggered operations name counters, and deferred work endpoints too, in memory of the
     * application's: passed on they would be objects of this part. */
    (*info)->caps &= ~FI_TRIGGER;
    (*info)->tx_attr->caps &= ~FI_TRIGGER;
    (*info)->rx_attr->caps &= ~FI_TRIGGER;
    return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/post.h"

#include <rdma/fi_errno.h>

#include "core/log.h"

ssize_t post_refused(void)
{
    LOG_WARN("core", FI_LOG_EP_DATA,
             "FI_MATCH_COMPLETE: no completion here waits for a receive of the peer's to match; "
             "the latest that is offered is FI_DELIVERY_COMPLETE");
    return -FI_EOPNOTSUPP;
}

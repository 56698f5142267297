/* SPDX-License-Identifier: BSD-2-Clause */
/* Of core/ep's own files: the end of each public function. */
#ifndef WEFT_CORE_EP_EP_BUILD_H
#define WEFT_CORE_EP_EP_BUILD_H

#include <rdma/fi_errno.h>

#include "core/ep/ep.h"
#include "core/op/op_build.h"

/* Posts on the endpoint that the application called. */
OP_INLINE ssize_t ep_post(struct fid_ep *fid, struct op *op)
{
    struct ep *ep = (struct ep *)fid;

    if (__builtin_expect(!(ep->groups & op->group), 0))
        return -FI_ENOSYS;
    return ep->post(ep, op);
}

#endif

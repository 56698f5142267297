/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_read, fi_write. */
#include "core/post.h"
#include "transports/shm/shm_op.h"

static uint64_t tx_flags(struct fid_ep *fid)
{
    return shm_ep_of(fid)->tx_op_flags;
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    struct shm_ep *ep = shm_ep_of(fid);

    return post->kind & FI_WRITE ? shm_post_write(ep, post) : shm_post_read(ep, post);
}

#include "core/post_rma.inc"

struct fi_ops_rma shm_rma_ops = {.size = sizeof(struct fi_ops_rma), POST_RMA};

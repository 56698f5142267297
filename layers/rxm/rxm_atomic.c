/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics: fi_atomic(3). They are the lower's; which there are is asked of its domain, since there
 * may be no connection yet. */
#include <rdma/fi_atomic.h>

#include "layers/rxm/rxm_ep.h"
#include "layers/rxm/rxm_wait.h"

static uint64_t tx_flags(struct fid_ep *fid)
{
    return rxm_ep_of(fid)->info->tx_attr->op_flags;
}

int rxm_atomic_count(struct rxm_ep *ep, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                     size_t *count)
{
    struct fi_atomic_attr attr;
    int rc = fi_query_atomic(ep->domain->lower, datatype, op, &attr, kind);

    if (!rc && count)
        *count = attr.count;
    return rc;
}

static int count_atomic(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                        size_t *count)
{
    return rxm_atomic_count(rxm_ep_of(fid), datatype, op, kind, count);
}

ssize_t rxm_atomic_pass(struct fid_ep *to, const struct post_atomic *post)
{
    const struct fi_msg_atomic msg = {.msg_iov = post->iov,
                                      .desc = post->desc,
                                      .iov_count = post->count,
                                      .addr = FI_ADDR_UNSPEC,
                                      .rma_iov = post->rma,
                                      .rma_iov_count = post->rma_count,
                                      .datatype = post->datatype,
                                      .op = post->op,
                                      .context = post->context,
                                      .data = post->data};

    if (post->silent)
        return fi_inject_atomic(to, post->iov->addr, post->iov->count, FI_ADDR_UNSPEC,
                                post->rma->addr, post->rma->key, post->datatype, post->op);
    switch (post->function) {
    case FI_FETCH_ATOMIC:
        return fi_fetch_atomicmsg(to, &msg, post->result, post->result_desc, post->result_count,
                                  post->flags);
    case FI_COMPARE_ATOMIC:
        return fi_compare_atomicmsg(to, &msg, post->compare, post->compare_desc,
                                    post->compare_count, post->result, post->result_desc,
                                    post->result_count, post->flags);
    default: return fi_atomicmsg(to, &msg, post->flags);
    }
}

ssize_t rxm_atomic_post(struct rxm_ep *ep, const struct post_atomic *post)
{
    struct fid_ep *to = rxm_ep_enter(ep, post->peer);
    ssize_t rc = to ? rxm_atomic_pass(to, post) : rxm_wait_add_atomic(ep, post);

    return rxm_ep_leave(ep, rc);
}

static ssize_t post_atomic(struct fid_ep *fid, const struct post_atomic *post)
{
    return rxm_atomic_post(rxm_ep_of(fid), post);
}

#include "core/post_atomic.inc"

struct fi_ops_atomic rxm_atomic_ops = {.size = sizeof(rxm_atomic_ops), POST_ATOMIC};

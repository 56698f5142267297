/* SPDX-License-Identifier: BSD-2-Clause */
/* The operation of some work, as the lower gets it. */
#include "layers/trigger/trigger.h"

#include <rdma/fi_errno.h>

ssize_t trigger_post(struct trigger_work *work)
{
    struct fid_ep *lower = work->ep->lower;
    void *context = work->deferred ? (void *)work : work->user_context;
    uint64_t flags = work->flags | (work->deferred ? FI_COMPLETION : 0);

    switch (work->type) {
    case FI_OP_RECV: work->msg.context = context; return fi_recvmsg(lower, &work->msg, flags);
    case FI_OP_SEND: work->msg.context = context; return fi_sendmsg(lower, &work->msg, flags);
    case FI_OP_TRECV:
        work->tagged.context = context;
        return fi_trecvmsg(lower, &work->tagged, flags);
    case FI_OP_TSEND:
        work->tagged.context = context;
        return fi_tsendmsg(lower, &work->tagged, flags);
    case FI_OP_READ: work->rma.context = context; return fi_readmsg(lower, &work->rma, flags);
    case FI_OP_WRITE: work->rma.context = context; return fi_writemsg(lower, &work->rma, flags);
    default: work->atomic.context = context; break;
    }
    switch (work->type) {
    case FI_OP_ATOMIC: return fi_atomicmsg(lower, &work->atomic, flags);
    case FI_OP_FETCH_ATOMIC:
        return fi_fetch_atomicmsg(lower, &work->atomic, work->fetch.msg_iov, work->fetch.desc,
                                  work->fetch.iov_count, flags);
    default:
        return fi_compare_atomicmsg(lower, &work->atomic, work->compare.msg_iov, work->compare.desc,
                                    work->compare.iov_count, work->fetch.msg_iov, work->fetch.desc,
                                    work->fetch.iov_count, flags);
    }
}

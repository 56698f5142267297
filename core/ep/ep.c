/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/ep.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "core/op/op_build.h"

unsigned ep_groups(uint64_t caps, bool own_receives)
{
    unsigned receives = own_receives ? OP_GROUP_RECV | (caps & FI_TAGGED ? OP_GROUP_TRECV : 0u) : 0;

    return OP_GROUP_SEND | receives | (caps & FI_TAGGED ? OP_GROUP_TSEND : 0u) |
           (caps & FI_RMA ? OP_GROUP_RMA : 0u) | (caps & FI_ATOMIC ? OP_GROUP_ATOMIC : 0u);
}

void ep_set_data_ops(struct ep *ep)
{
    ep->fid.msg = &ep_msg_ops;
    ep->fid.tagged = &ep_tagged_ops;
    ep->fid.rma = &ep_rma_ops;
    ep->fid.atomic = &ep_atomic_ops;
    ep->fid.collective = &ep_collective_ops;
}

int ep_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    if (!name || strcmp(name, EP_OPS_NAME) != 0)
        return -FI_ENOSYS;
    *ops = (struct ep *)fid;
    return 0;
}

/* An object that is not ours may hand the question on to one that is: the answer counts only if it
 * is about the endpoint that was asked. */
struct op_target op_target_of(struct fid_ep *lower)
{
    struct op_target target = {.fid = lower};
    void *answer = NULL;

    if (!fi_open_ops(&lower->fid, EP_OPS_NAME, 0, &answer, NULL) && answer == (void *)lower)
        target.ep = answer;
    return target;
}

unsigned op_target_groups(const struct op_target *target)
{
    const struct fid_ep *fid = target->fid;

    if (target->ep)
        return target->ep->groups;
    return (fid->msg ? OP_GROUP_MSG : 0u) | (fid->tagged ? OP_GROUP_TAGGED : 0u) |
           (fid->rma ? OP_GROUP_RMA : 0u) | (fid->atomic ? OP_GROUP_ATOMIC : 0u) |
           (fid->collective ? OP_GROUP_COLLECTIVE : 0u);
}

int op_receive_one(const struct op_target *target, const struct ep_receive *receive)
{
    const struct iovec iov = {.iov_base = receive->buf, .iov_len = receive->len};
    void *desc = receive->desc;
    struct op op;

    op_start(&op, OP_RECV, OP_GROUP_RECV, FI_RECV | FI_MSG, FI_ADDR_UNSPEC, receive->context);
    op_set_iov(&op, &iov, &desc, 1);
    return (int)op_post(target, &op);
}

int op_atomic_valid(const struct op_target *target, uint64_t function, enum fi_datatype datatype,
                    enum fi_op op, size_t *count)
{
    struct fid_ep *fid = target->fid;

    if (!fid->atomic)
        return -FI_ENOSYS;
    switch (function) {
    case FI_FETCH_ATOMIC: return fid->atomic->readwritevalid(fid, datatype, op, count);
    case FI_COMPARE_ATOMIC: return fid->atomic->compwritevalid(fid, datatype, op, count);
    default: return fid->atomic->writevalid(fid, datatype, op, count);
    }
}

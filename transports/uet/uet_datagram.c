/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams (UUD): each leaves at once, and is complete when it has left. */
#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/op/op.h"
#include "transports/uet/uet.h"

static ssize_t describe(struct uet_ep *ep, const struct op *op, struct ses_op *ses)
{
    size_t len;
    uint8_t caps;

    if (op->group != OP_GROUP_SEND)
        return -FI_EOPNOTSUPP;
    if (op->count > UET_IOV || !iov_total(op->iov, op->count, &len))
        return -FI_EINVAL;
    if (len > ep->mtu)
        return -FI_EMSGSIZE;
    ses->flags = op->flags & FI_REMOTE_CQ_DATA ? SES_HD : 0;
    ses->data = op->data;
    ses->length = (uint32_t)len;
    ses->iov_count = (uint8_t)op->count;
    for (size_t i = 0; i < op->count; i++)
        ses->iov[i] = op->iov[i];
    return uet_target(ep, op, &ses->target, &caps);
}

ssize_t uet_datagram_post(struct uet_ep *ep, const struct op *op)
{
    const bool wanted =
        !op_is_inject(op) && completion_wanted(ep->base.binding.tx_selective, op->flags);
    struct ses_op ses = {.opcode = SES_DATAGRAM_SEND};
    ssize_t rc = describe(ep, op, &ses);

    if (rc)
        return rc;
    if (uet_is_inherited(ep))
        return -FI_EOPBADSTATE;
    /* Packets that the kernel had no room for are before it. */
    if (!(op->flags & FI_MORE) && !uet_nic_flush(ep->nic))
        return -FI_EAGAIN;
    ses_datagram(ep->ses, &ses);
    if (!(op->flags & FI_MORE))
        uet_nic_flush(ep->nic);
    uet_nic_forget(ep->nic); /* the memory is the application's again */
    complete(&ep->base.binding, binding_kind_of(op->kind), wanted, op->context, op->kind, 0, NULL,
             0, 0, FI_ADDR_NOTAVAIL);
    return 0;
}

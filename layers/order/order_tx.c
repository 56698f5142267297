/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmissions go down with an item as their context. A completion is always asked for, of
 * injected operations too: an operation without a completion must end, too, before a later one is
 * reported. Collectives of a layer below are ordered with them, and are counted as writes.
 */
#include <rdma/fi_errno.h>

#include "layers/order/order.h"

/* Progress domain locked. */
static ssize_t post_locked(struct order_ep *ep, struct op *op, bool wanted)
{
    struct order_item *item = order_post(ep, binding_kind_of(op->kind), op->context, wanted);

    if (!item)
        return -FI_EAGAIN;
    if (op_is_inject(op))
        op_make_message(op, 0);
    op->flags |= FI_COMPLETION;
    op->context = item;
    return order_posted(item, op_post(&ep->cover.hook->target, op));
}

ssize_t order_ep_post(struct ep *base, struct op *op)
{
    struct hook_ep *hook = hook_ep_of(base);
    struct order_ep *ep = hook->own;
    const struct binding *binding = &ep->cover.binding;
    uint64_t defaults = order_tx_flags(&hook->fid);
    bool wanted;
    ssize_t rc;

    if (op_is_receive(op))
        return layer_post(base, op);
    if (op_is_inject(op))
        defaults = binding_inject_flags(binding, binding_kind_of(op->kind), defaults);
    rc = op_settle(op, defaults);
    if (rc)
        return rc;
    wanted =
        !op_is_inject(op) && binding->tx && completion_wanted(binding->tx_selective, op->flags);
    layer_enter(&ep->cover);
    return layer_leave(&ep->cover, post_locked(ep, op, wanted));
}
